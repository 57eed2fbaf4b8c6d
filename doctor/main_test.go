package doctor_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/doctor"
	"github.com/qless/qless-go/internal/testkit"
	"github.com/qless/qless-go/tests/scripts"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// An env is a real server with a client named w1.
type env struct {
	*qless.Client
	t      testing.TB
	ctx    context.Context
	server *testkit.Server
	rdb    *redis.Client
	clock  *testkit.Clock // nil for the server's clock
}

// newEnv returns an env with a clock that only the test advances.
func newEnv(t testing.TB) *env {
	t.Helper()
	return newEnvWith(t, testkit.NewClock())
}

func newEnvWith(t testing.TB, clock *testkit.Clock) *env {
	t.Helper()
	server := testkit.Start(t)
	e := &env{t: t, ctx: t.Context(), server: server, rdb: server.Client(t), clock: clock}
	e.Client = e.as("w1")
	return e
}

// as returns a client with the name of another worker.
func (e *env) as(worker string) *qless.Client {
	e.t.Helper()
	config := qless.ClientConfig{Logger: testkit.Quiet(), WorkerName: worker}
	if e.clock != nil {
		config.Clock = e.clock.Now
	}
	client := must(qless.New(e.rdb, &config))(e.t)
	e.t.Cleanup(func() { _ = client.Close() })
	return client
}

// put puts jobs of the klass K.
func (e *env) put(queue, jids string, options ...qless.PutOption) {
	e.t.Helper()
	for _, jid := range strings.Fields(jids) {
		options := append([]qless.PutOption{qless.JID(jid)}, options...)
		e.do(errOf(e.Queue(queue).Put(e.ctx, "K", nil, options...)))
	}
}

// pop pops a number of jobs.
func (e *env) pop(queue string, n int) []*qless.Job {
	e.t.Helper()
	jobs := must(e.Queue(queue).Pop(e.ctx, n))(e.t)
	require.Len(e.t, jobs, n)
	return jobs
}

// register registers a worker.
func (e *env) register(worker, info string) {
	e.t.Helper()
	var now time.Time
	if e.clock != nil {
		now = e.clock.Now()
	}
	must(scripts.Run(e.ctx, e.rdb, e.Namespace(), now, "worker.register", worker, "0", info))(e.t)
}

// status reads the status, in which a queue is late after some time.
func (e *env) status(late time.Duration) *doctor.Status {
	e.t.Helper()
	return must(doctor.ReadStatus(e.ctx, e.Client, late))(e.t)
}

// problem returns the only problem of the status, in which a queue is late after an hour.
func (e *env) problem() doctor.Reason {
	e.t.Helper()
	found := e.status(time.Hour).Attention
	require.Len(e.t, found, 1)
	return found[0]
}

// told returns what the status tells, with commands.
func (e *env) told(late time.Duration) (told []string) {
	e.t.Helper()
	for _, r := range e.status(late).Attention {
		told = append(told, r.String()+"; "+r.Command)
	}
	return told
}

// must returns the value of a call that must not fail.
func must[T any](value T, err error) func(t testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		require.NoError(t, err)
		return value
	}
}

func nothing(context.Context, *qless.Job) error { return nil }

func (e *env) do(err error) {
	e.t.Helper()
	require.NoError(e.t, err)
}

// errOf returns the error of a call that also returns a value.
func errOf[T any](_ T, err error) error { return err }

// requireCode requires an error of a kind.
func requireCode(t testing.TB, code qless.Code, err error) {
	t.Helper()
	var own *qless.Error
	require.True(t, errors.As(err, &own), "%v", err)
	require.Equal(t, code, own.Code)
}
