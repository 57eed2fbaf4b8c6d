package workqueue

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/qless/qless-go/internal/redisx"
)

// waitSlice is how long a server is made to wait at a time, for it can't be told to stop
// waiting when a context ends.
const waitSlice = time.Second

// Lease takes the next item and leases it for a time, after which the next cleaning puts it
// back for others. It returns nil when there is none.
//
// When block is false, it looks once. When it is true, it waits for an item: until the
// timeout is over, or for ever when that is 0. Times are in whole seconds, as all clients
// share them: fractions are rounded up, and a lease has at least one.
//
// An id without data, which a late completion can leave, goes to the processing list, where
// the next light cleaning removes it. A Lease without end tries the next one; any other
// returns nil, even if more items wait.
//
// An item that somebody has leased is not leased again before that lease has ended: should
// it be in the queue nevertheless, it goes back to the processing list. Other clients do
// hand it out.
//
// When the context ends while Lease waits, it returns [ErrUnavailable] with the context's
// error beneath, after a second at the most, and leaves all items where they were. An error
// after a broken connection can leave an item in the processing list, with or without a
// lease, from where cleaning brings it back.
//
// It stands for RPOPLPUSH, GET and SETEX, made atomic, and when nothing is there for
// BRPOPLPUSH first; in between another client's cleaner may put the item back, and then it
// is not returned here. Cost: one script of four commands; an idle wait is one more command
// a second, and uses a connection of the pool.
func (q *Queue) Lease(ctx context.Context, db redis.UniversalClient, block bool, timeout, lease time.Duration) (*Item, error) {
	if err := checkLease("lease", lease); err != nil {
		return nil, err
	}
	if timeout < 0 || timeout > longest {
		return nil, invalid("lease", "the timeout %v is negative or above %v", timeout, longest)
	}
	endless := block && timeout == 0
	until := time.Now().Add(redisx.SecondsUp(timeout))
	found, err := q.take(ctx, db, lease)
	for err == nil {
		switch {
		case found.item != nil:
			return found.item, nil
		case found.ghost && !endless:
			return nil, nil
		case found.ghost || found.more:
			found, err = q.take(ctx, db, lease)
		case !block || !endless && !time.Now().Before(until):
			return nil, nil
		default:
			slice := waitSlice
			if !endless {
				slice = min(slice, time.Until(until))
			}
			found, err = q.wait(ctx, db, slice, lease)
		}
	}
	return nil, wrap("lease", "", err)
}

// finding is what was found in the queue: nothing when it is zero.
type finding struct {
	item  *Item
	ghost bool // an id without data
	more  bool // nothing yet, but there may be more
}

// take leases the next item, or the one that was popped if an id is given.
func (q *Queue) take(ctx context.Context, db redis.UniversalClient, lease time.Duration, popped ...any) (finding, error) {
	if err := ctx.Err(); err != nil {
		return finding{}, err
	}
	args := []any{q.items, q.leases, q.oldLeases, q.session, seconds(lease), q.oldFlag()}
	reply, err := leaseScript.run(ctx, db, []string{q.queue, q.processing}, append(args, popped...)...)
	if err != nil || reply == nil {
		return finding{}, err
	}
	switch parts := texts(reply); len(parts) {
	case 0:
		return finding{more: true}, nil
	case 1:
		return finding{ghost: true}, nil
	default:
		return finding{item: &Item{ID: parts[0], Data: []byte(parts[1])}}, nil
	}
}

// wait waits for an item to come into the queue, and leases it. When the context has ended
// meanwhile, it puts the item back.
func (q *Queue) wait(ctx context.Context, db redis.UniversalClient, slice, lease time.Duration) (finding, error) {
	if err := ctx.Err(); err != nil {
		return finding{}, err
	}
	whole := context.WithoutCancel(ctx) // else the answer might be lost, and an item with it
	id, err := db.BRPopLPush(whole, q.queue, q.processing, redisx.SecondsUp(slice)).Result()
	if errors.Is(err, redis.Nil) {
		return finding{}, ctx.Err()
	}
	if err != nil {
		return finding{}, err
	}
	if ctx.Err() != nil {
		_, err := releaseScript.run(whole, db, q.keysAndQueue(id), id, "")
		return finding{}, errors.Join(ctx.Err(), err)
	}
	return q.take(ctx, db, lease, id)
}

// Renew makes a lease last for a time from now on, and reports whether it is still held:
// false when the item was completed, or another session has leased it, or it is back in the
// queue. A lease that has ended is taken up again when nobody has noticed.
//
// Other clients have nothing like it; to them it looks like a longer lease. It is atomic and
// may be repeated. Cost: one script of four commands.
func (q *Queue) Renew(ctx context.Context, db redis.UniversalClient, item *Item, lease time.Duration) (bool, error) {
	if err := checkLease("renew", lease); err != nil {
		return false, err
	}
	held, err := renewScript.yes(ctx, db, q.keys(item.ID), item.ID, q.session, seconds(lease), q.oldFlag())
	return held, wrap("renew", item.ID, err)
}

// Release ends a lease and puts the item back, where it is the next to be leased. It
// reports whether it did: false, and nothing changes, when this session does not hold the
// lease; false too when the item was completed, or is back in the queue already.
//
// Other clients have nothing like it: there an item that was given up waits for the end of
// its lease. It is atomic and never sent twice. Cost: one script of six commands, one of
// which takes as long as the processing list is.
func (q *Queue) Release(ctx context.Context, db redis.UniversalClient, item *Item) (bool, error) {
	released, err := releaseScript.yes(ctx, db, q.keysAndQueue(item.ID), item.ID, q.session)
	return released, wrap("release", item.ID, err)
}

// Complete ends an item and reports whether this call was the one that did: of all calls
// for one item, by any client, one returns true. It need not be leased, nor by this session,
// so whoever goes on only after true runs an item at most once.
//
// An item that had been put back, because its lease ended too early, leaves its id in the
// queue. That does no harm: see [Queue.Lease].
//
// It stands for DEL of the data, LREM of the id and DEL of the lease, made atomic, and is
// never sent twice: after [ErrUnavailable] nobody knows who was first, unless another call
// returns true. Cost: one script of three commands, one of which takes as long as the
// processing list is.
func (q *Queue) Complete(ctx context.Context, db redis.UniversalClient, item *Item) (bool, error) {
	first, err := completeScript.yes(ctx, db, q.keysAndQueue(item.ID), item.ID, q.oldFlag())
	return first, wrap("complete", item.ID, err)
}

// keys returns the keys of an item, as scripts take them.
func (q *Queue) keys(id string) []string {
	return []string{q.items + id, q.processing, q.leases + id, q.oldLeases + id}
}

// keysAndQueue returns the keys of an item and that of the queue.
func (q *Queue) keysAndQueue(id string) []string {
	return append(q.keys(id), q.queue)
}

// oldFlag tells scripts whether the queue is shared with old clients.
func (q *Queue) oldFlag() string {
	if q.oldClients {
		return "1"
	}
	return ""
}

// longest is as long a time as the clocks of all that take part can count.
const longest = 100 * 365 * 24 * time.Hour

// checkLease errors unless an item can be leased for a time.
func checkLease(op string, lease time.Duration) error {
	if lease <= 0 || lease > longest {
		return invalid(op, "the lease time %v is not positive, or above %v", lease, longest)
	}
	return nil
}

// seconds returns a duration in whole seconds, rounded up.
func seconds(d time.Duration) int64 {
	return int64(redisx.SecondsUp(d) / time.Second)
}
