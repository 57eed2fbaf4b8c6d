package qless_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/qlesstest"
)

// A dashboard shows how many jobs of each klass were done in the last hour, and how long they took.
func ExampleClient_KlassRates() {
	server, err := qlesstest.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	client := server.Client()
	worker, err := qless.NewWorker(client, qless.WorkerConfig{Queues: []string{"mail"}})
	if err != nil {
		log.Fatal(err)
	}
	worker.Handle("*", func(context.Context, *qless.Job) error { return nil })
	ctx := context.Background()
	for _, klass := range []string{"Welcome", "Invoice", "Welcome"} {
		if _, err := client.Queue("mail").Put(ctx, klass, nil); err != nil {
			log.Fatal(err)
		}
	}
	if err := worker.Start(ctx); err != nil {
		log.Fatal(err)
	}
	for worker.Stats().Completed < 3 {
		time.Sleep(time.Millisecond)
	}
	if err := worker.Stop(ctx); err != nil { // which sends what it has counted
		log.Fatal(err)
	}

	now := time.Now()
	groups, err := client.KlassRates(ctx, qless.RateFilter{Queue: "mail"}, now.Add(-time.Hour), now)
	if err != nil {
		log.Fatal(err)
	}
	for _, klass := range groups {
		log.Printf("%s: half of the jobs ran for less than %v", klass.Name, klass.Run.P50)
		fmt.Println(klass.Name, klass.Completed, "completed,", klass.Failed, "failed")
	}
	// Output:
	// Invoice 1 completed, 0 failed
	// Welcome 2 completed, 0 failed
}

// Each running worker says which queues it takes jobs from.
func ExampleClient_Workers() {
	server, err := qlesstest.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	client := server.Client()
	worker, err := qless.NewWorker(client, qless.WorkerConfig{
		Name: "mailer", Queues: []string{"mail-*"}, Concurrency: 5,
	})
	if err != nil {
		log.Fatal(err)
	}
	worker.Handle("Mail::*", func(context.Context, *qless.Job) error { return nil })
	ctx := context.Background()
	if err := worker.Start(ctx); err != nil {
		log.Fatal(err)
	}
	defer worker.Stop(ctx)

	var workers []qless.WorkerCounts
	for len(workers) == 0 || workers[0].Info == nil { // it says so as soon as it runs
		if workers, err = client.Workers(ctx); err != nil {
			log.Fatal(err)
		}
	}
	info := workers[0].Info
	fmt.Println(workers[0].Name, info.Language, info.Queues, info.Klasses, info.Slots)
	fmt.Println(info.TakesFrom("mail-slow"), info.TakesFrom("reports"))
	// Output:
	// mailer go [mail-*] [Mail::*] 5
	// true false
}
