// Workqueue shows both ends of a redis-work-queue, and how to migrate to qless: the program adds
// items, runs some of them, and moves the rest to a qless queue.
//
//	go run ./examples/workqueue
//
// It uses the Redis server at REDIS_URL, where programs in other languages can share the queue
// "example", or an in-memory server.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/compat/workqueue"
	"github.com/qless/qless-go/examples/internal/connect"
)

// thumbnail is the data of the items.
type thumbnail struct {
	Of    string `json:"of"`
	Width int    `json:"width"`
}

// The keys of the program.
const prefix, namespace = "qless-example-workqueue", "workqueue:ql:"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Stdout); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, out io.Writer) error {
	rdb, disconnect, err := connect.Redis(out, prefix+"*", namespace+"*")
	if err != nil {
		return err
	}
	defer disconnect()
	queue := workqueue.New(prefix)
	if err := add(ctx, rdb, queue, "cat.jpg", "dog.jpg", "cat.jpg", "eel.jpg", "fox.jpg"); err != nil {
		return err
	}
	if err := workUntilDone(ctx, rdb, queue, out, 2); err != nil {
		return err
	}
	return move(ctx, rdb, queue, out)
}

// add adds an item for each picture. The name of the picture is the id, so each picture is queued
// only once at a time.
func add(ctx context.Context, rdb *redis.Client, queue *workqueue.Queue, pictures ...string) error {
	for _, picture := range pictures {
		item, err := workqueue.NewItemJSON(thumbnail{Of: picture, Width: 80})
		if err != nil {
			return err
		}
		item.ID = picture
		if _, err := queue.AddItem(ctx, rdb, item); err != nil {
			return err
		}
	}
	return nil
}

// workUntilDone runs some items, one at a time, with a cleaner beside the worker.
func workUntilDone(
	ctx context.Context, rdb *redis.Client, queue *workqueue.Queue, out io.Writer, items int,
) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	handler := workqueue.JSONHandler(func(_ context.Context, _ *workqueue.Item, t thumbnail) error {
		fmt.Fprintf(out, "worked: %s, %d pixels\n", t.Of, t.Width)
		if items--; items == 0 {
			stop()
		}
		return nil
	})
	worker := workqueue.NewWorker(rdb, queue, handler, workqueue.WorkerConfig{Concurrency: 1})
	cleaner := workqueue.NewCleaner(rdb, workqueue.CleanerConfig{LightInterval: time.Minute}, queue)
	cleaned := make(chan error, 1)
	go func() { cleaned <- cleaner.Run(ctx) }()
	return errors.Join(worker.Run(ctx), <-cleaned)
}

// move puts a job for each remaining item. The job has the id of its item: an item moved twice,
// because the program died in between, becomes one job, unless the job has run by then.
func move(ctx context.Context, rdb *redis.Client, queue *workqueue.Queue, out io.Writer) error {
	client, err := qless.New(rdb, &qless.ClientConfig{Namespace: namespace})
	if err != nil {
		return err
	}
	jobs := client.Queue("example")
	moved, err := queue.Move(ctx, rdb, func(ctx context.Context, item *workqueue.Item) error {
		_, err := jobs.Put(ctx, klass, dataOf(item), qless.JID(item.ID), qless.IfFinished)
		if errors.Is(err, qless.ErrExists) {
			return compare(ctx, client, item)
		}
		return err
	})
	if err != nil {
		return err
	}
	waiting, err := jobs.Counts(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "moved: %d; waiting in qless: %d\n", moved, waiting.Waiting)
	return nil
}

// klass is the klass of the jobs.
const klass = "Thumbnail"

// compare returns an error unless the job with the id of an item was put for the item by an earlier
// mover.
func compare(ctx context.Context, client *qless.Client, item *workqueue.Item) error {
	there, err := client.Job(ctx, item.ID)
	if err != nil {
		return err
	}
	data, err := json.Marshal(dataOf(item))
	if err == nil && (there.Klass != klass || string(there.Data) != string(data)) {
		err = fmt.Errorf("another job has the id %s", item.ID)
	}
	return err
}

// dataOf returns the data of an item's job: the item's data if JSON, or otherwise an object
// containing the data.
func dataOf(item *workqueue.Item) any {
	if json.Valid(item.Data) {
		return json.RawMessage(item.Data)
	}
	return map[string][]byte{"bytes": item.Data}
}
