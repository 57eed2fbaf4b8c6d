package outbox

import (
	"database/sql"
	"encoding/json"
	"io"
	"log"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
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

// onEach runs a test on all kinds of databases.
func onEach(t *testing.T, test func(s *shop)) {
	for _, dialect := range []Dialect{SQLite, Postgres, MySQL} {
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

var drivers = map[Dialect]string{SQLite: "sqlite", Postgres: "pgx", MySQL: "mysql"}

func open(t testing.TB, dialect Dialect, url string) *sql.DB {
	db, err := sql.Open(drivers[dialect], url)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db
}

// connect returns a client of a Redis.
func (s *shop) connect(addr string) *qless.Client {
	s.Helper()
	options := testkit.Options(addr)
	options.DialerRetries, options.MaxRetries = 1, -1
	rdb := redisClient(s.T, options)
	client, err := qless.New(rdb, nil)
	require.NoError(s, err)
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
	r, err := NewRelay(s.db, s.client, config)
	require.NoError(s, err)
	return r
}

// put puts a job in a separate transaction.
func (s *shop) put(queue string, data any, options ...qless.PutOption) string {
	s.Helper()
	tx, err := s.db.BeginTx(s.Context(), nil)
	require.NoError(s, err)
	jid, err := s.box.Queue(tx, queue).Put(s.Context(), "K", data, options...)
	require.NoError(s, err)
	require.NoError(s, tx.Commit())
	return jid
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
	stats, err := ReadStats(s.Context(), s.db)
	require.NoError(s, err)
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
	_, err := s.db.ExecContext(s.Context(), s.dialect.statement(statement), args...)
	require.NoError(s, err)
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
	page, err := inspect.New(s.client).Queue("q", inspect.Waiting).
		JIDs(s.Context(), inspect.Range{Limit: -1})
	require.NoError(s, err)
	if inOrder {
		require.Equal(s, s.jids, page.Items)
	}
	require.ElementsMatch(s, s.jids, page.Items)
	jobs, err := s.client.Jobs(s.Context(), s.jids...)
	require.NoError(s, err)
	for _, job := range jobs {
		require.Len(s, job.History, 1)
		require.Equal(s, "put", job.History[0].What)
	}
}

// job returns a job that must exist.
func (s *shop) job(jid string) *qless.Job {
	s.Helper()
	job, err := s.client.Job(s.Context(), jid)
	require.NoError(s, err)
	return job
}

// complete completes the next jobs of the queue q.
func (s *shop) complete(n int) {
	s.Helper()
	jobs, err := s.client.Queue("q").Pop(s.Context(), n)
	require.NoError(s, err)
	require.Len(s, jobs, n)
	for _, job := range jobs {
		require.NoError(s, job.Complete(s.Context()))
	}
}

// raw is JSON that stays unchanged.
func raw(text string) json.RawMessage { return json.RawMessage(text) }
