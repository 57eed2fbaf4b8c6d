package workqueue

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/qless/qless-go/internal/redisx"
)

// Lease takes the next item and leases it for the given time. If the lease expires before the item
// is completed, the next cleaning requeues the item. Lease returns nil if no item is waiting.
//
// If block is false, Lease checks the queue once. If block is true, Lease waits for an item until
// the timeout has passed, or forever if timeout is 0. All clients use whole seconds: fractions are
// rounded up, and a lease lasts at least one second.
//
// An id without data, perhaps left by a late completion, is moved to the processing list, for
// removal by the next light cleaning. A Lease without a timeout then tries the next id; any other
// Lease returns nil, even if more items are waiting.
//
// A leased item is not leased again before lease expiry: if found in the queue, the item goes back
// to the processing list. Other clients do lease such an item.
//
// If ctx is done while Lease waits, Lease returns [ErrUnavailable], wrapping the context's error,
// within a second, or within two if the server hangs, and leaves all items in place. An item
// already leased is returned, or released if the answer arrives later. After a broken connection an
// item may be left in the processing list, with or without a lease; cleaning requeues it.
//
// Lease performs RPOPLPUSH, GET and SETEX atomically, and if the queue is empty BRPOPLPUSH before
// that. An item requeued in between by another client's cleaner is not returned. Cost: one script
// of four commands. While waiting, Lease sends one more command a second and uses a connection from
// the pool.
func (q *Queue) Lease(
	ctx context.Context, db redis.UniversalClient, block bool, timeout, lease time.Duration,
) (*Item, error) {
	found, err := q.lease(ctx, db, block, timeout, lease)
	return found.item, err
}

// waitSlice limits each blocking command, because the end of a context can't stop a server's wait.
const waitSlice = time.Second

// hangTimeout is how much longer than waitSlice a Lease with an ended context waits for a hanging
// server.
const hangTimeout = 750 * time.Millisecond

// lease is Lease, and returns the earliest possible beginning of the lease.
func (q *Queue) lease(
	ctx context.Context, db redis.UniversalClient, block bool, timeout, lease time.Duration,
) (finding, error) {
	if err := checkLease("lease", lease); err != nil {
		return finding{}, err
	}
	if timeout < 0 || timeout > longest {
		return finding{}, invalid("lease", "the timeout %v is negative or exceeds %v", timeout, longest)
	}
	if !block || ctx.Done() == nil {
		return q.next(ctx, db, block, timeout, lease)
	}
	type result struct {
		finding
		err error
	}
	done := make(chan result, 1)
	go func() {
		found, err := q.next(ctx, db, block, timeout, lease)
		done <- result{found, err}
	}()
	select {
	case r := <-done:
		return r.finding, r.err
	case <-ctx.Done():
	}
	timer := time.NewTimer(waitSlice + hangTimeout)
	defer timer.Stop()
	select {
	case r := <-done:
		return r.finding, r.err
	case <-timer.C:
	}
	go func() { // the server hangs; the client's timeouts end this
		if late := <-done; late.item != nil {
			_, _ = q.Release(context.WithoutCancel(ctx), db, late.item) // otherwise the lease expires
		}
	}()
	return finding{}, wrap("lease", "", ctx.Err())
}

// next leases the next item, waiting for it if block is true.
func (q *Queue) next(
	ctx context.Context, db redis.UniversalClient, block bool, timeout, lease time.Duration,
) (finding, error) {
	endless := block && timeout == 0
	until := time.Now().Add(redisx.SecondsUp(timeout))
	found, err := q.take(ctx, db, lease)
	for err == nil {
		switch {
		case found.item != nil:
			return found, nil
		case found.ghost && !endless:
			return finding{}, nil
		case found.ghost || found.more:
			found, err = q.take(ctx, db, lease)
		case !block:
			return finding{}, nil
		case endless:
			found, err = q.wait(ctx, db, waitSlice, lease)
		default:
			left := time.Until(until)
			if left <= 0 {
				return finding{}, nil
			}
			found, err = q.wait(ctx, db, min(waitSlice, left), lease)
		}
	}
	return finding{}, wrap("lease", "", err)
}

// finding is the result of one check of the queue; the zero value means nothing was found.
type finding struct {
	item  *Item
	asked time.Time // when the server was asked: the lease began no earlier
	ghost bool      // an id without data
	more  bool      // nothing yet, but more may be waiting
}

// take leases the next item, or the item with the popped id, if given.
func (q *Queue) take(
	ctx context.Context, db redis.UniversalClient, lease time.Duration, popped ...any,
) (finding, error) {
	if err := ctx.Err(); err != nil {
		return finding{}, err
	}
	name, asked := q.newLease(), time.Now()
	args := []any{q.items, q.leases, q.oldLeases, name, seconds(lease), q.oldFlag()}
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
		item := &Item{ID: parts[0], Data: []byte(parts[1]), lease: name}
		return finding{item: item, asked: asked}, nil
	}
}

