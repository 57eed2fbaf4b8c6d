package main

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// moving is a list beside Sidekiq's own for jobs being moved: at most one, which stays if the
// program dies.
const moving = "qless:moving"

var (
	// take moves an entry of a queue, or of a sorted set, to the list of entries being moved.
	take = redis.NewScript(`
		local n = ARGV[3] and redis.call('zrem', KEYS[1], ARGV[1])
			or redis.call('lrem', KEYS[1], -1, ARGV[1])
		if n == 1 then redis.call('lpush', KEYS[2], ARGV[2]) end
		return n`)

	// giveBack does the reverse.
	giveBack = redis.NewScript(`
		if redis.call('lrem', KEYS[2], -1, ARGV[2]) == 0 then return 0 end
		if ARGV[3] then return redis.call('zadd', KEYS[1], ARGV[3], ARGV[1]) end
		return redis.call('rpush', KEYS[1], ARGV[1])`)
)

// moveSidekiq moves the jobs of all queues, and of the scheduled and retry sets. Each job is first
// moved out of reach of Sidekiq's processes.
func (m *mover) moveSidekiq(ctx context.Context) error {
	if err := m.finishAll(ctx); err != nil { // jobs taken by an earlier run
		return err
	}
	for _, set := range []string{"schedule", "retry"} {
		err := m.each(ctx, m.sortedSet(m.prefix+set), func(text string, score float64) (bool, error) {
			due := strconv.FormatFloat(score, 'f', -1, 64)
			return m.takeEntry(ctx, &taken{From: set, Due: due, text: text})
		})
		if err != nil {
			return err
		}
	}
	queues, err := m.rdb.SMembers(ctx, m.prefix+"queues").Result()
	if err != nil {
		return err
	}
	slices.Sort(queues)
	for _, queue := range queues {
		key := "queue:" + queue
		err := m.each(ctx, m.list(m.prefix+key), func(text string, _ float64) (bool, error) {
			return m.takeEntry(ctx, &taken{From: key, text: text})
		})
		if err != nil {
			return err
		}
	}
	if len(queues) == 0 && m.moved+len(m.left) == 0 {
		return errors.New("no queue of Sidekiq is here: is it another database of the Redis," +
			" or a namespace (-from-namespace)?")
	}
	return nil
}

// taken is an entry being moved. In the list, its line is JSON with the entry's origin and new jid
// and, after a line break, the entry itself.
type taken struct {
	From string `json:"from"`          // schedule, retry, or queue: and a name
	Due  string `json:"due,omitempty"` // the entry's score
	JID  string `json:"jid"`

	text string
}

func (t *taken) line() string {
	head, _ := json.Marshal(t)
	return string(head) + "\n" + t.text
}

// takenIn reads a line.
func takenIn(line string) (*taken, error) {
	head, text, _ := strings.Cut(line, "\n")
	t := &taken{text: text}
	err := json.Unmarshal([]byte(head), t)
	if err == nil && (t.From == "" || t.JID == "") {
		err = errors.New("not written by this program")
	}
	return t, err
}

// id distinguishes entries.
func (t *taken) id() string { return t.From + ": " + t.text }

// runOn runs take or giveBack.
func (t *taken) runOn(ctx context.Context, m *mover, script *redis.Script) (int, error) {
	args := []any{t.text, t.line()}
	if t.Due != "" {
		args = append(args, t.Due)
	}
	return script.Run(ctx, m.rdb, []string{m.prefix + t.From, m.prefix + moving}, args...).Int()
}

// takeEntry moves an entry of Sidekiq, and reports whether it has left its key.
func (m *mover) takeEntry(ctx context.Context, t *taken) (bool, error) {
	if m.aside[t.id()] {
		return false, nil
	}
	p, err := readPayload(t)
	if err != nil {
		m.leave(t.id(), p.name(t), err.Error())
		return false, nil
	}
	if t.JID, err = m.freeJID(ctx, p.JID); err != nil {
		return false, err
	}
	n, err := t.runOn(ctx, m, take)
	if err != nil || n == 0 {
		return err == nil, err // Sidekiq was faster
	}
	if err := m.step(); err != nil {
		return true, err
	}
	return true, m.finish(ctx, t)
}

// finishAll moves the entries taken by an earlier run.
func (m *mover) finishAll(ctx context.Context) error {
	return m.each(ctx, m.list(m.prefix+moving), func(line string, _ float64) (bool, error) {
		t, err := takenIn(line)
		if err != nil {
			t = &taken{From: moving, text: line}
			m.leave(t.id(), (&payload{}).name(t), err.Error())
			return false, nil
		}
		return true, m.finish(ctx, t)
	})
}

// finish puts a taken job, or gives it back to Sidekiq.
func (m *mover) finish(ctx context.Context, t *taken) error {
	p, err := readPayload(t)
	problem := ""
	if err == nil {
		problem, err = m.put(ctx, t.JID, p.job(t))
	} else {
		problem, err = err.Error(), nil
	}
	switch {
	case err != nil:
		return err
	case problem != "":
		m.leave(t.id(), p.name(t), problem)
		_, err = t.runOn(ctx, m, giveBack)
		return err
	}
	for _, field := range p.unknown {
		m.fields[field]++
	}
	return m.rdb.LRem(ctx, m.prefix+moving, -1, t.line()).Err()
}
