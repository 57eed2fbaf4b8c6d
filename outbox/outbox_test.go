package outbox

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
)

func redisClient(t testing.TB, options *redis.Options) *redis.Client {
	rdb := redis.NewClient(options)
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

func TestAJobIsPutWithAllItsOptions(t *testing.T) {
	onEach(t, func(s *shop) {
		s.box.Headers = func(context.Context) map[string]string {
			return map[string]string{"traceparent": "00-1", "own": "lost"}
		}
		first := s.put("q", nil)
		due := time.Now().Add(time.Hour).Truncate(time.Millisecond)
		jid := s.put("q", raw(`{"b":  "<1>"}`),
			qless.At(due), qless.Priority(3), qless.Retries(2), qless.Tags{"a", "b"},
			qless.Headers{"own": "won"}, qless.Limits{"l"}, qless.DependsOn{first}, qless.OnFailureRun,
			qless.LockTime(time.Minute), qless.OnLostLast, qless.KeepFor(time.Hour),
			qless.KeepFailedFor(qless.Forever), qless.MaxRunTime(time.Second), qless.Fair("ann"),
			qless.Unique("invoice", 7).For(time.Hour))
		require.Equal(s, Pass{Put: 2}, s.pass(s.relay()))
		job := s.job(jid)
		require.Equal(s, "K", job.Klass)
		require.Equal(s, `{"b":  "<1>"}`, string(job.Data), "byte by byte")
		require.Equal(s, 3, job.Priority)
		require.Equal(s, 2, job.Retries)
		require.Equal(s, qless.Tags{"a", "b"}, job.Tags)
		require.Equal(s, qless.Headers{"traceparent": "00-1", "own": "won"}, job.Headers)
		require.Equal(s, []string{first}, job.Dependencies)
		require.WithinDuration(s, due, job.Due, time.Millisecond)
		keep, forever := time.Hour, time.Duration(qless.Forever)
		require.Equal(s, qless.JobOptions{
			KeepFor: &keep, KeepFailedFor: &forever, Limits: qless.Limits{"l"}, LockTime: time.Minute,
			MaxRunTime: time.Second, OnFailure: qless.OnFailureRun, OnLost: qless.OnLostLast,
			Parents: []string{first}, Fair: "ann", Weight: 1,
			Unique: &qless.UniqueClaim{Key: `["invoice",7]`, For: time.Hour},
		}, job.Options)
	})
}

// wrote makes all rows older.
func (s *shop) wrote(ago time.Duration) {
	s.Helper()
	s.exec(`UPDATE qless_outbox_rows SET created = created - ?`, ago.Microseconds())
}

// Times count from the write of the row, however late a relay reads it.
func TestTimesCountFromThePutIntoTheOutbox(t *testing.T) {
	onEach(t, func(s *shop) {
		delayed := s.put("q", nil, qless.Delay(2*time.Hour), qless.StartBy(3*time.Hour), qless.TTL(4*time.Hour))
		past := s.put("q", nil, qless.Delay(time.Minute))
		endless := s.put("q", nil, qless.StartBy(qless.Forever), qless.TTL(qless.Forever))
		late := s.put("q", nil, qless.StartBy(time.Minute))
		gone := s.put("q", nil, qless.TTL(time.Minute))
		s.wrote(time.Hour)
		require.Equal(s, Pass{Put: 3, Expired: 2}, s.pass(s.relay()))
		job, put := s.job(delayed), time.Now().Add(-time.Hour)
		require.WithinDuration(s, put.Add(2*time.Hour), job.Due, 30*time.Second)
		require.WithinDuration(s, put.Add(3*time.Hour), job.Options.StartBy, 30*time.Second)
		require.WithinDuration(s, put.Add(4*time.Hour), job.Options.TTL, 30*time.Second)
		require.Equal(s, qless.StateWaiting, s.job(past).State)
		require.Zero(s, s.job(endless).Options)
		for _, jid := range []string{late, gone} {
			require.ErrorIs(s, errOf(s.client.Job(s.Context(), jid)), qless.ErrNotFound)
			require.ErrorIs(s, errOf(s.client.Wait(s.Context(), jid)), qless.ErrCanceled)
		}
		require.Zero(s, s.stats())
	})
}

func TestNothingOfATransactionThatIsRolledBack(t *testing.T) {
	onEach(t, func(s *shop) {
		tx := must(s.db.BeginTx(s.Context(), nil))(s)
		must(s.box.Queue(tx, "q").Put(s.Context(), "K", nil))(s)
		require.NoError(s, tx.Rollback())
		require.Zero(s, s.stats())
		require.Equal(s, Pass{}, s.pass(s.relay()))
	})
}

func TestAJobThatCanNotBePutIsRefusedAtOnce(t *testing.T) {
	s := newShop(t, SQLite)
	for message, put := range map[string]struct {
		queue, klass string
		data         any
		option       qless.PutOption
	}{
		"the queue name is empty": {"", "K", nil, qless.Priority(1)},
		"the klass is empty":      {"q", "", nil, qless.Priority(1)},
		"can't be JSON":           {"q", "K", make(chan int), qless.Priority(1)},
		"is negative":             {"q", "K", nil, qless.Delay(-1)},
		"IfFinished needs a JID":  {"q", "K", nil, qless.IfFinished},
		"options[0] is nil":       {"q", "K", nil, nil},
	} {
		_, err := s.box.Queue(s.db, put.queue).Put(s.Context(), put.klass, put.data, put.option)
		require.ErrorIs(s, err, qless.ErrInvalid)
		require.ErrorContains(s, err, message)
	}
	_, err := s.box.Queue(s.db, "q").Put(s.Context(), "K", nil, qless.JID("a"), qless.IfFinished)
	require.ErrorIs(s, err, qless.ErrInvalid)
	require.ErrorContains(s, err, "not under the condition")
	require.Zero(s, s.stats())
}

func TestAJidIsPutOnce(t *testing.T) {
	onEach(t, func(s *shop) {
		require.Equal(s, "a", s.put("q", 1, qless.JID("a")))
		require.Equal(s, "a", s.put("q", 2, qless.JID("a"), qless.IfAbsent))
		require.Equal(s, Stats{Waiting: 1}, s.stats(), "the first counts")
		require.Equal(s, Pass{Put: 1}, s.pass(s.relay()))
		s.put("q", 3, qless.JID("a"))
		require.Equal(s, Pass{Known: 1}, s.pass(s.relay()))
		require.Equal(s, "1", string(s.job("a").Data))
	})
}

func TestUniqueKeysInTheOutbox(t *testing.T) {
	onEach(t, func(s *shop) {
		first := s.put("q", 1, qless.Unique("k"))
		s.put("q", 2, qless.Unique("k"))
		other := s.put("q", 3)
		require.Equal(s, Pass{Put: 2, Known: 1}, s.pass(s.relay()))
		require.Equal(s, "1", string(s.job(first).Data))
		s.job(other)

		s.put("q", 4, qless.Unique("d").Replace(), qless.Delay(time.Hour))
		require.Equal(s, Pass{Put: 1}, s.pass(s.relay()))
		holder := must(inspect.New(s.client).Holder(s.Context(), "d"))(s)
		s.put("q", 5, qless.Unique("d").Replace(), qless.Delay(time.Hour))
		require.Equal(s, Pass{Put: 1}, s.pass(s.relay()))
		require.Equal(s, "5", string(s.job(holder).Data), "it has replaced the first")
	})
}

func TestStatsOfAnOutbox(t *testing.T) {
	onEach(t, func(s *shop) {
		s.put("q", 1)
		s.wrote(time.Hour)
		s.put("q", 2)
		stats := must(ReadStats(s.Context(), s.db))(s)
		require.Equal(s, 2, stats.Waiting)
		require.InDelta(s, time.Hour, stats.Oldest, float64(time.Minute))
	})
}

func TestConfigsThatMeanNothing(t *testing.T) {
	s := newShop(t, SQLite)
	for _, config := range []RelayConfig{
		{}, {Dialect: "oracle"}, {Dialect: SQLite, Batch: 501}, {Dialect: SQLite, Batch: -1},
		{Dialect: SQLite, Lease: -1}, {Dialect: SQLite, Poll: -1},
	} {
		require.ErrorContains(s, errOf(NewRelay(s.db, s.client, config)), "outbox: ")
	}
	_, err := NewRelay(nil, nil, RelayConfig{Dialect: SQLite})
	require.ErrorContains(s, err, "needs a database")
	require.ErrorContains(s, Migrate(s.Context(), s.db, "oracle"), `"oracle"`)
}

// pass makes a pass, and returns its counts.
func (s *shop) pass(r *Relay) Pass {
	s.Helper()
	pass := r.Pass(s.Context())
	require.NoError(s, pass.Err)
	pass.Duration = 0
	return pass
}
