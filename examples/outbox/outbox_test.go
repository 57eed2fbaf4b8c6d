package main

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
	"github.com/qless/qless-go/qlesstest"
)

// patience turns a hang into a failure.
const patience = 30 * time.Second

// asRelay makes the test's own program a relay, of the database and the Redis that these name.
const asRelay, asRelayRedis = "OUTBOX_RELAY", "OUTBOX_REDIS"

func TestMain(m *testing.M) {
	if file := os.Getenv(asRelay); file != "" {
		relayUntilKilled(file, os.Getenv(asRelayRedis))
	}
	os.Exit(m.Run())
}

// relayUntilKilled relays in small batches, with time between the steps to be killed in.
func relayUntilKilled(file, addr string) {
	ctx := context.Background()
	db, err := open(ctx, file)
	if err != nil {
		panic(err)
	}
	client, err := qless.New(redis.NewClient(&redis.Options{Addr: addr}), nil)
	if err != nil {
		panic(err)
	}
	r := newRelay(db, client)
	r.batch, r.poll = 7, time.Millisecond
	r.step = func(name string) {
		fmt.Println(name)
		time.Sleep(2 * time.Millisecond)
	}
	r.run(ctx)
}

// A shop is a database and a Redis.
type shop struct {
	*testing.T
	file   string
	db     *sql.DB
	client *qless.Client
	redis  *qlesstest.Server
	jids   []string // of all jobs, in the order of their transactions
}

func newShop(t *testing.T) *shop {
	t.Helper()
	file := filepath.Join(t.TempDir(), "shop.db")
	db, err := open(t.Context(), file)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	server := qlesstest.New(t)
	client, err := qless.New(server.Redis(), nil) // by a running clock
	require.NoError(t, err)
	return &shop{T: t, file: file, db: db, client: client, redis: server}
}

// put puts a job in a transaction of its own.
func (s *shop) put(m message) string {
	s.Helper()
	tx, err := s.db.BeginTx(s.Context(), nil)
	require.NoError(s, err)
	jid, err := put(s.Context(), tx, m)
	require.NoError(s, err)
	require.NoError(s, tx.Commit())
	return jid
}

// fill puts n jobs.
func (s *shop) fill(n int) {
	s.Helper()
	for i := range n {
		s.jids = append(s.jids, s.put(message{queue: "q", klass: "K", data: i}))
	}
}

// left returns how many rows there are.
func (s *shop) left() (n int) {
	s.Helper()
	require.NoError(s, s.db.QueryRow(`SELECT count(*) FROM qless_outbox`).Scan(&n))
	return n
}

// requireAll requires that the outbox is empty, and the queue has all jobs, in order. Each was put
// once.
func (s *shop) requireAll() {
	s.Helper()
	require.Zero(s, s.left())
	page, err := inspect.New(s.client).Queue("q", inspect.Waiting).JIDs(s.Context(), inspect.Range{Limit: -1})
	require.NoError(s, err)
	require.Equal(s, s.jids, page.Items)
	jobs, err := s.client.Jobs(s.Context(), s.jids...)
	require.NoError(s, err)
	for _, job := range jobs {
		require.Len(s, job.History, 1)
		require.Equal(s, "put", job.History[0].What)
	}
}

// errDied is what a relay panics with where it is killed.
var errDied = errors.New("died")

// passUntil makes a pass that is killed at a step, the nth time that it is reached.
func (r *relay) passUntil(ctx context.Context, step string, n int) (err error) {
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
	_, err = r.pass(ctx)
	return err
}

func TestARelayThatIsKilledAtAnyStep(t *testing.T) {
	for _, step := range []string{"read", "put", "delete", "commit"} {
		t.Run(step, func(t *testing.T) {
			s := newShop(t)
			s.fill(20)
			for range 3 {
				require.ErrorIs(t, newRelay(s.db, s.client).passUntil(t.Context(), step, 1), errDied)
				require.Equal(t, len(s.jids), s.left(), "the rows are still there")
				s.fill(5)
			}
			moved, err := newRelay(s.db, s.client).pass(t.Context())
			require.NoError(t, err)
			require.Equal(t, 35, moved)
			s.requireAll()
		})
	}
}

