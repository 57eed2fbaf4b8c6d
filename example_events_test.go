package qless_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"os"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/qlesstest"
)

// An observer of a client sees each command with its result, for metrics and traces.
func ExampleClientConfig_observer() {
	ctx := context.Background()
	server, err := qlesstest.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	observe := func(ctx context.Context, call qless.Command) {
		notRunning := errors.Is(call.Err, qless.ErrNotRunning)
		fmt.Println(call.Name, call.Queue, call.Count, notRunning)
	}
	client, err := qless.New(server.Redis(), &qless.ClientConfig{Observer: observe})
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

// Each run is one line of the log, and a handler has a logger for its job.
func ExampleLogJobs() {
	ctx := context.Background()
	server, err := qlesstest.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	// The log is a text on the standard output, without the attributes that differ in each run.
	logger := slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			switch a.Key {
			case slog.TimeKey, "duration", "worker":
				return slog.Attr{}
			}
			return a
		},
	}))
	ended := make(chan struct{})
	logJobs := qless.LogJobs(logger)
	worker, err := qless.NewWorker(server.Client(), qless.WorkerConfig{
		Queues: []string{"mail"},
		Logger: logger,
		Observer: func(event qless.JobEvent) {
			logJobs(event)
			if event.Kind == qless.JobEventEnded {
				close(ended)
			}
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	worker.Handle("Welcome", func(ctx context.Context, job *qless.Job) error {
		qless.Logger(ctx).Info("sending")
		return qless.FailWith("bad-address", errors.New("no such user"))
	})

	_, err = server.Client().Queue("mail").Put(ctx, "Welcome", nil, qless.JID("welcome-7"))
	if err != nil {
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
	// level=INFO msg=sending jid=welcome-7 klass=Welcome queue=mail attempt=1
	// level=ERROR msg="qless: a job has ended" jid=welcome-7 klass=Welcome queue=mail attempt=1 outcome=fail error="no such user"
}
