package outbox

import (
	"context"
	"database/sql"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/testkit"
)

// Four relays work while the server refuses writes for one reason after another, crashes and loses
// connections, and while the database is killed and started again. Some transactions stay open
// meanwhile: their rows appear after later rows.
func TestFourRelaysThroughFaults(t *testing.T) {
	onEach(t, func(s *shop) {
		if s.dialect == MySQL {
			s.exec(`SET GLOBAL innodb_flush_log_at_trx_commit = 2`) // commits survive the process
		}
		chaos, server := testkit.NewChaos(s, rand.New(rand.NewPCG(testkit.Seed(s), 0)))
		s.redis = server
		ctx, stop := context.WithCancel(s.Context())
		var running sync.WaitGroup
		for range 4 {
			s.client = s.clientOf(chaos.Client(s, nil), nil)
			r := s.relay(func(c *RelayConfig) {
				c.Batch, c.Lease, c.Poll = 20, 500*time.Millisecond, time.Millisecond
			})
			running.Go(func() {
				for ctx.Err() == nil {
					if r.Pass(ctx).Put == 0 {
						pause(ctx, time.Millisecond)
					}
				}
			})
		}
		w := &writer{shop: s, tick: chaos.Client(s, nil)}
		writing, done := context.WithCancel(ctx)
		var writes sync.WaitGroup
		writes.Go(func() { w.run(writing) })
		chaos.Everything(s, 3, "put.many", "put.settled")
		s.restartDatabase()
		chaos.Everything(s, 2, "put.many", "put.settled")
		done()
		writes.Wait()
		testkit.Until(s, "the outbox is empty", s.isEmpty)
		stop()
		running.Wait()
		w.requireAll()
	})
}

// restartDatabase kills the server of the database and starts it again.
func (s *shop) restartDatabase() {
	s.Helper()
	if s.dialect == SQLite {
		return
	}
	c := started.clusters[s.dialect]
	c.kill()
	require.NoError(s, c.run())
	testkit.Until(s, "the database answers", func() bool { return s.db.Ping() == nil })
}

// A writer writes pairs of jobs, the second dependent on the first.
type writer struct {
	*shop
	tick  *redis.Client // slows the writer down, and counts as accepted commands
	pairs [][2]string   // committed pairs
	open  []openTx
}

type openTx struct {
	tx   *sql.Tx
	pair [2]string
}

// run writes until the context ends. Every tenth transaction stays open for some more time.
func (w *writer) run(ctx context.Context) {
	for i := 0; ctx.Err() == nil; i++ {
		w.tick.Set(ctx, "tick", i, 0)
		if one, err := w.write(); err != nil {
			continue
		} else if i%10 == 0 && w.dialect != SQLite { // which has one transaction at a time
			w.open = append(w.open, one)
		} else {
			w.commit(one)
		}
		if len(w.open) == 20 {
			w.commit(w.open[0])
			w.open = w.open[1:]
		}
	}
	for _, one := range w.open {
		w.commit(one)
	}
}

func (w *writer) write() (one openTx, err error) {
	if one.tx, err = w.db.BeginTx(context.Background(), nil); err != nil {
		return one, err
	}
	for i := range one.pair {
		var parents qless.DependsOn
		if i > 0 {
			parents = qless.DependsOn{one.pair[0]}
		}
		one.pair[i], err = w.box.Queue(one.tx, []string{"z", "a"}[i]).Put(context.Background(), "K", nil, parents)
		if err != nil {
			_ = one.tx.Rollback()
			return one, err
		}
	}
	return one, nil
}

func (w *writer) commit(one openTx) {
	if one.tx.Commit() == nil { // or nobody knows
		w.pairs = append(w.pairs, one.pair)
	}
}

// requireAll requires that all jobs were put once, and wait for their parents.
func (w *writer) requireAll() {
	w.Helper()
	require.NotEmpty(w, w.pairs)
	client := w.connect(w.redis.Addr())
	for some := range slices.Chunk(w.pairs, 200) {
		var jids []string
		for _, pair := range some {
			jids = append(jids, pair[0], pair[1])
		}
		jobs := must(client.Jobs(w.Context(), jids...))(w)
		require.Len(w, jobs, len(jids))
		for i, job := range jobs {
			require.Len(w, job.History, 1, "it was put once")
			if i%2 == 1 {
				require.Equal(w, []string{jids[i-1]}, job.Dependencies)
			}
		}
	}
}

// A transaction that stays open makes no relay wait, even with small tables.
func TestAnOpenTransactionHoldsUpNoRelay(t *testing.T) {
	onEach(t, func(s *shop) {
		w := &writer{shop: s}
		one := must(w.write())(s)
		parent := s.put("q", nil)
		first := s.relay(func(c *RelayConfig) { c.Batch = 1 })
		child := s.put("q", nil, qless.DependsOn{parent})
		require.ErrorIs(s, first.dieAt(s.Context(), "put", 1), errDied)
		require.Equal(s, Pass{Left: 1}, s.pass(s.relay()))
		s.expireLeases()
		s.pass(s.relay())
		s.pass(s.relay())
		require.Equal(s, []string{parent}, s.job(child).Dependencies)
		for n := 1; n <= 40; n++ { // a database may prefer to scan a small table
			s.fill(n)
			s.changeRows(n)
			require.Equal(s, Pass{Put: n}, s.pass(s.relay()), "%d rows", n)
		}
		w.commit(one)
		require.Equal(s, Pass{Put: 2}, s.pass(s.relay()))
		w.requireAll()
	}, Postgres, MySQL) // SQLite has one transaction at a time
}

