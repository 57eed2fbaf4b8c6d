package gearmonkey_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/compat/gearmonkey"
	"github.com/qless/qless-go/qlesstest"
)

// A client queues a job and a worker runs it. Normally they are separate programs, perhaps in
// different languages.
func Example() {
	server, err := qlesstest.Start() // an in-memory Redis
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	client := gearmonkey.NewClient(server.Redis())
	ctx, stop := context.WithCancel(context.Background())
	defer stop()

	id, err := client.Run(ctx, "shout", []byte("hello"), gearmonkey.High)
	if err != nil {
		log.Fatal(err)
	}

	worker := gearmonkey.NewWorker(client, gearmonkey.WorkerConfig{})
	worker.Accept("shout", func(ctx context.Context, job *gearmonkey.Job) ([]byte, error) {
		defer stop() // one is enough for an example
		return bytes.ToUpper(job.Input), nil
	})
	if err := worker.Work(ctx); err != nil {
		log.Fatal(err)
	}

	state, err := client.Get(context.Background(), "shout", id)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("job %d: %s, %s\n", state.ID, state.Status, state.Output)
	// Output:
	// job 1: success, HELLO
}

// A blocking run returns when the job has ended. The job's own error is in its state.
func ExampleBlocking() {
	server, err := qlesstest.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	client := gearmonkey.NewClient(server.Redis())
	ctx, stop := context.WithCancel(context.Background())

	worker := gearmonkey.NewWorker(client, gearmonkey.WorkerConfig{})
	worker.Accept("divide", func(ctx context.Context, job *gearmonkey.Job) ([]byte, error) {
		return nil, errors.New("division by zero")
	})
	done := make(chan error)
	go func() { done <- worker.Work(ctx) }()

	id, err := client.Run(ctx, "divide", []byte("1/0"), gearmonkey.Blocking(10*time.Second))
	switch {
	case errors.Is(err, gearmonkey.ErrTimeout):
		fmt.Println("job", id, "continues without us")
	case err != nil:
		log.Fatal(err)
	}
	state, err := client.Get(ctx, "divide", id)
	if err != nil {
		log.Fatal(err)
	}
	var failed *gearmonkey.JobError
	if errors.As(state.Err(), &failed) {
		fmt.Println("it failed:", failed.Message)
	}

	stop()
	if err := <-done; err != nil {
		log.Fatal(err)
	}
	// Output:
	// it failed: division by zero
}

// A scheduled job waits until it is due.
func ExampleAt() {
	server, err := qlesstest.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	client := gearmonkey.NewClient(server.Redis())
	ctx := context.Background()

	midnight := time.Date(2030, time.January, 1, 0, 0, 0, 0, time.UTC)
	id, err := client.Run(ctx, "fireworks", nil, gearmonkey.At(midnight))
	if err != nil {
		log.Fatal(err)
	}
	state, err := client.Get(ctx, "fireworks", id)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(state.Status)
	// Output:
	// idle
}

// A roll call keeps jobs out of queues without workers.
func ExampleRollCall() {
	server, err := qlesstest.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	client := gearmonkey.NewClient(server.Redis())

	_, err = client.Run(context.Background(), "resize", nil, gearmonkey.RollCall())
	if errors.Is(err, gearmonkey.ErrNoWorkers) {
		fmt.Println("no worker for resize")
	}
	// Output:
	// no worker for resize
}

// A handler reports its progress, and a client reads it.
func ExampleJob_Update() {
	server, err := qlesstest.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	client := gearmonkey.NewClient(server.Redis())
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	if _, err := client.Run(ctx, "count", nil); err != nil {
		log.Fatal(err)
	}

	worker := gearmonkey.NewWorker(client, gearmonkey.WorkerConfig{})
	worker.Accept("count", func(ctx context.Context, job *gearmonkey.Job) ([]byte, error) {
		defer stop()
		for i := range 4 {
			if err := job.Update(ctx, i+1, 4); err != nil {
				log.Print(err) // the next update replaces this one
			}
			state, err := client.Get(ctx, job.Function, job.ID) // as any client would
			if err != nil {
				return nil, err
			}
			fmt.Printf("%.0f of %.0f, %.0f %%\n", state.Dividend, state.Divisor, 100*state.Progress())
		}
		return nil, nil
	})
	if err := worker.Work(ctx); err != nil {
		log.Fatal(err)
	}
	// Output:
	// 1 of 4, 25 %
	// 2 of 4, 50 %
	// 3 of 4, 75 %
	// 4 of 4, 100 %
}

// Events report what happens to jobs.
func ExampleClient_Events() {
	server, err := qlesstest.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	client := gearmonkey.NewClient(server.Redis())
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	events, err := client.Events(context.Background(), "ping")
	if err != nil {
		log.Fatal(err)
	}
	defer events.Close()

	if _, err := client.Run(ctx, "ping", nil); err != nil {
		log.Fatal(err)
	}
	worker := gearmonkey.NewWorker(client, gearmonkey.WorkerConfig{})
	worker.Accept("ping", func(ctx context.Context, job *gearmonkey.Job) ([]byte, error) {
		stop()
		return []byte("pong"), nil
	})
	if err := worker.Work(ctx); err != nil {
		log.Fatal(err)
	}

	for event := range events.C() {
		fmt.Println(event.Kind, event.Function, event.ID)
		if event.Kind == gearmonkey.EventFinish {
			break
		}
	}
	// Output:
	// create ping 1
	// start ping 1
	// finish ping 1
}

// A sweeper requeues jobs left busy by a killed worker. After is far longer than any job takes
// between two progress updates.
func ExampleSweeper() {
	server, err := qlesstest.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	client := gearmonkey.NewClient(server.Redis())
	sweeper := gearmonkey.NewSweeper(client, gearmonkey.SweeperConfig{
		After:     time.Hour,
		Functions: []string{"resize"},
	})
	swept, err := sweeper.Sweep(context.Background()) // Run repeats this until the context ends
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("requeued:", swept)
	// Output:
	// requeued: 0
}

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
			qless.JID(fmt.Sprintf("%s-%d", job.Function, job.ID)), // a job moved twice stays one job
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
