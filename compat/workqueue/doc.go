// Package workqueue speaks the redis-work-queue protocol: a queue of items that programs of
// several languages share by agreeing on the keys of one Redis.
//
// An item is an id and some data. It is added, leased by a worker, and completed. When the
// lease ends first, the item goes back to the queue at the next cleaning:
//
//	queue := workqueue.New("thumbnails")
//	added, err := queue.AddItem(ctx, rdb, workqueue.NewItem(data))
//
//	item, err := queue.Lease(ctx, rdb, true, 0, time.Minute)
//	first, err := queue.Complete(ctx, rdb, item)
//
// A [Worker] does that for a handler and renews the lease while it runs. Somebody has to
// clean: a [Cleaner], here or of another client.
//
// # Keys
//
// With the prefix P:
//
//	P:queue            ids that wait; added at the left, leased from the right
//	P:processing       ids that are leased, or were
//	P:item:ID          the data of an item, from its adding to its completion
//	P:lease:ID         the session that has leased it; expires with the lease
//
// An item exists as long as its data does. Ids without data may be in either list for a
// while, and mean nothing.
//
// Clients published as 0.1.5 keep leases in P:leased_by_session:ID, and their cleaners use
// P:cleaning. Their leases are respected; see [WithOldClients] for sharing a queue with them.
//
// In a Redis Cluster all keys have to be in one slot: give the prefix a part in braces, such
// as {thumbnails}. Servers from Redis 6.2 on are supported.
//
// # What to expect
//
// Items are worked at least once. Each change of this package is one script and so happens
// as a whole or not at all, where other clients send several commands; what is stored in the
// end is the same. Changes that must not happen twice are sent once: if the connection
// breaks before the answer, the error is [ErrUnavailable] and the outcome is unknown. There
// are no retry counts, delays, priorities or results; the package qless has them, and
// [Queue.Move] takes the items there.
//
// # Errors
//
// Every error of this package is an [*Error] with a code; compare it with the sentinels by
// [errors.Is]. Errors of a pipeline that is the caller's come as go-redis makes them.
package workqueue
