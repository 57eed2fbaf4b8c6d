package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

//go:embed load.lua
var loadScript string

// operations runs single commands of one implementation, many per pipeline, so that their cost is
// nearly all of the server's work.
type operations struct {
	server  *server
	rdb     *redis.Client
	scripts *scripts
	payload string
	next    int64
	held    []string // jids of the jobs that the worker holds
	outcome []any    // pairs of arguments for each job that finish completes
}

// pipelined is how many commands are sent in one round trip.
const pipelined = 100

func (b *bench) operate(ctx context.Context, scripts *scripts) (*operations, error) {
	o := &operations{
		server: b.server, rdb: b.server.dial(1), scripts: scripts, payload: payloadOf(100),
	}
	return o, scripts.load(ctx, o.rdb)
}

func (o *operations) close() error { return o.rdb.Close() }

// send sends count commands and returns their replies, or the first error.
func (o *operations) send(ctx context.Context, count int, line func(i int) []any) ([]any, error) {
	replies := make([]any, 0, count)
	err := batches(count, pipelined, func(size int) error {
		results, err := o.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
			for i := range size {
				p.Do(ctx, line(len(replies)+i)...)
			}
			return nil
		})
		for _, one := range results {
			if one.Err() != nil && !errors.Is(one.Err(), redis.Nil) {
				return one.Err()
			}
			replies = append(replies, one.(*redis.Cmd).Val())
		}
		if errors.Is(err, redis.Nil) {
			return nil
		}
		return err
	})
	return replies, err
}

// time measures calls that handle the given number of jobs.
func (o *operations) time(
	ctx context.Context, phase string, jobs, calls int, line func(i int) []any,
) (sample, []any, error) {
	var replies []any
	one, err := o.server.sample(ctx, phase, jobs, func() (err error) {
		replies, err = o.send(ctx, calls, line)
		return err
	})
	return one, replies, err
}

func (o *operations) putInto(queue string) []any {
	o.next++
	return o.scripts.call("put", "w", queue, jidOf(o.next), klass, o.payload, 0)
}

func (o *operations) put(ctx context.Context, jobs int) (sample, error) {
	one, _, err := o.time(ctx, "put", jobs, jobs, func(int) []any { return o.putInto(queueName) })
	return one, err
}

// putMany puts jobs, count per call.
func (o *operations) putMany(ctx context.Context, jobs, count int) (sample, error) {
	one, _, err := o.time(ctx, fmt.Sprintf("put.many(%d)", count), jobs, jobs/count, func(int) []any {
		args := []any{"w", "1"}
		for range count {
			o.next++
			args = append(args, queueName, jidOf(o.next), klass, o.payload, "0", "0")
		}
		return o.scripts.call("put.many", args...)
	})
	return one, err
}

// warmUp does what happens only once per day or queue.
func (o *operations) warmUp(ctx context.Context) error {
	_, err := inOrder(
		func() (sample, error) { return o.put(ctx, 1) },
		func() (sample, error) { return o.pop(ctx, 1, 1) },
		func() (sample, error) { return o.complete(ctx) },
	)
	return err
}

// pop pops jobs, count per call.
func (o *operations) pop(ctx context.Context, jobs, count int) (sample, error) {
	phase := fmt.Sprintf("pop(%d)", count)
	one, replies, err := o.time(ctx, phase, jobs, jobs/count, func(int) []any {
		return o.scripts.call("pop", queueName, "w", count)
	})
	if err != nil {
		return one, err
	}
	return one, o.hold(phase, jobs, replies)
}

// hold records the jobs in the replies of pop, and fails if there are not as many as requested.
func (o *operations) hold(phase string, wanted int, replies []any) error {
	before := len(o.held)
	for _, reply := range replies {
		text, _ := reply.(string)
		jobs, err := decodePopped(text)
		if err != nil {
			return fmt.Errorf("%s: %w", phase, err)
		}
		for _, job := range jobs {
			o.held = append(o.held, job.JID)
		}
	}
	if got := len(o.held) - before; got != wanted {
		return fmt.Errorf("%s returned %d jobs instead of %d", phase, got, wanted)
	}
	return nil
}

// emptyPop pops from an empty queue.
func (o *operations) emptyPop(ctx context.Context, calls int) (sample, error) {
	one, replies, err := o.time(ctx, "empty pop", calls, calls, func(int) []any {
		return o.scripts.call("pop", queueName, "w", 1)
	})
	if err != nil {
		return one, err
	}
	return one, o.hold("empty pop", 0, replies)
}

// heartbeat renews the lock of every held job.
func (o *operations) heartbeat(ctx context.Context) (sample, error) {
	one, _, err := o.time(ctx, "heartbeat", len(o.held), len(o.held), func(i int) []any {
		return o.scripts.call("heartbeat", o.held[i], "w")
	})
	return one, err
}

// complete completes every held job.
func (o *operations) complete(ctx context.Context) (sample, error) {
	held := o.held
	o.held = nil
	before, err := countCompleted(ctx, o.rdb)
	if err != nil {
		return sample{}, err
	}
	one, replies, err := o.time(ctx, "complete", len(held), len(held), func(i int) []any {
		return o.scripts.call("complete", held[i], "w", queueName, o.payload)
	})
	if err != nil {
		return one, err
	}
	for _, reply := range replies {
		if reply != "complete" {
			return one, fmt.Errorf("complete returned %v", reply)
		}
	}
	after, err := countCompleted(ctx, o.rdb)
	if err == nil && after != min(before+len(held), keptJobs) {
		err = fmt.Errorf("%d jobs were completed, but the server has %d of %d",
			len(held), after, before+len(held))
	}
	return one, err
}

