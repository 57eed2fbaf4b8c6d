// Mixed shows a job put without this package: like the qless clients for Ruby, Python and PHP, the
// program has only the drop-in script, and calls the script in the same way. A worker in Go takes
// the job within milliseconds.
//
//	go run ./examples/mixed
//
// The program uses an in-memory Redis, because such clients can't choose a namespace.
package main

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/qlesstest"
)

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	server, err := qlesstest.Start()
	if err != nil {
		return err
	}
	defer server.Close()
	rdb := server.Redis()
	client, err := qless.New(rdb, nil)
	if err != nil {
		return err
	}
	worker, err := qless.NewWorker(client, qless.WorkerConfig{Queues: []string{"thumbnails"}})
	if err != nil {
		return err
	}
	done := make(chan string, 1)
	type image struct{ File string }
	thumbnail := func(ctx context.Context, job *qless.Job, data image) error {
		done <- data.File
		return nil
	}
	worker.Handle("Image::Thumbnail", qless.Typed(thumbnail))
	if err := worker.Start(ctx); err != nil {
		return err
	}
	if err := putAsRuby(ctx, rdb); err != nil {
		return err
	}
	select {
	case file := <-done:
		fmt.Println("a Go worker made a thumbnail of", file)
	case <-ctx.Done():
		return ctx.Err()
	}
	return worker.Stop(ctx)
}

// putAsRuby puts a job like the Ruby gem: EVALSHA sha 0 COMMAND NOW ARG...
func putAsRuby(ctx context.Context, rdb *redis.Client) error {
	sha, err := rdb.ScriptLoad(ctx, qless.DropInScript()).Result()
	if err != nil {
		return err
	}
	now := float64(time.Now().UnixMicro()) / 1e6
	jid, err := rdb.EvalSha(ctx, sha, nil, "put", now, "ruby-host-4711", "thumbnails",
		"0123456789abcdef0123456789abcdef", "Image::Thumbnail", `{"file":"cat.png"}`, 0).Result()
	if err != nil {
		return err
	}
	fmt.Println("a Ruby client put", jid)
	return nil
}
