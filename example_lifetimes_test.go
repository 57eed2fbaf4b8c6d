package qless_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/qlesstest"
)

// A quote is useless to a customer who has waited for ten seconds.
func ExampleStartBy() {
	now := time.Date(2024, time.January, 2, 12, 0, 0, 0, time.UTC)
	server, err := qlesstest.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	client, err := qless.New(server.Redis(), &qless.ClientConfig{Clock: func() time.Time { return now }})
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	queue := client.Queue("quotes")
	for _, customer := range []string{"Ada", "Grace"} {
		_, err := queue.Put(ctx, "Quote", customer, qless.StartBy(10*time.Second))
		if err != nil {
			log.Fatal(err)
		}
		now = now.Add(8 * time.Second)
	}
	jobs, err := queue.Pop(ctx, 2)
	if err != nil {
		log.Fatal(err)
	}
	for _, job := range jobs {
		fmt.Printf("%s\n", job.Data)
	}
	stats, err := queue.Stats(ctx, now)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(stats.Expired, "expired")
	// Output:
	// "Grace"
	// 1 expired
}

// A program sweeps once a second, so that jobs whose lives have ended take up no memory.
func ExampleClient_Sweep() {
	server, err := qlesstest.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	ctx := context.Background()
	client := server.Client()
	_, err = client.Queue("mail").Put(ctx, "Welcome", nil, qless.TTL(time.Millisecond))
	if err != nil {
		log.Fatal(err)
	}
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for range ticker.C {
		n, err := client.Sweep(ctx)
		if err != nil {
			log.Fatal(err)
		}
		if n > 0 {
			fmt.Println(n, "deleted")
			break
		}
	}
	// Output:
	// 1 deleted
}
