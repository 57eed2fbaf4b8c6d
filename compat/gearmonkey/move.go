package gearmonkey

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/qless/qless-go/internal/guard"
)

// A Moved is a job taken out of its queue to be put elsewhere.
type Moved struct {
	Function string
	ID       int64
	Input    []byte

	// Priority is the queue of the job; empty if the job was scheduled.
	Priority Priority

	// At is the due time of a scheduled job, and otherwise zero.
	At time.Time
}

// Move takes the waiting jobs out of a function's queues, one by one in the order of workers,
// scheduled jobs first, and passes each job to put, which should put the job elsewhere. When no
// more jobs are waiting, Move returns the number of jobs put.
//
// No job is lost: each job is moved to a separate list (move:F:high and so on), and leaves the list
// only when put has returned. If put fails, or the job can't be read, the job is set aside
// (aside:F:high and so on) while the others are moved, and finally returns to its place in the
// queue. The error then joins the errors of all these jobs, with their ids. After ten failures in a
// row, Move stops: the jobs are not the reason. Move also stops when the context ends.
//
// The next Move begins with jobs left in these lists by a killed process; no worker takes them
// before. A job may therefore be put twice: put should use an id made of the function and the ID.
// Run one Move per function at a time, and no workers, which would also run the returned jobs.
//
// Jobs already taken stay with their workers. To clients that call [Client.Get] or wait, a moved
// job stays idle until [Client.Finish] is called. Missing and ended jobs are skipped.
//
// Each step is atomic. Cost: three commands per job, one round trip each, and one per queue.
func (c *Client) Move(
	ctx context.Context, fn string, put func(ctx context.Context, job *Moved) error,
) (int, error) {
	if err := checkFunction("move", fn); err != nil {
		return 0, err
	}
	m := mover{client: c, fn: fn, put: put}
	for _, m.queue = range []string{scheduled, string(High), string(Normal), string(Low)} {
		if err := m.all(ctx); err != nil {
			return m.moved, errors.Join(append(m.failed, err)...)
		}
	}
	return m.moved, errors.Join(m.failed...)
}

// mostFailures is how many jobs in a row may fail to move.
const mostFailures = 10

// mover moves the jobs of a function.
type mover struct {
	client *Client
	fn     string
	put    func(ctx context.Context, job *Moved) error

	queue  string // high, normal, low or scheduled
	moved  int
	failed []error // of the jobs set aside
	inARow int     // how many of the failures came last, in a row
}

// moving returns the key of the jobs being moved, and aside the key of the jobs set aside.
func (m *mover) moving() string { return "move:" + m.fn + ":" + m.queue }
func (m *mover) aside() string  { return "aside:" + m.fn + ":" + m.queue }

// all moves the jobs of a queue. In the end, jobs set aside return to the queue.
func (m *mover) all(ctx context.Context) (err error) {
	if err := m.giveBack(ctx); err != nil { // jobs set aside by a killed process
		return err
	}
	defer func() { err = errors.Join(err, m.giveBack(context.WithoutCancel(ctx))) }()
	for {
		text, at, found, err := m.take(ctx)
		if err != nil || !found {
			return wrap("move", m.fn, 0, err)
		}
		if err := m.one(ctx, text, at); err != nil {
			return err
		}
	}
}

// one puts a job being moved, or sets it aside.
func (m *mover) one(ctx context.Context, text string, at time.Time) error {
	id, ok := parseID(text)
	if !ok {
		return m.drop(ctx, text)
	}
	input, err := m.client.input(ctx, "move", m.fn, id)
	switch {
	case errors.Is(err, ErrNotFound), errors.Is(err, ErrFinished):
		return m.drop(ctx, text)
	case errors.Is(err, ErrUnavailable):
		return err
	case err == nil:
		job := &Moved{Function: m.fn, ID: id, Input: input, At: at}
		if m.queue != scheduled {
			job.Priority = Priority(m.queue)
		}
		err = guard.Try(func() error { return m.put(ctx, job) })
	}
	if err == nil {
		m.moved++
		m.inARow = 0
		return m.drop(ctx, text)
	}
	m.failed = append(m.failed, fmt.Errorf("job %d of %s: %w", id, m.fn, err))
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err := m.run(ctx, setAsideScript, m.moving(), m.aside(), text).Err(); err != nil {
		return wrap("move", m.fn, id, err)
	}
	if m.inARow++; m.inARow == mostFailures {
		return newError(ErrServer, "move", m.fn, 0,
			fmt.Sprintf("the last %d jobs were not put", mostFailures))
	}
	return nil
}

// giveBack returns the jobs set aside to their places in the queue.
func (m *mover) giveBack(ctx context.Context) error {
	err := m.run(ctx, giveBackScript, queueKey(m.fn, m.queue), m.aside()).Err()
	return wrap("move", m.fn, 0, err)
}

// run runs a script on two keys.
func (m *mover) run(ctx context.Context, script, from, to string, args ...any) *redis.Cmd {
	return m.client.send(ctx, append([]any{"EVAL", script, 2, from, to}, args...)...)
}

// setAsideScript sets a job being moved (KEYS[1]) aside (KEYS[2]). giveBackScript returns all such
// jobs (KEYS[2]) to the queue (KEYS[1]). A second run has no further effect.
const (
	setAsideScript = `
local due = redis.call('TYPE', KEYS[1]).ok == 'zset' and redis.call('ZSCORE', KEYS[1], ARGV[1])
if due then
  redis.call('ZREM', KEYS[1], ARGV[1])
  redis.call('ZADD', KEYS[2], due, ARGV[1])
elseif redis.call('LREM', KEYS[1], 1, ARGV[1]) == 1 then
  redis.call('LPUSH', KEYS[2], ARGV[1])
end
return 1`

	giveBackScript = `
if redis.call('TYPE', KEYS[2]).ok == 'zset' then
  redis.call('ZUNIONSTORE', KEYS[1], 2, KEYS[1], KEYS[2], 'AGGREGATE', 'MIN')
  return redis.call('DEL', KEYS[2])
end
for _ = 1, redis.call('LLEN', KEYS[2]) do
  redis.call('RPUSH', KEYS[1], redis.call('LPOP', KEYS[2]))
end
return 1`
)

// takeListScript and takeScheduledScript return the first of the jobs being moved (KEYS[2]).
// Without any, they first move the first job of the queue (KEYS[1]) there. A second run returns the
// same job.
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

// take starts moving the next job, if any. It returns the job's id, which may be any text, and due
// time, and reports whether a job was found.
func (m *mover) take(ctx context.Context) (id string, at time.Time, found bool, err error) {
	text := takeListScript
	if m.queue == scheduled {
		text = takeScheduledScript
	}
	item, err := m.run(ctx, text, queueKey(m.fn, m.queue), m.moving()).StringSlice()
	if err != nil || len(item) == 0 {
		return "", time.Time{}, false, err
	}
	if len(item) == 1 {
		return item[0], time.Time{}, true, nil
	}
	score, err := strconv.ParseFloat(item[1], 64)
	return item[0], time.Unix(int64(score), 0), true, err
}

// drop removes a job from the jobs being moved. It is the only one, so the command may be retried.
func (m *mover) drop(ctx context.Context, text string) error {
	var err error
	if m.queue == scheduled {
		err = m.client.send(ctx, "ZREM", m.moving(), text).Err()
	} else {
		err = m.client.send(ctx, "LREM", m.moving(), 1, text).Err()
	}
	return wrap("move", m.fn, 0, err)
}
