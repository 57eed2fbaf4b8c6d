package qless_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/qlesstest"
)

// An observer of a client sees each command with its answer, for metrics and traces.
func ExampleClientConfig_observer() {
	ctx := context.Background()
	server, err := qlesstest.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	client, err := qless.New(server.Redis(), &qless.ClientConfig{Observer: func(ctx context.Context, call qless.Call) {
		notRunning := errors.Is(call.Err, qless.ErrNotRunning)
		fmt.Println(call.Command, call.Queue, call.Count, notRunning)
	}})
	if err != nil {
		log.Fatal(err)
	}
	queue := client.Queue("mail")

	if _, err := queue.Put(ctx, "Welcome", nil, qless.JID("welcome-7")); err != nil {
		log.Fatal(err)
	}
	jobs, err := queue.Pop(ctx, 10)
	if err != nil {
		log.Fatal(err)
	}
	if err := jobs[0].Complete(ctx); err != nil {
		log.Fatal(err)
	}
	if err := jobs[0].Complete(ctx); err == nil {
		log.Fatal("a job was completed twice")
	}
	// Output:
	// put mail 1 false
	// pop mail 1 false
	// complete mail 1 false
	// complete mail 1 true
}

// An observer of a worker sees what happens to each job.
func ExampleWorkerConfig_observer() {
	ctx := context.Background()
	server, err := qlesstest.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	ended := make(chan struct{})
	worker, err := qless.NewWorker(server.Client(), qless.WorkerConfig{
		Queues: []string{"mail"},
		Observer: func(event qless.JobEvent) {
			switch event.Kind {
			case qless.JobEventStarted:
				fmt.Println(event.Klass, "started, attempt", event.Attempt)
			case qless.JobEventEnded:
				fmt.Println(event.Klass, "ended:", event.Outcome.Action, event.Outcome.Group)
				close(ended)
			}
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	worker.Handle("Welcome", func(ctx context.Context, job *qless.Job) error {
		return qless.FailWith("bad-address", nil)
	})

	if _, err := server.Client().Queue("mail").Put(ctx, "Welcome", nil); err != nil {
		log.Fatal(err)
	}
	if err := worker.Start(ctx); err != nil {
		log.Fatal(err)
	}
	<-ended
	if err := worker.Stop(ctx); err != nil {
		log.Fatal(err)
	}
	// Output:
	// Welcome started, attempt 1
	// Welcome ended: fail bad-address
}