// Between two queues, one has its jobs and the other does not.
func TestARelayThatIsKilledBetweenQueues(t *testing.T) {
	s := newShop(t)
	s.put(message{queue: "q", klass: "K"})
	other := s.put(message{queue: "other", klass: "K"})
	require.ErrorIs(t, newRelay(s.db, s.client).passUntil(t.Context(), "put", 2), errDied)
	_, err := s.client.Job(t.Context(), other)
	require.ErrorIs(t, err, qless.ErrNotFound)
	moved, err := newRelay(s.db, s.client).pass(t.Context())
	require.NoError(t, err)
	require.Equal(t, 2, moved)
	_, err = s.client.Job(t.Context(), other)
	require.NoError(t, err)
}

// A job may be done before the relay knows that it has put it.
func TestAJobThatIsDoneBeforeItsRowIsGone(t *testing.T) {
	s := newShop(t)
	s.fill(1)
	require.ErrorIs(t, newRelay(s.db, s.client).passUntil(t.Context(), "delete", 1), errDied)
	jobs, err := s.client.Queue("q").Pop(t.Context(), 1)
	require.NoError(t, err)
	require.NoError(t, jobs[0].Complete(t.Context()))
	_, err = newRelay(s.db, s.client).pass(t.Context())
	require.NoError(t, err)
	require.Zero(t, s.left())
	job, err := s.client.Job(t.Context(), s.jids[0])
	require.NoError(t, err)
	require.Equal(t, qless.StateComplete, job.State)
}

func TestNothingOfATransactionThatIsRolledBack(t *testing.T) {
	s := newShop(t)
	tx, err := s.db.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	_, err = put(t.Context(), tx, message{queue: "q", klass: "K"})
	require.NoError(t, err)
	require.NoError(t, tx.Rollback())
	moved, err := newRelay(s.db, s.client).pass(t.Context())
	require.NoError(t, err)
	require.Zero(t, moved)
	require.Zero(t, s.left())
}

func TestWhatAJobIsGiven(t *testing.T) {
	s := newShop(t)
	due := time.Now().Add(time.Hour)
	jid := s.put(message{
		queue: "q", klass: "K", data: map[string]int{"n": 1},
		options: options{At: due, Priority: 3, Tags: []string{"a"}},
	})
	_, err := newRelay(s.db, s.client).pass(t.Context())
	require.NoError(t, err)
	job, err := s.client.Job(t.Context(), jid)
	require.NoError(t, err)
	require.Equal(t, "K", job.Klass)
	require.JSONEq(t, `{"n": 1}`, string(job.Data))
	require.Equal(t, 3, job.Priority)
	require.Equal(t, qless.Tags{"a"}, job.Tags)
	require.Equal(t, qless.StateScheduled, job.State)

	tx, err := s.db.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	defer func() { _ = tx.Rollback() }()
	_, err = put(t.Context(), tx, message{klass: "K"})
	require.Error(t, err)
	_, err = put(t.Context(), tx, message{queue: "q", klass: "K", data: make(chan int)})
	require.Error(t, err)
}

func TestARowThatCanNotBecomeAJobIsSetAside(t *testing.T) {
	for what, damage := range map[string]string{
		"data":    `UPDATE qless_outbox SET data = '{' WHERE id = ?`,
		"options": `UPDATE qless_outbox SET options = '{' WHERE id = ?`,
	} {
		t.Run(what, func(t *testing.T) {
			s := newShop(t)
			s.fill(3)
			_, err := s.db.Exec(damage, s.jids[1])
			require.NoError(t, err)
			r := newRelay(s.db, s.client)
			_, err = r.pass(t.Context())
			require.Error(t, err)
			moved, err := r.pass(t.Context())
			require.NoError(t, err)
			require.Equal(t, 2, moved)
			var problem string
			require.NoError(t, s.db.QueryRow(`SELECT problem FROM qless_outbox`).Scan(&problem))
			require.NotEmpty(t, problem)
			require.Equal(t, 1, s.left())
		})
	}
}

