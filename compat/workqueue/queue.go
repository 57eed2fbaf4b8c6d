package workqueue

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/qless/qless-go/internal/redisx"
)

// A Queue is a work queue, known by the prefix of its keys. It holds no connection: each
// method is given one. It may be used from any goroutine.
//
// Each Queue is a session of its own: it can renew and release what was leased by it, and
// not what was leased by another with the same prefix.
type Queue struct {
	prefix     string
	session    string
	queue      string // the key of the list
	processing string
	items      string // what keys of items begin with
	leases     string
	oldLeases  string
	oldClients bool
}

// An Option changes what [New] makes.
type Option func(*Queue)

// WithOldClients is for a queue that is shared with clients published as 0.1.5, for Python
// and Node, which lease and complete in another way:
//
//   - Each lease is kept also under P:leased_by_session:ID, where they look for it. Without
//     that their cleaners put back at once what this client works on, so that it is worked
//     twice.
//   - [Queue.Complete] is true only for an item that is in one of the lists. They take the id
//     out of the processing list first and delete the data later; without that both can be
//     told to be the first. It also takes the id out of the queue when it is there, for they
//     work ids without data.
func WithOldClients() Option {
	return func(q *Queue) { q.oldClients = true }
}

// New returns the queue with a prefix, which may be any string. Keys are named by putting
// ":queue" and the like behind it.
func New(prefix string, options ...Option) *Queue {
	q := &Queue{
		prefix:     prefix,
		session:    newID(),
		queue:      prefix + ":queue",
		processing: prefix + ":processing",
		items:      prefix + ":item:",
		leases:     prefix + ":lease:",
		oldLeases:  prefix + ":leased_by_session:",
	}
	for _, option := range options {
		option(q)
	}
	return q
}

// Prefix returns the prefix of the queue's keys.
func (q *Queue) Prefix() string { return q.prefix }

// Session returns the random name that stands in the leases of this queue.
func (q *Queue) Session() string { return q.session }

// AddItem adds an item at the end of the queue and reports whether it was new: when there
// is an item with the id that is not completed, nothing changes and its data stays.
//
// It stands for SETNX of the data and, when that was set, LPUSH of the id, made atomic, and
// is never sent twice. Cost: one script of three commands.
func (q *Queue) AddItem(ctx context.Context, db redis.UniversalClient, item Item) (bool, error) {
	added, err := addScript.yes(ctx, db, q.addKeys(item), item.ID, item.Data)
	return added, wrap("add", item.ID, err)
}

// AddItemToPipeline is [Queue.AddItem] in a pipeline: the command tells after Exec whether
// the item was new. It sends the text of the script each time, some 700 bytes, for a
// pipeline can't wait for the server to say that it does not know it.
func (q *Queue) AddItemToPipeline(ctx context.Context, pipe redis.Pipeliner, item Item) *redis.BoolCmd {
	cmd := redis.NewBoolCmd(ctx, evalLine("eval", addScript.text, q.addKeys(item), []any{item.ID, item.Data})...)
	_ = pipe.Process(ctx, cmd) // queued: the error comes with the reply
	return cmd
}

func (q *Queue) addKeys(item Item) []string {
	return []string{q.items + item.ID, q.queue}
}

// AddUniqueItem adds an item whose id is known to be new, without looking whether it is. If
// there is one with the id after all, its data is replaced, and its id is in the queue once
// more; it can still be completed only once.
//
// It stands for SET of the data and LPUSH of the id, in a transaction, and is never sent
// twice. Cost: two commands in one round trip.
func (q *Queue) AddUniqueItem(ctx context.Context, db redis.UniversalClient, item Item) error {
	pipe := db.TxPipeline()
	for _, line := range q.addUniqueLines(item) {
		_ = pipe.Process(ctx, redisx.NewOnceCmd(ctx, line...)) // queued
	}
	_, err := pipe.Exec(ctx)
	return wrap("add unique", item.ID, err)
}

// AddUniqueItemToPipeline is [Queue.AddUniqueItem] in a pipeline. It is atomic when the
// pipeline is a transaction; in any other the data comes first, so that nobody finds the id
// without it.
func (q *Queue) AddUniqueItemToPipeline(ctx context.Context, pipe redis.Pipeliner, item Item) {
	for _, line := range q.addUniqueLines(item) {
		_ = pipe.Process(ctx, redis.NewCmd(ctx, line...)) // queued: the error comes with the reply
	}
}

func (q *Queue) addUniqueLines(item Item) [][]any {
	return [][]any{
		{"set", q.items + item.ID, item.Data},
		{"lpush", q.queue, item.ID},
	}
}

// QueueLen returns how many ids wait in the queue. Cost: one LLEN.
func (q *Queue) QueueLen(ctx context.Context, db redis.UniversalClient) (int64, error) {
	n, err := db.LLen(ctx, q.queue).Result()
	return n, wrap("queue length", "", err)
}

// Processing returns how many ids are leased, or were and are not put back yet. Cost: one
// LLEN.
func (q *Queue) Processing(ctx context.Context, db redis.UniversalClient) (int64, error) {
	n, err := db.LLen(ctx, q.processing).Result()
	return n, wrap("processing", "", err)
}

// Counts are the lengths of both lists at one moment.
type Counts struct {
	Processing int64 // ids that are leased, or were and are not put back yet
	Queued     int64 // ids that wait
}

// Counts returns the lengths of both lists, read at one moment, so that an item that moves
// meanwhile is counted once. Cost: two LLEN in a transaction, one round trip.
func (q *Queue) Counts(ctx context.Context, db redis.UniversalClient) (Counts, error) {
	pipe := db.TxPipeline()
	processing, queued := pipe.LLen(ctx, q.processing), pipe.LLen(ctx, q.queue)
	if _, err := pipe.Exec(ctx); err != nil {
		return Counts{}, wrap("counts", "", err)
	}
	return Counts{Processing: processing.Val(), Queued: queued.Val()}, nil
}
