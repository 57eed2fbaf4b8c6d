package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// operations runs single commands of one implementation, many per pipeline, to make the cost nearly
// all of the server's work. After an error, operations does nothing.
type operations struct {
	server  *server
	rdb     *redis.Client
	scripts *scripts
	payload string
	next    int64
	worker  string   // takes jobs like our worker
	poll    string   // the worker's PollInterval, in seconds
	pairs   []any    // of requests
	claim   string   // the queue with the next due job to wait for, or ""
	held    []string // jids of held jobs
	phases  []sample
	kept    int   // completed jobs to keep, if more than usual
	err     error // the first error
}

// pipelined is the number of commands per round trip.
const pipelined = 100

func (o *operations) fail(err error) {
	if o.err == nil {
		o.err = err
	}
}

// send sends count commands and returns their replies.
func (o *operations) send(ctx context.Context, count int, line func(i int) []any) []any {
	replies := make([]any, 0, count)
	for len(replies) < count && o.err == nil {
		results, err := o.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
			for i := range min(pipelined, count-len(replies)) {
				p.Do(ctx, line(len(replies)+i)...)
			}
			return nil
		})
		if err != nil && !errors.Is(err, redis.Nil) {
			o.fail(err)
		}
		for _, one := range results {
			if one.Err() != nil && !errors.Is(one.Err(), redis.Nil) {
				o.fail(one.Err())
			}
			replies = append(replies, one.(*redis.Cmd).Val())
		}
	}
	return replies
}

// measure measures do as a phase with the given number of jobs.
func (o *operations) measure(ctx context.Context, phase string, jobs int, do func()) {
	if o.err != nil {
		return
	}
	one, err := o.server.sample(ctx, phase, jobs, func() error {
		do()
		return o.err
	})
	o.phases = append(o.phases, one)
	o.err = err
}

// time measures calls as a phase with the given number of jobs, and returns the replies.
func (o *operations) time(
	ctx context.Context, phase string, jobs, calls int, line func(i int) []any,
) (replies []any) {
	o.measure(ctx, phase, jobs, func() { replies = o.send(ctx, calls, line) })
	return replies
}

// unmeasured calls do without measuring.
func (o *operations) unmeasured(do func()) {
	phases := len(o.phases)
	do()
	o.phases = o.phases[:min(phases, len(o.phases))]
}

func (o *operations) putCall() []any {
	o.next++
	return o.scripts.call("put", "w", queueName, jidOf(o.next), klass, o.payload, 0)
}

// putNew returns the call of the package for a new job.
func (o *operations) putNew() []any {
	o.next++
	return o.scripts.call("put", "w", queueName, jidOf(o.next), klass, o.payload, "0", "new", "1")
}

func (o *operations) put(ctx context.Context, jobs int) {
	o.time(ctx, "put", jobs, jobs, func(int) []any { return o.putCall() })
}

// counts queries the numbers of the queue's jobs.
func (o *operations) counts(ctx context.Context, calls int) {
	o.time(ctx, "counts", calls, calls, func(int) []any { return o.scripts.call("queues", queueName) })
}

// promote puts jobs with a delay, and pops as many jobs after the delay. Each pop first makes jobs
// ready.
func (o *operations) promote(ctx context.Context, jobs int) {
	const delay = 60
	o.time(ctx, "put, delayed", jobs, jobs, func(int) []any {
		o.next++
		return o.scripts.call("put", "w", queueName, jidOf(o.next), klass, o.payload, delay)
	})
	later := time.Now().Add(2 * delay * time.Second)
	const phase = "pop(10), delayed"
	o.hold(phase, jobs, o.time(ctx, phase, jobs, jobs/10, func(int) []any {
		return o.scripts.callAt(later, "pop", queueName, "w", 10)
	}))
}

// putMany puts jobs, bulkSize per call.
func (o *operations) putMany(ctx context.Context, jobs int) {
	o.time(ctx, fmt.Sprintf("put.many(%d)", bulkSize), jobs, jobs/bulkSize, func(int) []any {
		args := []any{"w", "1"}
		for range bulkSize {
			o.next++
			args = append(args, queueName, jidOf(o.next), klass, o.payload, "0", 0)
		}
		return o.scripts.call("put.many", args...)
	})
}

// warmUp does the work necessary once per day or queue.
func (o *operations) warmUp(ctx context.Context) {
	o.unmeasured(func() {
		o.put(ctx, 1)
		o.pop(ctx, 1, 1)
		o.complete(ctx)
	})
}

// pop pops jobs, count per call.
func (o *operations) pop(ctx context.Context, jobs, count int) {
	phase := fmt.Sprintf("pop(%d)", count)
	o.hold(phase, jobs, o.time(ctx, phase, jobs, jobs/count, func(int) []any {
		return o.scripts.call("pop", queueName, "w", count)
	}))
}

// emptyPop pops from an empty queue.
func (o *operations) emptyPop(ctx context.Context, calls int) {
	const phase = "empty pop"
	o.hold(phase, 0, o.time(ctx, phase, calls, calls, func(int) []any {
		return o.scripts.call("pop", queueName, "w", 1)
	}))
}

