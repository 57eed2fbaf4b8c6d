package worker

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/testkit"
	"github.com/qless/qless-go/tests/scripts"
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
	offline     = testbed.Offline
	raw         = testbed.Raw
	requireCode = testbed.RequireCode
	until       = testkit.Until
	whats       = testbed.Whats
	zmember     = testbed.Member
)

// errOf returns the error of a call that also returns a value.
func errOf[T any](_ T, err error) error { return err }

// soon returns a value from a channel, or fails the test if none arrives.
func soon[T any](t testing.TB, what string, channel <-chan T) T {
	t.Helper()
	return testkit.Soon(t, what, channel)
}

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
	return newEnvOn(t, testkit.Start(t))
}

func newEnvOn(t testing.TB, server *testkit.Server) *env {
	t.Helper()
	e := &env{testbed.NewOn(t, server)}
	e.Ignore = []string{"ql:x:relay"} // a worker holds it while it begins to relay
	return e
}

// newLiveEnv is newEnv with the server's own clock: locks end by themselves.
func newLiveEnv(t testing.TB, arguments ...string) *env {
	t.Helper()
	e := newEnvOn(t, testkit.Start(t, arguments...))
	e.Live = true
	e.Client = e.NewLiveClient(e.Redis, qless.ClientConfig{})
	require.NoError(t, e.Redis.ScriptLoad(t.Context(), scripts.Text()).Err()) // one round trip, not two
	return e
}

// A testWorker is a worker with a separate connection. The test sees its scripts and log.
type testWorker struct {
	*qless.Worker
	*tap
	t   testing.TB
	log *journal
	rdb *redis.Client
}

// workersMade counts the workers of all tests, which need distinct names on the server.
var workersMade atomic.Int32

// worker creates a worker of the server, perhaps with a handler of the klass K. The poll interval
// is an hour unless set by the config, so only wake-ups make the worker ask again. It is stopped
// with the test.
func (e *env) worker(config qless.WorkerConfig, handler ...qless.Handler) *testWorker {
	e.T.Helper()
	w := e.workerAt(e.Server.Addr(), config, qless.ClientConfig{})
	for _, work := range handler {
		w.Handle("K", work)
	}
	return w
}

// workerAt creates a worker that reaches the server at an address. The worker's clock is the
// server's unless the client's config has a clock.
func (e *env) workerAt(addr string, config qless.WorkerConfig, client qless.ClientConfig) *testWorker {
	e.T.Helper()
	connection := testkit.Options(addr)
	connection.ClientName = fmt.Sprint("worker", workersMade.Add(1))
	w := &testWorker{t: e.T, tap: e.newTap(), log: newJournal(), rdb: redis.NewClient(connection)}
	w.rdb.AddHook(w.tap)
	if config.Queues == nil {
		config.Queues = []string{"q"}
	}
	if config.PollInterval == 0 {
		config.PollInterval = time.Hour
	}
	client.Logger = cmp.Or(client.Logger, slog.New(w.log))
	w.Worker = newWorker(e.T, e.NewLiveClient(w.rdb, client), config)
	w.log.worker.Store(w.Worker)
	e.T.Cleanup(func() {
		w.stopNow()
		_ = w.rdb.Close()
	})
	return w
}

// working starts a worker with a handler of the klass K, and waits until it is idle.
func (e *env) working(
	config qless.WorkerConfig, handler qless.Handler, options ...qless.HandleOption,
) *testWorker {
	e.T.Helper()
	w := e.worker(config)
	w.Handle("K", handler, options...)
	return w.start()
}

// busyWorker is working with the handler of hold.
func (e *env) busyWorker(config qless.WorkerConfig) (w *testWorker, running chan *qless.Job, end chan error) {
	e.T.Helper()
	handler, running, end := hold()
	return e.working(config, handler), running, end
}

// workerEnv is newLiveEnv with a worker that is not yet started.
func workerEnv(
	t testing.TB, config qless.WorkerConfig, handler ...qless.Handler,
) (*env, *testWorker) {
	t.Helper()
	e := newLiveEnv(t)
	return e, e.worker(config, handler...)
}

// workingEnv is newLiveEnv with an idle worker and its handler.
func workingEnv(
	t testing.TB, config qless.WorkerConfig, handler qless.Handler, options ...qless.HandleOption,
) (*env, *testWorker) {
	t.Helper()
	e := newLiveEnv(t)
	return e, e.working(config, handler, options...)
}

// busyEnv is newLiveEnv with an idle worker and the handler of hold.
func busyEnv(
	t testing.TB, config qless.WorkerConfig,
) (e *env, w *testWorker, running chan *qless.Job, end chan error) {
	t.Helper()
	e = newLiveEnv(t)
	w, running, end = e.busyWorker(config)
	return e, w, running, end
}

// newWorker creates a valid worker.
func newWorker(t testing.TB, client *qless.Client, config qless.WorkerConfig) *qless.Worker {
	t.Helper()
	return must(qless.NewWorker(client, config))(t)
}

// Start starts the worker. Without a handler from the test, it has one for an unused klass.
func (w *testWorker) Start(ctx context.Context) error {
	err := w.Worker.Start(ctx)
	if err != nil && strings.Contains(err.Error(), "no handler is registered") {
		w.Handle("Nobody", nothing)
		err = w.Worker.Start(ctx)
	}
	return err
}

