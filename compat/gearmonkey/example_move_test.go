package gearmonkey_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/compat/gearmonkey"
	"github.com/qless/qless-go/qlesstest"
)

// Jobs queued by GearMonkey clients become qless jobs, with locks, retries and a history. The
// clients still get their outcomes.
func ExampleClient_Move() {
	ctx := context.Background()
	server, err := qlesstest.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	monkey := gearmonkey.NewClient(server.Redis())
	queue := server.Client().Queue("images")

	id, err := monkey.Run(ctx, "resize", []byte("cat.png"), gearmonkey.High)
	if err != nil {
		log.Fatal(err)
	}

	// The mover: run it once, or repeatedly.
	type image struct {
		ID    int64  `json:"id"`
		Input []byte `json:"input"`
	}
	priorities := map[gearmonkey.Priority]int{gearmonkey.High: 10, gearmonkey.Low: -10}
	moved, err := monkey.Move(ctx, "resize", func(ctx context.Context, job *gearmonkey.Moved) error {
		options := []qless.PutOption{
			qless.JID(fmt.Sprintf("%s-%d", job.Function, job.ID)), // a job that is moved twice stays one job
			qless.Priority(priorities[job.Priority]),
		}
		if wait := time.Until(job.At); wait > 0 {
			options = append(options, qless.Delay(wait))
		}
		_, err := queue.Put(ctx, job.Function, image{ID: job.ID, Input: job.Input}, options...)
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("moved:", moved)

	// The worker is a qless worker that reports to the GearMonkey clients.
	done := make(chan struct{})
	worker, err := qless.NewWorker(server.Client(), qless.WorkerConfig{Queues: []string{"images"}})
	if err != nil {
		log.Fatal(err)
	}
	worker.Handle("resize", qless.Typed(func(ctx context.Context, job *qless.Job, data image) error {
		defer close(done)
		output := fmt.Appendf(nil, "small-%s", data.Input)
		return monkey.Finish(ctx, job.Klass, data.ID, output, nil)
	}))
	if err := worker.Start(ctx); err != nil {
		log.Fatal(err)
	}
	<-done
	if err := worker.Stop(ctx); err != nil {
		log.Fatal(err)
	}

	state, err := monkey.Get(ctx, "resize", id)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s: %s\n", state.Status, state.Output)
	// Output:
	// moved: 1
	// success: small-cat.png
}
