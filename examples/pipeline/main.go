// Pipeline shows a job that moves through several queues, and a job that depends on others: orders
// are checked, paid and packed, and when all orders are packed, the van leaves.
//
//	go run ./examples/pipeline
//
// The program uses the Redis server at REDIS_URL, in a separate namespace, or an in-memory server.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/examples/internal/connect"
)

// order is the data of an order. Each stage adds to the data.
type order struct {
	Item  string   `json:"item"`
	Steps []string `json:"steps"`
}

var (
	orderKlass = qless.NewKlass[order]("Order")
	vanKlass   = qless.NewKlass[struct{}]("Van")
)

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	client, disconnect, err := connect.Client(ctx, os.Stdout, "pipeline:ql:")
	if err != nil {
		return err
	}
	defer disconnect()

	left := make(chan struct{})
	worker, err := qless.NewWorker(client, qless.WorkerConfig{
		Queues: []string{"check", "pay", "pack", "ship"},
		Order:  qless.OrderRoundRobin,
	})
	if err != nil {
		return err
	}
	orderKlass.Handle(worker, work)
	vanKlass.Handle(worker, func(context.Context, *qless.Job, struct{}) error {
		fmt.Println("all orders are packed: the van leaves")
		close(left)
		return nil
	})

	var orders []string
	for _, item := range []string{"book", "lamp", "chair"} {
		jid, err := orderKlass.Put(ctx, client.Queue("check"), order{Item: item})
		if err != nil {
			return err
		}
		orders = append(orders, jid)
	}
	_, err = vanKlass.Put(ctx, client.Queue("ship"), struct{}{}, qless.DependsOn(orders))
	if err != nil {
		return err
	}
	if err := worker.Start(ctx); err != nil {
		return err
	}
	select {
	case <-left:
	case <-ctx.Done():
		return ctx.Err()
	}
	return worker.Stop(ctx)
}

// next maps each queue to the next queue; the last queue has none.
var next = map[string]string{"check": "pay", "pay": "pack"}

// work runs one stage of an order. The job takes its data to the next queue.
func work(ctx context.Context, job *qless.Job, data order) error {
	data.Steps = append(data.Steps, job.Queue)
	fmt.Printf("%-5s  %-5s  %v\n", data.Item, job.Queue, data.Steps)
	if err := job.SetData(data); err != nil {
		return err
	}
	if queue, ok := next[job.Queue]; ok {
		return qless.Next(queue)
	}
	return nil
}
