package qless_test

import (
	"context"
	"fmt"
	"log"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/qlesstest"
)

// A handler returns a value, and anyone who has the jid can read it.
func ExampleTypedResult() {
	ctx := context.Background()
	server, err := qlesstest.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	client := server.Client()
	worker, err := qless.NewWorker(client, qless.WorkerConfig{Queues: []string{"sums"}})
	if err != nil {
		log.Fatal(err)
	}

	running, stop := context.WithCancel(ctx)
	worker.Handle("Sum", qless.TypedResult(
		func(ctx context.Context, job *qless.Job, numbers []int) (int, error) {
			defer stop() // the example has one job
			sum := 0
			for _, n := range numbers {
				sum += n
			}
			return sum, nil
		}))

	jid, err := client.Queue("sums").Put(ctx, "Sum", []int{3, 4})
	if err != nil {
		log.Fatal(err)
	}
	if err := worker.Run(running); err != nil {
		log.Fatal(err)
	}
	result, err := client.Result(ctx, jid)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(result.State, string(result.Data))
	// Output:
	// complete 7
}
