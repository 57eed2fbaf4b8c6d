package gearmonkey_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go/compat/gearmonkey"
	"github.com/qless/qless-go/internal/testkit"
)

// A refusal while a job begins, runs or ends only delays the job, and no event is published for
// something that has not happened.
func TestARefusalLosesNoJobAndNoOutcome(t *testing.T) {
	t.Parallel()
	for _, refusal := range testkit.Refusals {
		t.Run(refusal, func(t *testing.T) {
			e := newEnv(t)
			events := must(e.Events(t.Context(), "F"))(t)
			defer events.Close()
			e.run("F", "a")
			e.run("F", "b", gearmonkey.At(now))
			var once sync.Once
			worker := e.worker(func(context.Context, *gearmonkey.Job) ([]byte, error) {
				once.Do(func() {
					allow := e.server.Refuse(t, refusal)
					time.AfterFunc(700*time.Millisecond, allow) // refused several times
				})
				return []byte("out"), nil
			})
			stop := e.background(worker)
			for finished, seen := 0, map[gearmonkey.Event]bool{}; finished < 2; {
				event := receive(t, events.C(), "the jobs' events")
				require.False(t, seen[event], "%v came twice", event)
				seen[event] = true
				if event.Kind == gearmonkey.EventFinish {
					require.Equal(t, gearmonkey.StatusSuccess, e.state("F", event.ID).Status)
					finished++
				}
			}
			stop()
			require.Equal(t, "0", e.cli("GET count:F"))
		})
	}
}

// A server out of memory still gives out jobs, but accepts neither beginnings nor outcomes of jobs.
func TestAWorkerThatIsStoppedWithoutMemoryLosesNothing(t *testing.T) {
	e := newEnv(t)
	if strings.Contains(e.rdb.Info(t.Context(), "server").Val(), "redis_version:6") {
		t.Skip("before Redis 7, a server without memory runs no script that writes")
	}
	for range 3 {
		e.run("F", "")
	}
	begun, end := make(chan bool, 3), make(chan bool)
	worker := e.worker(func(context.Context, *gearmonkey.Job) ([]byte, error) {
		begun <- true
		<-end
		return nil, nil
	})
	stop := e.background(worker)
	receive(t, begun, "the job")
	allow := e.server.Refuse(t, "OOM")
	defer allow()
	close(end)
	stop()
	require.Equal(t, gearmonkey.StatusSuccess, e.state("F", 1).Status)
	require.Equal(t, "0", e.cli("GET count:F"))

	stop = e.background(worker2(e, begun))
	e.eventually(func() bool { return e.cli("LLEN queue:F:normal") == int64(1) }) // it holds one
	stop()
	require.Equal(t, []any{"3", "2"}, e.cli("LRANGE queue:F:normal 0 -1"))
	require.Equal(t, gearmonkey.StatusIdle, e.state("F", 2).Status)
	require.Empty(t, begun)
}

func worker2(e *env, begun chan bool) *gearmonkey.Worker {
	require.NoError(e.t, e.rdb.ConfigSet(e.t.Context(), "maxmemory", "0").Err())
	worker := e.worker(func(context.Context, *gearmonkey.Job) ([]byte, error) {
		begun <- true
		return nil, nil
	})
	e.rdb.AddHook(before("brpop", func() {
		_ = e.rdb.ConfigSet(context.Background(), "maxmemory", "1").Err()
	}))
	return worker
}

// By default, new users of Redis 7 may not use channels.
func TestJobsAreWorkedWithoutARightToPublish(t *testing.T) {
	e := newEnv(t)
	e.cli("ACL SETUSER mute on >secret ~* +@all resetchannels")
	options := testkit.Options(e.server.Addr())
	options.Username, options.Password = "mute", "secret"
	mute := e.with(options)
	for range 3 {
		mute.run("F", "x")
	}
	mute.works(3, echo)
	for id := range int64(3) {
		require.Equal(t, gearmonkey.StatusSuccess, e.state("F", id+1).Status)
	}
	require.NoError(t, mute.Finish(t.Context(), "F", 1, nil, errors.New("late")))
	require.Equal(t, gearmonkey.StatusError, e.state("F", 1).Status)
}

func TestAJobThatHasEndedIsNotBegunAgain(t *testing.T) {
	e := newEnv(t)
	e.run("F", "")
	e.run("F", "")
	require.NoError(t, e.Finish(t.Context(), "F", 1, []byte("first"), nil))
	require.Equal(t, []int64{2}, e.works(1, echo))
	require.Equal(t, "first", string(e.state("F", 1).Output))
}

type hostile struct{ text *string }

func (h *hostile) Error() string { return *h.text }

type hostileLog struct{ slog.Handler }

func (hostileLog) Handle(context.Context, slog.Record) error { panic("the log") }

