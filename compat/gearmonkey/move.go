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

	// Priority is the queue that it was in; empty when it was scheduled.
	Priority Priority

	// At is when it is due; zero when it was not scheduled.
	At time.Time
}

// Move takes the jobs that wait in a function's queues, one by one in the order in which
// workers would, scheduled ones first, and gives each to a function that puts it somewhere
// else. It returns how many were put, when there are no more.
//
// No job is lost: it is taken into a list of its own (move:F:high and so on), and leaves
// that only when put has returned nil. When put fails, Move returns its error as it is; the
// job and what else a killed process left there are the first of the next Move, and no
// worker gets them. So a job may be put twice: put it under an id made of its function and
// ID. One Move of a function at a time.
//
// Jobs that workers have are left to them. A moved job stays idle to those who ask by
// [Client.Get] or wait for it, until somebody calls [Client.Finish]. A job that is gone is
// passed over.
//
// Each step is atomic. Cost: three commands for each job, each a round trip.
func (c *Client) Move(ctx context.Context, fn string, put func(ctx context.Context, job *Moved) error) (int, error) {
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

// moving returns the key of the jobs that are on their way.
func (m *mover) moving() string { return "move:" + m.fn + ":" + m.queue }

// all moves what there is, and returns how many jobs were put.
func (m *mover) all(ctx context.Context) (int, error) {
	for moved := 0; ; {
		text, at, err := m.take(ctx)
		if err != nil || text == "" {
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

// one puts a job that is on its way, and reports whether it was put.
func (m *mover) one(ctx context.Context, text string, at time.Time) (bool, error) {
	id, ok := parseID(text)
	if !ok {
		return false, m.drop(ctx, text)
	}
	input, err := m.client.input(ctx, "move", m.fn, id)
	if errors.Is(err, ErrNotFound) {
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

// takeListScript and takeScheduledScript return the first of what is on its way (KEYS[2]),
// else of the queue (KEYS[1]), which they put on its way; sent twice, they return the same.
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

// take puts the next job on its way and returns its id, and when it is due; an empty id
// when there is none.
func (m *mover) take(ctx context.Context) (string, time.Time, error) {
	text := takeListScript
	if m.queue == scheduled {
		text = takeScheduledScript
	}
	item, err := m.client.send(ctx, "EVAL", text, 2, queueKey(m.fn, m.queue), m.moving()).StringSlice()
	if err != nil || len(item) == 0 {
		return "", time.Time{}, err
	}
	if len(item) == 1 {
		return item[0], time.Time{}, nil
	}
	score, err := strconv.ParseFloat(item[1], 64)
	return item[0], time.Unix(int64(score), 0), err
}

// drop takes a job off the way. It is the only one there, so that it may be sent again.
func (m *mover) drop(ctx context.Context, text string) error {
	var err error
	if m.queue == scheduled {
		err = m.client.send(ctx, "ZREM", m.moving(), text).Err()
	} else {
		err = m.client.send(ctx, "LREM", m.moving(), 1, text).Err()
	}
	return wrap("move", m.fn, 0, err)
}
