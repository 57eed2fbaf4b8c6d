package qless_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"strings"
	"time"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
	"github.com/qless/qless-go/qlesstest"
)

// The JSON of a job uses the field names of other clients, for an API or a log.
func ExampleJob() {
	ctx := context.Background()
	now := time.Date(2026, time.March, 1, 9, 0, 0, 0, time.UTC)
	server, err := qlesstest.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	config := &qless.ClientConfig{Clock: func() time.Time { return now }}
	client, err := qless.New(server.Redis(), config)
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
	//       "queue": "mail"
	//     }
	//   ]
	// }
}

// Failed jobs are kept in groups by kind. Once the cause is fixed, a whole group can be put back.
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

// A job is retried until it has no retries left and fails.
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

// A program without a worker releases a job that it can't do now. That uses up no retry.
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

// A job goes through several queues. It stays the same job and keeps its jid, data and history.
func ExampleJob_Next() {
	ctx := context.Background()
	server, err := qlesstest.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	client := server.Client()
	resize, upload := client.Queue("resize"), client.Queue("upload")

	type image struct {
		Name  string `json:"name"`
		Width int    `json:"width"`
	}
	jid, err := resize.Put(ctx, "Image", image{Name: "cat.png", Width: 4000})
	if err != nil {
		log.Fatal(err)
	}

	// One worker resizes the image, and passes on the result.
	jobs, err := resize.Pop(ctx, 1)
	if err != nil {
		log.Fatal(err)
	}
	for _, job := range jobs {
		if err := job.SetData(image{Name: "cat.png", Width: 800}); err != nil {
			log.Fatal(err)
		}
		if err := job.Next(ctx, upload.Name()); err != nil {
			log.Fatal(err)
		}
		if err := job.Refresh(ctx); err != nil {
			log.Fatal(err)
		}
		fmt.Println(job.State, "in", job.Queue)
	}

	// Another one uploads it.
	jobs, err = upload.Pop(ctx, 1)
	if err != nil {
		log.Fatal(err)
	}
	for _, job := range jobs {
		fmt.Println("uploading", string(job.Data))
		if err := job.Complete(ctx); err != nil {
			log.Fatal(err)
		}
	}

	job, err := client.Job(ctx, jid)
	if err != nil {
		log.Fatal(err)
	}
	var steps []string
	for _, entry := range job.History {
		steps = append(steps, strings.TrimSpace(entry.What+" "+entry.Queue))
	}
	fmt.Println(strings.Join(steps, ", "))
	// Output:
	// waiting in upload
	// uploading {"name":"cat.png","width":800}
	// put resize, popped, done, put upload, popped, done
}

// When a running job is canceled, the context of its handler ends.
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
