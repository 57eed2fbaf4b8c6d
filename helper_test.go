package qless_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/redistest"
)

func TestMain(m *testing.M) {
	redis.SetLogger(silence{}) // servers that are gone are part of the tests
	goleak.VerifyTestMain(m)
}

// silence keeps what go-redis logs from the output of the tests, for one that wants to see it.
type silence struct{}

var overheard struct {
	mu   sync.Mutex
	on   bool
	text strings.Builder
}

func (silence) Printf(_ context.Context, format string, args ...any) {
	overheard.mu.Lock()
	defer overheard.mu.Unlock()
	if overheard.on {
		fmt.Fprintf(&overheard.text, format+"\n", args...)
	}
}

// overhear returns a function that returns what go-redis has logged since.
func overhear(t testing.TB) func() string {
	t.Helper()
	overheard.mu.Lock()
	defer overheard.mu.Unlock()
	overheard.on = true
	return func() string {
		overheard.mu.Lock()
		defer overheard.mu.Unlock()
		defer overheard.text.Reset()
		overheard.on = false
		return overheard.text.String()
	}
}

// noon is when the clocks of the tests begin.
var noon = time.Date(2024, time.January, 2, 12, 0, 0, 0, time.UTC)

// A clock stands still until it is moved, but for a microsecond at each look, so that jobs
// keep the order in which they were put.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(time.Microsecond)
	return c.now
}

func (c *clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// An env is what a test works with: a real server of its own, and a client of it whose
// worker is called w1 and whose clock only the test moves.
type env struct {
	*qless.Client
	t      testing.TB
	server *redistest.Server
	rdb    *redis.Client
	clock  *clock
}

func newEnv(t testing.TB, options ...qless.Option) *env {
	t.Helper()
	return newEnvOn(t, redistest.Start(t), options...)
}

func newEnvOn(t testing.TB, server *redistest.Server, options ...qless.Option) *env {
	t.Helper()
	e := &env{t: t, server: server, rdb: server.Client(t), clock: &clock{now: noon}}
	e.Client = e.client(e.rdb, options...)
	return e
}

// client makes another client with the env's clock, for any connection.
func (e *env) client(rdb *redis.Client, options ...qless.Option) *qless.Client {
	e.t.Helper()
	client, err := qless.New(rdb, append([]qless.Option{
		qless.WithWorkerName("w1"),
		qless.WithClock(e.clock.Now),
		qless.WithLogger(slog.New(slog.DiscardHandler)),
	}, options...)...)
	require.NoError(e.t, err)
	return client
}

// as makes a client of another worker.
func (e *env) as(worker string) *qless.Client {
	e.t.Helper()
	return e.client(e.rdb, qless.WithWorkerName(worker))
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

// whats returns what a history tells, in order.
func whats(history []qless.HistoryEntry) []string {
	var all []string
	for _, entry := range history {
		all = append(all, entry.What)
	}
	return all
}

// dumpScript returns every key with its type and its values in a stable order.
const dumpScript = `
local all = {}
for _, key in ipairs(redis.call('keys', '*')) do
  local kind, value = redis.call('type', key).ok, nil
  if kind == 'hash' then value = redis.call('hgetall', key)
  elseif kind == 'list' then value = redis.call('lrange', key, 0, -1)
  elseif kind == 'set' then value = redis.call('smembers', key)
  elseif kind == 'zset' then value = redis.call('zrange', key, 0, -1, 'withscores')
  else value = {redis.call('get', key)} end
  all[#all + 1] = {key, kind, value}
end
return all`

// A keyspace is all that a server holds, by key.
type keyspace map[string]any

// dump reads the keyspace, to be compared with another dump.
func (e *env) dump() keyspace {
	e.t.Helper()
	reply, err := e.rdb.Eval(e.t.Context(), dumpScript, nil).Slice()
	require.NoError(e.t, err)
	all := keyspace{}
	for _, item := range reply {
		key := item.([]any)
		values := key[2].([]any)
		switch key[1] {
		case "hash":
			fields := map[string]any{}
			for i := 0; i < len(values); i += 2 {
				fields[values[i].(string)] = values[i+1]
			}
			all[key[0].(string)] = fields
		case "set":
			members := map[string]bool{}
			for _, member := range values {
				members[member.(string)] = true
			}
			all[key[0].(string)] = members
		default:
			all[key[0].(string)] = values
		}
	}
	return all
}

// unchanged requires that a function leaves the keyspace as it was.
func (e *env) unchanged(run func()) {
	e.t.Helper()
	before := e.dump()
	run()
	require.Equal(e.t, before, e.dump(), "the keyspace")
}

// requireCode requires an error of a kind, as both ways of telling see it.
func requireCode(t testing.TB, sentinel *qless.Error, err error) *qless.Error {
	t.Helper()
	require.ErrorIs(t, err, sentinel)
	var own *qless.Error
	require.ErrorAs(t, err, &own)
	require.Equal(t, sentinel.Code, own.Code)
	require.NotEmpty(t, own.Op)
	require.NotEmpty(t, own.Message)
	return own
}

// raw returns data that is JSON as it is written.
func raw(text string) json.RawMessage { return json.RawMessage(text) }

// readFile returns a file of the repository.
func readFile(t testing.TB, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	require.NoError(t, err)
	return strings.ReplaceAll(string(text), "\r\n", "\n")
}

func zmember(score float64, member string) redis.Z { return redis.Z{Score: score, Member: member} }

// offline returns a client for what needs no server.
func offline(t testing.TB) *qless.Client {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	t.Cleanup(func() { _ = rdb.Close() })
	client, err := qless.New(rdb, qless.WithLogger(slog.New(slog.DiscardHandler)))
	require.NoError(t, err)
	return client
}

// errOf returns the error of a call that also returns a value.
func errOf[T any](_ T, err error) error { return err }
