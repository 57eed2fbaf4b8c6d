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

// However many workers there are, no more jobs of the queue run at once.
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

	if err := config.Set(ctx, qless.ConfigJobsHistory, 24*time.Hour); err != nil {
		log.Fatal(err)
	}
	seconds, err := config.Get(ctx, qless.ConfigJobsHistory)
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
