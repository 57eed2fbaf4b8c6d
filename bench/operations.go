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

// operations runs single commands of one implementation, many per pipeline, so that their cost is
// nearly all of the server's work. After an error, it does nothing.
type operations struct {
	ctx     context.Context
	server  *server
	rdb     *redis.Client
	scripts *scripts
	payload string
	next    int64
	held    []string // jids of the jobs that the worker holds
	outcome []any    // pairs of arguments for each job that is finished
	phases  []sample
	kept    int   // completed jobs to keep, if more than usual
	err     error // the first error
}

//go:embed load.lua
var loadScript string

// pipelined is the number of commands per round trip.
const pipelined = 100

func (o *operations) fail(err error) {
	if o.err == nil {
		o.err = err
	}
}

// send sends count commands and returns their replies.
func (o *operations) send(count int, line func(i int) []any) []any {
	replies := make([]any, 0, count)
	for len(replies) < count && o.err == nil {
		results, err := o.rdb.Pipelined(o.ctx, func(p redis.Pipeliner) error {
			for i := range min(pipelined, count-len(replies)) {
				p.Do(o.ctx, line(len(replies)+i)...)
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
func (o *operations) measure(phase string, jobs int, do func()) {
	if o.err != nil {
		return
	}
	one, err := o.server.sample(o.ctx, phase, jobs, func() error {
		do()
		return o.err
	})
	o.phases = append(o.phases, one)
	o.err = err
}

// time measures calls as a phase with the given number of jobs, and returns the replies.
func (o *operations) time(phase string, jobs, calls int, line func(i int) []any) (replies []any) {
	o.measure(phase, jobs, func() { replies = o.send(calls, line) })
	return replies
}

// unmeasured calls do without measuring it.
func (o *operations) unmeasured(do func()) {
	phases := len(o.phases)
	do()
	o.phases = o.phases[:min(phases, len(o.phases))]
}

func (o *operations) putCall() []any {
	o.next++
	return o.scripts.call("put", "w", queueName, jidOf(o.next), klass, o.payload, 0)
}

func (o *operations) put(jobs int) {
	o.time("put", jobs, jobs, func(int) []any { return o.putCall() })
}

// counts queries the numbers of the queue's jobs.
func (o *operations) counts(calls int) {
	o.time("counts", calls, calls, func(int) []any { return o.scripts.call("queues", queueName) })
}

// promote puts jobs with a delay, and pops as many after the delay. Each pop first makes jobs
// ready.
func (o *operations) promote(jobs int) {
	const delay = 60
	o.time("put, delayed", jobs, jobs, func(int) []any {
		o.next++
		return o.scripts.call("put", "w", queueName, jidOf(o.next), klass, o.payload, delay)
	})
	later := time.Now().Add(2 * delay * time.Second)
	const phase = "pop(10), delayed"
	o.hold(phase, jobs, o.time(phase, jobs, jobs/10, func(int) []any {
		return o.scripts.callAt(later, "pop", queueName, "w", 10)
	}))
}

// putMany puts jobs, bulkSize per call. pairs returns the pairs of arguments for each.
func (o *operations) putMany(jobs int, pairs func(n int64) []any) {
	o.time(fmt.Sprintf("put.many(%d)", bulkSize), jobs, jobs/bulkSize, func(int) []any {
		args := []any{"w", "1"}
		for range bulkSize {
			o.next++
			more := pairs(o.next)
			args = append(args, queueName, jidOf(o.next), klass, o.payload, "0", len(more))
			args = append(args, more...)
		}
		return o.scripts.call("put.many", args...)
	})
}

// plain returns no pairs, for jobs without options.
func plain(int64) []any { return nil }

// warmUp does the work that is done once per day or queue.
func (o *operations) warmUp() {
	o.unmeasured(func() {
		o.put(1)
		o.pop(1, 1)
		o.complete()
	})
}

// pop pops jobs, count per call.
func (o *operations) pop(jobs, count int) {
	phase := fmt.Sprintf("pop(%d)", count)
	o.hold(phase, jobs, o.time(phase, jobs, jobs/count, func(int) []any {
		return o.scripts.call("pop", queueName, "w", count)
	}))
}

// emptyPop pops from an empty queue.
func (o *operations) emptyPop(calls int) {
	const phase = "empty pop"
	o.hold(phase, 0, o.time(phase, calls, calls, func(int) []any {
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
func (o *operations) heartbeat() {
	o.time("heartbeat", len(o.held), len(o.held), func(i int) []any {
		return o.scripts.call("heartbeat", o.held[i], "w")
	})
}

// complete completes every held job.
func (o *operations) complete() {
	held := o.held
	o.held = nil
	before := o.completed()
	replies := o.time("complete", len(held), len(held), func(i int) []any {
		return o.scripts.call("complete", held[i], "w", queueName, o.payload)
	})
	for _, reply := range replies {
		if reply != "complete" {
			o.fail(fmt.Errorf("complete returned %v", reply))
		}
	}
	if after := o.completed(); after != min(before+len(held), max(o.kept, keptJobs)) {
		o.fail(fmt.Errorf("%d jobs were completed, but the server has %d of %d",
			len(held), after, before+len(held)))
	}
}

func (o *operations) completed() int {
	count, err := countCompleted(o.ctx, o.rdb)
	o.fail(err)
	return count
}

// reserve takes jobs like our worker, count per call.
func (o *operations) reserve(jobs, count int) {
	phase := fmt.Sprintf("reserve(%d)", count)
	o.holdReserved(phase, jobs, o.time(phase, jobs, jobs/count, func(int) []any {
		return o.reserveCall(count)
	}))
}

func (o *operations) reserveCall(count int) []any {
	return o.scripts.call("reserve", "w", strconv.Itoa(count), "10", "0", queueName)
}

// turns reserves and finishes count jobs at a time, so that the worker never has more locks.
func (o *operations) turns(jobs, count int) {
	phase := fmt.Sprintf("turn(%d)", count)
	o.measure(phase, jobs, func() {
		for left := jobs; left > 0; left -= count {
			size := min(left, count)
			o.held = nil
			o.holdReserved(phase, size, o.send(1, func(int) []any { return o.reserveCall(size) }))
			o.finishHeld(phase, size)
		}
	})
}

// reservedHead is the number of elements before the jobs in a reply of reserve.
const reservedHead = 5

// holdReserved records the jobs in the replies of reserve, and fails unless the worker holds as
// many as requested.
func (o *operations) holdReserved(phase string, wanted int, replies []any) {
	if o.err != nil {
		return
	}
	for _, reply := range replies {
		parts := reply.([]any)
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
func (o *operations) emptyReserve(calls int) {
	const phase = "empty reserve"
	o.held = nil
	o.holdReserved(phase, 0, o.time(phase, calls, calls, func(int) []any {
		return o.reserveCall(16)
	}))
}

// progress reports the progress of every held job like our worker, count per call.
func (o *operations) progress(count int) {
	phase, calls := fmt.Sprintf("progress(%d)", count), len(o.held)/count
	replies := o.time(phase, len(o.held), calls, func(i int) []any {
		args := []any{"w"}
		for _, jid := range o.held[i*count : (i+1)*count] {
			args = append(args, jid, "", "5", "10", "half")
		}
		return o.scripts.call("progress", args...)
	})
	for _, reply := range replies {
		problems, _ := reply.([]any)
		for _, problem := range problems {
			if problem != "" {
				o.fail(fmt.Errorf("%s: %v", phase, problem))
			}
		}
	}
}

// finish completes every held job like our worker, count per call.
func (o *operations) finish(count int) {
	phase := fmt.Sprintf("finish(%d)", count)
	o.measure(phase, len(o.held), func() { o.finishHeld(phase, count) })
}

func (o *operations) finishHeld(phase string, count int) {
	held := o.held
	o.held = nil
	replies := o.send(len(held)/count, func(i int) []any {
		args := []any{"w"}
		for _, jid := range held[i*count : (i+1)*count] {
			args = append(args, "complete", jid, queueName, "", len(o.outcome))
			args = append(args, o.outcome...)
		}
		return o.scripts.call("finish", args...)
	})
	done := 0
	for _, reply := range replies {
		states, _ := reply.([]any)
		for _, state := range states {
			if state == "complete" {
				done++
			}
		}
	}
	if done != len(held) {
		o.fail(fmt.Errorf("%s completed %d of %d jobs", phase, done, len(held)))
	}
}

// fill creates waiting, scheduled, failed or completed jobs without using the measured scripts.
func (o *operations) fill(kind, queue string, jobs int) {
	throttles := ""
	if !o.scripts.own {
		throttles = `["ql:q:` + queue + `"]`
	}
	if kind == "completed" && jobs > keptJobs {
		o.kept = 2 * jobs
		o.send(1, func(int) []any { return o.scripts.call("config.set", "jobs-history-count", o.kept) })
	}
	if o.err == nil {
		o.fail(loadJobs(o.ctx, o.rdb, kind, queue, failedGroup, o.payload, throttles, 0, jobs))
	}
}

// loadJobs creates jobs with load.lua in batches, numbered from first.
func loadJobs(
	ctx context.Context, rdb *redis.Client, kind, queue, group, data, throttles string,
	first, jobs int,
) error {
	const slice = 1000
	old := fmt.Sprintf("%d.5", time.Now().Unix()-1000)
	for end := first + jobs; first < end; first += slice {
		err := rdb.Eval(ctx, loadScript, nil,
			kind, queue, first, min(slice, end-first), data, old, throttles, group).Err()
		if err != nil {
			return err
		}
	}
	return nil
}
