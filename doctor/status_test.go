package doctor_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/doctor"
	"github.com/qless/qless-go/inspect"
	"github.com/qless/qless-go/internal/testkit"
	"github.com/qless/qless-go/tests/scripts"
)

func TestAStatusHasTheRatesThatItIsGiven(t *testing.T) {
	e := newEnv(t)
	e.put("mail", "j1")
	e.put("images", "j2")
	to := time.Now()
	ended := func(queue string, completed int) inspect.RateGroup {
		return inspect.RateGroup{Name: queue, Rates: inspect.Rates{Completed: completed}}
	}
	rates := doctor.QueueRates{
		From: to.Add(-2 * time.Minute), To: to,
		Queues: []inspect.RateGroup{ended("mail", 4), ended("images", 2), ended("mail", 6)},
	}
	reader := doctor.StatusReader{
		Client: e.Client, Rates: func(context.Context) (doctor.QueueRates, error) { return rates, nil },
	}
	status, err := reader.Read(t.Context())
	require.NoError(t, err)
	require.Equal(t, rates.From, status.RatesFrom)
	require.Equal(t, rates.To, status.RatesTo)
	require.InDelta(t, 6, status.Rates.Completed, 1e-9)
	byQueue := map[string]float64{}
	for _, queue := range status.Queues {
		byQueue[queue.Name] = queue.Rates.Completed
	}
	require.InDeltaMapValues(t, map[string]float64{"mail": 5, "images": 1}, byQueue, 1e-9)

	reader.Rates = func(context.Context) (doctor.QueueRates, error) {
		return rates, errors.ErrUnsupported
	}
	_, err = reader.Read(t.Context())
	require.ErrorIs(t, err, errors.ErrUnsupported)
}

func TestAStatusHasTheRatesOfTheLastMinutes(t *testing.T) {
	e := newEnv(t)
	status, err := doctor.ReadStatus(t.Context(), e.Client, time.Minute)
	require.NoError(t, err)
	length := status.RatesTo.Sub(status.RatesFrom)
	require.GreaterOrEqual(t, length, 5*time.Minute)
	require.Less(t, length, 6*time.Minute)
	require.Zero(t, status.RatesFrom.Second())
}

func TestAStatusKnowsWhatHoldsJobsUp(t *testing.T) {
	e := newEnv(t)
	ctx := t.Context()
	e.put("mail", "broken")
	e.do(e.pop("mail", 1)[0].Fail(ctx, "timeout", "no answer"))
	e.put("reports", "report", qless.DependsOn{"broken"})
	e.do(e.Config().Set(ctx, "slow-max-rate", "1/3600"))
	e.put("slow", "s1 s2")
	e.pop("slow", 1)
	e.clock.Advance(time.Minute)
	status, err := doctor.ReadStatus(ctx, e.Client, time.Hour)
	require.NoError(t, err)
	found := map[doctor.ReasonCode]doctor.Reason{}
	for _, p := range status.Attention {
		found[p.Code] = p
	}
	require.Equal(t, "broken", found["failed_dependency"].JID)
	require.Equal(t, "timeout", found["failed_dependency"].Group)
	require.Equal(t, "queue reports has 1 job waiting for failed ones, such as broken",
		found["failed_dependency"].Sentence)
	require.Equal(t, "qless why slow", found["max_rate"].Command)

	key := e.Namespace() + "q:reports-depends"
	e.do(e.rdb.Del(ctx, key).Err())
	e.do(e.rdb.Set(ctx, key, "x", 0).Err())
	status, err = doctor.ReadStatus(ctx, e.Client, time.Hour)
	require.NoError(t, err)
	require.Equal(t, key, status.Attention[0].Key)
	require.Equal(t, "reports", status.Attention[0].Queue)
}

