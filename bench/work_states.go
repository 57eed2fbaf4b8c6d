package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/qless/qless-go"
)

// A state is a state of jobs on the server.
type state struct {
	name    string
	options func(i int) []qless.PutOption
	after   func(ctx context.Context, job *qless.Job) error // called with each popped job
}

// putOnly returns the same options for each job, in the form for fill.
func putOnly(options ...qless.PutOption) func(int) []qless.PutOption {
	return func(int) []qless.PutOption { return options }
}

var jobStates = []state{
	{name: "waiting"},
	{name: "waiting, tagged", options: putOnly(qless.Tags{"tag"})},
	{name: "waiting, with a unique key", options: func(i int) []qless.PutOption {
		return []qless.PutOption{qless.Unique("key", i)}
	}},
	{name: "scheduled", options: putOnly(qless.Delay(time.Hour))},
	{name: "dependent", options: func(i int) []qless.PutOption {
		if i == 0 {
			return []qless.PutOption{qless.JID("first")}
		}
		return []qless.PutOption{qless.DependsOn{"first"}}
	}},
	{name: "running", after: func(context.Context, *qless.Job) error { return nil }},
	{name: "failed", after: func(ctx context.Context, job *qless.Job) error {
		return job.Fail(ctx, "failed", "it failed")
	}},
	{name: "complete", after: func(ctx context.Context, job *qless.Job) error {
		return job.Complete(ctx)
	}},
}

// states measures the memory of jobs in each state.
func states(ctx context.Context, b *bench, r *report) error {
	c, err := newCrowd(b.server, 1, qless.ClientConfig{})
	if err != nil {
		return err
	}
	defer func() { _ = c.dismiss() }()
	for _, state := range jobStates {
		memory, err := b.weigh(ctx, c.clients[0], state)
		if err != nil {
			return fmt.Errorf("%s: %w", state.name, err)
		}
		r.in("%s", state.name)
		r.add("memory of a job", float64(memory)/float64(b.jobs), "B")
	}
	return nil
}

func (b *bench) weigh(ctx context.Context, client *qless.Client, state state) (int64, error) {
	if err := b.server.empty(ctx); err != nil {
		return 0, err
	}
	err := errors.Join(
		client.Config().Set(ctx, "jobs-history-count", 2*b.jobs),
		client.Config().Set(ctx, "heartbeat", time.Hour.Seconds()),
	)
	if err != nil {
		return 0, err
	}
	return b.server.weigh(ctx, func() error {
		queue := client.Queue("states")
		if err := fill(ctx, queue, b.jobs, state.options); err != nil || state.after == nil {
			return err
		}
		for left := b.jobs; left > 0; {
			taken, err := queue.Pop(ctx, min(inBulk, left))
			if err != nil {
				return err
			}
			left -= len(taken)
			err = parallel(16, len(taken), func(i int) error { return state.after(ctx, taken[i]) })
			if err != nil {
				return err
			}
		}
		return nil
	})
}
