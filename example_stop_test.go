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

// Stop waits for running jobs until its context ends. Jobs that have not ended by then are released
// for other workers.
func ExampleWorker_Stop() {
	ctx := context.Background()
	server, err := qlesstest.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	client := server.Client()
	worker, err := qless.NewWorker(client, qless.WorkerConfig{Queues: []string{"reports"}})
	if err != nil {
		log.Fatal(err)
	}

	started := make(chan struct{})
	worker.Handle("Yearly", func(ctx context.Context, job *qless.Job) error {
		close(started)
		<-ctx.Done() // a long job
		return context.Cause(ctx)
	})
	jid, err := client.Queue("reports").Put(ctx, "Yearly", nil, qless.Retries(3))
	if err != nil {
		log.Fatal(err)
	}
	if err := worker.Start(ctx); err != nil {
		log.Fatal(err)
	}
	<-started

	patience, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
	defer cancel()
	err = worker.Stop(patience)
	fmt.Println(errors.Is(err, qless.ErrStopped), errors.Is(err, context.DeadlineExceeded))

	job, err := client.Job(ctx, jid)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(job.State, "with", job.Remaining, "of", job.Retries, "retries left")
	// Output:
	// true true
	// waiting with 3 of 3 retries left
}
