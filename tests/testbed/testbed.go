// Package testbed provides the environment of tests with clients: a server, a client, and short
// ways to use both.
package testbed

import (
	"cmp"
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/testkit"
	"github.com/qless/qless-go/tests/scripts"
)

// An Env is the environment of a test: a separate real server, and a client with a worker called w1
// and a clock moved only by the test.
type Env struct {
	*qless.Client
	T      testing.TB
	Server *testkit.Server
	Redis  *redis.Client
	Clock  *testkit.Clock

	Live   bool     // use the server's clock
	Ignore []string // keys skipped by Dump
}

// New returns an environment with a separate server.
func New(t testing.TB) *Env {
	t.Helper()
	return NewOn(t, testkit.Start(t))
}

// NewOn is New on a server.
func NewOn(t testing.TB, server *testkit.Server) *Env {
	t.Helper()
	e := NewFor(t, server.Client(t))
	e.Server = server
	return e
}

// NewFor is New for a connection. The environment has no server.
func NewFor(t testing.TB, rdb *redis.Client) *Env {
	t.Helper()
	e := &Env{T: t, Redis: rdb, Clock: testkit.NewClock()}
	e.Client = e.NewClient(rdb, qless.ClientConfig{})
	return e
}

// NewClient creates another client with the environment's clock, for any connection.
func (e *Env) NewClient(rdb *redis.Client, config qless.ClientConfig) *qless.Client {
	e.T.Helper()
	config.Clock = e.Clock.Now
	return e.NewLiveClient(rdb, config)
}

// NewLiveClient is NewClient with the server's own clock, unless the config has one.
func (e *Env) NewLiveClient(rdb *redis.Client, config qless.ClientConfig) *qless.Client {
	e.T.Helper()
	config.Logger = cmp.Or(config.Logger, testkit.Quiet())
	config.WorkerName = cmp.Or(config.WorkerName, "w1")
	client, err := qless.New(rdb, &config)
	require.NoError(e.T, err)
	return client
}

// As creates a client with another worker's name.
func (e *Env) As(worker string) *qless.Client {
	e.T.Helper()
	return e.NewClient(e.Redis, qless.ClientConfig{WorkerName: worker})
}

// Put puts a job of klass K without data, and returns its jid.
func (e *Env) Put(queue string, options ...qless.PutOption) string {
	e.T.Helper()
	jid, err := e.Queue(queue).Put(e.T.Context(), "K", nil, options...)
	require.NoError(e.T, err)
	return jid
}

// Pops pops up to count jobs.
func (e *Env) Pops(queue string, count int) []*qless.Job {
	e.T.Helper()
	jobs, err := e.Queue(queue).Pop(e.T.Context(), count)
	require.NoError(e.T, err)
	return jobs
}

// Pop pops the next job of a queue. The queue must have a job.
func (e *Env) Pop(queue string) *qless.Job {
	e.T.Helper()
	jobs := e.Pops(queue, 1)
	require.Len(e.T, jobs, 1)
	return jobs[0]
}

// Read reads an existing job.
func (e *Env) Read(jid string) *qless.Job {
	e.T.Helper()
	job, err := e.Job(e.T.Context(), jid)
	require.NoError(e.T, err)
	return job
}

// Counts reads the counts of a queue.
func (e *Env) Counts(queue string) qless.QueueCounts {
	e.T.Helper()
	counts, err := e.Queue(queue).Counts(e.T.Context())
	require.NoError(e.T, err)
	return counts
}

// Set changes a setting.
func (e *Env) Set(option string, value any) {
	e.T.Helper()
	require.NoError(e.T, e.Config().Set(e.T.Context(), option, value))
}

// Dump reads the keyspace, for comparison with another dump.
func (e *Env) Dump() testkit.Keyspace {
	e.T.Helper()
	all := testkit.Dump(e.T, e.Redis, "*")
	for _, key := range e.Ignore {
		delete(all, key)
	}
	return all
}

// Unchanged requires that a function leaves the keyspace unchanged.
func (e *Env) Unchanged(run func()) {
	e.T.Helper()
	before := e.Dump()
	run()
	require.Equal(e.T, before, e.Dump(), "the keyspace")
}

// Run runs a script with any arguments, and returns the client's error for the answer.
func (e *Env) Run(ctx context.Context, command, jid string, args ...any) (any, error) {
	reply, err := scripts.Run(ctx, e.Redis, e.Namespace(), e.Now(), command, args...)
	if err != nil {
		err = scripts.Error(ctx, err, cmp.Or(jid, "any"))
	}
	return reply, err
}

// Now returns the time of the environment's clock, or zero for the server's.
func (e *Env) Now() time.Time {
	if e.Live {
		return time.Time{}
	}
	return e.Clock.Now()
}
