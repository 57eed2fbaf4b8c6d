package outbox

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
)

// In one pass, in batches of one row, and by relays that take turns.
func TestAJobIsPutAfterTheOneItDependsOn(t *testing.T) {
	onEach(t, func(s *shop) {
		for _, batch := range []int{500, 1, 2} {
			relays := make([]*Relay, 2)
			for i := range relays {
				relays[i] = s.relay(func(c *RelayConfig) { c.Batch = batch })
			}
			s.put("mail", nil)
			charge := s.put("pay", nil)
			receipt := s.put("mail", nil, qless.DependsOn{charge})
			last := s.put("a", nil, qless.DependsOn{receipt, charge})
			for i := 0; !s.isEmpty(); i++ {
				s.pass(relays[i%2])
				for _, jid := range []string{receipt, last} {
					if job, err := s.client.Job(s.Context(), jid); err == nil {
						require.Equal(s, qless.StateDepends, job.State)
					}
				}
				require.Less(s, i, 20, "rows are woken")
			}
			require.Equal(s, []string{charge}, s.job(receipt).Dependencies)
			require.ElementsMatch(s, []string{receipt, charge}, s.job(last).Dependencies)
		}
	})
}

// The relay with the parent's row has died before or after the put.
func TestAJobWaitsForARowThatARelayHas(t *testing.T) {
	onEach(t, func(s *shop) {
		for _, step := range []string{"put", "delete"} {
			charge := s.put("pay", nil)
			require.ErrorIs(s, s.relay().dieAt(s.Context(), step, 1), errDied)
			receipt := s.put("mail", nil, qless.DependsOn{charge})
			other := s.put("mail", nil)
			require.Equal(s, Pass{Put: 1, Left: 1}, s.pass(s.relay()))
			s.job(other)
			require.ErrorIs(s, errOf(s.client.Job(s.Context(), receipt)), qless.ErrNotFound)
			s.expireLeases()
			s.pass(s.relay())
			s.pass(s.relay())
			require.Equal(s, qless.StateDepends, s.job(receipt).State)
			require.True(s, s.isEmpty())
		}
	})
}

// The OnFailure of a job decides its fate if its parent is not put.
func TestAJobWhoseParentIsNotPut(t *testing.T) {
	for name, prevent := range map[string]func(s *shop) (parent string){
		"set aside": func(s *shop) string {
			jid := s.put("pay", nil)
			s.exec(`UPDATE qless_outbox_rows SET options = '{' WHERE jid = ?`, jid)
			return jid
		},
		"expired": func(s *shop) string {
			jid := s.put("pay", nil, qless.TTL(time.Minute))
			s.wrote(time.Hour)
			return jid
		},
		"its key is held": func(s *shop) string {
			must(s.client.Queue("pay").Put(s.Context(), "K", nil, qless.Unique("k")))(s)
			return s.put("pay", nil, qless.Unique("k"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(s *shop) {
				for _, batch := range []int{500, 1} {
					parent := prevent(s)
					waits := s.put("mail", nil, qless.DependsOn{parent})
					fails := s.put("mail", nil, qless.DependsOn{parent}, qless.OnFailureFail)
					runs := s.put("mail", nil, qless.DependsOn{parent}, qless.OnFailureRun)
					grandchild := s.put("mail", nil, qless.DependsOn{waits})
					for range 8 {
						s.pass(s.relay(func(c *RelayConfig) { c.Batch = batch }))
					}
					require.Equal(s, qless.StateWaiting, s.job(runs).State)
					found := map[string]string{}
					for _, p := range must(s.relay().Problems(s.Context(), 10))(s) {
						found[p.JID] = p.Message
					}
					for child, parent := range map[string]string{waits: parent, fails: parent, grandchild: waits} {
						require.Contains(s, found[child], "the job "+parent+", which it depends on, ")
						_, err := s.client.Wait(s.Context(), child)
						require.ErrorIs(s, err, qless.ErrInvalid)
					}
					s.exec(`DELETE FROM qless_outbox_rows`)
					s.exec(`DELETE FROM qless_outbox_needs`)
					require.NoError(s, s.redis.Client(s.T).FlushDB(s.Context()).Err())
				}
			})
		})
	}
}

