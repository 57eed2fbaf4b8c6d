package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// floorSession performs the reads and writes that the layout requires as bare commands, in batches
// on one connection. Nothing is checked and nothing is atomic: it is not a queue but a lower bound
// for any script.
type floorSession struct {
	rdb  *redis.Client
	load load
	next atomic.Int64
}

// floorBatch is how many jobs a pipeline handles.
const floorBatch = 100

func openFloor(_ context.Context, s *server, l load) (session, error) {
	return &floorSession{rdb: s.dial(1), load: l}, nil
}

func (s *floorSession) enqueue(ctx context.Context, jobs int) error {
	return batches(jobs, floorBatch, func(count int) error {
		_, err := s.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
			now := stamp()
			for range count {
				jid := jidOf(s.next.Add(1))
				p.HSet(ctx, "ql:j:"+jid, "jid", jid, "klass", klass, "data", s.load.payload, "priority", 0,
					"tags", "[]", "state", "waiting", "worker", "", "expires", 0, "queue", queueName,
					"retries", 5, "remaining", 5, "time", now)
				p.RPush(ctx, "ql:j:"+jid+"-history", historyEntry(now, `"put",{"q":"`+queueName+`"}`))
				p.Do(ctx, "zadd", workKey, s.next.Load(), jid)
				p.Publish(ctx, "ql:log", `{"jid":"`+jid+`","event":"put","queue":"`+queueName+`"}`)
			}
			p.Do(ctx, "zadd", "ql:queues", now, queueName)
			return nil
		})
		return err
	})
}

const (
	workKey  = "ql:q:" + queueName + "-work"
	locksKey = "ql:q:" + queueName + "-locks"
	heldKey  = "ql:w:w:jobs"
)

func (s *floorSession) work(ctx context.Context, to *crew) error {
	go func() {
		for {
			taken, err := s.rdb.ZPopMin(ctx, workKey, floorBatch).Result()
			if err == nil && len(taken) > 0 {
				jids := make([]string, len(taken))
				for i, job := range taken {
					jids[i] = job.Member.(string)
				}
				if err = errors.Join(s.lock(ctx, jids), s.complete(ctx, jids, to)); err == nil {
					continue
				}
			}
			if err != nil {
				to.fail(err)
			}
			return
		}
	}()
	return nil
}

// lock assigns jobs to a worker.
func (s *floorSession) lock(ctx context.Context, jids []string) error {
	_, err := s.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		now := stamp()
		locks := make([]any, 0, 2*len(jids))
		for _, jid := range jids {
			p.HMGet(ctx, "ql:j:"+jid, "jid", "klass", "state", "queue", "worker", "priority", "expires",
				"retries", "remaining", "data", "tags", "failure", "time")
			p.RPush(ctx, "ql:j:"+jid+"-history", historyEntry(now, `"popped",{"worker":"w"}`))
			p.HSet(ctx, "ql:j:"+jid, "state", "running", "worker", "w", "expires", now, "time", now)
			locks = append(locks, now, jid)
		}
		p.Do(ctx, append([]any{"zadd", locksKey}, locks...)...)
		p.Do(ctx, append([]any{"zadd", heldKey}, locks...)...)
		p.Do(ctx, "zadd", "ql:workers", now, "w")
		p.HSet(ctx, "ql:s:wait:0:"+queueName, "total", len(jids), "mean", 0, "vk", 0, "s0", len(jids))
		return nil
	})
	return err
}

// complete completes jobs.
func (s *floorSession) complete(ctx context.Context, jids []string, to *crew) error {
	_, err := s.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		now := stamp()
		var held, completed []any
		for _, jid := range jids {
			to.handled()
			p.HMGet(ctx, "ql:j:"+jid, "worker", "state", "priority", "retries", "queue", "time")
			p.RPush(ctx, "ql:j:"+jid+"-history", historyEntry(now, `"done"`))
			p.HSet(ctx, "ql:j:"+jid, "state", "complete", "queue", "", "time", now, "worker", "",
				"failure", "{}", "expires", 0, "remaining", 5)
			p.Publish(ctx, "ql:log", `{"jid":"`+jid+`","event":"completed","queue":"`+queueName+`"}`)
			held, completed = append(held, jid), append(completed, now, jid)
		}
		p.ZRem(ctx, locksKey, held...)
		p.ZRem(ctx, heldKey, held...)
		p.Do(ctx, append([]any{"zadd", "ql:completed"}, completed...)...)
		p.HSet(ctx, "ql:s:run:0:"+queueName, "total", len(jids), "mean", 0, "vk", 0, "s0", len(jids))
		return nil
	})
	return err
}

// stamp is the current time as scripts write it.
func stamp() string {
	return fmt.Sprintf("%.6f", float64(time.Now().UnixMicro())/1e6)
}

func historyEntry(now, what string) string {
	seconds, _, _ := strings.Cut(now, ".")
	return "[" + seconds + "," + what + "]"
}

func (s *floorSession) done(ctx context.Context) (int, error) {
	return countCompleted(ctx, s.rdb)
}

func (s *floorSession) close() error { return s.rdb.Close() }
