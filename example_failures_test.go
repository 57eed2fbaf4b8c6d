package qless_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
	"github.com/qless/qless-go/qlesstest"
)

// A failed job is kept in a group of its kind until someone has seen to the cause and puts
// the group back.
func ExampleJob_Fail() {
	ctx := context.Background()
	server, err := qlesstest.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	client := server.Client()
	queue := client.Queue("mail")

	for _, to := range []string{"ann@example.com", "bob@example.com"} {
		if _, err := queue.Put(ctx, "Welcome", to); err != nil {
			log.Fatal(err)
		}
	}
	jobs, err := queue.Pop(ctx, 2)
	if err != nil {
		log.Fatal(err)
	}
	for _, job := range jobs {
		if err := job.Fail(ctx, "smtp-refused", "mail.example.com takes no mail today"); err != nil {
			log.Fatal(err)
		}
	}

	groups, err := inspect.New(client).FailureGroups(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("failed:", groups)
	for row, err := range inspect.New(client).Failed("smtp-refused").AtMost(1).Each(ctx) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("because:", row.Failure.Message)
	}

	// The mail server is back.
	moved, err := inspect.New(client).Failed("smtp-refused").AtMost(100).Unfail(ctx)
	if err != nil {
		log.Fatal(err)
	}
	counts, err := queue.Counts(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("put back:", moved.Changed, "waiting:", counts.Waiting)
	// Output:
	// failed: map[smtp-refused:2]
	// because: mail.example.com takes no mail today
	// put back: 2 waiting: 2
}

// A job that is given back is tried again, until it has no retries left and fails.
func ExampleJob_Retry() {
	ctx := context.Background()
	server, err := qlesstest.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	queue := server.Client().Queue("mail")

	if _, err := queue.Put(ctx, "Welcome", "ann@example.com", qless.Retries(1)); err != nil {
		log.Fatal(err)
	}
	for range 2 {
		jobs, err := queue.Pop(ctx, 1)
		if err != nil {
			log.Fatal(err)
		}
		for _, job := range jobs {
			remaining, err := job.Retry(ctx, 0, "smtp-busy", "try later")
			if err != nil {
				log.Fatal(err)
			}
			fmt.Println("retries left:", remaining)
		}
	}
	// Output:
	// retries left: 0
	// retries left: -1
}

// Every error is of one type and has a code, which errors.Is compares.
func ExampleError() {
	ctx := context.Background()
	server, err := qlesstest.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()

	_, err = server.Client().Job(ctx, "no-such-jid")
	fmt.Println(errors.Is(err, qless.ErrNotFound))
	fmt.Println(err)
	// Output:
	// true
	// qless: get no-such-jid: no such job
}
