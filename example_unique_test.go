package qless_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/qlesstest"
)

// An account is synchronized by one job at a time, whichever process asks for it.
func ExampleUnique() {
	server, err := qlesstest.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	ctx := context.Background()
	client := server.Client()
	queue := client.Queue("sync")
	put := func() {
		_, err := queue.Put(ctx, "Sync", nil, qless.Unique("sync", 7))
		fmt.Println("refused:", errors.Is(err, qless.ErrExists))
	}

	put()
	put()
	jobs, err := queue.Pop(ctx, 1)
	if err != nil {
		log.Fatal(err)
	}
	holder, err := client.Holder(ctx, "sync", 7)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("the running job has the key:", holder == jobs[0].JID)
	if err := jobs[0].Complete(ctx); err != nil {
		log.Fatal(err)
	}
	put()
	// Output:
	// refused: false
	// refused: true
	// the running job has the key: true
	// refused: false
}