// hold records the jobs in the replies of pop, and fails unless their number is as requested.
func (o *operations) hold(phase string, wanted int, replies []any) {
	before := len(o.held)
	for _, reply := range replies {
		text, _ := reply.(string)
		jobs, err := decodePopped(text)
		if err != nil {
			o.fail(fmt.Errorf("%s: %w", phase, err))
		}
		for _, job := range jobs {
			o.held = append(o.held, job.JID)
		}
	}
	if got := len(o.held) - before; got != wanted {
		o.fail(fmt.Errorf("%s returned %d jobs instead of %d", phase, got, wanted))
	}
}

// heartbeat renews the lock of every held job.
func (o *operations) heartbeat(ctx context.Context) {
	o.time(ctx, "heartbeat", len(o.held), len(o.held), func(i int) []any {
		return o.scripts.call("heartbeat", o.held[i], "w")
	})
}

// complete completes every held job.
func (o *operations) complete(ctx context.Context) {
	held := o.held
	o.held = nil
	before := o.completed(ctx)
	replies := o.time(ctx, "complete", len(held), len(held), func(i int) []any {
		return o.scripts.call("complete", held[i], "w", queueName, o.payload)
	})
	for _, reply := range replies {
		if reply != "complete" {
			o.fail(fmt.Errorf("complete returned %v", reply))
		}
	}
	if after := o.completed(ctx); after != min(before+len(held), max(o.kept, keptJobs)) {
		o.fail(fmt.Errorf("%d jobs were completed, but the server has %d of %d",
			len(held), after, before+len(held)))
	}
}

func (o *operations) completed(ctx context.Context) int {
	count, err := countCompleted(ctx, o.rdb)
	o.fail(err)
	return count
}

// reserve takes jobs like our worker, count per call.
func (o *operations) reserve(ctx context.Context, jobs, count int) {
	phase := fmt.Sprintf("reserve(%d)", count)
	o.holdReserved(phase, jobs, o.time(ctx, phase, jobs, jobs/count, func(int) []any {
		return o.reserveCall(count)
	}))
}

func (o *operations) reserveCall(count int) []any {
	pairs := o.pairs
	if o.claim != "" {
		pairs = append([]any{"claim", o.claim}, pairs...)
	}
	args := append([]any{o.worker, strconv.Itoa(count), o.poll, strconv.Itoa(len(pairs))}, pairs...)
	return o.scripts.call("reserve", append(args, queueName)...)
}

// take reserves up to count jobs with one call, which must return the wanted number.
func (o *operations) take(ctx context.Context, phase string, count, wanted int) {
	o.held = nil
	o.holdReserved(phase, wanted, o.send(ctx, 1, func(int) []any { return o.reserveCall(count) }))
}

// turns reserves and finishes count jobs at a time, to limit the worker's locks.
func (o *operations) turns(ctx context.Context, jobs, count int) {
	phase := fmt.Sprintf("turn(%d)", count)
	o.measure(ctx, phase, jobs, func() {
		for left := jobs; left > 0; left -= count {
			size := min(left, count)
			o.take(ctx, phase, size, size)
			o.finishHeld(ctx, phase, size)
		}
	})
}

// reservedHead is the number of elements before the jobs in a reply of reserve.
const reservedHead = 5

// holdReserved records the jobs in the replies of reserve, and fails unless the worker holds the
// requested number.
func (o *operations) holdReserved(phase string, wanted int, replies []any) {
	if o.err != nil {
		return
	}
	for _, reply := range replies {
		parts := reply.([]any)
		o.claim = parts[2].(string)
		for i := reservedHead; i < len(parts); i++ {
			o.held = append(o.held, reservedJID(parts[i]))
		}
	}
	if len(o.held) != wanted {
		o.fail(fmt.Errorf("%s returned %d jobs instead of %d", phase, len(o.held), wanted))
	}
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

// emptyReserve asks an empty queue for jobs, like an idle worker. Only the first call makes the
// worker idle.
func (o *operations) emptyReserve(ctx context.Context, calls int) {
	const phase = "empty reserve"
	o.holdReserved(phase, len(o.held), o.time(ctx, phase, calls, calls, func(int) []any {
		return o.reserveCall(16)
	}))
}

// finish completes every held job like our worker, count per call.
func (o *operations) finish(ctx context.Context, count int) {
	phase := fmt.Sprintf("finish(%d)", count)
	o.measure(ctx, phase, len(o.held), func() { o.finishHeld(ctx, phase, count) })
}

func (o *operations) finishHeld(ctx context.Context, phase string, count int) {
	held := o.held
	o.held = nil
	replies := o.send(ctx, len(held)/count, func(i int) []any {
		args := []any{o.worker, "completed", queueName, count}
		for _, jid := range held[i*count : (i+1)*count] {
			args = append(args, jid)
		}
		return o.scripts.call("finish", args...)
	})
	for _, reply := range replies {
		if problems, ok := reply.([]any); !ok || len(problems) > 0 {
			o.fail(fmt.Errorf("%s returned %v", phase, reply))
		}
	}
}
