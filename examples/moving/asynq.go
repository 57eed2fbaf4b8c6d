package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/qless/qless-go"
)

// mark is the value for pausing a queue of asynq by this program, and the field of a task with the
// jid for the moved task. A later task with the same id does not have the field.
const mark = "qless"

var (
	// unpause unpauses a queue if paused by this program.
	unpause = redis.NewScript(`
		return redis.call('get', KEYS[1]) == ARGV[1] and redis.call('del', KEYS[1]) or 0`)

	// choose stores the jid for an existing task, unless it has one, and returns the jid.
	choose = redis.NewScript(`
		if redis.call('exists', KEYS[1]) == 0 then return false end
		redis.call('hsetnx', KEYS[1], ARGV[1], ARGV[2])
		return redis.call('hget', KEYS[1], ARGV[1])`)
)

// moveAsynq moves the tasks of all queues.
func (m *mover) moveAsynq(ctx context.Context) error {
	inspector := asynq.NewInspectorFromRedisClient(m.rdb)
	queues, err := inspector.Queues()
	if err != nil {
		return err
	}
	slices.Sort(queues)
	for _, queue := range queues {
		t := &tasks{m, inspector, queue}
		if err := t.move(ctx); err != nil {
			return fmt.Errorf("queue %s, which may be paused now: run this program again: %w", queue, err)
		}
	}
	return nil
}

// tasks are the tasks of a queue of asynq.
type tasks struct {
	*mover
	inspector *asynq.Inspector
	queue     string
}

func (t *tasks) key(name string) string { return "asynq:{" + t.queue + "}:" + name }

// move moves the tasks of a queue. Meanwhile, the queue is paused, to keep servers from taking a
// task being moved. After an error the queue stays paused, because it may be unknown whether a task
// was put.
func (t *tasks) move(ctx context.Context) error {
	if err := t.rdb.SetNX(ctx, t.key("paused"), mark, 0).Err(); err != nil {
		return err
	}
	for _, entries := range []page{
		t.sortedSet(t.key("scheduled")), t.sortedSet(t.key("retry")), t.list(t.key("pending")),
	} { // pending tasks last, because others become pending meanwhile
		err := t.each(ctx, entries, func(id string, _ float64) (bool, error) { return t.one(ctx, id) })
		if err != nil {
			return err
		}
	}
	if err := t.nameGroups(); err != nil {
		return err
	}
	return unpause.Run(ctx, t.rdb, []string{t.key("paused")}, mark).Err()
}

// nameGroups reports the tasks waiting to become one.
func (t *tasks) nameGroups() error {
	groups, err := t.inspector.Groups(t.queue)
	for _, g := range groups {
		name := fmt.Sprintf("queue %s: group %s", t.queue, g.Group)
		t.leave(name, name, fmt.Sprintf("asynq aggregates its %d tasks", g.Size))
	}
	return err
}

// one moves a task, and reports whether it has left its list.
func (t *tasks) one(ctx context.Context, id string) (bool, error) {
	name := fmt.Sprintf("queue %s: task %s", t.queue, id)
	if t.aside[name] {
		return false, nil
	}
	task, err := t.inspector.GetTaskInfo(t.queue, id)
	if err != nil {
		t.leave(name, name, err.Error())
		return false, t.rdb.Ping(ctx).Err()
	}
	switch task.State {
	case asynq.TaskStatePending, asynq.TaskStateScheduled, asynq.TaskStateRetry:
	default:
		return false, nil // by now
	}
	jid, err := t.freeJID(ctx, id)
	if err != nil {
		return false, err
	}
	jid, err = choose.Run(ctx, t.rdb, []string{t.key("t:" + id)}, mark, jid).Text()
	if errors.Is(err, redis.Nil) {
		return true, nil // the task is gone
	}
	if err != nil {
		return false, err
	}
	if err := t.step(); err != nil {
		return false, err
	}
	problem, err := t.put(ctx, jid, t.jobOf(task))
	if err != nil {
		return false, err
	}
	if problem != "" {
		t.leave(name, name, problem)
		return false, nil
	}
	err = t.inspector.DeleteTask(t.queue, id)
	if err != nil && !errors.Is(err, asynq.ErrTaskNotFound) {
		t.leave(name, name, "it is now the job "+jid+", but asynq does not delete it: "+err.Error())
		return false, t.rdb.Ping(ctx).Err()
	}
	return true, nil
}

// jobOf translates a task.
func (t *tasks) jobOf(task *asynq.TaskInfo) *job {
	j := &job{queue: t.queue, klass: task.Type}
	switch {
	case len(task.Payload) == 0:
	case json.Valid(task.Payload):
		j.data = task.Payload
	default: // in base64
		j.data, _ = json.Marshal(map[string][]byte{"payload": task.Payload})
	}
	j.options = append(j.options, qless.Retries(max(task.MaxRetry-task.Retried, 0)))
	if task.State != asynq.TaskStatePending {
		j.options = append(j.options, qless.At(task.NextProcessAt))
	}
	if len(task.Headers) > 0 {
		j.options = append(j.options, qless.Headers(task.Headers))
	}
	if task.Timeout > 0 {
		j.options = append(j.options, qless.MaxRunTime(task.Timeout))
	}
	if !task.Deadline.IsZero() { // a passed deadline ends the job at once, as in asynq
		j.options = append(j.options, qless.TTL(max(time.Until(task.Deadline), time.Second)))
	}
	return j
}
