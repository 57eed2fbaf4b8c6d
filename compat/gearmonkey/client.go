package gearmonkey

import (
	"context"
	"errors"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/qless/qless-go/internal/guard"
	"github.com/qless/qless-go/internal/redisx"
)

// A Client queues jobs and reads their state. It is safe for concurrent use.
type Client struct {
	rdb redis.UniversalClient
}

// NewClient returns a client that uses rdb. The caller remains responsible for closing rdb.
func NewClient(rdb redis.UniversalClient) *Client {
	return &Client{rdb: rdb}
}

// Run queues a job of a function and returns its id. Ids are counted from 1 for each function. The
// input may be any bytes. Options set when the job runs, the job's priority, and whether Run waits
// for the end of the job. See [At], [Blocking], [Priority] and [RollCall].
//
// An id of 0 means that no job was created. If Run returns both an id and an error, the job may
// have been created: [ErrTimeout], and [ErrUnavailable] wrapping the context's error, end the wait
// but not the job. After any other error, the job may be in no queue, or may have been queued
// although the reply was lost. A job is never queued twice.
//
// A waiting Run does not return the job's own error: read it with [Client.Get].
//
// The steps are not a transaction, but each step starts only after the previous step is done, so a
// queued job always has its input. Without publish permission, jobs are queued without an event.
// Cost: four commands, one round trip each; one more for a roll call and one for waiting.
func (c *Client) Run(
	ctx context.Context, fn string, input []byte, options ...RunOption,
) (int64, error) {
	if err := checkFunction("run", fn); err != nil {
		return 0, err
	}
	r, err := gather(fn, options)
	if err != nil {
		return 0, err
	}
	if r.rollCall {
		if err := c.callRoll(ctx, fn); err != nil {
			return 0, err
		}
	}
	id, err := c.send(ctx, "INCR", uidKey(fn)).Int64()
	if err != nil {
		return 0, wrap("run", fn, 0, err)
	}
	if err := c.create(ctx, fn, id, input, r); err != nil {
		return id, wrap("run", fn, id, err)
	}
	if r.blocking {
		return id, c.wait(ctx, fn, id, redisx.SecondsUp(r.timeout))
	}
	return id, nil
}

// callRoll returns an error unless a worker accepts the function.
func (c *Client) callRoll(ctx context.Context, fn string) error {
	text, err := c.send(ctx, "GET", countKey(fn)).Text()
	if errors.Is(err, redis.Nil) {
		return newError(ErrNoWorkers, "run", fn, 0, "")
	}
	if err != nil {
		return wrap("run", fn, 0, err)
	}
	count, err := strconv.ParseInt(text, 10, 64)
	switch {
	case err != nil:
		return newError(ErrNoWorkers, "run", fn, 0,
			"the count of workers is not an integer: "+strconv.Quote(text))
	case count < 1:
		return newError(ErrNoWorkers, "run", fn, 0, "")
	}
	return nil
}

// create stores a job, announces it, and queues it.
func (c *Client) create(
	ctx context.Context, fn string, id int64, input []byte, r *runOptions,
) error {
	err := c.send(ctx, "HMSET", jobKey(fn, id), "status", string(StatusIdle), "input", input).Err()
	if err != nil {
		return err
	}
	err = c.send(ctx, "PUBLISH", channelOf(fn), message(EventCreate, id)).Err()
	if err != nil && !mayNot(err) { // without publish permission, a user can still create jobs
		return err
	}
	if r.at != nil {
		return c.sendOnce(ctx, "ZADD", queueKey(fn, scheduled), unixUp(*r.at), id).Err()
	}
	return c.sendOnce(ctx, "LPUSH", queueKey(fn, string(r.priority)), id).Err()
}

// Finish ends a job that runs outside a [Worker], such as in a handler of another queue after a
// move. The status becomes success with the output or, if failure is not nil, error with the text
// of failure as the output. The job is then kept for 25 hours, and clients waiting for it are
// notified.
//
// The job need not be busy. A missing job is created. Finishing a job twice overwrites the first
// outcome. The commands are one transaction, without the event if the user may not publish. Cost:
// five commands in one round trip.
func (c *Client) Finish(
	ctx context.Context, fn string, id int64, output []byte, failure error,
) error {
	if err := checkJob("finish", fn, id); err != nil {
		return err
	}
	status, output := outcomeOf(output, failure)
	return c.end(ctx, "finish", fn, id, status, output)
}

// outcomeOf returns the status and the output for a handler's results.
func outcomeOf(output []byte, failure error) (Status, []byte) {
	if failure != nil {
		return StatusError, []byte(guard.Text(failure))
	}
	return StatusSuccess, output
}
