package qless_test

import (
	"context"
	"fmt"
	"log"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/qlesstest"
)

// A customer with few jobs does not wait for all the jobs of another one.
func ExampleFair() {
	server, err := qlesstest.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	ctx := context.Background()
	queue := server.Client().Queue("imports")
	for _, customer := range []string{"large", "large", "large", "large", "small"} {
		if _, err := queue.Put(ctx, customer, nil, qless.Fair(customer)); err != nil {
			log.Fatal(err)
		}
	}
	jobs, err := queue.Pop(ctx, 2)
	if err != nil {
		log.Fatal(err)
	}
	served := map[string]bool{}
	for _, job := range jobs {
		served[job.Options.Tenant] = true
	}
	fmt.Println(len(served), "customers were served")
	// Output:
	// 2 customers were served
}
