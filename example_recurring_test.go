package qless_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/qlesstest"
)

// A recurring job puts a job each time its interval is over. Nothing needs to run for that:
// what has fallen due is put when the queue is next popped. The example brings its own
// clock, so that it need not wait.
func ExampleQueue_Recur() {
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
	queue := client.Queue("reports")

	// Of the jobs that no worker popped in time, all but one are left out.
	jid, err := queue.Recur(ctx, "Hourly", nil, time.Hour, qless.JID("hourly"), qless.Backlog(1))
	if err != nil {
		log.Fatal(err)
	}
	work := func() {
		jobs, err := queue.Pop(ctx, 10)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(now.Format(time.TimeOnly), len(jobs), "jobs")
		for _, job := range jobs {
			fmt.Println(" ", job.JID)
			if err := job.Complete(ctx); err != nil {
				log.Fatal(err)
			}
		}
	}
	work()
	now = now.Add(30 * time.Minute)
	work()
	now = now.Add(5 * time.Hour)
	work()

	hourly, err := client.RecurringJob(ctx, jid)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(hourly.Count, "put so far, one every", hourly.Interval)
	if err := hourly.Cancel(ctx); err != nil {
		log.Fatal(err)
	}
	// Output:
	// 09:00:00 1 jobs
	//   hourly-1
	// 09:30:00 0 jobs
	// 14:30:00 1 jobs
	//   hourly-2
	// 2 put so far, one every 1h0m0s
}

// Changes of a recurring job are written in one step, for the jobs that it puts from now on.
func ExampleRecurringJob_Update() {
	ctx := context.Background()
	server, err := qlesstest.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	client := server.Client()
	if _, err := client.Queue("reports").Recur(ctx, "Report", nil, time.Hour, qless.JID("hourly")); err != nil {
		log.Fatal(err)
	}

	report, err := client.RecurringJob(ctx, "hourly")
	if err != nil {
		log.Fatal(err)
	}
	report.Interval, report.Tags = 30*time.Minute, append(report.Tags, "eu")
	if err := report.Update(ctx); err != nil {
		log.Fatal(err)
	}

	if err := report.Refresh(ctx); err != nil {
		log.Fatal(err)
	}
	fmt.Println("one every", report.Interval, "with the tags", report.Tags)
	// Output:
	// one every 30m0s with the tags [eu]
}
