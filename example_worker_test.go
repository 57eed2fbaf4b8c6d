package qless_test

import (
	"context"
	"fmt"
	"log"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
	"github.com/qless/qless-go/qlesstest"
)

// Welcome is the data of jobs of the klass Welcome.
type Welcome struct {
	To string `json:"to"`
}

// A worker runs the jobs of a queue. A service would dial a real server, and end the worker's
// context by signal.NotifyContext.
func ExampleWorker() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	server, err := qlesstest.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	client := server.Client()

	mail := client.Queue("mail")
	if _, err := mail.Put(ctx, "Welcome", Welcome{To: "ann@example.com"}); err != nil {
		log.Fatal(err)
	}

	worker, err := qless.NewWorker(client, qless.WorkerConfig{Queues: []string{"mail"}})
	if err != nil {
		log.Fatal(err)
	}
	worker.Handle("Welcome", qless.Typed(
		func(ctx context.Context, job *qless.Job, data Welcome) error {
			fmt.Println("welcome,", data.To)
			stop() // the example has one job
			return nil
		}))
	if err := worker.Run(ctx); err != nil {
		log.Fatal(err)
	}

	completed, err := inspect.New(client).Completed().JIDs(context.Background(), inspect.Range{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("completed:", completed.Total)
	// Output:
	// welcome, ann@example.com
	// completed: 1
}
