package api

import (
	"cmp"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/testkit"
	"github.com/qless/qless-go/internal/testkit/memory"
	"github.com/qless/qless-go/internal/testkit/scripts"
)

func TestMain(m *testing.M) {
	testkit.Main(m)
}

// noon is when the clocks of the tests begin.
var noon = testkit.Noon

// patience turns a hang into a failure.
const patience = testkit.Patience

// An env is what a test works with: a real server of its own, and a client of it whose
// worker is called w1 and whose clock only the test moves.
type env struct {
	*qless.Client
	t      testing.TB
	server *testkit.Server
	rdb    *redis.Client
	clock  *testkit.Clock
}

func newEnv(t testing.TB) *env {
	t.Helper()
	return newEnvOn(t, testkit.Start(t))
}

// newEnvWith is newEnv with a client of another config.
func newEnvWith(t testing.TB, config qless.ClientConfig) *env {
	t.Helper()
	e := newEnv(t)
	e.Client = e.client(e.rdb, config)
	return e
}

func newEnvOn(t testing.TB, server *testkit.Server) *env {
	t.Helper()
	e := &env{t: t, server: server, rdb: server.Client(t), clock: testkit.NewClock()}
	e.Client = e.client(e.rdb, qless.ClientConfig{})
	return e
}

// onEach runs a test on a real server and on miniredis, where the env has no server.
func onEach(t *testing.T, test func(t *testing.T, e *env)) {
	t.Run("a server", func(t *testing.T) { test(t, newEnv(t)) })
	t.Run("miniredis", func(t *testing.T) {
		rdb := memory.Client(t)
		e := &env{t: t, rdb: rdb, clock: testkit.NewClock()}
		e.Client = e.client(rdb, qless.ClientConfig{})
		test(t, e)
	})
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

// as makes a client of another worker.
func (e *env) as(worker string) *qless.Client {
	e.t.Helper()
	return e.client(e.rdb, qless.ClientConfig{WorkerName: worker})
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

// jids returns the ids of jobs, in their order.
func jids(jobs []*qless.Job) []string {
	var all []string
	for _, job := range jobs {
		all = append(all, job.JID)
	}
	return all
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
	return testkit.Dump(e.t, e.rdb, "*")
}

// Run runs a script with any arguments. Its error is the one that a client makes of the answer.
func (e *env) Run(ctx context.Context, command, jid string, args ...any) (any, error) {
	reply, err := scripts.Run(ctx, e.rdb, e.Namespace(), e.clock.Now(), command, args...)
	if err != nil {
		err = scripts.Error(ctx, err, cmp.Or(jid, "any"))
	}
	return reply, err
}

// unchanged requires that a function leaves the keyspace as it was.
func (e *env) unchanged(run func()) {
	e.t.Helper()
	before := e.dump()
	run()
	require.Equal(e.t, before, e.dump(), "the keyspace")
}

// requireCode requires an error of a kind, in both ways of checking.
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

// readFile returns a file of the repository.
func readFile(t testing.TB, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(scripts.Root, name))
	require.NoError(t, err)
	return strings.ReplaceAll(string(text), "\r\n", "\n")
}

func zmember(score float64, member string) redis.Z { return redis.Z{Score: score, Member: member} }

// errOf returns the error of a call that also returns a value.
func errOf[T any](_ T, err error) error { return err }

// jsonOf returns a value as JSON.
func jsonOf(t testing.TB, value any) string {
	t.Helper()
	text, err := json.Marshal(value)
	require.NoError(t, err)
	return string(text)
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

// pending returns the jids of the members for which the callback of a batch waits, sorted.
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
