package outbox

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
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

// dieAt makes a pass that dies the nth time that it reaches a step.
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

// expireLeases ends the leases of all relays.
func (s *shop) expireLeases() {
	s.Helper()
	s.exec(`UPDATE qless_outbox SET claimed = 0`)
}

func TestARelayThatIsKilledAtAnyStep(t *testing.T) {
	onEach(t, func(s *shop) {
		for _, step := range []string{"claim", "settle", "put", "delete"} {
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
		require.Equal(s, Pass{Put: 5, Known: 20}, s.pass(s.relay()))
		s.requireAll(true)
	})
}

// Between two queues, one has its jobs and the other does not.
func TestARelayThatIsKilledBetweenQueues(t *testing.T) {
	onEach(t, func(s *shop) {
		s.fill(1)
		other := s.put("other", nil)
		require.ErrorIs(s, s.relay().dieAt(s.Context(), "put", 2), errDied)
		_, err := s.client.Job(s.Context(), other)
		require.ErrorIs(s, err, qless.ErrNotFound)
		s.expireLeases()
		require.Equal(s, Pass{Put: 1, Known: 1}, s.pass(s.relay()))
		s.job(other)
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

// If the record of the job may have been deleted, the row waits for a person.
func TestAJobOfWhichNothingIsLeftIsNotPutAgain(t *testing.T) {
	hour := time.Hour
	for name, c := range map[string]struct {
		setting string
		value   any
		option  qless.PutOption
		tried   time.Duration // how long ago
		asks    bool
	}{
		"nothing happened":     {"jobs-history", 7200, nil, 0, false},
		"too long ago":         {"jobs-history", 7200, nil, 2 * hour, true},
		"long ago":             {"jobs-history", 7200, nil, hour, false},
		"not kept":             {"jobs-history", 0, nil, 0, true},
		"too many since":       {"jobs-history-count", 2, nil, hour, true},
		"none kept":            {"jobs-history-count", 0, nil, 0, true},
		"its own time":         {"jobs-history", 7200, qless.KeepFor(time.Minute), 0, true},
		"its own longer time":  {"jobs-history", 7200, qless.KeepFor(time.Hour), 0, false},
		"failed ones go":       {"jobs-failed-history", 60, nil, 0, true},
		"few failed ones stay": {"jobs-failed-history-count", 5, nil, 0, true},
		"this one stays":       {"jobs-failed-history", 60, qless.KeepFailedFor(qless.Forever), 0, false},
		"this one fails soon":  {"jobs-history", 7200, qless.KeepFailedFor(time.Second), 0, true},
		"a job that replaces":  {"jobs-history", 0, qless.Unique("k").Replace(), 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newShop(t, SQLite)
			ctx := s.Context()
			options := []qless.PutOption{}
			if c.option != nil {
				options = append(options, c.option)
			}
			require.NoError(s, s.client.Config().Set(ctx, c.setting, c.value))
			for range 3 { // other jobs
				_, err := s.client.Queue("q").Put(ctx, "K", nil)
				require.NoError(s, err)
			}
			s.complete(3)
			s.put("q", nil, options...)
			require.ErrorIs(s, s.relay().dieAt(ctx, "put", 1), errDied)
			s.expireLeases()
			s.exec(`UPDATE qless_outbox SET tried = tried - $1`, c.tried.Microseconds())
			if !c.asks {
				require.Equal(s, Pass{Put: 1}, s.pass(s.relay()))
				return
			}
			require.Equal(s, Pass{Problems: 1}, s.pass(s.relay()))
			require.Contains(s, s.problem(), "a relay may have put the job at ")
			require.Equal(s, Stats{Problems: 1}, s.stats())
			s.exec(`UPDATE qless_outbox SET problem = NULL, tried = 0`) // as a person decides
			require.Equal(s, Pass{Put: 1}, s.pass(s.relay()))
		})
	}
}

// As many jobs have ended as are kept, but all of them after the row was tried.
func TestTheOldestRecordTellsWhatIsKept(t *testing.T) {
	s := newShop(t, SQLite)
	require.NoError(s, s.client.Config().Set(s.Context(), qless.ConfigJobsHistoryCount, 2))
	for range 2 {
		_, err := s.client.Queue("q").Put(s.Context(), "K", nil)
		require.NoError(s, err)
	}
	s.complete(2)
	s.put("q", nil)
	require.ErrorIs(s, s.relay().dieAt(s.Context(), "put", 1), errDied)
	s.expireLeases()
	s.exec(`UPDATE qless_outbox SET tried = tried + $1`, (2 * time.Minute).Microseconds())
	require.Equal(s, Pass{Put: 1}, s.pass(s.relay()))
}

func TestARowThatIsRefusedIsSetAside(t *testing.T) {
	for name, damage := range map[string]string{
		"data":          `UPDATE qless_outbox SET data = '{' WHERE jid = $1`,
		"options":       `UPDATE qless_outbox SET options = '{' WHERE jid = $1`,
		"an option":     `UPDATE qless_outbox SET options = '{"retries": -1}' WHERE jid = $1`,
		"by the server": `UPDATE qless_outbox SET options = '{"start_by": "1999-01-01T00:00:00Z", "at": "1998-01-01T00:00:00Z"}' WHERE jid = $1`,
	} {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(s *shop) {
				s.fill(9)
				s.exec(damage, s.jids[4])
				r := s.relay(func(c *RelayConfig) {
					c.Clock = func() time.Time { return time.Date(1998, 1, 1, 0, 0, 0, 0, time.UTC) }
				})
				require.Equal(s, Pass{Put: 8, Problems: 1}, s.pass(r), "the others follow at once")
				require.Equal(s, Stats{Problems: 1}, s.stats())
				require.NotEmpty(s, s.problem())
				require.Equal(s, Pass{}, s.pass(s.relay()))
			})
		})
	}
}