// A problem of a parent is repaired: its children follow.
func TestRetryAndDrop(t *testing.T) {
	onEach(t, func(s *shop) {
		r := s.relay()
		first, second := s.put("pay", nil), s.put("pay", nil)
		child := s.put("mail", nil, qless.DependsOn{first})
		grandchild := s.put("mail", nil, qless.DependsOn{child})
		orphan := s.put("mail", nil, qless.DependsOn{second})
		s.exec(`UPDATE qless_outbox_rows SET klass = '' WHERE queue = 'pay'`)
		require.Equal(s, Pass{Problems: 5}, s.pass(r))
		s.exec(`UPDATE qless_outbox_rows SET klass = 'K' WHERE queue = 'pay'`)
		kinds := must(r.Stats(s.Context()))(s).Kinds
		require.Equal(s, map[string]int{"invalid": 2, "parent": 3}, kinds)

		require.Equal(s, 3, must(r.Retry(s.Context(), first, "unknown"))(s))
		require.Equal(s, Pass{Put: 3}, s.pass(r))
		require.Equal(s, []string{child}, s.job(grandchild).Dependencies)
		require.Equal(s, 1, must(r.Drop(s.Context(), second))(s))
		require.ErrorIs(s, errOf(s.client.Wait(s.Context(), second)), qless.ErrCanceled)
		require.Equal(s, 1, must(r.Retry(s.Context(), orphan))(s), "it has waited for nobody else")
		require.Equal(s, Pass{Put: 1}, s.pass(r))
		s.job(orphan)
		require.Zero(s, must(r.Retry(s.Context(), first, second))(s))
		require.Zero(s, s.stats())
	})
}

// A job set aside is put when put again.
func TestAJidThatIsSetAsideCanBePutAgain(t *testing.T) {
	onEach(t, func(s *shop) {
		gone := s.put("q", nil, qless.TTL(time.Minute), qless.JID("gone"))
		s.put("q", 1, qless.JID("a"), qless.DependsOn{gone})
		s.wrote(time.Hour)
		require.Equal(s, Pass{Expired: 1, Problems: 1}, s.pass(s.relay()))
		s.put("p", 2, qless.JID("a"), qless.Priority(7))
		_, err := s.client.Wait(s.Context(), "a", qless.AwaitPut(time.Minute))
		require.ErrorContains(s, err, "set the job aside", "no relay has seen the new row")
		require.Equal(s, Pass{Put: 1}, s.pass(s.relay()))
		job := s.job("a")
		require.Equal(s, "p", job.Queue)
		require.Equal(s, "2", string(job.Data))
		require.Equal(s, 7, job.Priority)
	})
}

func TestCirclesAreRefused(t *testing.T) {
	onEach(t, func(s *shop) {
		s.put("q", nil, qless.JID("a"), qless.DependsOn{"b"})
		s.put("q", nil, qless.JID("b"), qless.DependsOn{"c"})
		tx := must(s.db.BeginTx(s.Context(), nil))(s)
		_, err := s.box.Queue(tx, "q").Put(s.Context(), "K", nil, qless.JID("c"), qless.DependsOn{"a"})
		require.ErrorIs(s, err, qless.ErrInvalid)
		require.ErrorContains(s, err, "depends on itself")
		require.NoError(s, tx.Commit())
		require.Equal(s, Pass{Put: 2}, s.pass(s.relay()))
		require.Equal(s, []string{"b"}, s.job("a").Dependencies, "the first was put after the second")

		for i, batch := range []int{500, 1} { // transactions that did not see each other
			one, other := fmt.Sprint("one", i), fmt.Sprint("other", i)
			s.put("q", nil, qless.JID(one), qless.DependsOn{other})
			s.put("q", nil, qless.JID(other))
			s.exec(`INSERT INTO qless_outbox_needs (jid, parent) VALUES (?, ?)`, other, one)
			s.wrote(time.Hour)
			r := s.relay(func(c *RelayConfig) { c.Batch = batch })
			for range 4 {
				s.pass(r)
			}
			require.Contains(s, s.problem(), "depends on itself")
			s.exec(`DELETE FROM qless_outbox_rows`)
		}
	})
}