// changeRows changes the only n rows in each way used by a relay.
func (s *shop) changeRows(n int) {
	s.Helper()
	r, ctx := s.relay(), s.Context()
	claim := func() (claim, []*row) {
		c, rows, err := r.table.claim(ctx, n, time.Minute)
		require.NoError(s, err)
		require.Len(s, rows, n)
		return c, rows
	}
	c, rows := claim()
	require.NoError(s, r.table.release(ctx, c, numbersOf(rows)))
	c, rows = claim()
	require.NoError(s, r.table.postpone(ctx, c, rows))
	jids := s.jids[len(s.jids)-n:]
	require.NoError(s, r.table.write(ctx, func(tx session) error {
		return r.table.setAside(ctx, tx, fate{kind: "invalid", message: "it is"}, values(jids))
	}))
	require.Equal(s, n, must(r.Retry(ctx, jids...))(s))
}

// A replica becomes the master in the middle of a pass, and the old master refuses writes.
func TestRedisFailsOverDuringAPass(t *testing.T) {
	for _, step := range []string{"put", "delete", "settle"} {
		t.Run(step, func(t *testing.T) {
			s := newShop(t, SQLite)
			host, port, err := net.SplitHostPort(s.redis.Addr())
			require.NoError(t, err)
			master := s.redis.Client(t)
			require.NoError(t, master.ConfigSet(t.Context(), "repl-diskless-sync-delay", "0").Err())
			replica := testkit.Start(t, "--replicaof", host+" "+port)
			next := replica.Client(t)
			testkit.Until(s, "the replica follows", func() bool {
				return master.Wait(t.Context(), 1, time.Second).Val() == 1
			})
			var addr atomic.Value
			addr.Store(s.redis.Addr())
			options := testkit.Options("")
			options.Dialer = func(context.Context, string, string) (net.Conn, error) {
				return net.Dial("tcp", addr.Load().(string))
			}
			options.MaxRetries = -1
			s.client = s.clientOf(redisClient(t, options), nil)
			s.fill(5)
			r, failed := s.relay(), false
			r.step = func(name string) {
				if name != step {
					return
				}
				conn := master.Conn()
				require.NoError(s, conn.Set(t.Context(), "last", 1, 0).Err()) // WAIT counts own writes
				require.Equal(s, int64(1), conn.Wait(t.Context(), 1, time.Minute).Val())
				require.NoError(s, conn.Close())
				require.NoError(s, next.ReplicaOf(t.Context(), "no", "one").Err())
				require.NoError(s, master.ReplicaOf(t.Context(), "127.0.0.1", "1").Err())
				addr.Store(replica.Addr())
				r.step, failed = func(string) {}, true
			}
			_, _ = s.client.Job(t.Context(), s.jids[0]) // connects to the old master
			r.Pass(t.Context())
			require.True(s, failed)
			s.pass(s.relay())
			s.requireAll(true)
		})
	}
}

// The server loses all data while a relay has rows. Remaining rows are put again.
func TestRedisIsFlushedDuringAPass(t *testing.T) {
	onEach(t, func(s *shop) {
		s.fill(3)
		r := s.relay()
		r.step = func(name string) {
			if name == "put" {
				require.NoError(s, s.redis.Client(s.T).FlushAll(s.Context()).Err())
			}
		}
		require.Equal(s, Pass{Put: 3}, s.pass(r))
		s.requireAll(true)
		s.fill(2)
		require.ErrorIs(s, s.relay().dieAt(s.Context(), "delete", 1), errDied)
		require.NoError(s, s.redis.Client(s.T).FlushAll(s.Context()).Err())
		s.expireLeases()
		s.jids = s.jids[3:]
		require.Equal(s, Pass{Put: 2}, s.pass(s.relay()))
		s.requireAll(true)
	})
}

// The clocks of two servers are twenty minutes apart, and neither has the database's time.
func TestClocksThatDisagree(t *testing.T) {
	onEach(t, func(s *shop) {
		for _, ahead := range []time.Duration{-10 * time.Minute, 10 * time.Minute} {
			now := time.Now().Add(ahead)
			s.client = s.clientOf(redisClient(s.T, testkit.Options(s.redis.Addr())),
				&qless.ClientConfig{Clock: func() time.Time { return now }})
			delayed := s.put("q", nil, qless.Delay(time.Minute), qless.TTL(2*time.Minute))
			waiting := s.put("q", nil, qless.StartBy(time.Minute))
			require.ErrorIs(s, s.relay().dieAt(s.Context(), "delete", 1), errDied)
			require.Equal(s, Pass{}, s.pass(s.relay()), "its lease counts by the clock of the database")
			s.expireLeases()
			require.Equal(s, Pass{Known: 2}, s.pass(s.relay()))
			require.WithinDuration(s, now.Add(time.Minute), s.job(delayed).Due, 30*time.Second)
			require.WithinDuration(s, now.Add(time.Minute), s.job(waiting).Options.StartBy, 30*time.Second)
		}
	})
}
