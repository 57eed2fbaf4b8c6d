package qless_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/qlesstest"
)

// A program puts a job and waits for its result.
func ExampleClient_Wait() {
	server, err := qlesstest.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	client := server.Client()
	worker, err := qless.NewWorker(client, qless.WorkerConfig{Queues: []string{"names"}})
	if err != nil {
		log.Fatal(err)
	}
	worker.Handle("Greet", qless.TypedResult(
		func(ctx context.Context, job *qless.Job, name string) (string, error) {
			return "Hello, " + name, nil
		}))
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := worker.Start(ctx); err != nil {
		log.Fatal(err)
	}
	defer worker.Stop(ctx)

	jid, err := client.Queue("names").Put(ctx, "Greet", "Ada")
	if err != nil {
		log.Fatal(err)
	}
	result, err := client.Wait(ctx, jid)
	if err != nil {
		log.Fatal(err)
	}
	var greeting string
	if err := result.Unmarshal(&greeting); err != nil {
		log.Fatal(err)
	}
	fmt.Println(greeting)
	// Output:
	// Hello, Ada
}
