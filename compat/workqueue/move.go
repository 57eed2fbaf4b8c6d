package workqueue

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"
)

// moveLease is how long an item that is being moved is leased.
const moveLease = time.Minute

// Move takes the items that wait out of the queue, one after the other, and gives each to a
// function that puts it somewhere else, such as into a qless queue. It returns how many were
// moved when none waits any more, or at the first error. Items that are being worked are
// left; they come back to the queue if they are not completed, so move again until
// [Queue.Counts] are 0.
//
// An item is put before it is completed here, so none is lost. It may be put twice, if this
// program dies in between, or takes more than a minute for one: put it under its id, so that
// the second time changes nothing. An item that could not be put goes back into the queue,
// where it is the next; then the error is that of the function.
//
// To keep moving what others still add, give the function to a [Worker] as its handler.
// Cost: two scripts for an item.
func (q *Queue) Move(ctx context.Context, db redis.UniversalClient, put func(ctx context.Context, item *Item) error) (int, error) {
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
			continue // it was an id without data
		}
		if err := put(ctx, item); err != nil {
			_, _ = q.Release(context.WithoutCancel(ctx), db, item) // else the lease ends by itself
			return moved, err
		}
		if _, err := q.Complete(ctx, db, item); err != nil {
			return moved, err
		}
		moved++
	}
}
