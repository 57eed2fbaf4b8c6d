package api

import (
	"context"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
	"github.com/qless/qless-go/internal/testkit"
	"github.com/qless/qless-go/internal/testkit/memory"
	"github.com/qless/qless-go/tests/repairs"
	"github.com/qless/qless-go/tests/testbed"
)

func TestMain(m *testing.M) {
	testkit.Main(m)
}

// noon is the start time of the tests' clocks.
var noon = testkit.Noon

// patience turns a hang into a failure.
const patience = testkit.Patience

var (
	jids        = testbed.JIDs
	jsonOf      = testbed.JSONOf
	offline     = testbed.Offline
	raw         = testbed.Raw
	readFile    = testbed.ReadFile
	requireCode = testbed.RequireCode
	whats       = testbed.Whats
	zmember     = testbed.Member
)

// errOf returns the error of a call that also returns a value.
func errOf[T any](_ T, err error) error { return err }

// must returns the value of a call that must not fail.
func must[T any](value T, err error) func(t testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		require.NoError(t, err)
		return value
	}
}

// An env is the environment of a test, with methods of this package.
type env struct{ *testbed.Env }

func newEnv(t testing.TB) *env {
	t.Helper()
	return &env{testbed.New(t)}
}

func newEnvOn(t testing.TB, server *testkit.Server) *env {
	t.Helper()
	return &env{testbed.NewOn(t, server)}
}

// newEnvWith is newEnv with a client of another config.
func newEnvWith(t testing.TB, config qless.ClientConfig) *env {
	t.Helper()
	e := newEnv(t)
	e.Client = e.NewClient(e.Redis, config)
	return e
}

// inspect returns the inspector of the env's client.
func (e *env) inspect() *inspect.Inspector { return inspect.New(e.Client) }

// spec returns a job of klass K to put.
func spec(options ...qless.PutOption) qless.JobSpec {
	return qless.JobSpec{Klass: "K", Options: options}
}

// specs returns count of them.
func specs(count int, options ...qless.PutOption) []qless.JobSpec {
	return slices.Repeat([]qless.JobSpec{spec(options...)}, count)
}

// puts puts jobs with one call, and returns their jids.
func (e *env) puts(queue string, jobs ...qless.JobSpec) []string {
	e.T.Helper()
	return must(e.Queue(queue).PutMany(e.T.Context(), jobs))(e.T)
}

// start puts a job into a queue without other jobs to pop, and pops it.
func (e *env) start(queue string, options ...qless.PutOption) *qless.Job {
	e.T.Helper()
	jid, job := e.Put(queue, options...), e.Pop(queue)
	require.Equal(e.T, jid, job.JID)
	return job
}

// run runs a script, which must not fail.
func (e *env) run(command string, args ...any) any {
	e.T.Helper()
	return must(e.Run(e.T.Context(), command, "", args...))(e.T)
}

// sweep sweeps, and returns the number of changed jobs.
func (e *env) sweep(queues ...string) int {
	e.T.Helper()
	return must(e.Sweep(e.T.Context(), queues...))(e.T)
}

// all returns the jids of a selection.
func (e *env) all(s inspect.Selection) []string {
	e.T.Helper()
	return must(s.JIDs(e.T.Context(), inspect.Range{Limit: -1}))(e.T).Items
}

// end ends a job, and returns its state.
func (e *env) end(jid string, how repairs.Ending) qless.State {
	e.T.Helper()
	return must(repairs.End(e.T.Context(), e.Client, jid, how))(e.T)
}

// together runs a function for each of the numbers below n at once.
func together(n int, run func(i int)) {
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { run(i) })
	}
	all.Wait()
}

// A returned is the result of a call.
type returned[T any] struct {
	value T
	err   error
}

// begin begins a waiting call.
func begin[T any](call func() (T, error)) chan returned[T] {
	done := make(chan returned[T], 1)
	go func() {
		value, err := call()
		done <- returned[T]{value, err}
	}()
	return done
}

// A hook runs functions before and after each command of a connection.
type hook struct{ before, after func(cmd redis.Cmder) }

func (h hook) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h hook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		h.before(cmd)
		err := next(ctx, cmd)
		h.after(cmd)
		return err
	}
}

func (h hook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		for _, cmd := range cmds {
			h.before(cmd)
		}
		err := next(ctx, cmds)
		for _, cmd := range cmds {
			h.after(cmd)
		}
		return err
	}
}

// ignore is for hooks that have nothing to do.
func ignore(redis.Cmder) {}

// hooked returns a client of the env's server with a hook on its connection.
func (e *env) hooked(h hook) *qless.Client {
	e.T.Helper()
	rdb := e.Server.Client(e.T)
	rdb.AddHook(h)
	return e.NewClient(rdb, qless.ClientConfig{})
}

// connects returns a client of the env's server with other options of go-redis.
func (e *env) connects(change func(options *redis.Options)) *qless.Client {
	return e.connectsWith(qless.ClientConfig{}, change)
}

func (e *env) connectsWith(config qless.ClientConfig, change func(*redis.Options)) *qless.Client {
	options := testkit.Options(e.Server.Addr())
	change(options)
	rdb := redis.NewClient(options)
	e.T.Cleanup(func() { _ = rdb.Close() })
	return e.NewClient(rdb, config)
}

// once makes go-redis try only once.
func once(options *redis.Options) { options.MaxRetries, options.DialerRetries = -1, 1 }

// isScript reports whether a command runs a script.
func isScript(cmd redis.Cmder) bool { return strings.HasPrefix(cmd.Name(), "eval") }

// onEach runs a test on a real server, and on miniredis, where the env has no server.
func onEach(t *testing.T, test func(t *testing.T, e *env)) {
	t.Run("a server", func(t *testing.T) { test(t, newEnv(t)) })
	t.Run("miniredis", func(t *testing.T) { test(t, &env{testbed.NewFor(t, memory.Client(t))}) })
}

// runOnEach is onEach for a subtest with a name.
func runOnEach(t *testing.T, name string, test func(t *testing.T, e *env)) {
	t.Run(name, func(t *testing.T) { onEach(t, test) })
}

// runEach runs the methods of a value, which are tests, with runOnEach.
func runEach(t *testing.T, tests any) {
	all := reflect.ValueOf(tests)
	for i := range all.NumMethod() {
		runOnEach(t, all.Type().Method(i).Name, all.Method(i).Interface().(func(t *testing.T, e *env)))
	}
}

// runEnv runs a subtest with an env of its own.
func runEnv(t *testing.T, name string, test func(t *testing.T, e *env)) {
	t.Run(name, func(t *testing.T) { test(t, newEnv(t)) })
}

// pending returns the sorted jids of the pending members of a batch.
func pending(ctx context.Context, b *qless.Batch) ([]string, error) {
	all := []string{}
	for jid, err := range b.Pending(ctx) {
		if err != nil {
			return nil, err
		}
		all = append(all, jid)
	}
	slices.Sort(all)
	return all, nil
}
