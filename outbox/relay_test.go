package outbox

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/testkit"
)

// errDied is the value of the panic that kills a relay.
var errDied = errors.New("died")

// dieAt makes a pass that dies on reaching a step for the nth time.
func (r *Relay) dieAt(ctx context.Context, step string, n int) (err error) {
	defer func() {
		if recover() != nil {
			err = errDied
		}
	}()
	r.step = func(name string) {
		if name == step {
			if n--; n == 0 {
				panic(errDied)
			}
		}
	}
	return r.Pass(ctx).Err
}

// expireLeases ends the leases of all relays, and the pauses of refused rows.
func (s *shop) expireLeases() {
	s.Helper()
	write := (&table{s.db, s.dialect}).write // MySQL locks other rows at other levels of isolation
	require.NoError(s, write(s.Context(), func(tx session) error {
		_, err := tx.ExecContext(s.Context(), `UPDATE qless_outbox_rows SET due = 1 WHERE due > 0`)
		return err
	}))
}

func TestARelayThatIsKilledAtAnyStep(t *testing.T) {
	onEach(t, func(s *shop) {
		for _, step := range []string{"claim", "put", "delete"} {
			s.fill(5)
			waiting := s.stats().Waiting
			require.ErrorIs(s, s.relay().dieAt(s.Context(), step, 1), errDied)
			require.Equal(s, waiting, s.stats().Waiting, "the rows are still there")
			if step != "claim" {
				require.Equal(s, Pass{}, s.pass(s.relay()), "until the lease ends")
			}
			s.expireLeases()
		}
		s.fill(5)
		require.Equal(s, Pass{Put: 5, Known: 15}, s.pass(s.relay()))
		s.requireAll(true)
	})
}

// A job may be complete before its row is deleted. It is not put again as long as its record
// exists.
func TestAJobThatIsDoneBeforeItsRowIsGone(t *testing.T) {
	onEach(t, func(s *shop) {
		s.fill(1)
		require.ErrorIs(s, s.relay().dieAt(s.Context(), "delete", 1), errDied)
		s.complete(1)
		s.expireLeases()
		require.Equal(s, Pass{Known: 1}, s.pass(s.relay()))
		require.Equal(s, qless.StateComplete, s.job(s.jids[0]).State)
		require.Zero(s, s.stats())
	})
}

// A job is not put again even if nothing of it is left.
func TestAJobOfWhichNothingIsLeftIsNotPutAgain(t *testing.T) {
	for name, option := range map[string]qless.PutOption{
		"not kept": qless.KeepFor(0), "replacing": qless.Unique("k").Replace(),
	} {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(s *shop) {
				s.put("q", nil, option)
				require.ErrorIs(s, s.relay().dieAt(s.Context(), "delete", 1), errDied)
				jobs := must(s.client.Queue("q").Pop(s.Context(), 1))(s)
				require.Len(s, jobs, 1)
				require.NoError(s, s.client.Cancel(s.Context(), jobs[0].JID))
				s.expireLeases()
				require.Equal(s, Pass{Known: 1}, s.pass(s.relay()))
				_, err := s.client.Job(s.Context(), jobs[0].JID)
				require.ErrorIs(s, err, qless.ErrNotFound)
			})
		})
	}
}

// A receipt ends soon after the row is deleted.
func TestReceiptsDoNotStay(t *testing.T) {
	s := newShop(t, SQLite)
	rdb := s.redis.Client(s.T)
	s.fill(3)
	require.ErrorIs(s, s.relay().dieAt(s.Context(), "delete", 1), errDied)
	require.Equal(s, int64(3), rdb.ZCard(s.Context(), "ql:x:outbox:put").Val())
	s.expireLeases()
	require.Equal(s, Pass{Known: 3}, s.pass(s.relay()))
	late := float64(time.Now().Add(2 * time.Minute).Unix())
	for _, receipt := range rdb.ZRangeWithScores(s.Context(), "ql:x:outbox:put", 0, -1).Val() {
		require.Less(s, receipt.Score, late)
		require.NoError(s, rdb.ZAdd(s.Context(), "ql:x:outbox:put", redis.Z{Score: 1, Member: receipt.Member}).Err())
	}
	s.put("q", nil)
	require.Equal(s, Pass{Put: 1}, s.pass(s.relay()))
	require.Equal(s, int64(1), rdb.ZCard(s.Context(), "ql:x:outbox:put").Val())
}

