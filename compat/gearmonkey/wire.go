package gearmonkey

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/qless/qless-go/internal/redisx"
)

// Constants of the protocol.
const (
	// script takes the first due id of a scheduled queue. The protocol identifies the script by the
	// digest of exactly these bytes.
	script = "local item = redis.call('ZRANGEBYSCORE', KEYS[1], 0, ARGV[1], 'LIMIT', 0, 1); " +
		"if (#item > 0) then redis.call('ZREM', KEYS[1], item[1]); " +
		"return { KEYS[1],  item[1] }; end"
	scriptSHA = "5231827cd49b540660ef44969b38cc858f157824"

	popTimeout = time.Second // of a worker's BRPOP
	jobSeconds = 90000       // how long a finished job is kept
	lockTTL    = 10          // how many seconds the lock of a finished job is kept
)

// The queues of a function, in the order in which workers check them.
const scheduled = "scheduled"

var levels = []Priority{High, Normal, Low}

func uidKey(fn string) string                 { return "uid:" + fn }
func jobKey(fn string, id int64) string       { return "job:" + fn + ":" + formatID(id) }
func lockKey(fn string, id int64) string      { return "lock:" + fn + ":" + formatID(id) }
func countKey(fn string) string               { return "count:" + fn }
func channelOf(fn string) string              { return "channel:" + fn }
func queueKey(fn, queue string) string        { return "queue:" + fn + ":" + queue }
func message(kind EventKind, id int64) string { return string(kind) + ":" + formatID(id) }

func formatID(id int64) string { return strconv.FormatInt(id, 10) }

// parseID parses an id as formatted by INCR: decimal and positive, without sign or leading zeros.
func parseID(text string) (int64, bool) {
	id, err := strconv.ParseInt(text, 10, 64)
	return id, err == nil && id > 0 && formatID(id) == text
}

// send sends a command that may be retried.
func (c *Client) send(ctx context.Context, args ...any) *redis.Cmd {
	return c.rdb.Do(ctx, args...)
}

// sendOnce sends a command that must not run twice. After an error other than a reply from the
// server, the command may or may not have run.
func (c *Client) sendOnce(ctx context.Context, args ...any) *redis.Cmd {
	cmd := redis.NewCmd(ctx, args...)
	_ = c.rdb.Process(ctx, redisx.Once(cmd)) // the error is in cmd
	return cmd
}

// pop waits for an element of the first non-empty list, and returns the list and the element, or
// nothing after the timeout. A timeout of 0 waits forever. The command is sent once.
func pop(
	ctx context.Context, rdb redis.UniversalClient, timeout time.Duration, keys ...string,
) ([]string, error) {
	cmd := rdb.Pipeline().BRPop(ctx, timeout, keys...) // only builds the command
	err := rdb.Process(ctx, redisx.Once(cmd))
	if errors.Is(err, redis.Nil) {
		return nil, nil
	}
	return cmd.Val(), err
}

// popDue takes a due id from a function's scheduled queue, and returns the queue and the id, or
// nothing if no id is due. The script is sent once; if the server does not know the script, it is
// loaded first.
func (c *Client) popDue(ctx context.Context, fn string, now time.Time) ([]string, error) {
	args := []any{"EVALSHA", scriptSHA, 1, queueKey(fn, scheduled), now.Unix()}
	cmd := c.sendOnce(ctx, args...)
	if redis.HasErrorPrefix(cmd.Err(), "NOSCRIPT") {
		if err := c.loadScript(ctx); err != nil {
			return nil, err
		}
		cmd = c.sendOnce(ctx, args...)
	}
	reply, err := cmd.StringSlice()
	if errors.Is(err, redis.Nil) {
		return nil, nil
	}
	return reply, wrap("work", fn, 0, err)
}

// loadScript loads the script into the server. It returns [ErrScript] if the server computes a
// different digest than the protocol's.
func (c *Client) loadScript(ctx context.Context) error {
	sha, err := c.rdb.ScriptLoad(ctx, script).Result()
	if err != nil {
		return wrap("work", "", 0, err)
	}
	if sha != scriptSHA {
		return newError(ErrScript, "work", "", 0, "the script has the digest "+sha+", not "+scriptSHA)
	}
	return nil
}

// input returns the input of a job. It returns [ErrNotFound] if the job is gone: starting it would
// create the job again, without an expiry. It returns [ErrFinished] if the job, perhaps requeued
// before, has ended.
func (c *Client) input(ctx context.Context, op, fn string, id int64) ([]byte, error) {
	fields, err := c.rdb.HMGet(ctx, jobKey(fn, id), "status", "input").Result()
	if err != nil {
		return nil, wrap(op, fn, id, err)
	}
	if fields[0] == nil && fields[1] == nil {
		return nil, newError(ErrNotFound, op, fn, id, "")
	}
	if status, _ := fields[0].(string); Status(status).Finished() {
		return nil, newError(ErrFinished, op, fn, id, "")
	}
	text, _ := fields[1].(string) // other clients may omit an empty input
	return []byte(text), nil
}

