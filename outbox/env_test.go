package outbox

import (
	"context"
	"database/sql"
	"encoding/json"
	"io"
	"log"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	_ "modernc.org/sqlite"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
	"github.com/qless/qless-go/internal/testkit"
)

func TestMain(m *testing.M) {
	if os.Getenv(asRelay) != "" {
		relayUntilKilled()
	}
	testkit.Silence()
	_ = mysql.SetLogger(log.New(io.Discard, "", 0))
	goleak.VerifyTestMain(thenStop{m})
}

// thenStop stops the servers of the databases after the tests.
type thenStop struct{ m *testing.M }

func (s thenStop) Run() int {
	defer stopServers()
	return s.m.Run()
}

// A shop is a database with an outbox, and a Redis.
type shop struct {
	*testing.T
	dialect Dialect
	url     string // of the database
	db      *sql.DB
	box     Outbox
	redis   *testkit.Server
	client  *qless.Client
	jids    []string // of all jobs of the queue q, in the order of their transactions
}

// onEach runs a test on all kinds of databases, or on some.
func onEach(t *testing.T, test func(s *shop), some ...Dialect) {
	if len(some) == 0 {
		some = []Dialect{SQLite, Postgres, MySQL}
	}
	for _, dialect := range some {
		t.Run(string(dialect), func(t *testing.T) { test(newShop(t, dialect)) })
	}
}

func newShop(t *testing.T, dialect Dialect) *shop {
	t.Helper()
	s := &shop{T: t, dialect: dialect, box: Outbox{Dialect: dialect}}
	if dialect != SQLite {
		s.url = newDatabase(t, dialect)
	} else {
		s.url = "file:" + filepath.Join(t.TempDir(), "shop.db") +
			"?_pragma=busy_timeout(20000)&_pragma=journal_mode(WAL)&_txlock=immediate"
	}
	s.db = open(t, dialect, s.url)
	for range 2 { // the second time does nothing
		require.NoError(t, Migrate(t.Context(), s.db, dialect))
	}
	s.redis = testkit.Start(t)
	s.client = s.connect(s.redis.Addr())
	return s
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

var drivers = map[Dialect]string{SQLite: "sqlite", Postgres: "pgx", MySQL: "mysql"}

func open(t testing.TB, dialect Dialect, url string) *sql.DB {
	db := must(sql.Open(drivers[dialect], url))(t)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db
}

// connect returns a client of a Redis.
func (s *shop) connect(addr string) *qless.Client {
	s.Helper()
	options := testkit.Options(addr)
	options.DialerRetries, options.MaxRetries = 1, -1
	return s.clientOf(redisClient(s.T, options), nil)
}

// clientOf returns a client with a Redis client, closed by the end of the test.
func (s *shop) clientOf(rdb *redis.Client, config *qless.ClientConfig) *qless.Client {
	s.Helper()
	client := must(qless.New(rdb, config))(s)
	s.Cleanup(func() { _ = client.Close() })
	return client
}

// relay returns a relay with passes made by the test.
func (s *shop) relay(change ...func(*RelayConfig)) *Relay {
	s.Helper()
	config := RelayConfig{Dialect: s.dialect, Logger: testkit.Quiet(), Poll: time.Hour}
	for _, c := range change {
		c(&config)
	}
	r := must(NewRelay(s.db, s.client, config))(s)
	return r
}

// put puts a job in a separate transaction.
func (s *shop) put(queue string, data any, options ...qless.PutOption) string {
	s.Helper()
	tx := must(s.db.BeginTx(s.Context(), nil))(s)
	jid := must(s.box.Queue(tx, queue).Put(s.Context(), "K", data, options...))(s)
	require.NoError(s, tx.Commit())
	return jid
}

// background runs relays until they are stopped.
func (s *shop) background(relays ...func(context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(s.Context())
	var running sync.WaitGroup
	for _, run := range relays {
		running.Go(func() { run(ctx) })
	}
	return func() {
		cancel()
		running.Wait()
	}
}

// fill puts n jobs.
func (s *shop) fill(n int) {
	s.Helper()
	for i := range n {
		s.jids = append(s.jids, s.put("q", i))
	}
}

// stats returns the counts of the outbox, without an age.
func (s *shop) stats() Stats {
	s.Helper()
	stats := must(ReadStats(s.Context(), s.db))(s)
	stats.Oldest = 0
	return stats
}

// isEmpty reports whether the outbox has no rows.
func (s *shop) isEmpty() bool {
	stats := s.stats()
	return stats.Waiting+stats.Problems == 0
}

// aside are the stats of an outbox with rows of one kind of problem.
func aside(n int, kind string) Stats { return Stats{Problems: n, Kinds: map[string]int{kind: n}} }

// exec runs a statement.
func (s *shop) exec(statement string, args ...any) {
	s.Helper()
	must(s.db.ExecContext(s.Context(), s.dialect.statement(statement), args...))(s)
}

// problem returns the problem of the only row with a problem.
func (s *shop) problem() (problem string) {
	s.Helper()
	row := s.db.QueryRowContext(s.Context(), `SELECT problem FROM qless_outbox_rows WHERE problem IS NOT NULL`)
	require.NoError(s, row.Scan(&problem))
	return problem
}

// requireAll requires that the outbox is empty and the queue has all jobs, each put once.
func (s *shop) requireAll(inOrder bool) {
	s.Helper()
	require.Zero(s, s.stats())
	page := must(inspect.New(s.client).Queue("q", inspect.Waiting).
		JIDs(s.Context(), inspect.Range{Limit: -1}))(s)
	if inOrder {
		require.Equal(s, s.jids, page.Items)
	}
	require.ElementsMatch(s, s.jids, page.Items)
	jobs := must(s.client.Jobs(s.Context(), s.jids...))(s)
	for _, job := range jobs {
		require.Len(s, job.History, 1)
		require.Equal(s, "put", job.History[0].What)
	}
}

// job returns a job that must exist.
func (s *shop) job(jid string) *qless.Job {
	s.Helper()
	return must(s.client.Job(s.Context(), jid))(s)
}

// complete completes the next jobs of the queue q.
func (s *shop) complete(n int) {
	s.Helper()
	jobs := must(s.client.Queue("q").Pop(s.Context(), n))(s)
	require.Len(s, jobs, n)
	for _, job := range jobs {
		require.NoError(s, job.Complete(s.Context()))
	}
}

// raw is JSON that stays unchanged.
func raw(text string) json.RawMessage { return json.RawMessage(text) }