func TestARowThatIsRefusedIsSetAside(t *testing.T) {
	for name, damage := range map[string]struct{ kind, statement string }{
		"data":          {"invalid", `UPDATE qless_outbox_rows SET queue = '' WHERE jid = ?`},
		"options":       {"damaged", `UPDATE qless_outbox_rows SET options = '{' WHERE jid = ?`},
		"an option":     {"invalid", `UPDATE qless_outbox_rows SET options = '{"options": {"retries": -1}}' WHERE jid = ?`},
		"by the server": {"invalid", `UPDATE qless_outbox_rows SET options = '{"options": {"ttl": "1h", "at": "2999-01-01T00:00:00Z"}}' WHERE jid = ?`},
	} {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(s *shop) {
				s.fill(9)
				s.exec(damage.statement, s.jids[4])
				require.Equal(s, Pass{Put: 8, Problems: 1}, s.pass(s.relay()), "the others follow at once")
				require.Equal(s, aside(1, damage.kind), s.stats())
				require.NotEmpty(s, s.problem())
				require.Equal(s, Pass{}, s.pass(s.relay()))
				_, err := s.client.Wait(s.Context(), s.jids[4], qless.AwaitPut(time.Minute))
				require.ErrorIs(s, err, qless.ErrInvalid)
				require.ErrorContains(s, err, "the outbox has set the job aside: ")
			})
		})
	}
}

// A relay that has lost its claim decides nothing about the row.
func TestALateRelaySetsNoRowAside(t *testing.T) {
	onEach(t, func(s *shop) {
		parent := s.put("q", nil, qless.DependsOn{"later"}.MustExist())
		child := s.put("q", nil, qless.DependsOn{parent})
		s.exec(`UPDATE qless_outbox_rows SET tries = ? WHERE jid = ?`, maxTries, parent)
		late := s.relay()
		late.step = func(name string) {
			if name == "delete" {
				s.expireLeases()
				must(s.client.Queue("q").Put(s.Context(), "K", nil, qless.JID("later")))(s)
				require.Equal(s, Pass{Put: 2}, s.pass(s.relay()))
			}
		}
		s.pass(late)
		require.Zero(s, s.stats())
		require.Equal(s, []string{parent}, s.job(child).Dependencies)
		require.Zero(s, s.redis.Client(s.T).Exists(s.Context(), "ql:x:outbox:not:"+parent).Val())
	})
}

// Rows waiting for a dead relay's row don't make the others wait for a poll.
func TestRowsThatWaitHoldUpNoOthers(t *testing.T) {
	onEach(t, func(s *shop) {
		parent := s.put("q", nil)
		require.ErrorIs(s, s.relay().dieAt(s.Context(), "put", 1), errDied)
		for range 5 {
			s.put("q", nil, qless.DependsOn{parent})
		}
		other := s.put("q", nil)
		stop := s.background(s.relay(func(c *RelayConfig) { c.Batch = 2 }).Run)
		testkit.Until(s, "the other is put", func() bool {
			_, err := s.client.Job(s.Context(), other)
			return err == nil
		})
		stop()
	})
}

// If a database fails in the middle of a pass, its rows are not delayed by a lease.
func TestADatabaseThatFailsDuringAPass(t *testing.T) {
	onEach(t, func(s *shop) {
		s.fill(3)
		s.exec(`ALTER TABLE qless_outbox_needs RENAME TO elsewhere`)
		require.Error(s, s.relay().Pass(s.Context()).Err)
		s.exec(`ALTER TABLE elsewhere RENAME TO qless_outbox_needs`)
		require.Equal(s, Pass{Put: 3}, s.pass(s.relay()))
		s.requireAll(true)
	})
}

// Relays report to Redis, where the reports of vanished outboxes expire.
func TestRelaysReport(t *testing.T) {
	onEach(t, func(s *shop) {
		s.fill(2)
		s.exec(`UPDATE qless_outbox_rows SET klass = '' WHERE jid = ?`, s.jids[0])
		s.pass(s.relay())
		s.put("q", nil)
		s.wrote(time.Hour)
		rdb := s.redis.Client(s.T)
		require.NoError(s, rdb.HSet(s.Context(), "ql:x:outbox", "old", `{"time": 1}`, "odd", "{").Err())
		s.relay(func(c *RelayConfig) { c.Name = "shop" }).report(s.Context())
		found := rdb.HGetAll(s.Context(), "ql:x:outbox").Val()
		require.Len(s, found, 1)
		require.Regexp(s, `^{"oldest":36\d\d,"problems":{"invalid":1},"rows":1,"time":\d+}$`, found["shop"])
		require.Positive(s, rdb.TTL(s.Context(), "ql:x:outbox").Val())
		stats := must(s.relay().Stats(s.Context()))(s)
		require.InDelta(s, time.Hour, stats.Oldest, float64(time.Minute))
	})
}

