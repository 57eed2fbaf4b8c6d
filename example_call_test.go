package qless_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/qlesstest"
)

// A program has a worker do something, and needs the result.
func ExampleResultAs() {
	server, err := qlesstest.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	client := server.Client()
	worker, err := qless.NewWorker(client, qless.WorkerConfig{Queues: []string{"numbers"}})
	if err != nil {
		log.Fatal(err)
	}
	worker.Handle("Square", qless.TypedResult(
		func(ctx context.Context, job *qless.Job, n int) (int, error) {
			return n * n, nil
		}))
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := worker.Start(ctx); err != nil {
		log.Fatal(err)
	}
	defer worker.Stop(ctx)

	square, err := qless.ResultAs[int](client.Queue("numbers").Call(ctx, "Square", 12))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(square)
	// Output:
	// 144
}

// A call that no worker answers in time withdraws its job.
func ExampleQueue_Call() {
	server, err := qlesstest.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	queue := server.Client().Queue("numbers")
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()

	_, err = queue.Call(ctx, "Square", 12)
	var failure *qless.Error
	if errors.As(err, &failure) {
		fmt.Println("withdrawn:", failure.Withdrawn)
	}
	counts, err := queue.Counts(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("waiting:", counts.Waiting)
	// Output:
	// withdrawn: true
	// waiting: 0
}
