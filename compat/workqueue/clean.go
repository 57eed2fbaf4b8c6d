package workqueue

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/qless/qless-go/internal/redisx"
)

// cleanBatch bounds how many ids one script looks at.
const cleanBatch = 200

// Cleaned says what a cleaning did.
type Cleaned struct {
	Dropped []string // ids without data that were taken out of the processing list
	Reset   []string // items that were put back into the queue
}

// LightClean puts the items back whose leases have ended, or were never made, at the end of
// the queue, and takes ids without data out of the processing list. Of several the one that
// has been there longest goes first.
//
// It stands for LRANGE of the processing list, and for each id EXISTS of its leases and its
// data, LREM and LPUSH. The steps for one id are atomic, so that an item that is renewed,
// completed or put back by somebody else meanwhile is left alone. After an error some may be
// done; any number may clean at once. Cost: a round trip for the list and one for every 200
// ids in it, one to four commands for an id.
//
// Run it about as often as the shortest lease lasts: see [Cleaner].
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

// DeepClean finds items that are in no list, which a client that died in the middle of
// something can leave, and puts them at the end of the queue, together with those whose
// leases have ended.
//
// It stands for a search of all keys of items, LRANGE of the queue, and for each item that
// is neither in it nor leased LREM and LPUSH. The steps for one item are atomic. Keys are
// looked for by SCAN, which does not hold up the server, and by the literal prefix, even if
// that has characters of patterns. An item that another client is just adding, between its
// two commands, can come into the queue twice, which does no harm. After an error some may
// be done; any number may clean at once. Cost: a walk through all keys of the server, the
// whole queue sent to the client, two to five commands for an item that is not in it.
//
// It is seldom needed: every six hours is often enough. See [Cleaner].
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
	var cleaned Cleaned
	for batch := range slices.Chunk(sorted(ids), cleanBatch) {
		reply, err := deepScript.run(ctx, db, []string{q.queue, q.processing}, q.cleanArgs(batch)...)
		if err != nil {
			return cleaned, wrap("deep clean", "", err)
		}
		cleaned.Reset = append(cleaned.Reset, texts(reply)...)
	}
	return cleaned, nil
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
	var mu sync.Mutex // nodes are walked at the same time
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
		err = db.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error { return walk(ctx, node) })
	case *redis.Ring:
		err = db.ForEachShard(ctx, func(ctx context.Context, node *redis.Client) error { return walk(ctx, node) })
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