// A key of one queue is damaged. The jobs of another queue are put.
func TestAQueueThatRefusesHoldsUpNoOther(t *testing.T) {
	onEach(t, func(s *shop) {
		rdb := s.redis.Client(s.T)
		require.NoError(s, rdb.Set(s.Context(), "ql:q:broken-work", "x", 0).Err())
		s.put("broken", nil)
		s.put("broken", nil)
		s.fill(2)
		r := s.relay()
		require.Equal(s, Pass{Put: 2, Left: 2}, s.pass(r))
		require.Equal(s, Pass{}, s.pass(s.relay()), "they wait a little")
		s.expireLeases()
		require.Equal(s, Pass{Left: 2}, s.pass(r))
		require.NoError(s, rdb.Del(s.Context(), "ql:q:broken-work").Err())
		s.expireLeases()
		require.Equal(s, Pass{Put: 2}, s.pass(r))
		s.requireAll(true)
	})
}

func TestARelayWaitsForARedisThatIsAway(t *testing.T) {
	onEach(t, func(s *shop) {
		s.fill(3)
		there := s.client
		s.client = s.connect("127.0.0.1:1")
		var seen []Pass
		pass := s.relay(func(c *RelayConfig) {
			c.Observer = func(p Pass) { seen = append(seen, p) }
		}).Pass(s.Context())
		require.ErrorIs(s, pass.Err, qless.ErrUnavailable)
		require.Equal(s, 3, pass.Left)
		require.Equal(s, []Pass{pass}, seen)
		s.client = there
		require.Equal(s, Pass{Put: 3}, s.pass(s.relay()), "at once")
		s.requireAll(true)
	})
}

// A relay stopped in the middle of a pass releases its rows.
func TestARelayThatIsStoppedGivesItsRowsBack(t *testing.T) {
	onEach(t, func(s *shop) {
		s.fill(3)
		ctx, stop := context.WithCancel(s.Context())
		r := s.relay()
		r.step = func(name string) {
			if name == "put" {
				stop()
			}
		}
		require.ErrorIs(s, r.Pass(ctx).Err, qless.ErrUnavailable)
		require.Equal(s, Pass{Put: 3}, s.pass(s.relay()))
		s.requireAll(true)
	})
}

func TestSeveralRelaysAtOnce(t *testing.T) {
	onEach(t, func(s *shop) {
		small := func(c *RelayConfig) { c.Batch, c.Poll = 7, time.Millisecond }
		stop := s.background(s.relay(small).Run, s.relay(small).Run, s.relay(small).Run)
		s.fill(100)
		testkit.Until(s, "the outbox is empty", s.isEmpty)
		stop()
		s.requireAll(false)
	})
}

func TestANotifiedRelayDoesNotWaitForItsPoll(t *testing.T) {
	onEach(t, func(s *shop) {
		r := s.relay()
		stop := s.background(r.Run)
		s.fill(1)
		r.Notify()
		r.Notify()
		testkit.Until(s, "the outbox is empty", s.isEmpty)
		stop()
		s.requireAll(true)
	})
}

// listenTo returns a Listen function for a PostgreSQL database.
func listenTo(url string) func(ctx context.Context, notify func()) error {
	return func(ctx context.Context, notify func()) error {
		conn, err := pgx.Connect(ctx, url)
		if err != nil {
			return err
		}
		defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
		if _, err := conn.Exec(ctx, "LISTEN qless_outbox"); err != nil {
			return err
		}
		for {
			notify() // also about the rows written before
			if _, err := conn.WaitForNotification(ctx); err != nil {
				return err
			}
		}
	}
}