// wait waits for an item and leases it. If ctx has ended meanwhile, wait returns the item to the
// queue.
func (q *Queue) wait(
	ctx context.Context, db redis.UniversalClient, slice, lease time.Duration,
) (finding, error) {
	if err := ctx.Err(); err != nil {
		return finding{}, err
	}
	whole := context.WithoutCancel(ctx) // otherwise the reply might be lost, with an item
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
	return q.take(whole, db, lease, id)
}

// Renew extends a lease to the given time from now, and reports whether the lease is still held.
// The lease is lost if the item was completed, requeued, or leased again by this or another
// session. An expired lease is restored if nothing else has happened to the item since.
//
// An Item made from an id, and not returned by [Queue.Lease], matches any lease of the session.
//
// Renewing is not part of the protocol; to other clients it looks like a longer lease. Renew is
// atomic and may be repeated. Cost: one script of four commands.
func (q *Queue) Renew(
	ctx context.Context, db redis.UniversalClient, item *Item, lease time.Duration,
) (bool, error) {
	if err := checkLease("renew", lease); err != nil {
		return false, err
	}
	holder, name := item.lease, item.lease
	if holder == "" {
		holder, name = q.sessionLeases(), q.newLease()
	}
	held, err := renewScript.yes(ctx, db, q.keys(item.ID),
		item.ID, holder, seconds(lease), q.oldFlag(), name)
	return held, wrap("renew", item.ID, err)
}

// Release ends a lease, requeues the item as the next item to lease, and reports whether it did. If
// the lease is no longer held, in the sense of [Queue.Renew], Release returns false and changes
// nothing. Release also returns false if the item was completed or is already in the queue.
//
// Releasing is not part of the protocol: other clients wait for lease expiry. Release is atomic and
// never sent twice. Cost: one script of six commands, one of which takes time proportional to the
// length of the processing list.
func (q *Queue) Release(ctx context.Context, db redis.UniversalClient, item *Item) (bool, error) {
	holder := cmp.Or(item.lease, q.sessionLeases())
	released, err := releaseScript.yes(ctx, db, q.keysAndQueue(item.ID), item.ID, holder)
	return released, wrap("release", item.ID, err)
}

// Complete completes an item and reports whether this call did so: of all calls for an item, by any
// client, exactly one returns true. The item need not be leased, by this session or any other. To
// run an item at most once, a program can run it only after Complete has returned true.
//
// An item requeued because its lease expired too early leaves its id in the queue. This is
// harmless: see [Queue.Lease]. But an item completed and added again with the same id is completed
// by a late call for the first item. A [Worker] makes no such call after losing a lease.
//
// Complete performs DEL of the data, LREM of the id and DEL of the lease atomically, and is never
// sent twice: after [ErrUnavailable], it is unknown which call completed the item, unless another
// call returns true. Cost: one script of three commands, one of which takes time proportional to
// the length of the processing list.
func (q *Queue) Complete(ctx context.Context, db redis.UniversalClient, item *Item) (bool, error) {
	first, err := completeScript.yes(ctx, db, q.keysAndQueue(item.ID), item.ID, q.oldFlag())
	return first, wrap("complete", item.ID, err)
}

// completeHeld completes an item only if still held by the Item's lease.
func (q *Queue) completeHeld(
	ctx context.Context, db redis.UniversalClient, item *Item,
) (bool, error) {
	first, err := completeScript.yes(ctx, db, q.keysAndQueue(item.ID),
		item.ID, q.oldFlag(), item.lease)
	return first, wrap("complete", item.ID, err)
}

// keys returns the keys of an item, in the order for scripts.
func (q *Queue) keys(id string) []string {
	return []string{q.items + id, q.processing, q.leases + id, q.oldLeases + id}
}

// keysAndQueue returns the keys of an item and the key of the queue.
func (q *Queue) keysAndQueue(id string) []string {
	return append(q.keys(id), q.queue)
}

// oldFlag is the script argument for sharing the queue with old clients.
func (q *Queue) oldFlag() string {
	if q.oldClients {
		return "1"
	}
	return ""
}

// longest is the longest time supported by the clocks of every party.
const longest = 100 * 365 * 24 * time.Hour

// checkLease returns an error unless an item can be leased for the given time.
func checkLease(op string, lease time.Duration) error {
	if lease <= 0 || lease > longest {
		return invalid(op, "the lease time %v is not positive or exceeds %v", lease, longest)
	}
	return nil
}

// seconds returns a duration in whole seconds, rounded up.
func seconds(d time.Duration) int64 {
	return int64(redisx.SecondsUp(d) / time.Second)
}
