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

// Of each shop, one job runs at a time.
func ExampleLimits() {
	server, err := qlesstest.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	ctx := context.Background()
	client := server.Client()
	err = client.Limit("shop").Set(ctx, qless.LimitConfig{Concurrency: 1})
	if err != nil {
		log.Fatal(err)
	}
	queue := client.Queue("sync")
	for _, shop := range []string{"a", "a", "b"} {
		if _, err := queue.Put(ctx, "Sync", nil, qless.Limits{"shop/" + shop}); err != nil {
			log.Fatal(err)
		}
	}
	jobs, err := queue.Pop(ctx, 3)
	if err != nil {
		log.Fatal(err)
	}
	for _, job := range jobs {
		fmt.Println(job.Options.Limits)
	}
	info, err := inspect.New(client).Limit(ctx, "shop/a")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(info.Running), "runs,", info.Parked, "waits")
	// Output:
	// [shop/a]
	// [shop/b]
	// 1 runs, 1 waits
}

// A service that asks to be left alone gets no further job for as long as it says.
func ExampleThrottled() {
	server, err := qlesstest.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	ctx := context.Background()
	client := server.Client()
	worker, err := qless.NewWorker(client, qless.WorkerConfig{Queues: []string{"sync"}})
	if err != nil {
		log.Fatal(err)
	}
	worker.Handle("Sync", func(context.Context, *qless.Job) error {
		return qless.Throttled(time.Minute) // it has answered "429 Too Many Requests"
	})
	jid, err := client.Queue("sync").Put(ctx, "Sync", nil, qless.Limits{"api"})
	if err != nil {
		log.Fatal(err)
	}
	if err := worker.Start(ctx); err != nil {
		log.Fatal(err)
	}
	for parked := ""; parked == ""; {
		job, err := client.Job(ctx, jid)
		if err != nil {
			log.Fatal(err)
		}
		parked = job.Parked
	}
	if err := worker.Stop(ctx); err != nil {
		log.Fatal(err)
	}
	job, err := client.Job(ctx, jid)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(job.State, "by", job.Parked, "with", job.Remaining, "retries")
	// Output:
	// scheduled by api with 5 retries
}
