package workqueue

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"
)

// Move takes the waiting items out of the queue one by one and passes each to put, which puts it
// somewhere else, such as in a qless queue. It returns the number of items moved when no more are
// waiting, or at the first error. Leased items are left alone; they return to the queue if they are
// not completed, so call Move again until [Queue.Counts] returns zeros.
//
// An item is put before it is completed here, so none is lost. It may be put twice, if the program
// dies in between or put takes more than a minute: put it under its id, so that the second put has
// no effect. If put fails, Move returns its error, and the item goes back to the queue as the next
// one.
//
// To keep moving items as they are added, use put as the handler of a [Worker]. Cost: two scripts
// per item.
func (q *Queue) Move(
	ctx context.Context, db redis.UniversalClient, put func(ctx context.Context, item *Item) error,
) (int, error) {
	moved := 0
	for {
		item, err := q.Lease(ctx, db, false, 0, moveLease)
		if err != nil {
			return moved, err
		}
		if item == nil {
			left, err := q.QueueLen(ctx, db)
			if left == 0 || err != nil {
				return moved, err
			}
			continue // an id without data
		}
		if err := put(ctx, item); err != nil {
			_, _ = q.Release(context.WithoutCancel(ctx), db, item) // if this fails, the lease expires
			return moved, err
		}
		if _, err := q.Complete(ctx, db, item); err != nil {
			return moved, err
		}
		moved++
	}
}

// moveLease is the lease of an item while it is being moved.
const moveLease = time.Minute
