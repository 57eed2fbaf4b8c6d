package workqueue

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/qless/qless-go/internal/redisx"
)

// Cleaned is the result of a cleaning.
type Cleaned struct {
	Dropped []string // ids without data, removed from the processing list
	Reset   []string // requeued items
}

// cleanBatch is the maximum number of ids handled by one script.
const cleanBatch = 200

// LightClean requeues items without a lease from the processing list, at the end of the queue, and
// removes ids without data from the list. It starts with the oldest items in the list.
//
// LightClean performs LRANGE of the processing list, and for each id EXISTS of its leases and its
// data, LREM and LPUSH. The steps for one id are atomic, so an item renewed, completed or requeued
// meanwhile is left alone. After an error, part of the work may be done. Any number of cleaners may
// run at once. Cost: a round trip for the list and one for every 200 ids in it, one to four
// commands per id.
//
// The interval between light cleanings should be about the shortest lease: see [Cleaner].
func (q *Queue) LightClean(ctx context.Context, db redis.UniversalClient) (Cleaned, error) {
	ids, err := db.LRange(ctx, q.processing, 0, -1).Result()
	if err != nil {
		return Cleaned{}, wrap("light clean", "", err)
	}
	slices.Reverse(ids)
	var cleaned Cleaned
	for batch := range slices.Chunk(ids, cleanBatch) {
		reply, err := lightScript.run(ctx, db, []string{q.queue, q.processing}, q.cleanArgs(batch)...)
		if err != nil {
			return cleaned, wrap("light clean", "", err)
		}
		lists, _ := reply.([]any)
		if len(lists) == 2 {
			cleaned.Reset = append(cleaned.Reset, texts(lists[0])...)
			cleaned.Dropped = append(cleaned.Dropped, texts(lists[1])...)
		}
	}
	return cleaned, nil
}

// DeepClean finds orphaned items, left in no list by a client that died in the middle of an
// operation, and adds them to the end of the queue, together with items with expired leases. A
// leased orphan goes into the processing list, for the first light cleaning after the lease has
// expired.
//
// DeepClean searches all keys of items, performs LRANGE of both lists, and for each item neither
// queued nor leased LREM and LPUSH. The steps for one item are atomic. Keys are found by SCAN,
// which does not block the server, and by the literal prefix, even with pattern characters. An item
// being added by another client, between two commands, may be queued twice, which is harmless.
// After an error, part of the work may be done. Any number of cleaners may run at once. Cost: a
// scan of all keys of the server, sending both lists to the client, and one to six commands per
// item outside the queue.
//
// DeepClean is rarely needed: every six hours is often enough. See [Cleaner].
func (q *Queue) DeepClean(ctx context.Context, db redis.UniversalClient) (Cleaned, error) {
	ids, err := q.itemIDs(ctx, db)
	if err != nil {
		return Cleaned{}, wrap("deep clean", "", err)
	}
	queued, err := db.LRange(ctx, q.queue, 0, -1).Result()
	if err != nil {
		return Cleaned{}, wrap("deep clean", "", err)
	}
	for _, id := range queued {
		delete(ids, id)
	}
	taken, err := db.LRange(ctx, q.processing, 0, -1).Result()
	if err != nil {
		return Cleaned{}, wrap("deep clean", "", err)
	}
	processing := map[string]bool{}
	for _, id := range taken {
		if ids[id] {
			processing[id] = true
			delete(ids, id)
		}
	}
	var cleaned Cleaned
	for _, part := range []deepPart{{processing, ""}, {ids, "1"}} {
		for batch := range slices.Chunk(sorted(part.ids), cleanBatch) {
			args := slices.Insert(q.cleanArgs(batch), 3, any(part.unlisted))
			reply, err := deepScript.run(ctx, db, []string{q.queue, q.processing}, args...)
			if err != nil {
				return cleaned, wrap("deep clean", "", err)
			}
			cleaned.Reset = append(cleaned.Reset, texts(reply)...)
		}
	}
	return cleaned, nil
}

// A deepPart holds ids for a deep cleaning to examine; unlisted is 1 if they may be in no list.
type deepPart struct {
	ids      map[string]bool
	unlisted string
}

func (q *Queue) cleanArgs(ids []string) []any {
	args := make([]any, 0, 3+len(ids))
	args = append(args, q.items, q.leases, q.oldLeases)
	for _, id := range ids {
		args = append(args, id)
	}
	return args
}

// itemIDs returns the ids of all items.
func (q *Queue) itemIDs(ctx context.Context, db redis.UniversalClient) (map[string]bool, error) {
	ids := map[string]bool{}
	var mu sync.Mutex // nodes are scanned concurrently
	walk := func(ctx context.Context, node redis.Cmdable) error {
		keys := node.Scan(ctx, 0, redisx.EscapeGlob(q.items)+"*", 1000).Iterator()
		for keys.Next(ctx) {
			id := strings.TrimPrefix(keys.Val(), q.items)
			mu.Lock()
			ids[id] = true
			mu.Unlock()
		}
		return keys.Err()
	}
	var err error
	switch db := db.(type) {
	case *redis.ClusterClient:
		err = db.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
			return walk(ctx, node)
		})
	case *redis.Ring:
		err = db.ForEachShard(ctx, func(ctx context.Context, node *redis.Client) error {
			return walk(ctx, node)
		})
	default:
		err = walk(ctx, db)
	}
	return ids, err
}

func sorted(set map[string]bool) []string {
	ids := make([]string, 0, len(set))
	for id := range set {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}
