package main

import (
	"context"
	"errors"
	"os/exec"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
	"github.com/qless/qless-go/internal/testkit"
)

// An env has a Redis with the jobs of another queue, and a mover.
type env struct {
	*testing.T
	*mover
	redis *testkit.Server
}

func newEnv(t *testing.T) *env {
	t.Helper()
	testkit.Silence()
	server := testkit.Start(t)
	rdb := server.Client(t)
	client, err := qless.New(rdb, nil)
	require.NoError(t, err)
	return &env{t, &mover{rdb: rdb, client: client}, server}
}

// jobs returns the jobs of a queue by klass.
func (e *env) jobs(queue string, states ...inspect.List) map[string]*qless.Job {
	e.Helper()
	found := map[string]*qless.Job{}
	for _, state := range states {
		page, err := inspect.New(e.client).Queue(queue, state).JIDs(e.Context(), inspect.Range{Limit: -1})
		require.NoError(e, err)
		jobs, err := e.client.Jobs(e.Context(), page.Items...)
		require.NoError(e, err)
		for _, job := range jobs {
			found[job.Klass] = job
		}
	}
	return found
}

// killed runs a mover that dies after each put, until all jobs are moved. In between, a worker
// completes the jobs that can be popped.
func (e *env) killed(move func(context.Context) error) {
	e.Helper()
	died := errors.New("died")
	for runs := 0; ; runs++ {
		alive := 1 // the first put repeats the last one
		e.died = func() error {
			if alive--; alive < 0 {
				return died
			}
			return nil
		}
		err := move(e.Context())
		if err == nil {
			return
		}
		require.ErrorIs(e, err, died)
		require.Less(e, runs, 100)
		jobs, err := e.client.Queue("mail").Pop(e.Context(), 100)
		require.NoError(e, err)
		for _, job := range jobs {
			require.Len(e, job.History, 2, "put and popped, once")
			require.NoError(e, job.Complete(e.Context()))
		}
	}
}

func TestTasksOfAsynq(t *testing.T) {
	e := newEnv(t)
	e.putTasks()
	require.NoError(t, e.moveAsynq(t.Context()))
	require.Equal(t, 4, e.moved)
	jobs := e.jobs("mail", inspect.Waiting, inspect.Scheduled)
	require.Len(t, jobs, 3)

	now := jobs["now"]
	require.Equal(t, "own-id", now.JID)
	require.Equal(t, `{"to":"ann"}`, string(now.Data))
	require.Equal(t, 7, now.Retries)
	require.Equal(t, qless.Headers{"trace": "1"}, now.Headers)
	require.Equal(t, time.Minute, now.Options.MaxRunTime)
	require.WithinDuration(t, time.Now().Add(time.Hour), now.Options.GoneBy, time.Minute)
	require.Equal(t, qless.StateWaiting, now.State)

	require.JSONEq(t, `{"payload":"AP8="}`, string(jobs["bytes"].Data))
	require.Equal(t, qless.StateScheduled, jobs["later"].State)
	require.WithinDuration(t, time.Now().Add(24*time.Hour), jobs["later"].Due, time.Minute)
	failing := e.jobs("failing", inspect.Scheduled)["failing"]
	require.Equal(t, 2, failing.Retries, "of 3, one is used up")
	require.WithinDuration(t, time.Now().Add(2*time.Hour), failing.Due, time.Minute)

	inspector := asynq.NewInspectorFromRedisClient(e.rdb)
	info, err := inspector.GetQueueInfo("mail")
	require.NoError(t, err)
	require.Zero(t, info.Size)
	require.True(t, info.Paused)
	require.NoError(t, e.moveAsynq(t.Context()))
	require.Equal(t, 4, e.moved, "there was nothing left")
}

func TestTasksOfAsynqAreMovedOnceEach(t *testing.T) {
	e := newEnv(t)
	e.putTasks()
	e.killed(e.moveAsynq)
	require.Equal(t, 4, e.moved)
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

// ruby is a script that makes Sidekiq itself write jobs: a waiting one, a scheduled one, and one
// that has failed once.
const ruby = `
require 'sidekiq'
require 'sidekiq/job_retry'
Sidekiq.logger.level = Logger::FATAL
Sidekiq.configure_client { |config| config.redis = { url: ARGV[0] } }

class Failing
  include Sidekiq::Worker
  sidekiq_options queue: 'mail', retry: 3
end

class Now
  include Sidekiq::Worker
  sidekiq_options queue: 'mail', tags: ['a', 'b']
end

class Later
  include Sidekiq::Worker
  sidekiq_options queue: 'mail', retry: false
end

Failing.perform_async
job = Sidekiq.redis { |r| r.rpop('queue:mail') }
begin
  Sidekiq::JobRetry.new.global(job, 'mail') { raise 'not today' }
rescue Sidekiq::JobRetry::Handled
end
Now.perform_async(7, { 'to' => 'ann' })
Later.perform_in(86400, 'x')
`

func (e *env) putSidekiqs() {
	e.Helper()
	text, err := exec.CommandContext(e.Context(), "ruby", "-e", ruby,
		"redis://"+e.redis.Addr()).CombinedOutput()
	require.NoError(e, err, "the test needs Sidekiq: run .ci/install sidekiq: %s", text)
}

func TestJobsOfSidekiq(t *testing.T) {
	e := newEnv(t)
	e.putSidekiqs()
	require.NoError(t, e.moveSidekiq(t.Context()))
	require.Equal(t, 3, e.moved)
	jobs := e.jobs("mail", inspect.Waiting, inspect.Scheduled)
	require.Len(t, jobs, 3)
	require.Len(t, jobs["Now"].JID, 24)
	require.Equal(t, `[7,{"to":"ann"}]`, string(jobs["Now"].Data))
	require.Equal(t, 25, jobs["Now"].Retries)
	require.Equal(t, qless.Tags{"a", "b"}, jobs["Now"].Tags)
	require.Equal(t, qless.StateWaiting, jobs["Now"].State)
	require.Equal(t, 0, jobs["Later"].Retries)
	require.WithinDuration(t, time.Now().Add(24*time.Hour), jobs["Later"].Due, time.Minute)
	require.Equal(t, 2, jobs["Failing"].Retries, "of 3, one is used up")
	require.Equal(t, qless.StateScheduled, jobs["Failing"].State)
	left, err := e.rdb.Exists(t.Context(), "queue:mail", "schedule", "retry", moving).Result()
	require.NoError(t, err)
	require.Zero(t, left)
}

func TestJobsOfSidekiqAreMovedOnceEach(t *testing.T) {
	e := newEnv(t)
	e.putSidekiqs()
	e.killed(e.moveSidekiq)
	require.Equal(t, 3, e.moved)
}

func TestTheProgram(t *testing.T) {
	server := testkit.Start(t)
	url := "redis://" + server.Addr()
	moved, err := run(t.Context(), "asynq", url, url, "")
	require.NoError(t, err)
	require.Zero(t, moved)
	_, err = run(t.Context(), "celery", url, url, "")
	require.ErrorContains(t, err, "neither asynq nor sidekiq")
	_, err = run(t.Context(), "asynq", "redis://x:secret@host:port", url, "")
	require.EqualError(t, err, "-redis is not the URL of a Redis")
}
