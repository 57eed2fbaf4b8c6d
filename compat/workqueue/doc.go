// Package workqueue implements the redis-work-queue protocol: a queue of items shared by programs
// in several languages that agree on the keys to use in one Redis.
//
// An item is an id and some data. Items are added, leased by a worker, and completed. If the lease
// expires first, the next cleaning returns the item to the queue:
//
//	queue := workqueue.New("thumbnails")
//	added, err := queue.AddItem(ctx, rdb, workqueue.NewItem(data))
//
//	item, err := queue.Lease(ctx, rdb, true, 0, time.Minute)
//	first, err := queue.Complete(ctx, rdb, item)
//
// A [Worker] does this for a handler, and renews the lease while the handler runs. A cleaner must
// run somewhere: a [Cleaner], or another client's cleaner.
//
// # Keys
//
// With the prefix P:
//
//	P:queue            ids of waiting items; added at the left, leased from the right
//	P:processing       ids that are or were leased
//	P:item:ID          the data of an item, until it is completed
//	P:lease:ID         the session that holds the lease; expires with it
//
// An item exists as long as its data. Either list may temporarily contain ids without data, which
// have no meaning.
//
// Clients released as 0.1.5 keep leases in P:leased_by_session:ID, and their cleaners use
// P:cleaning. This package respects such leases; see [WithOldClients] for sharing a queue with such
// clients.
//
// In a Redis Cluster all keys must be in one slot: put a part of the prefix in braces, as in
// {thumbnails}. Redis 6.2 or later is required.
//
// # Guarantees
//
// Items run at least once. Each operation that changes the queue is one atomic script, where other
// clients send several commands; the resulting keys are the same. Operations that must not run
// twice are sent once: if the connection breaks before the reply, the error is [ErrUnavailable] and
// the outcome is unknown. There are no retry counts, delays, priorities or results; package qless
// has them, and [Queue.Move] moves items there.
//
// # Errors
//
// Every error of this package is an [*Error] with a code; compare it with the sentinels using
// [errors.Is]. Errors of a pipeline passed by the caller are those of go-redis.
package workqueue