// begin marks a job as busy and announces it. The call may be retried.
func (c *Client) begin(ctx context.Context, fn string, id int64) error {
	return wrap("work", fn, id, c.together(ctx, [][]any{
		{"PUBLISH", channelOf(fn), message(EventStart, id)},
		{"HMSET", jobKey(fn, id), "status", string(StatusBusy)},
	}))
}

// end stores and announces the outcome of a job. The call may be retried: clients are then notified
// twice.
func (c *Client) end(
	ctx context.Context, op, fn string, id int64, status Status, output []byte,
) error {
	return wrap(op, fn, id, c.together(ctx, [][]any{
		{"HMSET", jobKey(fn, id), "status", string(status), "output", output},
		{"EXPIRE", jobKey(fn, id), jobSeconds},
		{"PUBLISH", channelOf(fn), message(EventFinish, id)},
		{"LPUSH", lockKey(fn, id), "OK"},
		{"EXPIRE", lockKey(fn, id), lockTTL},
	}))
}

// together sends commands as one transaction: a change refused for lack of memory or replicas
// publishes no event. If the user may not publish, events are omitted.
func (c *Client) together(ctx context.Context, lines [][]any) error {
	pipe := c.rdb.TxPipeline()
	var publish *redis.Cmd
	for _, line := range lines {
		if cmd := pipe.Do(ctx, line...); line[0] == "PUBLISH" {
			publish = cmd
		}
	}
	cmds, err := pipe.Exec(ctx)
	if err == nil {
		return nil
	}
	if publish == nil || !mayNot(publish.Err()) {
		for _, cmd := range cmds { // EXECABORT does not say why
			if redisx.IsAnswer(cmd.Err()) && !redis.HasErrorPrefix(cmd.Err(), "EXECABORT") {
				return cmd.Err()
			}
		}
		return err
	}
	return c.together(ctx, slices.DeleteFunc(lines, func(line []any) bool {
		return line[0] == "PUBLISH"
	}))
}

// mayNot reports whether a command was refused for lack of permission.
func mayNot(err error) bool { return redis.HasErrorPrefix(err, "NOPERM") }

// allowOOM begins a script for Redis 7 or later to run even without free memory.
const allowOOM = "#!lua flags=allow-oom\n"

// Scripts for the cleanup of a stopping worker.
const (
	// putBackScript requeues a job as the next one. KEYS: the job and the queue. ARGV: the id, and
	// for a scheduled queue the score.
	putBackScript = `
if ARGV[2] then
  redis.call('ZADD', KEYS[2], ARGV[2], ARGV[1])
else
  redis.call('RPUSH', KEYS[2], ARGV[1])
end
if redis.pcall('HGET', KEYS[1], 'status') == 'busy' then
  redis.pcall('HMSET', KEYS[1], 'status', 'idle')
end
return 1`

	// endScript is end. KEYS: the job and the lock. ARGV: status, output, channel, message, and how
	// long job and lock are kept.
	endScript = `
redis.call('HMSET', KEYS[1], 'status', ARGV[1], 'output', ARGV[2])
redis.call('EXPIRE', KEYS[1], ARGV[5])
redis.pcall('PUBLISH', ARGV[3], ARGV[4])
redis.call('LPUSH', KEYS[2], 'OK')
redis.call('EXPIRE', KEYS[2], ARGV[6])
return 1`

	// decrScript is DECR. KEYS: the count.
	decrScript = `return redis.call('DECR', KEYS[1])`
)

// force runs a script even if the server is out of memory. The script is sent once.
func (c *Client) force(ctx context.Context, script string, keys []string, args ...any) *redis.Cmd {
	line := []any{"EVAL", allowOOM + script, len(keys)}
	for _, key := range keys {
		line = append(line, key)
	}
	line = append(line, args...)
	cmd := c.sendOnce(ctx, line...)
	if strings.Contains(redisx.Answer(cmd.Err()), "compiling") { // before Redis 7
		line[1] = script
		cmd = c.sendOnce(ctx, line...)
	}
	return cmd
}

// putBack requeues a job as the next one.
func (c *Client) putBack(ctx context.Context, queue, fn string, id int64, now time.Time) error {
	args := []any{id}
	if queue == queueKey(fn, scheduled) {
		args = append(args, now.Unix())
	}
	err := c.force(ctx, putBackScript, []string{jobKey(fn, id), queue}, args...).Err()
	return wrap("put back", fn, id, err)
}

// forceEnd is end for a server that is out of memory.
func (c *Client) forceEnd(
	ctx context.Context, fn string, id int64, status Status, output []byte,
) error {
	err := c.force(ctx, endScript, []string{jobKey(fn, id), lockKey(fn, id)},
		string(status), output, channelOf(fn), message(EventFinish, id), jobSeconds, lockTTL).Err()
	return wrap("work", fn, id, err)
}
