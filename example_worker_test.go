package qless_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
	"github.com/qless/qless-go/qlesstest"
)

// A worker runs the jobs of a queue. A service would dial a real server, and end the worker's
// context by signal.NotifyContext.
func ExampleWorker() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	server, err := qlesstest.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	client := server.Client()

	type message struct {
		To string `json:"to"`
	}
	welcome := qless.NewKlass[message]("Welcome") // in a program, a package variable
	mail := client.Queue("mail")
	if _, err := welcome.Put(ctx, mail, message{To: "ann@example.com"}); err != nil {
		log.Fatal(err)
	}

	worker, err := qless.NewWorker(client, qless.WorkerConfig{Queues: []string{"mail"}})
	if err != nil {
		log.Fatal(err)
	}
	welcome.Handle(worker, func(ctx context.Context, job *qless.Job, data message) error {
		fmt.Println("welcome,", data.To)
		stop() // the example has one job
		return nil
	})
	if err := worker.Run(ctx); err != nil {
		log.Fatal(err)
	}

	completed, err := inspect.New(client).Completed().JIDs(context.Background(), inspect.Range{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("completed:", completed.Total)
	// Output:
	// welcome, ann@example.com
	// completed: 1
}

// A klass has its own handler, or that of the longest matching prefix.
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

// Encodings need much memory: a worker runs two at a time, beside jobs of other queues.
func ExampleConcurrency() {
	ctx := context.Background()
	server, err := qlesstest.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	queue := server.Client().Queue("encode")
	encode := qless.NewKlass[string]("Encode")
	for _, film := range []string{"Alphaville", "Brazil", "Casablanca", "Duel"} {
		if _, err := encode.Put(ctx, queue, film); err != nil {
			log.Fatal(err)
		}
	}

	worker, err := qless.NewWorker(server.Client(), qless.WorkerConfig{
		Queues: []string{"encode", "mail"}, Concurrency: 20,
	})
	if err != nil {
		log.Fatal(err)
	}
	begun, goOn := make(chan string), make(chan bool)
	encode.Handle(worker, func(ctx context.Context, job *qless.Job, film string) error {
		begun <- film
		<-goOn
		return nil
	}, qless.Concurrency(2))
	if err := worker.Start(ctx); err != nil {
		log.Fatal(err)
	}
	for range 2 {
		fmt.Println("two run:", strings.Join(slices.Sorted(slices.Values([]string{<-begun, <-begun})), ", "))
		goOn <- true
		goOn <- true
	}
	if err := worker.Stop(ctx); err != nil {
		log.Fatal(err)
	}
	// Output:
	// two run: Alphaville, Brazil
	// two run: Casablanca, Duel
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

// A handler puts a follow-up job with the client of its worker. The follow-up depends on the job,
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

// A schedule puts a job at each of its times while a worker runs, such as at 6:30 on weekdays:
// "CRON_TZ=Europe/Berlin 30 6 * * 1-5". Here it is every second, so that the example is short.
func ExampleSchedule() {
	ctx := context.Background()
	server, err := qlesstest.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()

	worker, err := qless.NewWorker(server.Client(), qless.WorkerConfig{
		Queues: []string{"reports"},
		Schedules: []qless.Schedule{{
			ID:     "sales",
			When:   "@every 1s",
			Queue:  "reports",
			Job:    qless.JobSpec{Klass: "Report", Data: "sales"},
			Missed: qless.MissedSkip,
		}},
	})
	if err != nil {
		log.Fatal(err)
	}
	jids := make(chan string, 100) // more than will be due before the worker has stopped
	worker.Handle("Report", func(ctx context.Context, job *qless.Job) error {
		jids <- job.JID
		return nil
	})
	if err := worker.Start(ctx); err != nil {
		log.Fatal(err)
	}
	id, _, _ := strings.Cut(<-jids, "@") // the rest is the time
	fmt.Println("due:", id)
	if err := worker.Stop(ctx); err != nil {
		log.Fatal(err)
	}
	// Output:
	// due: sales
}

// A group works the same queues of several namespaces, here of two tenants.
func ExampleWorkerGroup() {
	ctx := context.Background()
	server, err := qlesstest.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	var clients []*qless.Client
	for _, namespace := range []string{"{acme}:ql:", "{umbrella}:ql:"} {
		client, err := qless.New(server.Redis(), &qless.ClientConfig{Namespace: namespace})
		if err != nil {
			log.Fatal(err)
		}
		if _, err := client.Queue("mail").Put(ctx, "Welcome", nil); err != nil {
			log.Fatal(err)
		}
		clients = append(clients, client)
	}

	group, err := qless.NewWorkerGroup(clients, qless.WorkerConfig{Queues: []string{"mail"}})
	if err != nil {
		log.Fatal(err)
	}
	handled := make(chan string)
	group.Handle("Welcome", func(ctx context.Context, job *qless.Job) error {
		handled <- qless.ClientFromContext(ctx).Namespace()
		return nil
	})
	if err := group.Start(ctx); err != nil {
		log.Fatal(err)
	}
	for range clients {
		fmt.Println("handled a job of", <-handled)
	}
	if err := group.Stop(ctx); err != nil {
		log.Fatal(err)
	}
	// Unordered output:
	// handled a job of {acme}:ql:
	// handled a job of {umbrella}:ql:
}