func TestAStatusNamesTheGroupThatMostJobsFailIn(t *testing.T) {
	e := newEnv(t)
	fail := func(group, jids string) {
		e.put("mail", jids)
		for _, job := range e.pop("mail", len(strings.Fields(jids))) {
			e.do(job.Fail(t.Context(), group, "why"))
		}
	}
	fail("old", "j1 j2 j3 j4 j5 j6 j7")
	e.clock.Advance(time.Hour)
	to := e.clock.Now()
	failed := 5
	reader := doctor.StatusReader{Client: e.Client, Rates: func(context.Context) (doctor.QueueRates, error) {
		return doctor.QueueRates{From: to.Add(-time.Minute), To: to, Queues: []inspect.RateGroup{
			{Name: "mail", Rates: inspect.Rates{Failed: failed}},
		}}, nil
	}}
	problem := func() doctor.Reason {
		status, err := reader.Read(t.Context())
		require.NoError(t, err)
		require.Len(t, status.Attention, 1)
		require.Equal(t, doctor.ReasonFailing, status.Attention[0].Code)
		return status.Attention[0]
	}
	fail("timeout", "t1 t2 t3")
	fail("refused", "r1 r2")
	p := problem()
	require.Equal(t, "qless failed show timeout", p.Command)
	require.Contains(t, p.Sentence, ", most in timeout")

	fail("refused", "r3")
	failed++
	p = problem()
	require.Empty(t, p.Group)
	require.Equal(t, "qless failed ls", p.Command)
	require.NotContains(t, p.Sentence, "most in")
}

// requireExplained requires that the explanation of a queue has a problem of the status, too.
func (e *env) requireExplained(queue string, p doctor.Reason) {
	e.t.Helper()
	found, err := doctor.Explain(e.t.Context(), e.Client, queue)
	e.do(err)
	at := slices.IndexFunc(found.Causes, func(r doctor.Reason) bool { return r.Code == p.Code })
	require.GreaterOrEqual(e.t, at, 0, "%s in %v", p.Code, found.Causes)
	c := found.Causes[at]
	require.Equal(e.t, []any{queue, p.JID, p.Schedule}, []any{c.Queue, c.JID, c.Schedule})
	require.Regexp(e.t, `^[A-Z1-9].*\.$`, c.Sentence)
}

func TestAStatusKnowsDistantJobs(t *testing.T) {
	e := newEnv(t)
	const day = 24 * time.Hour
	e.put("mail", "soon", qless.Delay(400*time.Hour))
	e.put("trials", "planned", qless.Delay(40*day))
	e.put("reports", "next-decade", qless.Delay(3652*day))
	e.put("sync", "next-year", qless.Delay(370*day))
	status, err := doctor.ReadStatus(t.Context(), e.Client, time.Hour)
	require.NoError(t, err)
	require.Len(t, status.Attention, 1)
	p := status.Attention[0]
	require.Equal(t, doctor.ReasonDistant, p.Code)
	require.Equal(t, []string{"reports", "sync"}, p.Queues)
	require.Equal(t, "qless job show next-decade", p.Command)
	e.requireExplained("reports", p)
}

func TestAStatusKnowsUniqueKeysThatRefusePuts(t *testing.T) {
	e := newEnv(t)
	ctx := t.Context()
	refused := func(queue, key string) {
		_, err := e.Queue(queue).Put(ctx, "Sync", nil, qless.Unique(key))
		require.ErrorIs(t, err, qless.ErrExists)
	}
	held := func() []doctor.Reason {
		status, err := doctor.ReadStatus(ctx, e.Client, time.Hour)
		require.NoError(t, err)
		return status.Attention
	}
	e.put("sync", "old", qless.Delay(time.Hour), qless.Unique("acme"))
	e.put("sync", "soon", qless.Delay(time.Minute), qless.Unique("globex"))
	e.put("sync", "quiet", qless.Delay(time.Hour), qless.Unique("umbrella"))
	e.put("sync", "timed", qless.Delay(time.Hour), qless.Unique("hooli").For(2*time.Hour))
	refused("crm", "hooli")
	refused("crm", "acme")
	refused("crm", "globex")
	require.Len(t, held(), 1)
	p := held()[0]
	require.Equal(t, "unique_held: puts with the unique key of job old are refused until it is due at "+
		e.clock.Now().Add(time.Hour).UTC().Format(time.DateTime)+" UTC", p.String())
	require.Equal(t, []string{"sync", "old", "qless job show old"}, []string{p.Queue, p.JID, p.Command})
	e.requireExplained("sync", p)

	e.put("mail", "later", qless.Delay(2*time.Hour), qless.Unique("initech"))
	refused("crm", "initech")
	require.Len(t, held(), 1)
	require.Equal(t, "puts with the unique keys of 2 jobs are refused until these are due, "+
		"the last at "+e.clock.Now().Add(2*time.Hour).UTC().Format(time.DateTime)+" UTC",
		held()[0].Sentence)
	require.Equal(t, "later", held()[0].JID)

	e.do(e.Cancel(ctx, "later", "soon", "timed"))
	e.clock.Advance(55 * time.Minute)
	require.Empty(t, held(), "it is due soon")
}

