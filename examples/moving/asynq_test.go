package main

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
	"github.com/qless/qless-go/internal/testkit"
)

func TestTasksOfAsynq(t *testing.T) {
	e := newEnv(t)
	e.putTasks()
	require.NoError(t, e.moveAsynq(t.Context()))
	require.Equal(t, 4, e.moved)
	require.Empty(t, e.left)
	jobs := e.jobs("mail", inspect.Waiting, inspect.Scheduled)
	require.Len(t, jobs, 3)

	now := jobs["now"]
	require.Equal(t, "own-id", now.JID)
	require.Equal(t, `{"to":"ann"}`, string(now.Data))
	require.Equal(t, 7, now.Retries)
	require.Equal(t, qless.Headers{"trace": "1"}, now.Headers)
	require.Equal(t, time.Minute, now.Options.MaxRunTime)
	require.WithinDuration(t, later(time.Hour), now.Options.TTL, time.Minute)
	require.Equal(t, qless.StateWaiting, now.State)

	require.JSONEq(t, `{"payload":"AP8="}`, string(jobs["bytes"].Data))
	require.Equal(t, qless.StateScheduled, jobs["later"].State)
	require.WithinDuration(t, later(24*time.Hour), jobs["later"].Due, time.Minute)
	failing := e.jobs("failing", inspect.Scheduled)["failing"]
	require.Equal(t, 2, failing.Retries, "of 3, one is used up")
	require.WithinDuration(t, later(2*time.Hour), failing.Due, time.Minute)

	info := e.info("mail")
	require.Zero(t, info.Size)
	require.False(t, info.Paused)
	require.NoError(t, e.moveAsynq(t.Context()))
	require.Equal(t, 4, e.moved, "there was nothing left")
}

func TestTasksOfAsynqAreMovedOnceEach(t *testing.T) {
	e := newEnv(t)
	e.putTasks()
	e.enqueue("once", nil, asynq.TaskID("daily"), asynq.Queue("mail"))
	e.enqueue("twice", nil, asynq.TaskID("daily"), asynq.Queue("failing"))
	e.killed(e.moveAsynq)
	require.Equal(t, 6, e.moved)
	require.Empty(t, e.left)
}

// Asynq's ids are unique in a queue, and only as long as the task exists.
func TestTasksWithTheSameIDAreAllMoved(t *testing.T) {
	e := newEnv(t)
	for _, queue := range []string{"mail", "pay"} {
		e.enqueue("report", nil, asynq.TaskID("daily"), asynq.Queue(queue))
	}
	require.NoError(t, e.moveAsynq(t.Context()))
	require.Equal(t, 2, e.moved)
	require.Equal(t, map[string]int{"report": 1}, e.worked("mail"))
	require.Equal(t, map[string]int{"report": 1}, e.worked("pay"))

	e = e.again()
	e.enqueue("report", nil, asynq.TaskID("daily"), asynq.Queue("mail"))
	require.NoError(t, e.moveAsynq(t.Context()))
	require.Equal(t, 1, e.moved)
	require.Equal(t, map[string]int{"report": 1}, e.worked("mail"))
}

// A task with a mover that died before the put is not taken for an equal job that has run.
func TestATaskThatWasNotPutIsNotDeleted(t *testing.T) {
	for range 2 {
		e := newEnv(t)
		for run := range 3 {
			e = e.again()
			e.enqueue("report", nil, asynq.TaskID("daily"), asynq.Queue("mail"))
			e.killed(e.moveAsynq)
			require.Equal(t, 1, e.moved, "run %d", run)
			require.Zero(t, e.info("mail").Size)
		}
	}
}

