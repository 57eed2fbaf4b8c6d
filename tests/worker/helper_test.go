package worker

import (
	"cmp"
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/testkit"
	"github.com/qless/qless-go/internal/testkit/scripts"
)

func TestMain(m *testing.M) {
	testkit.Main(m)
}

// noon is when the clocks of the tests begin.
var noon = testkit.Noon

// patience turns a hang into a failure.
const patience = testkit.Patience

var until = testkit.Until

// soon returns what a channel gives, or fails the test when it gives nothing.
func soon[T any](t testing.TB, what string, channel <-chan T) T {
	t.Helper()
	return testkit.Soon(t, what, channel)
}

// An env is what a test works with: a real server of its own, and a client of it whose
// worker is called w1 and whose clock only the test moves.
type env struct {
	*qless.Client
	t      testing.TB
	server *testkit.Server
	rdb    *redis.Client
	clock  *testkit.Clock
	live   bool // the server's clock counts
}

func newEnv(t testing.TB) *env {
	t.Helper()
	return newEnvOn(t, testkit.Start(t))
}

func newEnvOn(t testing.TB, server *testkit.Server) *env {
	t.Helper()
	e := &env{t: t, server: server, rdb: server.Client(t), clock: testkit.NewClock()}
	e.Client = e.client(e.rdb, qless.ClientConfig{})
	return e
}

// client makes another client with the env's clock, for any connection.
func (e *env) client(rdb *redis.Client, config qless.ClientConfig) *qless.Client {
	e.t.Helper()
	config.Clock = e.clock.Now
	return e.liveClient(rdb, config)
}

// liveClient is client with the server's own clock, unless the config has one.
func (e *env) liveClient(rdb *redis.Client, config qless.ClientConfig) *qless.Client {
	e.t.Helper()
	config.Logger = cmp.Or(config.Logger, testkit.Quiet())
	config.WorkerName = cmp.Or(config.WorkerName, "w1")
	client, err := qless.New(rdb, &config)
	require.NoError(e.t, err)
	return client
}

// put puts a job of klass K without data and returns its jid.
func (e *env) put(queue string, options ...qless.PutOption) string {
	e.t.Helper()
	jid, err := e.Queue(queue).Put(e.t.Context(), "K", nil, options...)
	require.NoError(e.t, err)
	return jid
}

// pops returns what a pop of at most count jobs gives.
func (e *env) pops(queue string, count int) []*qless.Job {
	e.t.Helper()
	jobs, err := e.Queue(queue).Pop(e.t.Context(), count)
	require.NoError(e.t, err)
	return jobs
}

// pop returns the next job of a queue, which must have one.
func (e *env) pop(queue string) *qless.Job {
	e.t.Helper()
	jobs := e.pops(queue, 1)
	require.Len(e.t, jobs, 1)
	return jobs[0]
}

// job reads a job, which must exist.
func (e *env) job(jid string) *qless.Job {
	e.t.Helper()
	job, err := e.Job(e.t.Context(), jid)
	require.NoError(e.t, err)
	return job
}

// counts reads the counts of a queue.
func (e *env) counts(queue string) qless.QueueCounts {
	e.t.Helper()
	counts, err := e.Queue(queue).Counts(e.t.Context())
	require.NoError(e.t, err)
	return counts
}

// set changes a setting.
func (e *env) set(option string, value any) {
	e.t.Helper()
	require.NoError(e.t, e.Config().Set(e.t.Context(), option, value))
}

// whats returns the kinds of a history's entries, in order.
func whats(history []qless.HistoryEntry) []string {
	var all []string
	for _, entry := range history {
		all = append(all, entry.What)
	}
	return all
}

// dump reads the keyspace, to be compared with another dump.
func (e *env) dump() testkit.Keyspace {
	e.t.Helper()
	all := testkit.Dump(e.t, e.rdb, "*")
	delete(all, "ql:x:relay") // which a worker holds while it begins to relay
	return all
}

// Run runs a script with any arguments. Its error is the one that a client makes of the answer.
func (e *env) Run(ctx context.Context, command, jid string, args ...any) (any, error) {
	reply, err := scripts.Run(ctx, e.rdb, e.Namespace(), e.now(), command, args...)
	if err != nil {
		err = scripts.Error(ctx, err, cmp.Or(jid, "any"))
	}
	return reply, err
}

// now returns the time of the env's clock, or zero, for the server's.
func (e *env) now() time.Time {
	if e.live {
		return time.Time{}
	}
	return e.clock.Now()
}

// unchanged requires that a function leaves the keyspace as it was.
func (e *env) unchanged(run func()) {
	e.t.Helper()
	before := e.dump()
	run()
	require.Equal(e.t, before, e.dump(), "the keyspace")
}

// requireCode requires an error of a kind, as both errors.Is and errors.As see it.
func requireCode(t testing.TB, code, err error) *qless.Error {
	t.Helper()
	require.ErrorIs(t, err, code)
	var own *qless.Error
	require.ErrorAs(t, err, &own)
	require.Equal(t, code, error(own.Code))
	require.NotEmpty(t, own.Op)
	require.NotEmpty(t, own.Message)
	return own
}

// raw returns data that is JSON as it is written.
func raw(text string) json.RawMessage { return json.RawMessage(text) }

// jids returns the ids of jobs, in their order.
func jids(jobs []*qless.Job) []string {
	var all []string
	for _, job := range jobs {
		all = append(all, job.JID)
	}
	return all
}

func zmember(score float64, member string) redis.Z { return redis.Z{Score: score, Member: member} }

// as makes a client of another worker.
func (e *env) as(worker string) *qless.Client {
	e.t.Helper()
	return e.client(e.rdb, qless.ClientConfig{WorkerName: worker})
}

// offline returns a client for what needs no server.
func offline(t testing.TB) *qless.Client {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	t.Cleanup(func() { _ = rdb.Close() })
	client, err := qless.New(rdb, &qless.ClientConfig{Logger: testkit.Quiet()})
	require.NoError(t, err)
	return client
}

// errOf returns the error of a call that also returns a value.
func errOf[T any](_ T, err error) error { return err }
