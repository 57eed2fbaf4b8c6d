package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/qless/qless-go"
)

// disturbances are the disturbances of a fleet.
var disturbances = []struct {
	name string
	do   func(ctx context.Context, s *server) error
}{
	{"SCRIPT FLUSH", func(ctx context.Context, s *server) error {
		return s.admin.ScriptFlush(ctx).Err()
	}},
	{"CLIENT KILL TYPE pubsub", func(ctx context.Context, s *server) error {
		return s.admin.ClientKillByFilter(ctx, "TYPE", "pubsub").Err()
	}},
	{"restart", func(_ context.Context, s *server) error {
		s.process.Restart()
		return nil
	}},
}

// restart measures the reaction of workers when their server goes away, while jobs are put one at a
// time.
func restart(ctx context.Context, b *bench, r *report) (failed error) {
	jobs := newErrands()
	f := fleet{workers: b.workers, clients: 1, queues: queueNames(1)}
	c, err := hire(ctx, b.server, f, qless.WorkerConfig{PollInterval: b.poll}, jobs.handle)
	if err != nil {
		return err
	}
	defer func() { failed = errors.Join(failed, c.dismiss()) }()
	steady, err := newCrowd(b.server, 1, qless.ClientConfig{})
	if err != nil {
		return err
	}
	defer func() { failed = errors.Join(failed, steady.dismiss()) }()
	queue := steady.clients[0].Queue(f.queues[0])
	for _, d := range disturbances {
		r.in("%s", d.name)
		jobs.waits = nil
		before, err := b.server.read(ctx)
		if err != nil {
			return err
		}
		lines, workers := c.lines.count.Load(), float64(b.workers)
		if err := d.do(ctx, b.server); err != nil {
			return err
		}
		start, settled := time.Now(), make(chan error, 1)
		go func() { settled <- c.settle(ctx) }()
		for running := true; running; {
			if err := errors.Join(jobs.run(ctx, queue), pause(ctx, 50*time.Millisecond)); err != nil {
				return fmt.Errorf("%s: %w", d.name, err)
			}
			select {
			case err = <-settled:
				running = false
			default:
			}
		}
		after, failed := b.server.read(ctx)
		if err = errors.Join(err, failed); err != nil {
			return err
		}
		if after.Connected < before.Connected { // the counter was reset
			before = reading{}
		}
		r.add("until all listen and are idle", time.Since(start).Seconds(), "s")
		r.add("server CPU until then", (after.CPU - before.CPU).Seconds(), "s")
		r.add("connections opened a worker", float64(after.Connected-before.Connected)/workers, "")
		r.add("scripts a worker", float64(after.Scripts-before.Scripts)/workers, "")
		r.add("warnings a worker", float64(c.lines.count.Load()-lines)/workers, "")
		r.add("put to handler, longest", longestOf(jobs.waits, 1), "ms")
	}
	return nil
}

// loadOnce measures the time and memory for loading the script, the longest call of a start, and
// the wait of other clients while many send the script at once.
func loadOnce(ctx context.Context, b *bench, r *report) error {
	before, err := b.scriptMemory(ctx)
	if err != nil {
		return err
	}
	began := time.Now()
	if err := b.server.admin.ScriptLoad(ctx, qless.DropInScript()).Err(); err != nil {
		return err
	}
	r.add("load", ms(time.Since(began)), "ms")
	after, err := b.scriptMemory(ctx)
	if err != nil {
		return err
	}
	r.add("memory of Lua and the text", (after-before)/1e6, "MB")
	if err := b.server.admin.ScriptFlush(ctx).Err(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() {
		ended <- each(make([]struct{}, b.workers), func(struct{}) error {
			rdb := b.server.dial(0)
			defer func() { _ = rdb.Close() }()
			return rdb.Eval(ctx, qless.DropInScript(), nil, "length", "", "q").Err()
		})
	}()
	var longest time.Duration
	for {
		began := time.Now()
		if err := b.server.admin.Ping(ctx).Err(); err != nil {
			return err
		}
		longest = max(longest, time.Since(began))
		select {
		case err := <-ended:
			r.add("others waited, while many sent it", ms(longest), "ms")
			return err
		default:
		}
	}
}

// scriptMemory returns the memory of the server's scripts, in bytes.
func (b *bench) scriptMemory(ctx context.Context) (float64, error) {
	text, err := b.server.admin.Info(ctx, "memory").Result()
	if err != nil {
		return 0, err
	}
	lua, err := infoNumber(text, "used_memory_vm_eval")
	if err != nil {
		return 0, err
	}
	texts, err := infoNumber(text, "used_memory_scripts_eval")
	return lua + texts, err
}