func TestATaskThatCanNotBeMovedStopsNoOther(t *testing.T) {
	e := newEnv(t)
	nested := strings.Repeat("[", 1001) + strings.Repeat("]", 1001)
	e.enqueue("nested", []byte(nested), asynq.TaskID("nested"))
	e.enqueue("named", nil, asynq.TaskID("a-history"))
	e.enqueue("large", []byte(`"`+strings.Repeat("x", 9<<20)+`"`), asynq.TaskID("large"))
	e.enqueue("odd", nil, asynq.TaskID("odd"))
	require.NoError(t, e.rdb.HSet(t.Context(), "asynq:{default}:t:odd", "msg", "nonsense").Err())
	e.enqueue("gone", nil, asynq.TaskID("gone"))
	require.NoError(t, e.rdb.Del(t.Context(), "asynq:{default}:t:gone").Err())
	for range 150 {
		e.enqueue("good", nil)
	}
	e.enqueue("grouped", nil, asynq.Group("g"))
	e.enqueue("grouped", nil, asynq.Group("g"))
	for run := range 2 {
		e = e.again()
		require.NoError(t, e.moveAsynq(t.Context()))
		require.Equal(t, 150*(1-run), e.moved)
		e.requireLeft("task nested: ", "task a-history: ", "task large: ", "task odd: ", "task gone: ",
			"group g: asynq aggregates its 2 tasks")
		require.Equal(t, int64(5), e.rdb.LLen(t.Context(), "asynq:{default}:pending").Val())
		require.Equal(t, int64(2), e.rdb.ZCard(t.Context(), "asynq:{default}:g:g").Val())
		require.Zero(t, e.rdb.Exists(t.Context(), "asynq:{default}:paused").Val(), "its workers find them")
	}
}

func TestAQueueThatWasPausedStaysPaused(t *testing.T) {
	e := newEnv(t)
	e.enqueue("k", nil)
	require.NoError(t, asynq.NewInspectorFromRedisClient(e.rdb).PauseQueue("default"))
	require.NoError(t, e.moveAsynq(t.Context()))
	require.Equal(t, 1, e.moved)
	require.True(t, e.info("default").Paused)
}

// While a task's put is in doubt, no worker of asynq may receive the task.
func TestAMoveThatBreaksOffLeavesTheQueuePaused(t *testing.T) {
	e := newEnv(t)
	e.enqueue("k", nil)
	died := errors.New("died")
	e.step = func() error { return died }
	require.ErrorIs(t, e.moveAsynq(t.Context()), died)
	require.True(t, e.info("default").Paused)
	e = e.again()
	require.NoError(t, e.moveAsynq(t.Context()))
	require.Equal(t, 1, e.moved)
	require.False(t, e.info("default").Paused)
}

func TestATaskThatIsUniqueLeavesNoLock(t *testing.T) {
	e := newEnv(t)
	e.enqueue("k", nil, asynq.Unique(time.Hour))
	require.NoError(t, e.moveAsynq(t.Context()))
	e.enqueue("k", nil, asynq.Unique(time.Hour))
	require.NoError(t, e.moveAsynq(t.Context()))
	require.Equal(t, 2, e.moved)
	require.Equal(t, map[string]int{"k": 2}, e.worked("default"))
}

func (e *env) enqueue(typ string, payload []byte, options ...asynq.Option) {
	e.Helper()
	client := asynq.NewClientFromRedisClient(e.rdb)
	_, err := client.EnqueueContext(e.Context(), asynq.NewTask(typ, payload), options...)
	require.NoError(e, err)
}

func (e *env) info(queue string) *asynq.QueueInfo {
	e.Helper()
	info, err := asynq.NewInspectorFromRedisClient(e.rdb).GetQueueInfo(queue)
	require.NoError(e, err)
	return info
}

// putTasks makes asynq write a task in each state.
func (e *env) putTasks() {
	e.Helper()
	client := asynq.NewClientFromRedisClient(e.rdb)
	for _, task := range []*asynq.Task{
		asynq.NewTaskWithHeaders("now", []byte(`{"to":"ann"}`), map[string]string{"trace": "1"},
			asynq.TaskID("own-id"), asynq.MaxRetry(7), asynq.Timeout(time.Minute),
			asynq.Deadline(time.Now().Add(time.Hour)), asynq.Queue("mail")),
		asynq.NewTask("bytes", []byte{0, 255}, asynq.Queue("mail")),
		asynq.NewTask("later", nil, asynq.ProcessIn(24*time.Hour), asynq.Queue("mail")),
		asynq.NewTask("failing", nil, asynq.MaxRetry(3), asynq.Queue("failing")),
	} {
		_, err := client.EnqueueContext(e.Context(), task)
		require.NoError(e, err)
	}
	failed := make(chan struct{}, 1)
	server := asynq.NewServerFromRedisClient(e.rdb, asynq.Config{
		Queues: map[string]int{"failing": 1}, LogLevel: asynq.FatalLevel,
		RetryDelayFunc: func(int, error, *asynq.Task) time.Duration { return 2 * time.Hour },
	})
	require.NoError(e, server.Start(asynq.HandlerFunc(func(context.Context, *asynq.Task) error {
		failed <- struct{}{}
		return errors.New("not today")
	})))
	testkit.Soon(e, "the task has failed", failed)
	server.Shutdown()
}
