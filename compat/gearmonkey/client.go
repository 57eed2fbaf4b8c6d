package gearmonkey

import (
	"context"
	"errors"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/qless/qless-go/internal/redisx"
)

// A Client queues jobs and reads what became of them. It may be used from any goroutine.
type Client struct {
	rdb redis.UniversalClient
}

// NewClient returns a client on a Redis connection, which stays the caller's to close.
func NewClient(rdb redis.UniversalClient) *Client {
	return &Client{rdb: rdb}
}

// Run queues a job of a function and returns its id, counted from 1 for each function. The
// input is any bytes. Options say when and how urgently it is worked, and whether the run
// waits for its end. See [At], [Blocking], [Priority] and [RollCall].
//
// An id of 0 means that there is no job. An id beside an error means that there is one, as
// far as it came: [ErrTimeout] and, when the context ended, [ErrUnavailable] with the
// context's error beneath end the waiting and not the job. Any other error may have left a
// job that is in no queue, or is in one although the answer was lost; it is never queued twice.
//
// A waiting run returns no error for a job that ended with one: read it by [Client.Get].
//
// The steps are no transaction, but each is taken when the one before it is done: a job
// that is in a queue has its input. Cost: four commands, each a round trip; one more for a
// roll call, one for waiting.
func (c *Client) Run(ctx context.Context, fn string, input []byte, options ...RunOption) (int64, error) {
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

// callRoll errors unless a worker accepts a function.
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
		return newError(ErrNoWorkers, "run", fn, 0, "the count of workers is no whole number: "+strconv.Quote(text))
	case count < 1:
		return newError(ErrNoWorkers, "run", fn, 0, "")
	}
	return nil
}

// create stores a job, tells of it, and queues it.
func (c *Client) create(ctx context.Context, fn string, id int64, input []byte, r *runOptions) error {
	err := c.send(ctx, "HMSET", jobKey(fn, id), "status", string(StatusIdle), "input", input).Err()
	if err != nil {
		return err
	}
	if err := c.send(ctx, "PUBLISH", channelOf(fn), told(EventCreate, id)).Err(); err != nil {
		return err
	}
	if r.at != nil {
		return c.sendOnce(ctx, "ZADD", queueKey(fn, scheduled), unixUp(*r.at), id).Err()
	}
	return c.sendOnce(ctx, "LPUSH", queueKey(fn, string(r.priority)), id).Err()
}

// Finish ends a job for whoever works it without a [Worker], such as a handler of another
// queue that it was moved to: its status is success with an output or, when failure is not
// nil, error with that error's text. It is kept for 25 hours from then, and whoever waits
// for it is told.
//
// The job need not be busy, and need not exist: then it does so afterwards. Ending it twice
// stores the second outcome. The commands are no transaction. Cost: five commands in one
// round trip.
func (c *Client) Finish(ctx context.Context, fn string, id int64, output []byte, failure error) error {
	if err := checkJob("finish", fn, id); err != nil {
		return err
	}
	status, output := outcomeOf(output, failure)
	return c.end(ctx, "finish", fn, id, status, output)
}

// outcomeOf returns the status and the output of a job that returned something.
func outcomeOf(output []byte, failure error) (Status, []byte) {
	if failure != nil {
		return StatusError, []byte(failure.Error())
	}
	return StatusSuccess, output
}
