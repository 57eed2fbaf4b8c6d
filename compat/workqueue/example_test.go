package workqueue_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"time"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/compat/workqueue"
	"github.com/qless/qless-go/qlesstest"
)

// The examples use an in-memory server. With a real one, create rdb with redis.NewClient.
func Example() {
	ctx := context.Background()
	server, err := qlesstest.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	rdb := server.Redis()
	queue := workqueue.New("thumbnails")

	item := workqueue.Item{ID: "cat", Data: []byte("cat.jpg")}
	for range 2 {
		added, err := queue.AddItem(ctx, rdb, item)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("added:", added)
	}

	leased, err := queue.Lease(ctx, rdb, true, 0, time.Minute)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("leased: %s, %s\n", leased.ID, leased.Data)
	for range 2 {
		first, err := queue.Complete(ctx, rdb, leased)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("completed:", first)
	}
	// Output:
	// added: true
	// added: false
	// leased: cat, cat.jpg
	// completed: true
	// completed: false
}

// To run an item at most once, complete it first, and run it only if this call completed it. If the
// program dies meanwhile, the item is lost.
func ExampleQueue_Complete_atMostOnce() {
	ctx := context.Background()
	server, err := qlesstest.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	rdb, queue := server.Redis(), workqueue.New("payments")
	if err := queue.AddUniqueItem(ctx, rdb, workqueue.NewItem([]byte("7 EUR"))); err != nil {
		log.Fatal(err)
	}

	for {
		item, err := queue.Lease(ctx, rdb, false, 0, time.Minute)
		if err != nil {
			log.Fatal(err)
		}
		if item == nil {
			break
		}
		first, err := queue.Complete(ctx, rdb, item)
		if err != nil {
			log.Fatal(err)
		}
		if first {
			fmt.Printf("pay %s\n", item.Data)
		}
	}
	// Output:
	// pay 7 EUR
}

// Several items are added in one round trip.
func ExampleQueue_AddItemToPipeline() {
	ctx := context.Background()
	server, err := qlesstest.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	rdb, queue := server.Redis(), workqueue.New("thumbnails")

	pipe := rdb.Pipeline()
	cat := queue.AddItemToPipeline(ctx, pipe, workqueue.Item{ID: "cat"})
	again := queue.AddItemToPipeline(ctx, pipe, workqueue.Item{ID: "cat"})
	queue.AddUniqueItemToPipeline(ctx, pipe, workqueue.Item{ID: "dog"})
	if _, err := pipe.Exec(ctx); err != nil {
		log.Fatal(err)
	}
	fmt.Println(cat.Val(), again.Val())
	counts, err := queue.Counts(ctx, rdb)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%+v\n", counts)
	// Output:
	// true false
	// {Processing:0 Queued:2}
}

// A worker runs its handler for each item, here with JSON data, until it is stopped.
func ExampleWorker() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	server, err := qlesstest.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	rdb, queue := server.Redis(), workqueue.New("thumbnails")

	type thumbnail struct {
		Of    string
		Width int
	}
	item, err := workqueue.NewItemJSON(thumbnail{"cat.jpg", 80})
	if err != nil {
		log.Fatal(err)
	}
	if _, err := queue.AddItem(ctx, rdb, item); err != nil {
		log.Fatal(err)
	}
	handler := func(ctx context.Context, item *workqueue.Item, t thumbnail) error {
		fmt.Printf("%s, %d pixels\n", t.Of, t.Width)
		stop()
		return nil
	}
	worker := workqueue.NewWorker(rdb, queue, workqueue.JSONHandler(handler), workqueue.WorkerConfig{
		Concurrency: 1,
		Lease:       30 * time.Second,
	})
	if err := worker.Run(ctx); err != nil {
		log.Fatal(err)
	}
	// Output:
	// cat.jpg, 80 pixels
}

// The item of a dead worker is requeued by the first cleaning after lease expiry.
func ExampleQueue_LightClean() {
	ctx := context.Background()
	server, err := qlesstest.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	rdb, queue := server.Redis(), workqueue.New("thumbnails")
	if _, err := queue.AddItem(ctx, rdb, workqueue.Item{ID: "cat"}); err != nil {
		log.Fatal(err)
	}
	if _, err := queue.Lease(ctx, rdb, false, 0, time.Minute); err != nil {
		log.Fatal(err)
	}

	for range 2 {
		cleaned, err := queue.LightClean(ctx, rdb)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("requeued:", cleaned.Reset)
		rdb.Del(ctx, "thumbnails:lease:cat") // as if a minute had passed
	}
	// Output:
	// requeued: []
	// requeued: [cat]
}

// Each process can have its own cleaner.
func ExampleCleaner() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	server, err := qlesstest.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	rdb, queue := server.Redis(), workqueue.New("thumbnails")
	rdb.Set(ctx, "thumbnails:item:lost", "in no list", 0)

	cleaner := workqueue.NewCleaner(rdb, workqueue.CleanerConfig{
		DeepInterval:  6 * time.Hour,
		LightInterval: time.Minute,
		Logger:        slog.New(slog.DiscardHandler),
	}, queue)
	done := make(chan error)
	go func() { done <- cleaner.Run(ctx) }()

	item, err := queue.Lease(ctx, rdb, true, 0, time.Minute)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(item.ID)
	stop()
	fmt.Println(<-done)
	// Output:
	// lost
	// <nil>
}

// Items become qless jobs with the ids of the items as jids. If an item is moved twice, because the
// mover died at the wrong moment, the second put finds the existing job, unless the job has run. A
// job with other data was not put for the item.
func ExampleQueue_Move() {
	ctx := context.Background()
	server, err := qlesstest.Start()
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	rdb, queue := server.Redis(), workqueue.New("thumbnails")
	for _, id := range []string{"cat", "dog"} {
		if _, err := queue.AddItem(ctx, rdb, workqueue.Item{ID: id, Data: []byte(`{"width":80}`)}); err != nil {
			log.Fatal(err)
		}
	}

	jobs := server.Client().Queue("thumbnails")
	moved, err := queue.Move(ctx, rdb, func(ctx context.Context, item *workqueue.Item) error {
		_, err := jobs.Put(ctx, "Thumbnail", json.RawMessage(item.Data), qless.JID(item.ID),
			qless.IfFinished)
		if errors.Is(err, qless.ErrExists) {
			if job, err := server.Client().Job(ctx, item.ID); err == nil && bytes.Equal(job.Data, item.Data) {
				return nil
			}
		}
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("moved:", moved)
	popped, err := jobs.Pop(ctx, 10)
	if err != nil {
		log.Fatal(err)
	}
	for _, job := range popped {
		fmt.Println(job.JID, string(job.Data))
	}
	// Output:
	// moved: 2
	// cat {"width":80}
	// dog {"width":80}
}
