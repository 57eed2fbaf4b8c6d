package qless_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/qlesstest"
)

// A Receipt is the data of the jobs of sendReceipt.
type Receipt struct {
	Order int    `json:"order"`
	To    string `json:"to"`
}

// The klasses of a program are usually declared together, as package variables.
var (
	sendReceipt = qless.NewKlass[Receipt]("SendReceipt", qless.Retries(8), qless.Tags{"mail"})
	addUp       = qless.NewFunction[[]int, int]("AddUp")
)

// A klass is declared once. Then neither its name nor the type of its data can be mistaken.
func ExampleNewKlass() {
	ctx := context.Background()
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
	running, stop := context.WithCancel(ctx)
	sendReceipt.Handle(worker, func(ctx context.Context, job *qless.Job, data Receipt) error {
		defer stop() // the example has one job
		fmt.Println("order", data.Order, "to", data.To)
		fmt.Println(job.Retries, "retries, tags", job.Tags)
		return nil
	})

	queue := client.Queue("mail")
	data := Receipt{Order: 7, To: "ann@example.com"}
	if _, err := sendReceipt.Put(ctx, queue, data, qless.Retries(2)); err != nil {
		log.Fatal(err)
	}
	if err := worker.Run(running); err != nil {
		log.Fatal(err)
	}
	// Output:
	// order 7 to ann@example.com
	// 2 retries, tags [mail]
}

// Many jobs of a klass are put together.
func ExampleKlass_Spec() {
	ctx := context.Background()
	server, err := qlesstest.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	queue := server.Client().Queue("mail")

	var jobs []qless.JobSpec
	for order := range 100 {
		jobs = append(jobs, sendReceipt.Spec(Receipt{Order: order, To: "ann@example.com"}))
	}
	if _, err := queue.PutMany(ctx, jobs); err != nil {
		log.Fatal(err)
	}
	counts, err := queue.Counts(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(counts.Waiting, "jobs wait")
	// Output:
	// 100 jobs wait
}

// A function is a klass whose jobs have a result.
func ExampleFunction_Call() {
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
	addUp.Handle(worker, func(ctx context.Context, job *qless.Job, numbers []int) (int, error) {
		sum := 0
		for _, n := range numbers {
			sum += n
		}
		return sum, nil
	})
	if err := worker.Start(ctx); err != nil {
		log.Fatal(err)
	}
	defer worker.Stop(ctx)

	sum, err := addUp.Call(ctx, client.Queue("sums"), []int{3, 4})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(sum)
	// Output:
	// 7
}

// Events are inserted by one statement for many. A bad one fails alone.
func ExampleKlass_HandleBulk() {
	ctx := context.Background()
	server, err := qlesstest.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	queue := server.Client().Queue("events")
	track := qless.NewKlass[string]("Track")
	for _, event := range []string{"login", "search", "", "logout"} {
		if _, err := track.Put(ctx, queue, event); err != nil {
			log.Fatal(err)
		}
	}

	worker, err := qless.NewWorker(server.Client(), qless.WorkerConfig{Queues: []string{"events"}})
	if err != nil {
		log.Fatal(err)
	}
	called := make(chan bool)
	track.HandleBulk(worker, qless.Bulk{Max: 4, Wait: time.Minute},
		func(ctx context.Context, rows []*qless.Member[string]) error {
			for _, row := range rows {
				if row.Data == "" {
					row.Err = qless.FailWith("empty", nil)
				}
			}
			fmt.Println("inserted together:", len(rows))
			close(called)
			return nil
		})
	if err := worker.Start(ctx); err != nil {
		log.Fatal(err)
	}
	<-called
	if err := worker.Stop(ctx); err != nil {
		log.Fatal(err)
	}
	fmt.Println("complete:", worker.Stats().Completed, "failed:", worker.Stats().Failed)
	// Output:
	// inserted together: 4
	// complete: 3 failed: 1
}
