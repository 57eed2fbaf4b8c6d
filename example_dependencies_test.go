package qless_test

import (
	"context"
	"fmt"
	"log"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/qlesstest"
)

// A job that depends on others can be popped when all of them are complete.
func ExampleDependsOn() {
	ctx := context.Background()
	server, err := qlesstest.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	queue := server.Client().Queue("kitchen")

	var prepared []string
	for _, klass := range []string{"Chop", "Boil"} {
		jid, err := queue.Put(ctx, klass, nil)
		if err != nil {
			log.Fatal(err)
		}
		prepared = append(prepared, jid)
	}
	if _, err := queue.Put(ctx, "Serve", nil, qless.DependsOn(prepared)); err != nil {
		log.Fatal(err)
	}

	for {
		jobs, err := queue.Pop(ctx, 10)
		if err != nil {
			log.Fatal(err)
		}
		if len(jobs) == 0 {
			break
		}
		fmt.Println("popped", len(jobs))
		for _, job := range jobs {
			fmt.Println(" ", job.Klass)
			if err := job.Complete(ctx); err != nil {
				log.Fatal(err)
			}
		}
	}
	// Output:
	// popped 2
	//   Chop
	//   Boil
	// popped 1
	//   Serve
}
