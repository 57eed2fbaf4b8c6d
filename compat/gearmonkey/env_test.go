package gearmonkey_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go/compat/gearmonkey"
	"github.com/qless/qless-go/internal/testkit"
)

func TestMain(m *testing.M) {
	if serveAsChild() {
		return
	}
	testkit.Main(m)
}

// patience turns a hang into a failure.
const patience = testkit.Patience

// now is the time on the clock of the tests' workers; nowUnix is the same in Unix seconds.
const nowUnix = 1_700_000_000

var now = time.Unix(nowUnix, 0)

// An env is the environment of a test: a separate real server, and a client. Such tests run in
// parallel.
type env struct {
	*gearmonkey.Client
	t      testing.TB
	server *testkit.Server
	rdb    *redis.Client
}

func newEnv(t *testing.T) *env {
	t.Helper()
	t.Parallel()
	server := testkit.Start(t)
	rdb := server.Client(t)
	return &env{Client: gearmonkey.NewClient(rdb), t: t, server: server, rdb: rdb}
}

// with returns an env with the same server, and a client with other options.
func (e *env) with(options *redis.Options) *env {
	rdb := redis.NewClient(options)
	e.t.Cleanup(func() { _ = rdb.Close() })
	return &env{Client: gearmonkey.NewClient(rdb), t: e.t, server: e.server, rdb: rdb}
}

// worker returns a worker of the function F.
func (e *env) worker(handler gearmonkey.Handler) *gearmonkey.Worker {
	worker := gearmonkey.NewWorker(e.Client, config())
	worker.Accept("F", handler)
	return worker
}

// config is a worker's config with the tests' clock and no log.
func config() gearmonkey.WorkerConfig {
	return gearmonkey.WorkerConfig{
		Clock:  func() time.Time { return now },
		Logger: testkit.Quiet(),
	}
}

// must returns the value of a call that must not fail.
func must[T any](value T, err error) func(t testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		require.NoError(t, err)
		return value
	}
}

// errOf returns the error of a call, without its value.
func errOf[T any](_ T, err error) error { return err }

// run queues a job.
func (e *env) run(fn, input string, options ...gearmonkey.RunOption) int64 {
	e.t.Helper()
	return must(e.Run(e.t.Context(), fn, []byte(input), options...))(e.t)
}

// state reads an existing job.
func (e *env) state(fn string, id int64) *gearmonkey.State {
	e.t.Helper()
	return must(e.Get(e.t.Context(), fn, id))(e.t)
}

// cli sends a command given as words, as a person at a terminal would, and returns the reply.
func (e *env) cli(line string) any {
	e.t.Helper()
	var words []any
	for _, word := range strings.Fields(line) {
		words = append(words, strings.Trim(word, `"`))
	}
	reply, err := e.rdb.Do(e.t.Context(), words...).Result()
	if err == redis.Nil {
		return nil
	}
	require.NoError(e.t, err, line)
	return reply
}

// works runs a worker with a handler of F until it has run some jobs, and returns the
// order of their ids.
func (e *env) works(jobs int, handler gearmonkey.Handler) []int64 {
	e.t.Helper()
	return e.worksWith(config(), jobs, handler)
}

func (e *env) worksWith(
	config gearmonkey.WorkerConfig, jobs int, handler gearmonkey.Handler,
) []int64 {
	e.t.Helper()
	ctx, stop := context.WithTimeout(e.t.Context(), patience)
	defer stop()
	var ids []int64
	worker := gearmonkey.NewWorker(e.Client, config)
	worker.Accept("F", func(ctx context.Context, job *gearmonkey.Job) ([]byte, error) {
		if ids = append(ids, job.ID); len(ids) == jobs {
			stop() // the worker takes no further job, and does not wait for one
		}
		return handler(ctx, job)
	})
	require.NoError(e.t, worker.Work(ctx))
	require.Len(e.t, ids, jobs)
	return ids
}

// echo is a handler that returns its input.
func echo(_ context.Context, job *gearmonkey.Job) ([]byte, error) { return job.Input, nil }

// background starts a worker, and returns a function that stops it. The end of the test stops it in
// any case.
func (e *env) background(worker *gearmonkey.Worker) (stop func()) {
	e.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- worker.Work(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-done:
			require.NoError(e.t, err)
		case <-time.After(patience):
			require.FailNow(e.t, "the worker does not stop")
		}
	})
	e.t.Cleanup(stop)
	return stop
}

// receive returns the next value of a channel.
func receive[T any](t testing.TB, c <-chan T, what string) T {
	t.Helper()
	select {
	case value, ok := <-c:
		require.True(t, ok, "closed: %s", what)
		return value
	case <-time.After(patience):
		require.FailNow(t, "did not come", what)
		panic("not reached")
	}
}

// requireCode requires an error of a kind, by errors.Is and by its code.
func requireCode(t testing.TB, sentinel *gearmonkey.Error, err error) *gearmonkey.Error {
	t.Helper()
	require.ErrorIs(t, err, sentinel)
	var own *gearmonkey.Error
	require.ErrorAs(t, err, &own)
	require.NotEmpty(t, own.Op)
	require.NotEmpty(t, own.Message)
	return own
}

// eventually polls until a condition without an event holds.
func (e *env) eventually(condition func() bool) {
	e.t.Helper()
	testkit.Until(e.t, "a condition of the test", condition)
}

// A commandHook is called for each command, and sends it by calling next.
type commandHook func(cmd redis.Cmder, next func() error) error

func (commandHook) DialHook(next redis.DialHook) redis.DialHook { return next }

func (commandHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (h commandHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		return h(cmd, func() error { return next(ctx, cmd) })
	}
}

// before returns a hook that calls a function before each command with a name.
func before(name string, call func()) commandHook {
	return func(cmd redis.Cmder, next func() error) error {
		if cmd.Name() == name {
			call()
		}
		return next()
	}
}

// monitored runs a function and returns the commands sent by clients to the server in the meantime,
// as text, in order. The handshake of go-redis is omitted. Names of commands are in capitals, as in
// the specification.
func (e *env) monitored(run func()) []string {
	e.t.Helper()
	var commands []string
	for _, command := range e.server.Monitored(e.t, run) {
		if command.Caller == "lua" {
			continue
		}
		command.Words[0] = strings.ToUpper(command.Words[0])
		switch command.Words[0] {
		case "HELLO", "CLIENT", "PING":
			continue
		}
		commands = append(commands, strings.Join(command.Words, " "))
	}
	return commands
}
