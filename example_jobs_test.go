package qless_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/qlesstest"
)

// A job in JSON has the words of the other clients, for an API or a log.
func ExampleJob() {
	ctx := context.Background()
	now := time.Date(2026, time.March, 1, 9, 0, 0, 0, time.UTC)
	server, err := qlesstest.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	client, err := qless.New(server.Redis(), &qless.ClientConfig{Clock: func() time.Time { return now }})
	if err != nil {
		log.Fatal(err)
	}

	_, err = client.Queue("mail").Put(ctx, "Welcome", map[string]string{"to": "ann@example.com"},
		qless.JID("welcome-7"), qless.Tags{"customer-7"})
	if err != nil {
		log.Fatal(err)
	}
	job, err := client.Job(ctx, "welcome-7")
	if err != nil {
		log.Fatal(err)
	}
	encoder := json.NewEncoder(os.Stdout)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(job); err != nil {
		log.Fatal(err)
	}
	// Output:
	// {
	//   "jid": "welcome-7",
	//   "klass": "Welcome",
	//   "data": {
	//     "to": "ann@example.com"
	//   },
	//   "tags": [
	//     "customer-7"
	//   ],
	//   "state": "waiting",
	//   "queue": "mail",
	//   "priority": 0,
	//   "tracked": false,
	//   "retries": 5,
	//   "remaining": 5,
	//   "attempt": 1,
	//   "history": [
	//     {
	//       "when": "2026-03-01T09:00:00Z",
	//       "what": "put",
	//       "q": "mail"
	//     }
	//   ]
	// }
}

// A consumer without a worker that can't do a job now gives it back. That uses up no retry.
func ExampleJob_Release() {
	ctx := context.Background()
	server, err := qlesstest.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	queue := server.Client().Queue("mail")

	if _, err := queue.Put(ctx, "Welcome", nil, qless.Retries(5)); err != nil {
		log.Fatal(err)
	}
	jobs, err := queue.Pop(ctx, 1)
	if err != nil {
		log.Fatal(err)
	}
	for _, job := range jobs {
		if err := job.Release(ctx, time.Hour); err != nil {
			log.Fatal(err)
		}
		if err := job.Refresh(ctx); err != nil {
			log.Fatal(err)
		}
		fmt.Println(job.State, "with", job.Remaining, "of", job.Retries, "retries left")
	}
	// Output:
	// scheduled with 5 of 5 retries left
}

// A failed job goes back into its own queue.
func ExampleJob_Unfail() {
	ctx := context.Background()
	server, err := qlesstest.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	queue := server.Client().Queue("mail")

	if _, err := queue.Put(ctx, "Welcome", nil); err != nil {
		log.Fatal(err)
	}
	jobs, err := queue.Pop(ctx, 1)
	if err != nil {
		log.Fatal(err)
	}
	for _, job := range jobs {
		if err := job.Fail(ctx, "smtp-refused", "no such user"); err != nil {
			log.Fatal(err)
		}
		if err := job.Unfail(ctx); err != nil {
			log.Fatal(err)
		}
		fmt.Println("again:", errors.Is(job.Unfail(ctx), qless.ErrNotFailed))
		if err := job.Refresh(ctx); err != nil {
			log.Fatal(err)
		}
		fmt.Println(job.State, "in", job.Queue)
	}
	// Output:
	// again: true
	// waiting in mail
}

// The handler of a job that is canceled learns it from its context.
func ExampleClient_Cancel() {
	ctx := context.Background()
	server, err := qlesstest.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	client := server.Client()
	ended := make(chan struct{})
	worker, err := qless.NewWorker(client, qless.WorkerConfig{
		Queues: []string{"reports"},
		Observer: func(event qless.JobEvent) {
			if event.Kind == qless.JobEventEnded {
				close(ended)
			}
		},
	})
	if err != nil {
		log.Fatal(err)
	}

	started, cause := make(chan struct{}), make(chan error, 1)
	worker.Handle("Yearly", func(ctx context.Context, job *qless.Job) error {
		close(started)
		<-ctx.Done() // a long job
		cause <- context.Cause(ctx)
		return ctx.Err()
	})
	jid, err := client.Queue("reports").Put(ctx, "Yearly", nil)
	if err != nil {
		log.Fatal(err)
	}
	if err := worker.Start(ctx); err != nil {
		log.Fatal(err)
	}
	<-started
	if err := client.Cancel(ctx, jid); err != nil {
		log.Fatal(err)
	}
	fmt.Println("canceled:", errors.Is(<-cause, qless.ErrCanceled))
	<-ended // the worker does not wait for the handler of a job that is no longer its own
	if err := worker.Stop(ctx); err != nil {
		log.Fatal(err)
	}
	_, err = client.Job(ctx, jid)
	fmt.Println("gone:", errors.Is(err, qless.ErrNotFound))
	// Output:
	// canceled: true
	// gone: true
}
