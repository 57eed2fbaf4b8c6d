package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/hibiken/asynq"

	"github.com/qless/qless-go"
)

// moveAsynq moves the tasks of all queues. It pauses the queues first, so that no server takes a
// task that is being moved.
func (m *mover) moveAsynq(ctx context.Context) error {
	inspector := asynq.NewInspectorFromRedisClient(m.rdb)
	queues, err := inspector.Queues()
	if err != nil {
		return err
	}
	for _, queue := range queues {
		info, err := inspector.GetQueueInfo(queue)
		if err != nil {
			return err
		}
		if !info.Paused {
			if err := inspector.PauseQueue(queue); err != nil {
				return err
			}
		}
		for _, list := range []func(string, ...asynq.ListOption) ([]*asynq.TaskInfo, error){
			inspector.ListScheduledTasks, inspector.ListRetryTasks, inspector.ListPendingTasks,
		} { // pending ones last, because others become pending meanwhile
			if err := m.moveTasks(ctx, inspector, queue, list); err != nil {
				return err
			}
		}
	}
	return nil
}

// moveTasks moves the tasks of one list. Moved tasks leave the list, so its first page always has
// the next ones.
func (m *mover) moveTasks(
	ctx context.Context, inspector *asynq.Inspector, queue string,
	list func(string, ...asynq.ListOption) ([]*asynq.TaskInfo, error),
) error {
	for {
		tasks, err := list(queue, asynq.PageSize(100))
		if err != nil || len(tasks) == 0 {
			return err
		}
		for _, task := range tasks {
			if err := m.putTask(ctx, task); err != nil {
				return err
			}
			if err := inspector.DeleteTask(queue, task.ID); err != nil {
				return fmt.Errorf("task %s: %w", task.ID, err)
			}
		}
	}
}

func (m *mover) putTask(ctx context.Context, task *asynq.TaskInfo) error {
	var data any = task.Payload
	if len(task.Payload) == 0 {
		data = nil
	} else if !json.Valid(task.Payload) {
		data = struct {
			Payload []byte `json:"payload"` // in base64
		}{task.Payload}
	}
	options := []qless.PutOption{qless.Retries(max(task.MaxRetry-task.Retried, 0))}
	if task.State != asynq.TaskStatePending {
		options = append(options, qless.At(task.NextProcessAt))
	}
	if len(task.Headers) > 0 {
		options = append(options, qless.Headers(task.Headers))
	}
	if task.Timeout > 0 {
		options = append(options, qless.MaxRunTime(task.Timeout))
	}
	if !task.Deadline.IsZero() { // a passed deadline ends the job at once, as in asynq
		options = append(options, qless.TTL(max(time.Until(task.Deadline), time.Second)))
	}
	return m.put(ctx, task.Queue, task.Type, task.ID, data, options...)
}
