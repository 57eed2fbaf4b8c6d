package gearmonkey

import (
	"context"
	"errors"
	"strconv"
	"time"
)

// A Moved is a job that was taken out of its queue to be put somewhere else.
type Moved struct {
	Function string
	ID       int64
	Input    []byte

	// Priority is the queue that the job was in; empty if it was scheduled.
	Priority Priority

	// At is the time at which the job is due; zero if it was not scheduled.
	At time.Time
}

// Move takes the waiting jobs out of a function's queues, one by one in the order in which workers
// would, scheduled ones first, and passes each to put, which puts it somewhere else. It returns the
// number of jobs put when no more are waiting.
//
// No job is lost: each is moved to a separate list (move:F:high and so on), and leaves it only when
// put has returned nil. If put fails, Move returns its error unchanged. The failed job, and any
// that a killed process left in that list, come first in the next Move, and no worker gets them. A
// job may therefore be put twice: put it under an id made of its function and ID. Run one Move per
// function at a time.
//
// Jobs that workers have taken stay with them. To clients that call [Client.Get] or wait for it, a
// moved job stays idle until [Client.Finish] is called. A job that no longer exists or has ended is
// skipped.
//
// Each step is atomic. Cost: three commands per job, one round trip each.
func (c *Client) Move(
	ctx context.Context, fn string, put func(ctx context.Context, job *Moved) error,
) (int, error) {
	if err := checkFunction("move", fn); err != nil {
		return 0, err
	}
	moved := 0
	for _, queue := range []string{scheduled, string(High), string(Normal), string(Low)} {
		m := mover{client: c, fn: fn, queue: queue, put: put}
		n, err := m.all(ctx)
		moved += n
		if err != nil {
			return moved, err
		}
	}
	return moved, nil
}

// mover moves the jobs of one queue.
type mover struct {
	client *Client
	fn     string
	queue  string // high, normal, low or scheduled
	put    func(ctx context.Context, job *Moved) error
}

// moving returns the key of the jobs being moved.
func (m *mover) moving() string { return "move:" + m.fn + ":" + m.queue }

// all moves all waiting jobs, and returns the number that were put.
func (m *mover) all(ctx context.Context) (int, error) {
	for moved := 0; ; {
		text, at, found, err := m.take(ctx)
		if err != nil || !found {
			return moved, wrap("move", m.fn, 0, err)
		}
		put, err := m.one(ctx, text, at)
		if err != nil {
			return moved, err
		}
		if put {
			moved++
		}
	}
}

// one puts a job that is being moved, and reports whether it was put.
func (m *mover) one(ctx context.Context, text string, at time.Time) (bool, error) {
	id, ok := parseID(text)
	if !ok {
		return false, m.drop(ctx, text)
	}
	input, err := m.client.input(ctx, "move", m.fn, id)
	if errors.Is(err, ErrNotFound) || errors.Is(err, ErrFinished) {
		return false, m.drop(ctx, text)
	}
	if err != nil {
		return false, err
	}
	job := &Moved{Function: m.fn, ID: id, Input: input, At: at}
	if m.queue != scheduled {
		job.Priority = Priority(m.queue)
	}
	if err := m.put(ctx, job); err != nil {
		return false, err
	}
	return true, m.drop(ctx, text)
}

// takeListScript and takeScheduledScript return the first of the jobs being moved (KEYS[2]) or, if
// there are none, move the first of the queue (KEYS[1]) there and return it. Run twice, they return
// the same job.
const (
	takeListScript = `
local id = redis.call('LINDEX', KEYS[2], -1) or redis.call('RPOPLPUSH', KEYS[1], KEYS[2])
return id and {id} or {}`

	takeScheduledScript = `
local item = redis.call('ZRANGE', KEYS[2], 0, 0, 'WITHSCORES')
if not item[1] then
  item = redis.call('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES')
  if item[1] then
    redis.call('ZREM', KEYS[1], item[1])
    redis.call('ZADD', KEYS[2], item[2], item[1])
  end
end
return item`
)

// take starts moving the next job. It returns the job's id, which may be any text, and its due
// time, and reports whether there is one.
func (m *mover) take(ctx context.Context) (id string, at time.Time, found bool, err error) {
	text := takeListScript
	if m.queue == scheduled {
		text = takeScheduledScript
	}
	item, err := m.client.send(ctx, "EVAL", text, 2, queueKey(m.fn, m.queue), m.moving()).StringSlice()
	if err != nil || len(item) == 0 {
		return "", time.Time{}, false, err
	}
	if len(item) == 1 {
		return item[0], time.Time{}, true, nil
	}
	score, err := strconv.ParseFloat(item[1], 64)
	return item[0], time.Unix(int64(score), 0), true, err
}

// drop removes a job from those being moved. It is the only one, so the command may be retried.
func (m *mover) drop(ctx context.Context, text string) error {
	var err error
	if m.queue == scheduled {
		err = m.client.send(ctx, "ZREM", m.moving(), text).Err()
	} else {
		err = m.client.send(ctx, "LREM", m.moving(), 1, text).Err()
	}
	return wrap("move", m.fn, 0, err)
}
