package qless_test

import (
	"context"
	"fmt"
	"log"
	"sync"
	"time"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
	"github.com/qless/qless-go/qlesstest"
)

// A klass has a handler of its own, or that of the longest prefix that it begins with.
func ExampleWorker_Handle() {
	ctx := context.Background()
	server, err := qlesstest.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	worker, err := qless.NewWorker(server.Client(), qless.WorkerConfig{
		Queues: []string{"mail"}, Concurrency: 1, // one after another
	})
	if err != nil {
		log.Fatal(err)
	}

	var done sync.WaitGroup
	handler := func(name string) qless.Handler {
		return func(ctx context.Context, job *qless.Job) error {
			defer done.Done()
			fmt.Printf("%s is handled by %s\n", job.Klass, name)
			return nil
		}
	}
	worker.Handle("Mail::Welcome", handler("Mail::Welcome"))
	worker.Handle("Mail::*", handler("Mail::*"), qless.MaxRunTime(time.Minute))
	worker.Handle("*", handler("*"))

	for _, klass := range []string{"Mail::Welcome", "Mail::Reminder", "Report"} {
		done.Add(1)
		if _, err := server.Client().Queue("mail").Put(ctx, klass, nil); err != nil {
			log.Fatal(err)
		}
	}
	if err := worker.Start(ctx); err != nil {
		log.Fatal(err)
	}
	done.Wait()
	if err := worker.Stop(ctx); err != nil {
		log.Fatal(err)
	}
	// Output:
	// Mail::Welcome is handled by Mail::Welcome
	// Mail::Reminder is handled by Mail::*
	// Report is handled by *
}

// Middleware runs around every handler. OutcomeOf maps the handler's error to an outcome.
func ExampleWorker_Use() {
	ctx := context.Background()
	server, err := qlesstest.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	worker, err := qless.NewWorker(server.Client(), qless.WorkerConfig{Queues: []string{"mail"}})
	if err != nil {
		log.Fatal(err)
	}

	running, stop := context.WithCancel(ctx)
	worker.Use(func(next qless.Handler) qless.Handler {
		return func(ctx context.Context, job *qless.Job) error {
			defer stop() // the example has one job
			fmt.Println("begin", job.Klass)
			err := next(ctx, job)
			fmt.Println("end", job.Klass, qless.OutcomeOf(err).Action)
			return err
		}
	})
	worker.Handle("Welcome", func(ctx context.Context, job *qless.Job) error {
		return qless.Snooze(time.Hour)
	})

	if _, err := server.Client().Queue("mail").Put(ctx, "Welcome", nil); err != nil {
		log.Fatal(err)
	}
	if err := worker.Run(running); err != nil {
		log.Fatal(err)
	}
	// Output:
	// begin Welcome
	// end Welcome release
}

// A typed handler gets the job's data decoded. A job whose data does not fit fails at once.
func ExampleTyped() {
	ctx := context.Background()
	server, err := qlesstest.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	client := server.Client()
	ended := make(chan struct{}, 2)
	worker, err := qless.NewWorker(client, qless.WorkerConfig{
		Queues: []string{"images"},
		Observer: func(event qless.JobEvent) {
			if event.Kind == qless.JobEventEnded {
				ended <- struct{}{}
			}
		},
	})
	if err != nil {
		log.Fatal(err)
	}

	type resize struct {
		Width int `json:"width"`
	}
	worker.Handle("Resize", qless.Typed(
		func(ctx context.Context, job *qless.Job, data resize) error {
			fmt.Println("width:", data.Width)
			return nil
		}))

	for _, data := range []any{resize{Width: 800}, "wide"} {
		if _, err := client.Queue("images").Put(ctx, "Resize", data); err != nil {
			log.Fatal(err)
		}
	}
	if err := worker.Start(ctx); err != nil {
		log.Fatal(err)
	}
	<-ended
	<-ended
	if err := worker.Stop(ctx); err != nil {
		log.Fatal(err)
	}
	groups, err := inspect.New(client).FailureGroups(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("failed:", groups)
	// Output:
	// width: 800
	// failed: map[Resize:data:1]
}

// A handler puts a follow-up job by the client of its worker. The follow-up depends on the job,
// so it can't begin before the job is complete.
func ExampleClientFromContext() {
	ctx := context.Background()
	server, err := qlesstest.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	client := server.Client()
	worker, err := qless.NewWorker(client, qless.WorkerConfig{Queues: []string{"orders"}})
	if err != nil {
		log.Fatal(err)
	}

	running, stop := context.WithCancel(ctx)
	worker.Handle("Ship", func(ctx context.Context, job *qless.Job) error {
		defer stop() // the example has one job
		mail := qless.ClientFromContext(ctx).Queue("mail")
		_, err := mail.Put(ctx, "Shipped", nil,
			qless.JID("shipped-"+job.JID), qless.DependsOn{job.JID})
		return err
	})

	if _, err := client.Queue("orders").Put(ctx, "Ship", nil, qless.JID("order-7")); err != nil {
		log.Fatal(err)
	}
	if err := worker.Run(running); err != nil {
		log.Fatal(err)
	}
	followUp, err := client.Job(ctx, "shipped-order-7")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(followUp.JID, "is", followUp.State)
	// Output:
	// shipped-order-7 is waiting
}
