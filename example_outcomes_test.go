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

// A handler moves its job to another queue, with changed data.
func ExampleNext() {
	ctx := context.Background()
	server, err := qlesstest.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	client := server.Client()
	worker, err := qless.NewWorker(client, qless.WorkerConfig{Queues: []string{"resize"}})
	if err != nil {
		log.Fatal(err)
	}

	running, stop := context.WithCancel(ctx)
	worker.Handle("Image", func(ctx context.Context, job *qless.Job) error {
		defer stop() // the example has one job
		if err := job.SetData("small.png"); err != nil {
			return err
		}
		return qless.Next("upload", qless.Priority(10))
	})

	jid, err := client.Queue("resize").Put(ctx, "Image", "large.png")
	if err != nil {
		log.Fatal(err)
	}
	if err := worker.Run(running); err != nil {
		log.Fatal(err)
	}
	job, err := client.Job(ctx, jid)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(job.State, "in", job.Queue, "with priority", job.Priority, string(job.Data))
	// Output:
	// waiting in upload with priority 10 "small.png"
}

// A job that can't be done yet is postponed. That uses up no retry.
func ExampleSnooze() {
	ctx := context.Background()
	server, err := qlesstest.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	client := server.Client()
	worker, err := qless.NewWorker(client, qless.WorkerConfig{Queues: []string{"payments"}})
	if err != nil {
		log.Fatal(err)
	}

	running, stop := context.WithCancel(ctx)
	worker.Handle("Capture", func(ctx context.Context, job *qless.Job) error {
		defer stop() // the example has one job
		return qless.Snooze(time.Hour)
	})

	jid, err := client.Queue("payments").Put(ctx, "Capture", nil, qless.Retries(5))
	if err != nil {
		log.Fatal(err)
	}
	if err := worker.Run(running); err != nil {
		log.Fatal(err)
	}
	job, err := client.Job(ctx, jid)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(job.State, "with", job.Remaining, "of", job.Retries, "retries left")
	// Output:
	// scheduled with 5 of 5 retries left
}

// A handler that knows when a retry makes sense can set its delay. Any other error is retried after
// the worker's Backoff.
func ExampleRetryIn() {
	ctx := context.Background()
	server, err := qlesstest.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	client := server.Client()
	worker, err := qless.NewWorker(client, qless.WorkerConfig{Queues: []string{"mail"}})
	if err != nil {
		log.Fatal(err)
	}

	running, stop := context.WithCancel(ctx)
	worker.Handle("Welcome", func(ctx context.Context, job *qless.Job) error {
		defer stop() // the example has one job
		return qless.RetryIn(15*time.Minute, errors.New("greylisted, try again in 15 minutes"))
	})

	jid, err := client.Queue("mail").Put(ctx, "Welcome", nil, qless.Retries(5))
	if err != nil {
		log.Fatal(err)
	}
	if err := worker.Run(running); err != nil {
		log.Fatal(err)
	}
	job, err := client.Job(ctx, jid)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(job.State, "with", job.Remaining, "of", job.Retries, "retries left")
	// Output:
	// scheduled with 4 of 5 retries left
}

// A service that asks for a pause gets no further jobs for that time.
func ExampleThrottled() {
	server, err := qlesstest.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	ctx := context.Background()
	client := server.Client()
	worker, err := qless.NewWorker(client, qless.WorkerConfig{Queues: []string{"sync"}})
	if err != nil {
		log.Fatal(err)
	}
	worker.Handle("Sync", func(context.Context, *qless.Job) error {
		return qless.Throttled(time.Minute) // it has answered "429 Too Many Requests"
	})
	jid, err := client.Queue("sync").Put(ctx, "Sync", nil, qless.Limits{"api"})
	if err != nil {
		log.Fatal(err)
	}
	if err := worker.Start(ctx); err != nil {
		log.Fatal(err)
	}
	for parked := ""; parked == ""; {
		job, err := client.Job(ctx, jid)
		if err != nil {
			log.Fatal(err)
		}
		parked = job.Parked
	}
	if err := worker.Stop(ctx); err != nil {
		log.Fatal(err)
	}
	job, err := client.Job(ctx, jid)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(job.State, "by", job.Parked, "with", job.Remaining, "retries")
	// Output:
	// scheduled by api with 5 retries
}

// A job that a retry would not help is failed at once, in a group for this kind of failure.
func ExampleFailWith() {
	ctx := context.Background()
	server, err := qlesstest.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	client := server.Client()
	worker, err := qless.NewWorker(client, qless.WorkerConfig{Queues: []string{"mail"}})
	if err != nil {
		log.Fatal(err)
	}

	running, stop := context.WithCancel(ctx)
	worker.Handle("Welcome", func(ctx context.Context, job *qless.Job) error {
		defer stop() // the example has one job
		return qless.FailWith("bad-address", errors.New("ann@example has no mail server"))
	})

	jid, err := client.Queue("mail").Put(ctx, "Welcome", nil)
	if err != nil {
		log.Fatal(err)
	}
	if err := worker.Run(running); err != nil {
		log.Fatal(err)
	}
	job, err := client.Job(ctx, jid)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s in %s: %s\n", job.State, job.Failure.Group, job.Failure.Message)
	// Output:
	// failed in bad-address: ann@example has no mail server
}

// OutcomeOf finds an outcome in an error's chain, so a handler may add to the error.
func ExampleOutcomeOf() {
	refused := errors.New("refused")
	for _, err := range []error{
		nil,
		refused,
		qless.Next("upload"),
		qless.Snooze(time.Minute),
		fmt.Errorf("sending: %w", qless.FailWith("smtp", refused)),
	} {
		outcome := qless.OutcomeOf(err)
		fmt.Printf("%s queue=%q delay=%s group=%q err=%v\n",
			outcome.Action, outcome.Queue, outcome.Delay, outcome.Group, outcome.Err)
	}
	// Output:
	// complete queue="" delay=0s group="" err=<nil>
	// retry queue="" delay=0s group="" err=refused
	// complete queue="upload" delay=0s group="" err=<nil>
	// release queue="" delay=1m0s group="" err=<nil>
	// fail queue="" delay=0s group="smtp" err=refused
}