func TestNoErrorAndNoLoggerEndsTheProgram(t *testing.T) {
	e := newEnv(t)
	e.run("F", "")
	cfg := config()
	cfg.Logger = slog.New(hostileLog{testkit.Quiet().Handler()})
	e.worksWith(cfg, 1, func(context.Context, *gearmonkey.Job) ([]byte, error) {
		return nil, (*hostile)(nil)
	})
	state := e.state("F", 1)
	require.Equal(t, gearmonkey.StatusError, state.Status)
	require.Contains(t, string(state.Output), "Error: a function panicked")
	require.NoError(t, e.Finish(t.Context(), "F", 1, nil, (*hostile)(nil)))
}

func TestASweepThatFailsForgetsWhatItRequeued(t *testing.T) {
	e := newEnv(t)
	clock := now
	cfg := sweeping(&clock)
	cfg.Functions = []string{"F", "G", "H"}
	sweeper := gearmonkey.NewSweeper(e.Client, cfg)
	e.cli("HMSET job:F:1 status busy input x")
	e.cli("HMSET job:G:1 status busy input x")
	e.cli("HMSET job:H:1 status busy input x")
	e.cli("SET job:F:7 x") // not a job
	e.cli("SET queue:G:normal x")
	e.sweeps(0, sweeper)
	clock = clock.Add(time.Minute)
	swept, err := sweeper.Sweep(t.Context())
	requireCode(t, gearmonkey.ErrServer, err)
	require.Equal(t, 2, swept, "the functions after the one that fails")
	require.Equal(t, "busy", e.cli("HGET job:G:1 status"), "it is in no queue")
	e.cli("HMSET job:F:1 status busy") // a worker has it again
	e.sweeps(0, sweeper)
	require.Equal(t, []any{"1"}, e.cli("LRANGE queue:F:normal 0 -1"))
}

func TestMoveTakesAnEmptyIDToo(t *testing.T) {
	e := newEnv(t)
	require.NoError(t, e.rdb.LPush(t.Context(), "queue:F:normal", "").Err())
	e.run("F", "a")
	put, moved := keep()
	must(e.Move(t.Context(), "F", put))(t)
	require.Len(t, *moved, 1)
	require.Empty(t, e.cli("KEYS move:*"))
}

func TestStoppingDoesNotWaitForAServerThatHangs(t *testing.T) {
	t.Parallel()
	for name, command := range map[string]string{
		"loading the script": "script", "signing in": "incr", "asking for jobs": "brpop",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := testkit.Start(t, "--appendonly", "no")
			options := testkit.Options(server.Addr())
			options.ReadTimeout = time.Hour
			rdb := redis.NewClient(options)
			defer func() { _ = rdb.Close() }()
			hangs := make(chan bool, 1)
			rdb.AddHook(before(command, sync.OnceFunc(func() {
				server.Suspend()
				hangs <- true
			})))
			require.NoError(t, rdb.Ping(t.Context()).Err())
			worker := gearmonkey.NewWorker(gearmonkey.NewClient(rdb), config())
			worker.Accept("F", echo)
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			done := make(chan error, 1)
			go func() { done <- worker.Work(ctx) }()
			receive(t, hangs, "the command")
			defer server.Resume()
			stop()
			requireCode(t, gearmonkey.ErrUnavailable, receive(t, done, "the end of the worker"))
		})
	}
}

// A job may arrive long after the worker has stopped.
func TestAJobThatComesAfterTheStopIsPutBack(t *testing.T) {
	t.Parallel()
	for command, option := range map[string]gearmonkey.RunOption{
		"BRPOP": gearmonkey.High, "EVALSHA": gearmonkey.At(now),
	} {
		t.Run(command, func(t *testing.T) {
			e := newEnv(t)
			e.run("F", "", option)
			queue := e.cli("KEYS queue:F:*").([]any)[0].(string)
			proxy := testkit.NewProxy(t, e.server.Addr())
			options := testkit.Options(proxy.Addr())
			options.ReadTimeout = patience
			release := proxy.HoldReply(command)
			defer release()
			late := func(context.Context, *gearmonkey.Job) ([]byte, error) { panic("not reached") }
			stop := e.background(e.with(options).worker(late))
			e.eventually(func() bool { return e.cli("EXISTS "+queue) == int64(0) })
			stop()
			require.Equal(t, int64(0), e.cli("EXISTS "+queue), "the worker has stopped without it")
			release()
			e.eventually(func() bool { return e.cli("EXISTS "+queue) == int64(1) })
			require.Equal(t, gearmonkey.StatusIdle, e.state("F", 1).Status)
			require.Equal(t, "0", e.cli("GET count:F"))
			require.Equal(t, []int64{1}, e.works(1, echo))
		})
	}
}
