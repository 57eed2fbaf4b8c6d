package qless_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/qlesstest"
)

// An order is charged once, however often it is submitted.
func ExampleIfAbsent() {
	server, err := qlesstest.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	queue := server.Client().Queue("payments")

	for range 2 {
		jid, err := queue.Put(context.Background(), "Charge", nil,
			qless.JID("charge-order-7"), qless.IfAbsent)
		switch {
		case errors.Is(err, qless.ErrExists):
			fmt.Println(jid, "is there already")
		case err != nil:
			log.Fatal(err)
		default:
			fmt.Println(jid, "is put")
		}
	}
	// Output:
	// charge-order-7 is put
	// charge-order-7 is there already
}

// A report is not started while one is being made, nor put twice.
func ExampleIfFinished() {
	server, err := qlesstest.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	ctx := context.Background()
	queue := server.Client().Queue("reports")
	put := func() {
		_, err := queue.Put(ctx, "Report", nil, qless.JID("report"), qless.IfFinished)
		fmt.Println(err)
	}

	put()
	put()
	jobs, err := queue.Pop(ctx, 1)
	if err != nil {
		log.Fatal(err)
	}
	put()
	if err := jobs[0].Complete(ctx); err != nil {
		log.Fatal(err)
	}
	put()
	// Output:
	// <nil>
	// qless: put report: the job exists and is waiting
	// qless: put report: the job exists and is running
	// <nil>
}
