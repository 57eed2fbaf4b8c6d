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

// Many jobs are put by one call. A job may depend on one before it.
func ExampleQueue_PutMany() {
	ctx := context.Background()
	server, err := qlesstest.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	queue := server.Client().Queue("orders")

	jids, err := queue.PutMany(ctx, []qless.JobSpec{
		{Klass: "Pick", Data: 7, Options: []qless.PutOption{qless.JID("pick-7")}},
		{Klass: "Pack", Data: 7, Options: []qless.PutOption{
			qless.JID("pack-7"), qless.DependsOn{"pick-7"},
		}},
		{Klass: "Pick", Data: 8, Options: []qless.PutOption{
			qless.JID("pick-8"), qless.Priority(10),
		}},
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(jids)
	counts, err := queue.Counts(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(counts.Waiting, "waiting,", counts.Depends, "depends")
	// Output:
	// [pick-7 pack-7 pick-8]
	// 2 waiting, 1 depends
}

// In a queue of long jobs, locks last longer than elsewhere in the namespace.
func ExampleQueue_SetHeartbeat() {
	ctx := context.Background()
	server, err := qlesstest.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	queue := server.Client().Queue("video")

	for _, d := range []time.Duration{5 * time.Minute, 0} { // 0: that of the namespace again
		if err := queue.SetHeartbeat(ctx, d); err != nil {
			log.Fatal(err)
		}
		settings, err := queue.Settings(ctx)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(settings.Heartbeat)
	}
	// Output:
	// 5m0s
	// 1m0s
}

// However many workers there are, only so many jobs of the queue run at once.
func ExampleQueue_SetMaxConcurrency() {
	ctx := context.Background()
	server, err := qlesstest.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	queue := server.Client().Queue("api-calls")

	if err := queue.SetMaxConcurrency(ctx, 2); err != nil {
		log.Fatal(err)
	}
	for range 3 {
		if _, err := queue.Put(ctx, "Call", nil); err != nil {
			log.Fatal(err)
		}
	}
	jobs, err := queue.Pop(ctx, 10)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("popped:", len(jobs))
	// Output:
	// popped: 2
}

// Settings of a namespace are checked before they are changed.
func ExampleConfig_Set() {
	ctx := context.Background()
	server, err := qlesstest.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	config := server.Client().Config()

	if err := config.Set(ctx, "jobs-history", 24*time.Hour); err != nil {
		log.Fatal(err)
	}
	seconds, err := config.Get(ctx, "jobs-history")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(seconds)
	err = config.Set(ctx, "job-history", 3600)
	fmt.Println(errors.Is(err, qless.ErrInvalid))
	// Output:
	// 86400
	// true
}

// A recurring job puts a job once per interval. No process needs to run for that: jobs that have
// fallen due are put when the queue is next popped. The example uses its own clock, so that it need
// not wait.
func ExampleQueue_Recur() {
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

// Changes to a recurring job are written in one step, for the jobs that it puts from now on.
func ExampleRecurringJob_Update() {
	ctx := context.Background()
	server, err := qlesstest.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	client := server.Client()
	_, err = client.Queue("reports").Recur(ctx, "Report", nil, time.Hour, qless.JID("hourly"))
	if err != nil {
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
