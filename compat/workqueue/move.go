package workqueue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/qless/qless-go/internal/guard"
)

// Move takes the waiting items out of the queue one by one and passes each to put, which should put
// the item elsewhere, such as in a qless queue. When no more items are waiting, Move returns the
// number of items moved. Leased items are left alone, and return to the queue unless completed:
// call Move again until [Queue.Counts] returns zeros.
//
// An item is put before being completed here, so no item is lost. An item may be put twice, if the
// program dies in between or put takes more than a minute: put should use the item's id, to make
// the second put ineffective. If put fails, the other items are moved, and finally the item goes
// back to the queue as the next item. The error then joins the errors of all these items, with
// their ids. After ten failures in a row, Move stops: the items are not the reason. Move also stops
// when the context ends.
//
// To keep moving items as they are added, use put as the handler of a [Worker]. Cost: two scripts
// per item.
func (q *Queue) Move(
	ctx context.Context, db redis.UniversalClient, put func(ctx context.Context, item *Item) error,
) (int, error) {
	m := mover{Queue: q, db: db, put: put, aside: map[string]*Item{}}
	err := m.all(ctx)
	m.giveBack(context.WithoutCancel(ctx))
	return m.moved, errors.Join(append(m.failed, err)...)
}

const (
	moveLease    = time.Minute // the lease of an item being moved
	mostFailures = 10          // how many items in a row may fail to move
)

// mover moves the items of a queue.
type mover struct {
	*Queue
	db  redis.UniversalClient
	put func(ctx context.Context, item *Item) error

	moved  int
	aside  map[string]*Item // could not be put, and still leased, by id
	order  []string         // of the ids
	failed []error
}

// all moves all movable items.
func (m *mover) all(ctx context.Context) error {
	for inARow := 0; inARow < mostFailures; {
		item, err := m.Lease(ctx, m.db, false, 0, moveLease)
		if err != nil {
			return err
		}
		if item == nil {
			left, err := m.QueueLen(ctx, m.db)
			if left == 0 || err != nil {
				return err
			}
			continue // an id without data
		}
		if m.aside[item.ID] != nil { // the lease has expired
			m.aside[item.ID] = item
			continue
		}
		if err := guard.Try(func() error { return m.put(ctx, item) }); err != nil {
			inARow++
			m.setAside(item, err)
			if ctx.Err() != nil {
				return ctx.Err()
			}
			continue
		}
		if _, err := m.Complete(ctx, m.db, item); err != nil {
			return err
		}
		inARow = 0
		m.moved++
	}
	return fmt.Errorf("the last %d items were not put", mostFailures)
}

func (m *mover) setAside(item *Item, err error) {
	m.aside[item.ID] = item
	m.order = append(m.order, item.ID)
	m.failed = append(m.failed, fmt.Errorf("item %q: %w", item.ID, err))
}

// giveBack returns the items set aside to the queue, in order. After an error, their leases expire.
func (m *mover) giveBack(ctx context.Context) {
	for _, id := range slices.Backward(m.order) {
		_, _ = m.Release(ctx, m.db, m.aside[id])
	}
}
