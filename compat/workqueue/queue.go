package workqueue

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"github.com/qless/qless-go/internal/redisx"
)

// A Queue is a work queue, identified by the prefix of its keys. A Queue holds no connection: each
// method takes one. It is safe for concurrent use.
//
// Each Queue is a separate session, for renewing and releasing only its own items, and not items
// leased through another Queue with the same prefix. Each lease has a unique name, which begins
// with the session's. If an item is leased twice through one Queue, only the [Item] returned by the
// later [Queue.Lease] can be renewed and released.
type Queue struct {
	prefix     string
	session    string
	queue      string // the key of the list
	processing string
	items      string // prefix of the keys of items
	leases     string
	oldLeases  string
	oldClients bool
	leased     *atomic.Uint64 // the number of leases named so far
}

// An Option configures a queue made by [New].
type Option func(*Queue)

// WithOldClients allows the queue to be shared with the clients released as 0.1.5, for Python and
// Node, which lease and complete differently:
//
//   - Each lease is also stored under P:leased_by_session:ID, as they expect. Otherwise their
//     cleaners requeue items as soon as this client leases them, so the items run twice.
//   - [Queue.Complete] returns true only for an item that is in one of the lists. The old
//     clients remove the id from the processing list first and delete the data later; otherwise
//     both could be reported as the first. Complete also removes the id from the queue, because
//     old clients run ids without data.
func WithOldClients() Option {
	return func(q *Queue) { q.oldClients = true }
}

// New returns the queue with the prefix, which may be any string. Key names are the prefix followed
// by ":queue" and so on.
func New(prefix string, options ...Option) *Queue {
	q := &Queue{
		prefix:     prefix,
		session:    newID(),
		queue:      prefix + ":queue",
		processing: prefix + ":processing",
		items:      prefix + ":item:",
		leases:     prefix + ":lease:",
		oldLeases:  prefix + ":leased_by_session:",
		leased:     new(atomic.Uint64),
	}
	for _, option := range options {
		option(q)
	}
	return q
}

// Prefix returns the prefix of the queue's keys.
func (q *Queue) Prefix() string { return q.prefix }

// Session returns the random name that begins the names of this queue's leases.
func (q *Queue) Session() string { return q.session }

// sessionLeases is the prefix of the names of all leases of this queue.
func (q *Queue) sessionLeases() string { return q.session + "-" }

// newLease returns a name for a lease. No name is the prefix of another.
func (q *Queue) newLease() string {
	return fmt.Sprintf("%s%016x", q.sessionLeases(), q.leased.Add(1))
}

// AddItem adds an item at the end of the queue and reports whether it was new: if an item with the
// same id is not yet completed, nothing changes and the old data is kept.
//
// AddItem performs SETNX of the data and, if that was set, LPUSH of the id atomically, and is never
// sent twice. Cost: one script of three commands.
func (q *Queue) AddItem(ctx context.Context, db redis.UniversalClient, item Item) (bool, error) {
	added, err := addScript.yes(ctx, db, q.addKeys(item), item.ID, item.Data)
	return added, wrap("add", item.ID, err)
}

// AddItemToPipeline is like [Queue.AddItem], in a pipeline: after Exec the command reports whether
// the item was new. Each call sends the text of the script, about 700 bytes, because a pipeline
// can't wait for the server to report an unknown script.
func (q *Queue) AddItemToPipeline(
	ctx context.Context, pipe redis.Pipeliner, item Item,
) *redis.BoolCmd {
	line := evalLine("eval", addScript.text, q.addKeys(item), []any{item.ID, item.Data})
	cmd := redis.NewBoolCmd(ctx, line...)
	_ = pipe.Process(ctx, cmd) // only queued: errors come with the reply
	return cmd
}

func (q *Queue) addKeys(item Item) []string {
	return []string{q.items + item.ID, q.queue}
}

// AddUniqueItem adds an item with an id known to be new, without checking. If an item with the same
// id does exist, its data is replaced and its id is in the queue twice; the item can still be
// completed only once.
//
// AddUniqueItem performs SET of the data and LPUSH of the id in a transaction, and is never sent
// twice. Cost: two commands in one round trip.
func (q *Queue) AddUniqueItem(ctx context.Context, db redis.UniversalClient, item Item) error {
	pipe := db.TxPipeline()
	for _, line := range q.addUniqueLines(item) {
		_ = pipe.Process(ctx, redisx.NewOnceCmd(ctx, line...)) // only queued
	}
	_, err := pipe.Exec(ctx)
	return wrap("add unique", item.ID, err)
}

// AddUniqueItemToPipeline is like [Queue.AddUniqueItem], in a pipeline. It is atomic if the
// pipeline is a transaction; otherwise the data is set first, so no client finds the id without
// data.
func (q *Queue) AddUniqueItemToPipeline(ctx context.Context, pipe redis.Pipeliner, item Item) {
	for _, line := range q.addUniqueLines(item) {
		_ = pipe.Process(ctx, redis.NewCmd(ctx, line...)) // only queued: errors come with the reply
	}
}

func (q *Queue) addUniqueLines(item Item) [][]any {
	return [][]any{
		{"set", q.items + item.ID, item.Data},
		{"lpush", q.queue, item.ID},
	}
}

// QueueLen returns the number of ids waiting in the queue. Cost: one LLEN.
func (q *Queue) QueueLen(ctx context.Context, db redis.UniversalClient) (int64, error) {
	n, err := db.LLen(ctx, q.queue).Result()
	return n, wrap("queue length", "", err)
}

// Processing returns the number of ids leased now, or leased before and not yet requeued. Cost: one
// LLEN.
func (q *Queue) Processing(ctx context.Context, db redis.UniversalClient) (int64, error) {
	n, err := db.LLen(ctx, q.processing).Result()
	return n, wrap("processing", "", err)
}

// Counts are the lengths of both lists.
type Counts struct {
	Processing int64 // ids leased now, or leased before and not yet requeued
	Queued     int64 // waiting ids
}

// Counts returns the lengths of both lists at one moment, so an item moving between the lists is
// counted once. Cost: two LLEN in a transaction, one round trip.
func (q *Queue) Counts(ctx context.Context, db redis.UniversalClient) (Counts, error) {
	pipe := db.TxPipeline()
	processing, queued := pipe.LLen(ctx, q.processing), pipe.LLen(ctx, q.queue)
	if _, err := pipe.Exec(ctx); err != nil {
		return Counts{}, wrap("counts", "", err)
	}
	return Counts{Processing: processing.Val(), Queued: queued.Val()}, nil
}
