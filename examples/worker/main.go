// Worker shows what a worker can do: typed handlers, middleware, retries, failure groups, a
// schedule, and a shutdown that loses nothing.
//
//	go run ./examples/worker [-once]
//
// The program uses the Redis server at REDIS_URL, in a separate namespace, or an in-memory server.
// It puts a few jobs, and runs jobs until stopped by Ctrl-C or SIGTERM. With -once, it stops when
// these jobs have ended.
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
	"github.com/qless/qless-go/examples/internal/connect"
)

// welcome is the data of the jobs of klass Welcome.
type welcome struct {
	To string `json:"to"`
}

var (
	welcomeKlass = qless.NewKlass[welcome]("Welcome")
	flakyKlass   = qless.NewKlass[struct{}]("Flaky")
	reportKlass  = qless.NewKlass[struct{}]("Report")
)

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
	client, disconnect, err := connect.Client(ctx, os.Stdout, "worker:ql:")
	if err != nil {
		return err
	}
	defer disconnect()

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
	fmt.Println("working; press Ctrl-C to stop")
	<-worker.Closed()
	return nil
}

// newWorker returns the worker. It sends a line to done for each ended job.
func newWorker(client *qless.Client, done chan<- string) (*qless.Worker, error) {
	worker, err := qless.NewWorker(client, qless.WorkerConfig{
		Queues:      []string{"mail", "reports"},
		Concurrency: 4,
		Backoff:     qless.ExponentialBackoff(50*time.Millisecond, time.Minute),
		Schedules: []qless.Schedule{
			{
				ID: "daily-report", When: "CRON_TZ=Europe/Berlin 30 6 * * 1-5",
				Queue: "reports", Job: reportKlass.Spec(struct{}{}),
			},
		},
	})
	if err != nil {
		return nil, err
	}
	worker.Use(logged)

	// The data is decoded into the handler's own type; data that doesn't fit fails the job at once.
	welcomeKlass.Handle(worker, func(ctx context.Context, job *qless.Job, data welcome) error {
		done <- "Welcome to " + data.To
		return nil
	})

	// An error retries the job later. Here the third attempt succeeds.
	flakyKlass.Handle(worker, func(ctx context.Context, job *qless.Job, _ struct{}) error {
		if job.Attempt < 3 {
			return errors.New("not yet")
		}
		done <- fmt.Sprintf("Flaky, at attempt %d", job.Attempt)
		return nil
	})

	// A failure that a retry won't fix fails the job at once, in a separate group.
	reportKlass.Handle(worker, func(ctx context.Context, job *qless.Job, _ struct{}) error {
		done <- "Report, which fails: there is no printer"
		return qless.FailWith("no-printer", errors.New("there is no printer"))
	}, qless.MaxRunTime(time.Minute))
	return worker, nil
}

// logged is middleware that logs the duration and the result of each handler.
func logged(next qless.Handler) qless.Handler {
	return func(ctx context.Context, job *qless.Job) error {
		begin := time.Now()
		err := next(ctx, job)
		outcome := qless.OutcomeOf(err)
		slog.Info("job", "klass", job.Klass, "jid", job.JID,
			"took", time.Since(begin).Round(time.Microsecond), "outcome", outcome.Action,
			"error", outcome.Err)
		return err
	}
}

// putJobs puts a few jobs and returns their jids.
func putJobs(ctx context.Context, client *qless.Client) ([]string, error) {
	jids, err := client.Queue("mail").PutMany(ctx, []qless.JobSpec{
		welcomeKlass.Spec(welcome{To: "ann@example.com"}),
		flakyKlass.Spec(struct{}{}),
	})
	if err != nil {
		return nil, err
	}
	jid, err := reportKlass.Put(ctx, client.Queue("reports"), struct{}{})
	return append(jids, jid), err
}