func TestPutManyAndABatch(t *testing.T) {
	onEach(t, func(s *shop) {
		job := func(data any, options ...qless.PutOption) qless.JobSpec {
			return qless.JobSpec{Klass: "K", Data: data, Options: options}
		}
		tx := must(s.db.BeginTx(s.Context(), nil))(s)
		_, err := s.box.Queue(tx, "q").PutMany(s.Context(), []qless.JobSpec{
			job(1, qless.DependsOn{"b"}), job(2, qless.JID("b"))})
		require.ErrorContains(s, err, "jobs[0]: depends on jobs[1], which comes after it")
		_, err = s.box.Queue(tx, "q").PutMany(s.Context(), []qless.JobSpec{job(1), job(2, qless.Retries(-1))})
		require.ErrorContains(s, err, "jobs[1]: ")
		var specs []qless.JobSpec
		for i := range 1100 {
			specs = append(specs, job(i))
		}
		s.jids = must(s.box.Queue(tx, "q").PutMany(s.Context(), specs))(s)
		id := must(s.box.PutBatch(s.Context(), tx, "done", job("all"),
			Members{"members", []qless.JobSpec{job(1), job(2)}},
			Members{"others", []qless.JobSpec{job(3)}}))(s)
		none := must(s.box.PutBatch(s.Context(), tx, "done", job("none")))(s)
		require.NoError(s, tx.Commit())
		r := s.relay()
		for !s.isEmpty() {
			require.NotZero(s, s.pass(r))
		}
		s.requireAll(true)
		require.Equal(s, qless.BatchStatus{Pending: 3, Total: 3, State: qless.StateDepends},
			must(s.client.Batch(id).Status(s.Context()))(s))
		require.Equal(s, qless.StateWaiting, s.job(none).State)
		for _, queue := range []string{"members", "others"} {
			for _, job := range must(s.client.Queue(queue).Pop(s.Context(), 5))(s) {
				require.NoError(s, job.Complete(s.Context()))
			}
		}
		require.Equal(s, qless.StateWaiting, s.job(id).State)
	})
}

// A member that is refused keeps the batch open until someone decides.
func TestABatchWithARefusedMember(t *testing.T) {
	onEach(t, func(s *shop) {
		tx := must(s.db.BeginTx(s.Context(), nil))(s)
		spec := qless.JobSpec{Klass: "K"}
		members := Members{"q", []qless.JobSpec{spec, spec}}
		id := must(s.box.PutBatch(s.Context(), tx, "done", spec, members))(s)
		require.NoError(s, tx.Commit())
		s.exec(`UPDATE qless_outbox_rows SET klass = '' WHERE number =
			(SELECT * FROM (SELECT max(number) FROM qless_outbox_rows WHERE queue = 'q') AS n)`)
		r := s.relay()
		require.Equal(s, Pass{Put: 2, Problems: 1, Left: 1}, s.pass(r))
		require.True(s, must(s.client.Batch(id).Status(s.Context()))(s).Open)
		problems := must(r.Problems(s.Context(), 5))(s)
		require.Equal(s, 1, must(r.Drop(s.Context(), problems[0].JID))(s))
		require.Equal(s, Pass{Put: 1}, s.pass(r))
		require.False(s, must(s.client.Batch(id).Status(s.Context()))(s).Open)
	})
}

// A wait that begins before a relay has the row, for a job completed by another process.
func TestAJobInTheOutboxCanBeWaitedFor(t *testing.T) {
	onEach(t, func(s *shop) {
		jid := s.put("q", nil)
		done := make(chan error, 1)
		go func() {
			_, err := s.client.Wait(s.Context(), jid, qless.AwaitPut(time.Minute))
			done <- err
		}()
		s.pass(s.relay())
		s.complete(1)
		require.NoError(s, <-done)
		_, err := s.client.Wait(s.Context(), "never", qless.AwaitPut(50*time.Millisecond))
		require.ErrorIs(s, err, qless.ErrNotFound)

		s.put("q", nil, qless.Unique("k"), qless.JID("holder"))
		dropped := s.put("q", nil, qless.Unique("k"))
		s.pass(s.relay())
		_, err = s.client.Wait(context.Background(), dropped, qless.AwaitPut(time.Minute))
		require.ErrorIs(s, err, qless.ErrExists)
		require.ErrorContains(s, err, "holder")
	})
}

