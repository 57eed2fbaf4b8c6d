package qless

import (
	"context"
	"time"

	"github.com/qless/qless-go/internal/wire"
)

// Internals that the tests, which are in package qless_test, need.

var (
	EncodeData = encodeData
	Wrap       = wrap
)

// Run runs a script with any arguments.
func (c *Client) Run(ctx context.Context, op, jid string, args ...any) (any, error) {
	return c.run(ctx, op, jid, args...)
}

// DecodeJobs reads a reply that is an array of jobs.
func (c *Client) DecodeJobs(reply any) ([]*Job, error) {
	jobs, _, err := c.decodeJobs("test", reply)
	return jobs, err
}

// DecodeReserved returns the jobs in a reply of reserve.
func (c *Client) DecodeReserved(reply any) ([]*Job, error) {
	got, err := c.decodeReserved(reply, time.Now())
	if err != nil {
		return nil, err
	}
	return got.jobs, nil
}

// DecodeReplies decodes a text as each of the other JSON replies, and returns the results or
// errors.
func DecodeReplies(reply any) []any {
	stats, statsErr := decode[statsReply]("test", reply)
	queue, queueErr := decode[queueReply]("test", reply)
	recurring, recurringErr := decode[recurringReply]("test", reply)
	tags, tagsErr := decode[wire.List[wire.Text]]("test", reply)
	counts, countsErr := decode[map[string]wire.Number]("test", reply)
	number, numberErr := decodeInt("test", reply)
	names, namesErr := decodeStrings("test", reply)
	return []any{
		stats.Wait.summary(), stats.Run.summary(), statsErr, queue.counts(), queueErr,
		recurring.job(nil), recurringErr, wire.Strings(tags), tagsErr, counts, countsErr,
		number, numberErr, names, namesErr,
	}
}

// WaitingPuts returns the number of puts that wait for the one in flight.
func (c *Client) WaitingPuts() int { return c.batcher.Waiting() }

// As returns a client with another worker name.
func (c *Client) As(worker string) *Client { return c.as(worker) }

// Send is Run without the observer.
func (c *Client) Send(ctx context.Context, op, jid string, args []any) (any, error) {
	return c.send(ctx, op, jid, false, args)
}

// SetPrefetchWindow sets how long a job may wait for a worker that has taken it ahead.
func (w *Worker) SetPrefetchWindow(d time.Duration) { w.ahead.Window = d }

// OverrunPrefetch acts as if the jobs that were taken ahead had waited for too long.
func (w *Worker) OverrunPrefetch() {
	w.mu.Lock()
	window := w.ahead.Window
	w.ahead.Window = 0
	w.mu.Unlock()
	w.releaseOverdue()
	w.mu.Lock()
	w.ahead.Window = window
	w.mu.Unlock()
}