func TestAStatusNamesFullKeysOfLimits(t *testing.T) {
	e := newEnvWith(t, nil)
	e.do(e.Limit("api").Set(t.Context(), qless.LimitConfig{Concurrency: 1}))
	for _, jid := range []string{"one", "two", "three"} {
		e.put("mail", jid, qless.Limits{"api/acme"})
	}
	e.put("mail", "four", qless.Limits{"api/free"})
	_, err := e.Queue("mail").Pop(t.Context(), 4)
	e.do(err)
	status, err := doctor.ReadStatus(t.Context(), e.Client, time.Hour)
	e.do(err)
	require.Len(t, status.FullLimits, 1)
	require.Equal(t, "api/acme", status.FullLimits[0].Name)
	require.Len(t, status.Attention, 1)
	require.Equal(t, doctor.ReasonLimitFull, status.Attention[0].Code)
	require.Equal(t, 2, status.Attention[0].Jobs)
}

func TestAStatusNamesSchedulesThatNoWorkerFollows(t *testing.T) {
	e := newEnvWith(t, nil)
	worker, err := qless.NewWorker(e.Client, qless.WorkerConfig{
		Queues: []string{"reports"}, Logger: testkit.Quiet(),
		Schedules: []qless.Schedule{{
			ID: "nightly", When: "0 3 * * *", Queue: "reports", Job: qless.JobSpec{Klass: "Report"},
		}},
	})
	e.do(err)
	worker.Handle("Report", func(context.Context, *qless.Job) error { return nil })
	e.do(worker.Start(e.ctx))
	attention := func() []doctor.Reason {
		status, err := doctor.ReadStatus(t.Context(), e.Client, time.Hour)
		require.NoError(t, err)
		return status.Attention
	}
	testkit.Until(t, "the worker follows it", func() bool {
		found, err := inspect.New(e.Client).Schedule(t.Context(), "nightly")
		return err == nil && len(found.Followers) == 1
	})
	require.Empty(t, attention())
	e.do(worker.Stop(e.ctx))
	found := attention()
	require.Len(t, found, 1)
	require.Equal(t, doctor.ReasonScheduleUnfollowed, found[0].Code)
	e.requireExplained("reports", found[0])
	require.Regexp(t, `^no worker follows schedule nightly, whose next job is due at \S+ 03:00:00 UTC$`,
		found[0].Sentence)
}

func TestAStatusNamesAJobThatRunsUnusuallyLong(t *testing.T) {
	e := newEnv(t)
	attention := func() (told []string) {
		status, err := doctor.ReadStatus(t.Context(), e.Client, 24*time.Hour)
		require.NoError(t, err)
		for _, r := range status.Attention {
			told = append(told, r.String()+" "+r.Command)
		}
		return told
	}
	e.do(e.Config().Set(t.Context(), "heartbeat", 24*time.Hour))
	e.put("mail", "hangs")
	e.pop("mail", 1)
	e.clock.Advance(59 * time.Minute)
	require.Empty(t, attention())
	e.clock.Advance(6 * time.Minute)
	require.Equal(t, []string{"long_run: queue mail has a job that has been running for 1h05m, " +
		"much longer than usual: hangs, a K, on w1 qless job show hangs"}, attention())

	e.requireExplained("mail", doctor.Reason{Code: doctor.ReasonLongRun, Queue: "mail", JID: "hangs"})

	e.put("mail", "usual")
	usual := e.pop("mail", 1)
	e.clock.Advance(time.Hour)
	e.do(usual[0].Complete(t.Context()))
	require.Empty(t, attention(), "others take an hour, too")

	e.do(errOf(scripts.Run(e.ctx, e.rdb, e.Namespace(), e.clock.Now(), "rates.add", "run", "1", "0",
		"mail", "K", "1,0,0||40:1")))
	require.Len(t, attention(), 1, "but no other of its klass")
}

