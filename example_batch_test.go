package qless_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/qlesstest"
)

// A job sums up what others have counted.
func ExampleClient_NewBatch() {
	server, err := qlesstest.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	client := server.Client()
	worker, err := qless.NewWorker(client, qless.WorkerConfig{Queues: []string{"texts", "sums"}})
	if err != nil {
		log.Fatal(err)
	}
	worker.Handle("Count", qless.TypedResult(
		func(ctx context.Context, job *qless.Job, text string) (int, error) {
			return len(text), nil
		}))
	worker.Handle("Sum", qless.TypedResult(
		func(ctx context.Context, job *qless.Job, counts []string) (int, error) {
			results, err := qless.ClientFromContext(ctx).WaitAll(ctx, counts...)
			if err != nil {
				return 0, err
			}
			sum := 0
			for _, result := range results {
				var count int
				if err := result.Unmarshal(&count); err != nil {
					return 0, err
				}
				sum += count
			}
			return sum, nil
		}))
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := worker.Start(ctx); err != nil {
		log.Fatal(err)
	}
	defer worker.Stop(ctx)

	// The callback gets the jids of the members, so these are chosen here.
	members := []string{"count-1", "count-2"}
	batch, err := client.NewBatch(ctx, "sums", "Sum", members)
	if err != nil {
		log.Fatal(err)
	}
	if _, err := batch.Add(ctx, "texts", []qless.JobSpec{
		{Klass: "Count", Data: "one", Options: []qless.PutOption{qless.JID(members[0])}},
		{Klass: "Count", Data: "three", Options: []qless.PutOption{qless.JID(members[1])}},
	}); err != nil {
		log.Fatal(err)
	}
	if err := batch.Commit(ctx); err != nil {
		log.Fatal(err)
	}
	result, err := client.Wait(ctx, batch.ID())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(string(result.Data))
	// Output:
	// 8
}
