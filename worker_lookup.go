package qless

import (
	"context"
	"hash/maphash"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
)

// relistAfter is how old the list of queues may be that a worker of patterns goes by.
const relistAfter = 5 * time.Minute

// A queueLookup is what a worker of patterns knows about the queues that exist. It reads the list of
// all when it begins, and now and then. In between, the server tells it of new queues. If there are
// others, because it has missed some or other clients tell nobody, their number is not as expected.
type queueLookup struct {
	choice   *queueChoice
	known    hashes
	count    int // how many queues the server should have
	listedAt time.Time
	lookedAt time.Time
	tooMany  int // how many queues the patterns matched when that was last logged
}

// A queueNews is what a worker of patterns has heard of queues.
type queueNews struct {
	appeared []string
	woken    []string // may have jobs
	missed   bool     // others may have appeared
}

// resolve finds out which queues there are, if that is due. It reports whether it asked the server.
// If it fails, it has the loop try again.
func (l *workLoop) resolve(ctx context.Context) (looked bool, err error) {
	if !l.lookup.choice.patterns.watch() {
		return false, nil
	}
	news := l.w.listener.takeNews()
	changed := l.lookup.learn(news)
	if changed { // others have heard of the new queue too, and it is enough if one looks
		l.reservation.polls = true
	}
	if looked, err = l.look(ctx, news.missed); err != nil {
		l.w.listener.missedQueues()
	}
	if looked || changed {
		l.setAsked()
	}
	return looked, err
}

// learn adds the queues that were heard of. It reports whether those that are asked have changed.
func (q *queueLookup) learn(news queueNews) (changed bool) {
	for _, queue := range news.appeared {
		if q.known.add(queue) {
			q.count++
		}
	}
	for _, queue := range slices.Concat(news.appeared, news.woken) {
		changed = q.choice.add(queue) || changed
	}
	return changed
}

// look finds out whether there are other queues, and reads the list of all, if that is due.
func (l *workLoop) look(ctx context.Context, missed bool) (looked bool, err error) {
	q, c := &l.lookup, l.w.client
	switch {
	case time.Since(q.listedAt) >= relistAfter:
		err = l.list(ctx)
	case !missed && time.Since(q.lookedAt) < l.w.cfg.PollInterval/2:
		return false, nil
	default:
		var count int
		if count, err = c.countQueues(ctx); err == nil && count != q.count {
			err = l.list(ctx)
		}
	}
	if err == nil && q.choice.areTooMany() {
		var ready []string
		if ready, err = c.readyQueues(ctx, q.choice.matched()); err == nil {
			q.choice.limit(ready)
		}
	}
	if err == nil {
		q.lookedAt = time.Now()
	}
	return true, err
}

// list reads the list of all queues.
func (l *workLoop) list(ctx context.Context) error {
	known, err := l.w.client.knownQueues(ctx)
	if err != nil {
		return err
	}
	q := &l.lookup
	q.choice.reset(known)
	q.known = newHashes(known)
	q.count, q.listedAt = len(known), time.Now()
	return nil
}

// hashes are those of texts, in order. They take less memory than the texts.
type hashes []uint64

// hashSeed is what all hashes begin with.
var hashSeed = maphash.MakeSeed()

func newHashes(texts []string) hashes {
	h := make(hashes, len(texts))
	for i, text := range texts {
		h[i] = maphash.String(hashSeed, text)
	}
	slices.Sort(h)
	return h
}

// add adds a text, and reports whether it was not there.
func (h *hashes) add(text string) bool {
	hash := maphash.String(hashSeed, text)
	i, found := slices.BinarySearch(*h, hash)
	if !found {
		*h = slices.Insert(*h, i, hash)
	}
	return !found
}

// setAsked notes which queues are asked.
func (l *workLoop) setAsked() {
	queues := l.lookup.choice.asked
	l.reservation.ask(queues)
	l.mu.Lock()
	l.queues = slices.Clone(queues)
	l.mu.Unlock()
	l.warnOfTooMany()
}

// warnOfTooMany logs that the patterns match more queues than are asked, once unless their number
// changes a lot.
func (l *workLoop) warnOfTooMany() {
	logged, matched := &l.lookup.tooMany, len(l.lookup.choice.has)
	switch {
	case matched <= maxReserve:
		*logged = 0
	case *logged == 0 || matched > *logged*3/2 || matched < *logged*2/3:
		*logged = matched
		l.w.log.tooManyQueues(matched)
	}
}

// readyQueues returns those of the queues that have jobs for a worker, now or later.
func (c *Client) readyQueues(ctx context.Context, queues []string) ([]string, error) {
	var all []string
	for some := range slices.Chunk(queues, maxReserve) {
		reply, err := c.run(ctx, "queues.ready", "", anys(nil, some...)...)
		if err != nil {
			return nil, err
		}
		ready, err := decodeStrings("queues.ready", reply)
		if err != nil {
			return nil, err
		}
		all = append(all, ready...)
	}
	return all, nil
}

// knownQueues returns the names of the known queues, in the order in which they were first seen.
// Queues that are not in the list that clients of other languages use come last.
func (c *Client) knownQueues(ctx context.Context) ([]string, error) {
	sent := time.Now()
	listed, err := c.rdb.ZRange(ctx, c.prefix+"queues", 0, -1).Result()
	if err == nil {
		var unlisted []string
		unlisted, err = c.rdb.ZRange(ctx, c.prefix+"x:queues", 0, -1).Result()
		listed = append(listed, unlisted...)
	}
	err = wrap("queues", "", err)
	if c.observe != nil {
		c.observed(ctx, "queues", "", nil, nil, sent, err)
	}
	return listed, err
}

// countQueues returns how many queues knownQueues returns.
func (c *Client) countQueues(ctx context.Context) (int, error) {
	sent := time.Now()
	counts, err := c.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		p.ZCard(ctx, c.prefix+"queues")
		p.ZCard(ctx, c.prefix+"x:queues")
		return nil
	})
	err = wrap("queues.count", "", err)
	if c.observe != nil {
		c.observed(ctx, "queues.count", "", nil, nil, sent, err)
	}
	if err != nil {
		return 0, err
	}
	sum := 0
	for _, count := range counts {
		sum += int(count.(*redis.IntCmd).Val())
	}
	return sum, nil
}