func TestAStatusNamesAJobThatKillsItsWorkers(t *testing.T) {
	e := newEnv(t)
	told := func() string {
		status, err := doctor.ReadStatus(t.Context(), e.Client, 24*time.Hour)
		require.NoError(t, err)
		require.Len(t, status.Attention, 1)
		return status.Attention[0].String()
	}
	e.put("mail", "poison", qless.Retries(1))
	for range 2 {
		e.pop("mail", 1)
		e.clock.Advance(61 * time.Second)
		e.do(errOf(e.Queue("mail").Pop(e.ctx, 1))) // its grace period begins
		e.clock.Advance(11 * time.Second)
	}
	e.do(errOf(e.Queue("mail").Pop(e.ctx, 1)))
	require.Equal(t, "deadly: job poison, a K, has failed after its worker died or lost it at each of 2 runs", told())
	e.requireExplained("mail", doctor.Reason{Code: doctor.ReasonDeadly, Queue: "mail", JID: "poison"})
}

func TestAStatusNamesABatchThatStaysOpen(t *testing.T) {
	e := newEnv(t)
	batch, err := e.NewBatch(e.ctx, "reports", qless.JobSpec{Klass: "K"})
	e.do(err)
	attention := func() []doctor.Reason {
		status, err := doctor.ReadStatus(t.Context(), e.Client, time.Hour)
		require.NoError(t, err)
		return status.Attention
	}
	e.clock.Advance(23 * time.Hour)
	require.Empty(t, attention())
	e.clock.Advance(2 * time.Hour)
	found := attention()
	require.Len(t, found, 1)
	require.Equal(t, "open_batch: queue reports has a batch that has been open for 1d01h, with the callback "+
		batch.ID+": will it be committed?", found[0].String())
	e.do(batch.Commit(e.ctx))
	e.clock.Advance(0)
	for _, r := range attention() {
		require.NotEqual(t, doctor.ReasonOpenBatch, r.Code)
	}
}

func TestAStatusNamesJobsWhoseLocksAreGone(t *testing.T) {
	e := newEnv(t)
	attention := func() (told []string) {
		status, err := doctor.ReadStatus(t.Context(), e.Client, time.Hour)
		require.NoError(t, err)
		for _, r := range status.Attention {
			told = append(told, r.String()+"; "+r.Command)
		}
		return told
	}
	e.put("mail", "j1 j2 j3")
	e.pop("mail", 3)
	require.Empty(t, attention())
	e.do(e.rdb.ZRem(e.ctx, e.Namespace()+"q:mail-locks", "j2").Err())
	require.Equal(t, []string{"lost: 1 job is running without a lock, which was deleted or evicted, such as j2: " +
		"if its worker dies, it never runs again; qless doctor --fix"}, attention())
	e.requireExplained("mail", doctor.Reason{Code: doctor.ReasonLost, Queue: "mail", JID: "j2"})
	_, err := doctor.Fix(e.ctx, e.rdb, e.options(), e.examine()...)
	e.do(err)
	require.Empty(t, attention())
	e.do(e.rdb.Del(e.ctx, e.Namespace()+"q:mail-locks").Err())
	require.Contains(t, attention()[0], "3 jobs are running without a lock")
	e.requireExplained("mail", doctor.Reason{Code: doctor.ReasonLost, Queue: "mail", JID: "j1"})
}

func TestAStatusHasTheReportsOfOutboxes(t *testing.T) {
	e := newEnv(t)
	ctx, key := t.Context(), e.Namespace()+"x:outbox"
	report := fmt.Sprintf(`{"time": %d, "rows": 3, "oldest": 2, "problems": {"invalid": 2}}`, e.clock.Now().Unix())
	e.do(e.rdb.HSet(ctx, key, "shop", report, "broken", "{").Err())
	status, err := doctor.ReadStatus(ctx, e.Client, time.Hour)
	require.NoError(t, err)
	require.Len(t, status.Attention, 1)
	require.Equal(t, 2, status.Attention[0].Jobs)
	require.Equal(t, "outbox: the outbox shop has set 2 jobs aside, which wait for Relay.Retry or Drop",
		status.Attention[0].String())
	want := doctor.Outbox{
		Name: "shop", Reported: e.clock.Now().Truncate(time.Second).UTC(), Rows: 3, Oldest: 2 * time.Second,
		Problems: map[string]int{"invalid": 2},
	}
	require.Equal(t, []doctor.Outbox{want}, status.Outboxes)
	text, err := json.Marshal(want)
	require.NoError(t, err)
	require.Contains(t, string(text), `"oldest":"2s"`)
	var read doctor.Outbox
	require.NoError(t, json.Unmarshal(text, &read))
	require.Equal(t, want, read)
}