// reserve takes jobs as our worker does, count per call.
func (o *operations) reserve(
	ctx context.Context, jobs, count int, order string, queues ...string,
) (sample, error) {
	phase := fmt.Sprintf("reserve(%d)", count)
	one, replies, err := o.time(ctx, phase, jobs, jobs/count, func(i int) []any {
		return o.reserveFrom(count, order, i*count%len(queues), queues)
	})
	if err != nil {
		return one, err
	}
	return one, o.holdReserved(phase, jobs, replies)
}

func (o *operations) reserveFrom(count int, order string, cursor int, queues []string) []any {
	args := []any{"w", strconv.Itoa(count), "10", "0"}
	if order != "ordered" {
		args = []any{"w", strconv.Itoa(count), "10", "4", "order", order, "cursor", strconv.Itoa(cursor)}
	}
	for _, queue := range queues {
		args = append(args, queue)
	}
	return o.scripts.call("reserve", args...)
}

// turns reserves and finishes count jobs at a time, so that the worker never has more locks.
func (o *operations) turns(ctx context.Context, jobs, count int) (sample, error) {
	phase := fmt.Sprintf("turn(%d)", count)
	return o.server.sample(ctx, phase, jobs, func() error {
		return batches(jobs, count, func(size int) error {
			replies, err := o.send(ctx, 1, func(int) []any {
				return o.reserveFrom(size, "ordered", 0, []string{queueName})
			})
			if err != nil {
				return err
			}
			o.held = nil
			if err := o.holdReserved(phase, size, replies); err != nil {
				return err
			}
			return o.finishHeld(ctx, phase, size)
		})
	})
}

// reservedHead is how many parts of a reply of reserve precede the jobs.
const reservedHead = 5

// holdReserved records the jobs in the replies of reserve, and fails if the worker does not hold
// as many as requested.
func (o *operations) holdReserved(phase string, wanted int, replies []any) error {
	for _, reply := range replies {
		parts := reply.([]any)
		for i := reservedHead; i < len(parts); i++ {
			o.held = append(o.held, reservedJID(parts[i]))
		}
	}
	if len(o.held) != wanted {
		return fmt.Errorf("%s returned %d jobs instead of %d", phase, len(o.held), wanted)
	}
	return nil
}

// reservedJID returns the jid of a job in a reply of reserve: a text, or an array if the job has
// options.
func reservedJID(job any) string {
	if fields, ok := job.([]any); ok {
		return fields[0].(string)
	}
	jid, _, _ := strings.Cut(job.(string), "\x01")
	return jid
}

// emptyReserve asks an empty queue for jobs, as an idle worker does. Only the first call finds that
// the worker was not idle before.
func (o *operations) emptyReserve(ctx context.Context, calls int) (sample, error) {
	const phase = "empty reserve"
	o.held = nil
	one, replies, err := o.time(ctx, phase, calls, calls, func(int) []any {
		return o.reserveFrom(16, "ordered", 0, []string{queueName})
	})
	if err != nil {
		return one, err
	}
	return one, o.holdReserved(phase, 0, replies)
}

// progress says how far every held job is, as our worker does, count per call.
func (o *operations) progress(ctx context.Context, count int) (sample, error) {
	phase, calls := fmt.Sprintf("progress(%d)", count), len(o.held)/count
	one, replies, err := o.time(ctx, phase, len(o.held), calls, func(i int) []any {
		args := []any{"w"}
		for _, jid := range o.held[i*count : (i+1)*count] {
			args = append(args, jid, "", "5", "10", "half")
		}
		return o.scripts.call("progress", args...)
	})
	for _, reply := range replies {
		for _, problem := range reply.([]any) {
			if problem != "" {
				return one, fmt.Errorf("%s: %v", phase, problem)
			}
		}
	}
	return one, err
}

// finish completes every held job as our worker does, count per call.
func (o *operations) finish(ctx context.Context, count int) (sample, error) {
	phase := fmt.Sprintf("finish(%d)", count)
	return o.server.sample(ctx, phase, len(o.held), func() error {
		return o.finishHeld(ctx, phase, count)
	})
}

func (o *operations) finishHeld(ctx context.Context, phase string, count int) error {
	held := o.held
	o.held = nil
	replies, err := o.send(ctx, len(held)/count, func(i int) []any {
		args := []any{"w"}
		for _, jid := range held[i*count : (i+1)*count] {
			args = append(args, "complete", jid, queueName, "", len(o.outcome))
			args = append(args, o.outcome...)
		}
		return o.scripts.call("finish", args...)
	})
	if err != nil {
		return err
	}
	done := 0
	for _, reply := range replies {
		for _, state := range reply.([]any) {
			if state == "complete" {
				done++
			}
		}
	}
	if done != len(held) {
		return fmt.Errorf("%s completed %d of %d jobs", phase, done, len(held))
	}
	return nil
}

// fill creates waiting or completed jobs without using the measured scripts.
func (o *operations) fill(ctx context.Context, kind, queue string, jobs int) error {
	const slice = 1000
	old := fmt.Sprintf("%d.5", time.Now().Unix()-1000)
	throttles := ""
	if !o.scripts.own {
		throttles = `["ql:q:` + queue + `"]`
	}
	first := 0
	return batches(jobs, slice, func(count int) error {
		err := o.rdb.Eval(ctx, loadScript, nil,
			kind, queue, first, count, o.payload, old, throttles).Err()
		first += count
		return err
	})
}
