// Worker shows what a service that works jobs looks like: typed handlers, middleware, a
// cron schedule, and an end by Ctrl-C or SIGTERM that loses nothing.
//
//	go run ./examples/worker
//
// It uses the Redis of REDIS_URL, or an in-memory one when there is none, puts a few jobs
// for itself, and works until it is told to stop; with -once it stops when they are done.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/qlesstest"
)

// welcome is the data of the jobs of klass Welcome.
type welcome struct {
	To string `json:"to"`
}

func main() {
	once := flag.Bool("once", false, "stop when the jobs put at the start are done")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *once); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, once bool) error {
	client, closeClient, err := connect(ctx)
	if err != nil {
		return err
	}
	defer closeClient()

	done := make(chan string, 16)
	worker, err := newWorker(client, done)
	if err != nil {
		return err
	}
	if err := worker.Start(ctx); err != nil {
		return err
	}
	jobs, err := putJobs(ctx, client)
	if err != nil {
		return err
	}
	if once {
		for range jobs {
			fmt.Println("done:", <-done)
		}
		return worker.Stop(ctx)
	}
	fmt.Println("working; Ctrl-C stops")
	<-worker.Closed()
	return nil
}

// connect returns a client of the Redis of REDIS_URL, else of an in-memory one.
func connect(ctx context.Context) (client *qless.Client, closeClient func(), err error) {
	if url := os.Getenv("REDIS_URL"); url != "" {
		client, err = qless.Dial(ctx, url)
		if err != nil {
			return nil, nil, err
		}
		return client, func() { _ = client.Close() }, nil
	}
	fmt.Println("REDIS_URL is not set: using an in-memory Redis")
	server, err := qlesstest.Start()
	if err != nil {
		return nil, nil, err
	}
	return server.Client(), server.Close, nil
}

// newWorker returns the worker. It tells done of each job that is at its end.
func newWorker(client *qless.Client, done chan<- string) (*qless.Worker, error) {
	worker, err := qless.NewWorker(client, qless.WorkerConfig{
		Queues:      []string{"mail", "reports"},
		Concurrency: 4,
		Backoff:     qless.ExponentialBackoff(50*time.Millisecond, time.Minute),
		Schedules: []qless.Schedule{{
			ID:    "daily-report",
			Spec:  "CRON_TZ=Europe/Berlin 30 6 * * 1-5",
			Queue: "reports",
			Klass: "Report",
		}},
	})
	if err != nil {
		return nil, err
	}
	worker.Use(logged)

	// Data is decoded into the handler's own type; what does not fit fails the job at once.
	worker.Handle("Welcome", qless.Typed(func(ctx context.Context, job *qless.Job, data welcome) error {
		done <- "Welcome to " + data.To
		return nil
	}))

	// An error retries the job later. Here the third attempt goes well.
	attempts := 0
	worker.Handle("Flaky", func(ctx context.Context, job *qless.Job) error {
		if attempts++; attempts < 3 {
			return errors.New("not yet")
		}
		done <- fmt.Sprintf("Flaky, at attempt %d", attempts)
		return nil
	})

	// What a retry would not help fails at once, in a group of its own.
	worker.Handle("Report", func(ctx context.Context, job *qless.Job) error {
		done <- "Report, which fails without a printer"
		return qless.FailWith("no printer", errors.New("nobody has bought one"))
	}, qless.MaxRunTime(time.Minute))
	return worker, nil
}

// logged is a middleware that logs how long each job took and what became of it.
func logged(next qless.Handler) qless.Handler {
	return func(ctx context.Context, job *qless.Job) error {
		begin := time.Now()
		err := next(ctx, job)
		outcome := qless.OutcomeOf(err)
		slog.Info("job", "klass", job.Klass, "jid", job.JID,
			"took", time.Since(begin).Round(time.Microsecond),
			"outcome", outcome.Action, "error", outcome.Err)
		return err
	}
}

// putJobs puts a few jobs and returns their jids.
func putJobs(ctx context.Context, client *qless.Client) ([]string, error) {
	var jids []string
	for _, job := range []struct {
		queue, klass string
		data         any
	}{
		{"mail", "Welcome", welcome{To: "ann@example.com"}},
		{"mail", "Flaky", nil},
		{"reports", "Report", nil},
	} {
		jid, err := client.Queue(job.queue).Put(ctx, job.klass, job.data)
		if err != nil {
			return nil, err
		}
		jids = append(jids, jid)
	}
	return jids, nil
}