func TestAStatusNamesTheDamagedListOfSchedules(t *testing.T) {
	e := newEnv(t)
	e.do(e.rdb.Set(t.Context(), e.Namespace()+"x:schedule-ids", "x", 0).Err())
	status, err := doctor.ReadStatus(t.Context(), e.Client, time.Hour)
	require.NoError(t, err)
	require.Equal(t, e.Namespace()+"x:schedule-ids", status.Attention[0].Key)
}

func TestAStatusSaysThatTheServerRefusesChanges(t *testing.T) {
	server := testkit.Start(t)
	client, err := qless.New(server.Client(t), nil)
	require.NoError(t, err)
	for _, code := range []string{"MISCONF", "NOREPLICAS"} {
		undo := server.Refuse(t, code)
		status, err := doctor.ReadStatus(t.Context(), client, time.Hour)
		require.NoError(t, err)
		require.Equal(t, code, status.Refuses)
		require.Equal(t, doctor.ReasonRefused, status.Attention[0].Code)
		_, err = client.Queue("mail").Put(t.Context(), "Send", nil)
		require.ErrorContains(t, err, code)
		undo()
		status, err = doctor.ReadStatus(t.Context(), client, time.Hour)
		require.NoError(t, err)
		require.Empty(t, status.Attention)
	}
}

func TestAStatusRemarksThatNothingIsKeptOnDisk(t *testing.T) {
	remarks := func(server *testkit.Server) []doctor.Reason {
		client, err := qless.New(server.Client(t), nil)
		require.NoError(t, err)
		status, err := doctor.ReadStatus(t.Context(), client, time.Hour)
		require.NoError(t, err)
		require.Empty(t, status.Attention)
		return status.Remarks
	}
	require.Empty(t, remarks(testkit.Start(t, "--appendonly", "yes")))
	require.Empty(t, remarks(testkit.Start(t, "--save", "3600 1")))
	found := remarks(testkit.Start(t))
	require.Len(t, found, 1)
	require.Equal(t, "no_persistence: the server keeps nothing on disk: a restart loses all jobs",
		found[0].String())
	require.Equal(t, "qless doctor", found[0].Command)
}

func TestAStatusSaysThatTheServerIsAReplica(t *testing.T) {
	server := testkit.Start(t)
	rdb := server.Client(t)
	client, err := qless.New(rdb, nil)
	require.NoError(t, err)
	require.NoError(t, rdb.Do(t.Context(), "replicaof", "127.0.0.1", "1").Err())
	status, err := doctor.ReadStatus(t.Context(), client, time.Hour)
	require.NoError(t, err)
	require.Equal(t, "READONLY", status.Refuses)
	require.Equal(t, doctor.ReasonRefused, status.Attention[0].Code)
	require.Equal(t, "the server is a replica of 127.0.0.1:1: it refuses puts, and workers get no jobs",
		status.Attention[0].Sentence)
}

func TestAStatusKnowsKlassesThatNoWorkerHandles(t *testing.T) {
	e := newEnv(t)
	e.put("mail", "j1", qless.Delay(time.Minute))
	register := func(name, klass, more string) {
		info := `{"queues":["mail"],"klasses":["` + klass + `"],"slots":1` + more + `}`
		e.do(errOf(e.Do(t.Context(), "worker.register", name, "0", info)))
	}
	codes := func() (codes []string) {
		status, err := doctor.ReadStatus(t.Context(), e.Client, time.Hour)
		require.NoError(t, err)
		for _, p := range status.Attention {
			codes = append(codes, string(p.Code)+" "+p.Queue)
		}
		return codes
	}
	register("w1", "Send", `,"unhandled":[{"queue":"mail","klass":"Bill"},{"queue":"gone","klass":"Bill"}]`)
	require.Equal(t, []string{"no_handler mail"}, codes())
	register("w2", "B*", "")
	require.Empty(t, codes(), "another worker handles them")
}
