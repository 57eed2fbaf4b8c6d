// Gearmonkey shows the GearMonkey protocol: a client runs jobs, waits for one of them, and
// watches the others, while workers work them.
//
//	go run ./examples/gearmonkey
//
// It uses the Redis of REDIS_URL, or an in-memory one when there is none. There, programs of
// any language can take part by plain Redis commands.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/qless/qless-go/compat/gearmonkey"
	"github.com/qless/qless-go/qlesstest"
)

// function is what the jobs call.
const function = "example-shout"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Stdout)
	stop()
	if err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, out io.Writer) error {
	rdb, disconnect, err := connect()
	if err != nil {
		return err
	}
	defer disconnect()
	client := gearmonkey.NewClient(rdb)

	stopWorkers := startWorkers(ctx, client, 3)
	err = runJobs(ctx, out, client)
	return errors.Join(err, stopWorkers())
}

// connect returns a client of the Redis of REDIS_URL, or of one in memory, and how to end it.
func connect() (*redis.Client, func(), error) {
	address := os.Getenv("REDIS_URL")
	if address == "" {
		server, err := qlesstest.Start()
		if err != nil {
			return nil, nil, err
		}
		return server.Redis(), server.Close, nil
	}
	options, err := redis.ParseURL(address)
	if err != nil {
		return nil, nil, err
	}
	rdb := redis.NewClient(options)
	return rdb, func() { _ = rdb.Close() }, nil
}

// startWorkers starts some workers, and returns how to stop them.
func startWorkers(ctx context.Context, client *gearmonkey.Client, count int) func() error {
	worker := gearmonkey.NewWorker(client, gearmonkey.WorkerConfig{})
	worker.Accept(function, shout)
	ctx, cancel := context.WithCancel(ctx)
	errs := make([]error, count)
	var group sync.WaitGroup
	for i := range count {
		group.Go(func() { errs[i] = worker.Work(ctx) })
	}
	return func() error {
		cancel()
		group.Wait()
		return errors.Join(errs...)
	}
}

// shout is a handler. It tells how far it is after each letter.
func shout(ctx context.Context, job *gearmonkey.Job) ([]byte, error) {
	if len(job.Input) == 0 {
		return nil, errors.New("there is nothing to shout")
	}
	var output []byte
	for i, letter := range job.Input {
		output = append(output, bytes.ToUpper([]byte{letter})...)
		if err := job.Update(ctx, i+1, len(job.Input)); err != nil {
			return nil, err
		}
	}
	return output, nil
}

// runJobs queues some jobs in different ways and prints what becomes of them.
func runJobs(ctx context.Context, out io.Writer, client *gearmonkey.Client) error {
	events, err := client.Events(ctx, function)
	if err != nil {
		return err
	}
	defer events.Close()

	urgent, err := client.Run(ctx, function, []byte("now!"), gearmonkey.High, gearmonkey.Blocking(time.Minute))
	if err != nil {
		return err
	}
	if err := report(ctx, out, client, urgent); err != nil {
		return err
	}

	var ids []int64
	for _, input := range []string{"one", "two", ""} {
		id, err := client.Run(ctx, function, []byte(input))
		if err != nil {
			return err
		}
		ids = append(ids, id)
	}
	due := time.Now().Add(time.Second)
	id, err := client.Run(ctx, function, []byte("a second later"), gearmonkey.At(due))
	if err != nil {
		return err
	}
	ids = append(ids, id)

	if err := awaitAll(ctx, events, append(ids, urgent)); err != nil {
		return err
	}
	for _, id := range ids {
		if err := report(ctx, out, client, id); err != nil {
			return err
		}
	}
	return nil
}

// awaitAll returns when all of some jobs have ended. A gap in the events ends it too: then
// nobody would tell.
func awaitAll(ctx context.Context, events *gearmonkey.Events, ids []int64) error {
	left := map[int64]bool{}
	for _, id := range ids {
		left[id] = true
	}
	for len(left) > 0 {
		event, ok := <-events.C()
		switch {
		case !ok:
			return context.Cause(ctx)
		case event.Kind == gearmonkey.EventGap:
			return errors.New("the connection broke")
		case event.Kind == gearmonkey.EventFinish:
			delete(left, event.ID)
		}
	}
	return nil
}

func report(ctx context.Context, out io.Writer, client *gearmonkey.Client, id int64) error {
	state, err := client.Get(ctx, function, id)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%q: %s, %q, %.0f %% done\n", state.Input, state.Status, state.Output, 100*state.Progress())
	return err
}