// start starts the worker, and waits until it is idle and listens.
func (w *testWorker) start() *testWorker {
	w.t.Helper()
	require.NoError(w.t, w.Start(context.Background()))
	w.idle(1)
	until(w.t, "the worker knows the answer", func() bool { return !w.Stats().LastAnswer.IsZero() })
	return w
}

// stopNow stops the worker without waiting for its handlers.
func (w *testWorker) stopNow() { _ = w.Stop(ended()) }

// unhealthy waits until the worker is unhealthy, and healthy until it is healthy.
func (w *testWorker) unhealthy() {
	w.t.Helper()
	until(w.t, "it is unhealthy", func() bool { return w.Healthy() != nil })
}

func (w *testWorker) healthy() {
	w.t.Helper()
	until(w.t, "it is healthy", func() bool { return w.Healthy() == nil })
}

// stop stops the worker and waits for its handlers.
func (w *testWorker) stop() {
	w.t.Helper()
	require.NoError(w.t, w.Stop(w.t.Context()))
}

// stopLate stops the worker before the handlers of some jobs have ended.
func (w *testWorker) stopLate(jids ...string) {
	w.t.Helper()
	err := requireCode(w.t, stopped, w.Stop(w.t.Context()))
	for _, jid := range jids {
		require.Contains(w.t, err.Message, jid)
	}
}

var stopped = qless.ErrStopped

// idle waits until the worker has been seen idle n times.
func (w *testWorker) idle(n int) tapped {
	w.t.Helper()
	return w.await(w.t, "an idle worker", n, func(c tapped) bool { return c.idle })
}

// outcome waits until the worker has reported a job to the server.
func (w *testWorker) outcome(jid string) reported {
	w.t.Helper()
	has := func(c tapped) bool { _, ok := c.outcomes()[jid]; return ok }
	return w.await(w.t, "the outcome of "+jid, 1, has).outcomes()[jid]
}

// ends waits until the worker has completed a job, regardless of earlier reports.
func (w *testWorker) ends(jid string) reported {
	w.t.Helper()
	completed := func(c tapped) bool { return c.outcomes()[jid].action == "complete" }
	return w.await(w.t, "the end of "+jid, 1, completed).outcomes()[jid]
}

// works runs one job at a worker with a handler, and returns the job after that, and the worker's
// report.
func (e *env) works(config qless.WorkerConfig, handler qless.Handler, options ...qless.PutOption) (*qless.Job, reported) {
	e.T.Helper()
	w := e.working(config, handler)
	jid := e.Put("q", options...)
	got := w.outcome(jid)
	w.stop()
	return e.Read(jid), got
}

// A journal records a log. Like loggers that add the worker's state to messages, it asks for it.
type journal struct {
	worker atomic.Pointer[qless.Worker]
	changing
	lines []string
}

func newJournal() *journal { return &journal{changing: newChanging()} }

func (j *journal) Enabled(context.Context, slog.Level) bool { return true }
func (j *journal) WithAttrs([]slog.Attr) slog.Handler       { return j }
func (j *journal) WithGroup(string) slog.Handler            { return j }

func (j *journal) Handle(ctx context.Context, record slog.Record) error {
	if w := j.worker.Load(); w != nil {
		_, _ = w.Stats(), w.Healthy()
	}
	var line bytes.Buffer
	_ = slog.NewTextHandler(&line, nil).Handle(ctx, record)
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, line.String())
	j.change()
	return nil
}

// count returns the number of lines that contain a text.
func (j *journal) count(text string) int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.has(text)
}

// has is count for a caller that holds the mutex.
func (j *journal) has(text string) (n int) {
	for _, line := range j.lines {
		if strings.Contains(line, text) {
			n++
		}
	}
	return n
}

// await waits until n lines contain a text.
func (j *journal) await(t testing.TB, text string, n int) {
	t.Helper()
	if !j.until(func() bool { return j.has(text) >= n }) {
		require.FailNow(t, "not logged", "%q, %d times, in %q", text, n, j.lines)
	}
}

// hold returns a handler that reports each of its jobs, and ends with its context, or with the
// error sent to the second channel.
func hold() (handler qless.Handler, running chan *qless.Job, end chan error) {
	running, end = make(chan *qless.Job, 1000), make(chan error, 1000)
	return func(ctx context.Context, job *qless.Job) error {
		running <- job
		select {
		case err := <-end:
			return err
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}, running, end
}

// passes returns a handler that passes on its jobs.
func passes() (qless.Handler, chan *qless.Job) {
	jobs := make(chan *qless.Job, 1000)
	return func(_ context.Context, job *qless.Job) error { jobs <- job; return nil }, jobs
}

// begun puts a job, and waits until a handler of hold runs it.
func (e *env) begun(running <-chan *qless.Job, options ...qless.PutOption) (jid string) {
	e.T.Helper()
	jid = e.Put("q", options...)
	soon(e.T, "a job", running)
	return jid
}

// before returns a middleware that calls a function before the handler. An error is the job's.
func before(do func(job *qless.Job) error) qless.Middleware {
	return func(next qless.Handler) qless.Handler {
		return func(ctx context.Context, job *qless.Job) error {
			if err := do(job); err != nil {
				return err
			}
			return next(ctx, job)
		}
	}
}

// nothing is a handler that does nothing.
func nothing(context.Context, *qless.Job) error { return nil }
