// Gearmonkey shows the GearMonkey protocol: a client runs jobs, waits for one job and watches the
// others, while three workers run the jobs.
//
//	go run ./examples/gearmonkey
//
// The program uses the Redis server at REDIS_URL, where programs in any language can take part with
// plain Redis commands, or an in-memory server.
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

	"github.com/qless/qless-go/compat/gearmonkey"
	"github.com/qless/qless-go/examples/internal/connect"
)

// function is the function called by the jobs.
const function = "qless-example-shout"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Stdout)
	stop()
	if err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, out io.Writer) error {
	rdb, disconnect, err := connect.Redis(out, "*:"+function+"*")
	if err != nil {
		return err
	}
	defer disconnect()
	client := gearmonkey.NewClient(rdb)

	stopWorkers := startWorkers(ctx, client, 3)
	err = runJobs(ctx, out, client)
	return errors.Join(err, stopWorkers())
}

// startWorkers starts workers, and returns a function that stops them.
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

// shout is a handler. It reports the progress after each letter.
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

// runJobs queues some jobs in different ways, and prints their outcomes.
func runJobs(ctx context.Context, out io.Writer, client *gearmonkey.Client) error {
	events, err := client.Events(ctx, function)
	if err != nil {
		return err
	}
	defer events.Close()

	urgent, err := client.Run(ctx, function, []byte("now!"),
		gearmonkey.High, gearmonkey.Blocking(time.Minute))
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

// awaitAll waits until all of the jobs have ended. A gap in the events is an error, because the end
// of a job may have been missed.
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
	_, err = fmt.Fprintf(out, "%q: %s, %q, %.0f %% done\n",
		state.Input, state.Status, state.Output, 100*state.Progress())
	return err
}