// A key of one queue is damaged. The jobs of another one are put.
func TestAQueueThatRefusesHoldsUpNoOther(t *testing.T) {
	onEach(t, func(s *shop) {
		rdb := s.redis.Client(s.T)
		require.NoError(s, rdb.Set(s.Context(), "ql:q:broken-work", "x", 0).Err())
		s.put("broken", nil)
		s.put("broken", nil)
		s.fill(2)
		pass := s.relay().Pass(s.Context())
		require.ErrorIs(s, pass.Err, qless.ErrServer)
		require.Equal(s, 2, pass.Put)
		require.Equal(s, 2, pass.Left)
		require.Equal(s, Pass{}, s.pass(s.relay()), "it waits until the lease ends")
		require.NoError(s, rdb.Del(s.Context(), "ql:q:broken-work").Err())
		s.expireLeases()
		require.Equal(s, Pass{Put: 2}, s.pass(s.relay()))
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

// A relay that is stopped in the middle of a pass releases its rows.
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
		ctx, stop := context.WithCancel(s.Context())
		var relays sync.WaitGroup
		for range 3 {
			r := s.relay(func(c *RelayConfig) { c.Batch, c.Poll = 7, time.Millisecond })
			relays.Go(func() { r.Run(ctx) })
		}
		s.fill(100)
		testkit.Until(s, "the outbox is empty", func() bool { return s.stats() == Stats{} })
		stop()
		relays.Wait()
		s.requireAll(false)
	})
}

func TestANotifiedRelayDoesNotWaitForItsPoll(t *testing.T) {
	onEach(t, func(s *shop) {
		ctx, stop := context.WithCancel(s.Context())
		r := s.relay()
		var relay sync.WaitGroup
		relay.Go(func() { r.Run(ctx) })
		s.fill(1)
		r.Notify()
		r.Notify()
		testkit.Until(s, "the outbox is empty", func() bool { return s.stats() == Stats{} })
		stop()
		relay.Wait()
		s.requireAll(true)
	})
}

// PostgreSQL notifies the relay when a transaction with a row is committed. The relay never polls
// in this test.
func TestARelayListensToPostgres(t *testing.T) {
	s := newShop(t, Postgres)
	conn, err := pgx.Connect(s.Context(), s.url)
	require.NoError(s, err)
	defer func() { require.NoError(s, conn.Close(context.Background())) }()
	_, err = conn.Exec(s.Context(), "LISTEN qless_outbox")
	require.NoError(s, err)
	ctx, stop := context.WithCancel(s.Context())
	r := s.relay(func(c *RelayConfig) {
		c.Listen = func(ctx context.Context) error {
			_, err := conn.WaitForNotification(ctx)
			return err
		}
	})
	var relay sync.WaitGroup
	relay.Go(func() { r.Run(ctx) })
	for range 3 {
		s.fill(1)
		testkit.Until(s, "the outbox is empty", func() bool { return s.stats() == Stats{} })
	}
	stop()
	relay.Wait()
	s.requireAll(true)
}

func TestARelayThatCanNotListenPolls(t *testing.T) {
	s := newShop(t, SQLite)
	ctx, stop := context.WithCancel(s.Context())
	calls := make(chan struct{})
	r := s.relay(func(c *RelayConfig) {
		c.Poll = time.Millisecond
		c.Listen = func(ctx context.Context) error {
			select {
			case calls <- struct{}{}:
			case <-ctx.Done():
			}
			return errors.New("no connection")
		}
	})
	var relay sync.WaitGroup
	relay.Go(func() { r.Run(ctx) })
	for range 3 {
		testkit.Soon(s, "it listens again", calls)
	}
	s.fill(1)
	testkit.Until(s, "the outbox is empty", func() bool { return s.stats() == Stats{} })
	stop()
	relay.Wait()
}

// asRelay and the others make the test's own program a relay of a database.
const asRelay, asRelayOf, asRelayTo = "OUTBOX_DIALECT", "OUTBOX_DATABASE", "OUTBOX_REDIS"

// relayUntilKilled relays in small batches and prints each step.
func relayUntilKilled() {
	dialect := Dialect(os.Getenv(asRelay))
	db, err := sql.Open(map[Dialect]string{SQLite: "sqlite", Postgres: "pgx"}[dialect], os.Getenv(asRelayOf))
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

// Processes are killed while they relay, each at a different step or shortly after. Two run at
// once.
func TestRelaysThatAreKilled(t *testing.T) {
	onEach(t, func(s *shop) {
		var running []*relayProcess
		defer func() {
			for _, p := range running {
				p.kill()
			}
		}()
		for i := range 12 {
			s.fill(10)
			running = append(running, s.startRelay())
			if len(running) == 2 {
				running[0].wait(s, i)
				running[0].kill()
				running = running[1:]
			}
		}
		testkit.Until(s, "the outbox is empty", func() bool { return s.stats() == Stats{} })
		running[0].kill()
		s.requireAll(false)
	})
}

// A relayProcess is a process that relays, and reports its steps.
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

// Write receives the steps of the process. Steps that the test does not wait for are dropped.
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