// PostgreSQL notifies the relay when a transaction with a row is committed, and the relay
// reconnects after losing the connection. The relay never polls in this test.
func TestARelayListensToPostgres(t *testing.T) {
	s := newShop(t, Postgres)
	listened := make(chan struct{}, 100)
	listen := listenTo(s.url)
	r := s.relay(func(c *RelayConfig) {
		c.Poll = 50 * time.Millisecond
		c.Listen = func(ctx context.Context, notify func()) error {
			return listen(ctx, func() { notify(); listened <- struct{}{} })
		}
	})
	stop := s.background(r.listen)
	testkit.Soon(s, "it listens", listened)
	for range 3 {
		s.fill(1)
		testkit.Soon(s, "it is notified", listened)
		testkit.Soon(s, "it wakes the relay", r.wake)
		s.exec(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'`)
		testkit.Soon(s, "it listens again", listened)
	}
	stop()
}

// A relay that can't listen polls, and reports that once.
func TestARelayThatCanNotListenPolls(t *testing.T) {
	s := newShop(t, SQLite)
	calls := make(chan struct{})
	var log syncBuffer
	r := s.relay(func(c *RelayConfig) {
		c.Poll = time.Millisecond
		c.Logger = slog.New(slog.NewTextHandler(&log, nil))
		c.Listen = func(ctx context.Context, _ func()) error {
			select {
			case calls <- struct{}{}:
			case <-ctx.Done():
			}
			return errors.New("no connection")
		}
	})
	stop := s.background(r.Run)
	for range 4 {
		testkit.Soon(s, "it listens again", calls)
	}
	s.fill(1)
	testkit.Until(s, "the outbox is empty", s.isEmpty)
	stop()
	require.Equal(s, 1, strings.Count(log.String(), "can't listen"))
}

func TestAMisdeedIsTold(t *testing.T) {
	for _, misdeed := range []func(){func() { panic("a misdeed") }, runtime.Goexit} {
		s := newShop(t, SQLite)
		s.box.Headers = func(context.Context) map[string]string { misdeed(); return nil }
		tx := must(s.db.BeginTx(s.Context(), nil))(s)
		_, err := s.box.Queue(tx, "q").Put(s.Context(), "K", nil)
		require.ErrorContains(s, err, "Headers: a function ")
		require.NoError(s, tx.Rollback())
		s.box.Headers = nil

		var log syncBuffer
		stop := s.background(s.relay(func(c *RelayConfig) {
			c.Poll = time.Millisecond
			c.Logger = slog.New(badLog{slog.NewTextHandler(&log, nil), misdeed})
			c.Observer = func(Pass) { misdeed() }
			c.Listen = func(context.Context, func()) error { misdeed(); return nil }
		}).Run)
		for range 2 {
			s.fill(1)
			testkit.Until(s, "the outbox is empty", s.isEmpty)
		}
		stop()
		require.Contains(s, log.String(), "RelayConfig.Observer ")
		require.Contains(s, log.String(), "can't listen")
	}
}

// A badLog writes records, and does not return.
type badLog struct {
	slog.Handler
	misdeed func()
}

func (l badLog) Handle(ctx context.Context, record slog.Record) error {
	_ = l.Handler.Handle(ctx, record)
	l.misdeed()
	return nil
}

// A syncBuffer is a buffer shared by goroutines.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(text []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(text)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// asRelay and the others make the test's own program a relay of a database.
const asRelay, asRelayOf, asRelayTo = "OUTBOX_DIALECT", "OUTBOX_DATABASE", "OUTBOX_REDIS"

// relayUntilKilled relays in small batches and prints each step.
func relayUntilKilled() {
	dialect := Dialect(os.Getenv(asRelay))
	db, err := sql.Open(drivers[dialect], os.Getenv(asRelayOf))
	if err != nil {
		panic(err)
	}
	client, err := qless.New(redis.NewClient(&redis.Options{Addr: os.Getenv(asRelayTo)}), nil)
	if err != nil {
		panic(err)
	}
	r, err := NewRelay(db, client, RelayConfig{
		Dialect: dialect, Batch: 7, Poll: time.Millisecond, Lease: 100 * time.Millisecond,
	})
	if err != nil {
		panic(err)
	}
	r.step = func(name string) { fmt.Println(name) }
	r.Run(context.Background())
}

// Processes are killed while they relay, each at a different step or shortly after. Four run at
// once.
func TestRelaysThatAreKilled(t *testing.T) {
	onEach(t, func(s *shop) {
		var running []*relayProcess
		defer func() {
			for _, p := range running {
				p.kill()
			}
		}()
		for i := range 16 {
			s.fill(10)
			running = append(running, s.startRelay())
			if len(running) == 4 {
				running[0].wait(s, i)
				running[0].kill()
				running = running[1:]
			}
		}
		testkit.Until(s, "the outbox is empty", s.isEmpty)
		for _, p := range running {
			p.kill()
		}
		s.requireAll(false)
	})
}

// A relayProcess is a relaying process that reports its steps.
type relayProcess struct {
	command *exec.Cmd
	steps   chan string
	once    sync.Once
}

func (s *shop) startRelay() *relayProcess {
	s.Helper()
	p := &relayProcess{command: exec.Command(os.Args[0]), steps: make(chan string, 1000)}
	p.command.Env = append(os.Environ(),
		asRelay+"="+string(s.dialect), asRelayOf+"="+s.url, asRelayTo+"="+s.redis.Addr())
	p.command.Stderr, p.command.Stdout = os.Stderr, p
	require.NoError(s, p.command.Start())
	return p
}

// Write receives the steps of the process. Steps not awaited by the test are dropped.
func (p *relayProcess) Write(text []byte) (int, error) {
	select {
	case p.steps <- string(text):
	default:
	}
	return len(text), nil
}

// wait waits until the process has written n times, and at least once.
func (p *relayProcess) wait(t testing.TB, n int) {
	for range n + 1 {
		testkit.Soon(t, "the relay makes a step", p.steps)
	}
}

func (p *relayProcess) kill() {
	p.once.Do(func() {
		_ = p.command.Process.Kill()
		_ = p.command.Wait()
	})
}
