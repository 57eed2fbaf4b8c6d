package qless_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
	"github.com/qless/qless-go/qlesstest"
)

// A job is put by one program and worked by another. Here both are one, and the server is
// in memory: with a real one, Dial takes the place of Start.
func Example() {
	ctx := context.Background()
	server, err := qlesstest.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	mail := server.Client().Queue("mail")

	type welcome struct {
		To string `json:"to"`
	}
	if _, err := mail.Put(ctx, "Welcome", welcome{To: "ann@example.com"}); err != nil {
		log.Fatal(err)
	}

	jobs, err := mail.Pop(ctx, 1)
	if err != nil {
		log.Fatal(err)
	}
	for _, job := range jobs {
		var data welcome
		if err := job.Unmarshal(&data); err != nil {
			log.Fatal(err)
		}
		fmt.Println(job.Klass, data.To)
		if err := job.Complete(ctx); err != nil {
			log.Fatal(err)
		}
	}
	// Output:
	// Welcome ann@example.com
}

// Of the jobs in a queue, those with the highest priority are popped first.
func ExamplePriority() {
	ctx := context.Background()
	server, err := qlesstest.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	queue := server.Client().Queue("mail")

	for klass, priority := range map[string]int{"Newsletter": -5, "Welcome": 0, "PasswordReset": 10} {
		if _, err := queue.Put(ctx, klass, nil, qless.Priority(priority)); err != nil {
			log.Fatal(err)
		}
	}
	jobs, err := queue.Pop(ctx, 3)
	if err != nil {
		log.Fatal(err)
	}
	for _, job := range jobs {
		fmt.Println(job.Priority, job.Klass)
	}
	// Output:
	// 10 PasswordReset
	// 0 Welcome
	// -5 Newsletter
}

// A delayed job is scheduled until its time has come. The example brings its own clock, so
// that it need not wait.
func ExampleDelay() {
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
	queue := client.Queue("mail")

	if _, err := queue.Put(ctx, "Reminder", nil, qless.Delay(time.Hour)); err != nil {
		log.Fatal(err)
	}
	for range 2 {
		jobs, err := queue.Pop(ctx, 1)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(now.Format(time.TimeOnly), len(jobs), "jobs")
		now = now.Add(time.Hour)
	}
	// Output:
	// 09:00:00 0 jobs
	// 10:00:00 1 jobs
}

// Tags are for finding jobs again, whatever queue they are in.
func ExampleTags() {
	ctx := context.Background()
	server, err := qlesstest.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	client := server.Client()

	jid, err := client.Queue("mail").Put(ctx, "Welcome", nil, qless.Tags{"customer-7", "welcome"})
	if err != nil {
		log.Fatal(err)
	}
	tagged, err := inspect.New(client).Tagged("customer-7").JIDs(ctx, inspect.Range{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(tagged.Total, tagged.Items[0] == jid)
	// Output:
	// 1 true
}