func TestSeveralRelaysAtOnce(t *testing.T) {
	s := newShop(t)
	ctx, stop := context.WithCancel(t.Context())
	var relays sync.WaitGroup
	for range 4 {
		r := newRelay(s.db, s.client)
		r.batch, r.poll = 7, time.Millisecond
		relays.Go(func() { r.run(ctx) })
	}
	s.fill(200)
	require.Eventually(t, func() bool { return s.left() == 0 }, patience, 10*time.Millisecond)
	stop()
	relays.Wait()
	s.requireAll()
}

func TestANotifiedRelayDoesNotWaitForItsPoll(t *testing.T) {
	s := newShop(t)
	ctx, stop := context.WithCancel(t.Context())
	r := newRelay(s.db, s.client)
	r.poll = time.Hour
	var relay sync.WaitGroup
	relay.Go(func() { r.run(ctx) })
	s.fill(1)
	r.notify()
	r.notify()
	require.Eventually(t, func() bool { return s.left() == 0 }, patience, time.Millisecond)
	stop()
	relay.Wait()
	s.requireAll()
}

func TestARelayWaitsForARedisThatIsAway(t *testing.T) {
	s := newShop(t)
	s.fill(3)
	away, err := qless.New(redis.NewClient(&redis.Options{
		Addr: "127.0.0.1:1", MaxRetries: -1, DialerRetries: 1,
	}), nil)
	require.NoError(t, err)
	_, err = newRelay(s.db, away).pass(t.Context())
	require.ErrorIs(t, err, qless.ErrUnavailable)
	require.Equal(t, 3, s.left())
	_, err = newRelay(s.db, s.client).pass(t.Context())
	require.NoError(t, err)
	s.requireAll()
}

// Processes are killed while they relay, wherever they are. Two run at once.
func TestRelaysThatAreKilled(t *testing.T) {
	s := newShop(t)
	const kills = 12
	running := make(chan *exec.Cmd, 2)
	defer func() {
		close(running)
		for command := range running {
			_ = command.Process.Kill()
			_ = command.Wait()
		}
	}()
	for i := range kills {
		s.fill(20)
		running <- s.startRelay()
		if len(running) == 2 || i == kills-1 {
			command := <-running
			time.Sleep(time.Duration(i) * 3 * time.Millisecond) // it is killed at various steps
			require.NoError(t, command.Process.Kill())
			_ = command.Wait()
		}
	}
	running <- s.startRelay()
	require.Eventually(t, func() bool { return s.left() == 0 }, patience, 10*time.Millisecond)
	s.requireAll()
}

// startRelay starts a process that relays, and waits until it has begun.
func (s *shop) startRelay() *exec.Cmd {
	s.Helper()
	command := exec.Command(os.Args[0])
	command.Env = append(os.Environ(), asRelay+"="+s.file, asRelayRedis+"="+s.redis.Addr())
	command.Stderr = os.Stderr
	began := make(chan struct{})
	command.Stdout = &onWrite{then: func() { close(began) }}
	require.NoError(s, command.Start())
	select {
	case <-began:
	case <-time.After(patience):
		s.Error("the relay does not begin")
	}
	return command
}

// onWrite calls a function when it is first written to.
type onWrite struct {
	once sync.Once
	then func()
}

func (w *onWrite) Write(text []byte) (int, error) {
	w.once.Do(w.then)
	return len(text), nil
}

func TestTheProgram(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, run(t.Context(), &out))
	_, printed, _ := strings.Cut(out.String(), "\n") // the first line names the Redis
	require.Equal(t, "not ordered: the order is empty\npacked: book\npacked: lamp\n", printed)
}
