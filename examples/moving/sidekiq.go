package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/qless/qless-go"
)

// moving is a list beside Sidekiq's own with the jobs that are being moved: at most one, which
// stays if the program dies.
const moving = "qless:moving"

// takeDue moves the first entry of a sorted set to the list of jobs being moved, and prepends its
// score.
var takeDue = redis.NewScript(`
	local found = redis.call('zrange', KEYS[1], 0, 0, 'withscores')
	if #found == 0 then return 0 end
	redis.call('zrem', KEYS[1], found[1])
	redis.call('lpush', KEYS[2], found[2] .. '|' .. found[1])
	return 1`)

// moveSidekiq moves the jobs of all queues, and of the scheduled and retry sets. It first moves
// each job out of the reach of Sidekiq's processes.
func (m *mover) moveSidekiq(ctx context.Context) error {
	if err := m.finish(ctx); err != nil { // jobs taken by an earlier run
		return err
	}
	for _, set := range []string{"schedule", "retry"} {
		for {
			taken, err := takeDue.Run(ctx, m.rdb, []string{set, moving}).Int()
			if err != nil {
				return err
			}
			if taken == 0 {
				break
			}
			if err := m.finish(ctx); err != nil {
				return err
			}
		}
	}
	queues, err := m.rdb.SMembers(ctx, "queues").Result()
	if err != nil {
		return err
	}
	for _, queue := range queues {
		for {
			err := m.rdb.LMove(ctx, "queue:"+queue, moving, "RIGHT", "LEFT").Err()
			if errors.Is(err, redis.Nil) {
				break
			}
			if err != nil {
				return err
			}
			if err := m.finish(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// finish puts the jobs that have been taken.
func (m *mover) finish(ctx context.Context) error {
	for {
		entry, err := m.rdb.LIndex(ctx, moving, -1).Result()
		if errors.Is(err, redis.Nil) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := m.putEntry(ctx, entry); err != nil {
			return err
		}
		if err := m.rdb.LRem(ctx, moving, -1, entry).Err(); err != nil {
			return err
		}
	}
}

// A payload is a job of Sidekiq.
type payload struct {
	Class   string          `json:"class"`
	JID     string          `json:"jid"`
	Queue   string          `json:"queue"`
	Args    json.RawMessage `json:"args"`
	Retry   any             `json:"retry"`       // true, false or a number
	Retried *int            `json:"retry_count"` // from 0 on
	Tags    []string        `json:"tags"`
}

// usualRetries is how often Sidekiq retries a job whose retry is true.
const usualRetries = 25

func (m *mover) putEntry(ctx context.Context, entry string) error {
	var options []qless.PutOption
	text := entry
	if score, rest, scheduled := strings.Cut(entry, "|"); scheduled && !strings.HasPrefix(entry, "{") {
		seconds, err := strconv.ParseFloat(score, 64)
		if err != nil {
			return fmt.Errorf("the score %q is not a time", score)
		}
		text = rest
		options = append(options, qless.At(time.UnixMicro(int64(seconds*1e6))))
	}
	var p payload
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		return fmt.Errorf("a job of Sidekiq is not JSON: %w", err)
	}
	if p.Queue == "" {
		p.Queue = "default"
	}
	if len(p.Tags) > 0 {
		options = append(options, qless.Tags(p.Tags))
	}
	options = append(options, qless.Retries(p.retriesLeft()))
	return m.put(ctx, p.Queue, p.Class, p.JID, p.Args, options...)
}

// retriesLeft returns how often the job may still be retried.
func (p *payload) retriesLeft() int {
	left := 0
	switch retry := p.Retry.(type) {
	case bool:
		if retry {
			left = usualRetries
		}
	case float64:
		left = int(retry)
	}
	if p.Retried != nil {
		left -= *p.Retried + 1
	}
	return max(left, 0)
}