// A put with the jid of a row adds nothing to it, and a circle refuses the put but keeps the row.
func TestAPutThatIsNotWrittenChangesNoRow(t *testing.T) {
	onEach(t, func(s *shop) {
		s.put("q", 1, qless.JID("a"))
		s.put("q", 2, qless.JID("b"), qless.DependsOn{"a"})
		tx := must(s.db.BeginTx(s.Context(), nil))(s)
		_, err := s.box.Queue(tx, "q").Put(s.Context(), "K", 3, qless.JID("a"), qless.DependsOn{"b"})
		require.ErrorIs(s, err, qless.ErrInvalid)
		require.NoError(s, tx.Commit())
		refused := s.put("q", nil, qless.JID("refused"))
		s.exec(`UPDATE qless_outbox_rows SET klass = '' WHERE jid = ?`, refused)
		s.put("q", 4, qless.JID("a"), qless.DependsOn{refused})
		require.Equal(s, Pass{Put: 2, Problems: 1}, s.pass(s.relay()))
		require.Equal(s, "1", string(s.job("a").Data))
		require.Equal(s, []string{"a"}, s.job("b").Dependencies)
	})
}

// A circle that begins with an earlier row and runs through jobs of one call.
func TestCirclesThroughPutManyAreRefused(t *testing.T) {
	onEach(t, func(s *shop) {
		s.put("q", nil, qless.JID("early"), qless.DependsOn{"last"})
		tx := must(s.db.BeginTx(s.Context(), nil))(s)
		jobs := []qless.JobSpec{
			{Klass: "K", Options: []qless.PutOption{qless.JID("first"), qless.DependsOn{"early"}}},
			{Klass: "K", Options: []qless.PutOption{qless.JID("last"), qless.DependsOn{"first"}}},
		}
		_, err := s.box.Queue(tx, "q").PutMany(s.Context(), jobs)
		require.ErrorIs(s, err, qless.ErrInvalid)
		require.NoError(s, tx.Commit())
		require.Equal(s, Stats{Waiting: 1}, s.stats(), "nothing is written")
		members := Members{"q", []qless.JobSpec{{Klass: "K", Options: []qless.PutOption{qless.JID("twice")}}}}
		_, err = s.box.PutBatch(s.Context(), s.db, "q", qless.JobSpec{Klass: "K"}, members, members)
		require.ErrorIs(s, err, qless.ErrInvalid)
		require.ErrorContains(s, err, "two members")
	})
}

// More children than one statement changes, of a parent set aside, retried and dropped.
func TestManyChildrenOfAJobThatIsNotPut(t *testing.T) {
	onEach(t, func(s *shop) {
		const n = 1200
		r := s.relay()
		for _, gone := range []bool{false, true} {
			parent := s.put("pay", nil, qless.TTL(time.Minute))
			jobs := make([]qless.JobSpec, n)
			for i := range jobs {
				jobs[i] = qless.JobSpec{Klass: "K", Options: []qless.PutOption{qless.DependsOn{parent}}}
			}
			tx := must(s.db.BeginTx(s.Context(), nil))(s)
			must(s.box.Queue(tx, "mail").PutMany(s.Context(), jobs))(s)
			require.NoError(s, tx.Commit())
			want := Stats{Problems: n + 1, Kinds: map[string]int{"invalid": 1, "parent": n}}
			if gone {
				s.exec(`UPDATE qless_outbox_rows SET created = 1 WHERE jid = ?`, parent)
				want = aside(n, "parent")
			} else {
				s.exec(`UPDATE qless_outbox_rows SET klass = '' WHERE jid = ?`, parent)
			}
			for s.stats().Waiting > 0 {
				require.NotZero(s, s.pass(r))
			}
			require.Equal(s, want, s.stats())
			if gone {
				break
			}
			s.exec(`UPDATE qless_outbox_rows SET klass = 'K'`)
			require.Equal(s, n+1, must(r.Retry(s.Context(), parent))(s))
			for !s.isEmpty() {
				require.NotZero(s, s.pass(r))
			}
		}
		require.Equal(s, n, must(r.Drop(s.Context(), s.jidsAside()...))(s))
		require.Zero(s, s.stats())
	})
}

// jidsAside returns the jids of all rows set aside.
func (s *shop) jidsAside() (jids []string) {
	s.Helper()
	for _, p := range must(s.relay().Problems(s.Context(), 10_000))(s) {
		jids = append(jids, p.JID)
	}
	return jids
}
