package qless_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

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

// A program lets a worker do something, and needs the result.
func ExampleResultAs() {
	server, err := qlesstest.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	client := server.Client()
	worker, err := qless.NewWorker(client, qless.WorkerConfig{Queues: []string{"numbers"}})
	if err != nil {
		log.Fatal(err)
	}
	worker.Handle("Square", qless.TypedResult(
		func(ctx context.Context, job *qless.Job, n int) (int, error) {
			return n * n, nil
		}))
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := worker.Start(ctx); err != nil {
		log.Fatal(err)
	}
	defer worker.Stop(ctx)

	square, err := qless.ResultAs[int](client.Queue("numbers").Call(ctx, "Square", 12))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(square)
	// Output:
	// 144
}

// A call that no worker answers in time withdraws its job.
func ExampleQueue_Call() {
	server, err := qlesstest.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	queue := server.Client().Queue("numbers")
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()

	_, err = queue.Call(ctx, "Square", 12)
	var failure *qless.Error
	if errors.As(err, &failure) {
		fmt.Println("withdrawn:", failure.Withdrawn)
	}
	counts, err := queue.Counts(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("waiting:", counts.Waiting)
	// Output:
	// withdrawn: true
	// waiting: 0
}

// A program waits for a job, and shows its progress.
func ExampleJob_SetProgress() {
	server, err := qlesstest.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	client := server.Client()
	worker, err := qless.NewWorker(client, qless.WorkerConfig{Queues: []string{"films"}})
	if err != nil {
		log.Fatal(err)
	}
	worker.Handle("Render", func(ctx context.Context, job *qless.Job) error {
		// Render the film, scene by scene.
		return job.SetProgress(ctx, 12, 12, "the last scene")
	})
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	jid, err := client.Queue("films").Put(ctx, "Render", nil)
	if err != nil {
		log.Fatal(err)
	}
	if err := worker.Start(ctx); err != nil {
		log.Fatal(err)
	}
	defer worker.Stop(ctx)
	if _, err := client.Wait(ctx, jid, qless.OnProgress(func(p qless.Progress) {
		log.Printf("%d of %d: %s", p.Done, p.Total, p.Note)
	})); err != nil {
		log.Fatal(err)
	}
	job, err := client.Job(ctx, jid)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(job.State, job.Progress.Done, "of", job.Progress.Total, job.Progress.Note)
	// Output:
	// complete 12 of 12 the last scene
}

// A job adds up the counts of other jobs.
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
	batch, err := client.NewBatch(ctx, "sums", qless.JobSpec{Klass: "Sum", Data: members})
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
	result, err := client.Wait(ctx, batch.ID)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(string(result.Data))
	// Output:
	// 8
}
