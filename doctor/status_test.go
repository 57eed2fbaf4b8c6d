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
	status := must(reader.Read(t.Context()))(t)
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
	_, err := reader.Read(t.Context())
	require.ErrorIs(t, err, errors.ErrUnsupported)
}

func TestAStatusHasTheRatesOfTheLastMinutes(t *testing.T) {
	e := newEnv(t)
	status := e.status(time.Minute)
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
	status := e.status(time.Hour)
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
	status = e.status(time.Hour)
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
		status := must(reader.Read(t.Context()))(t)
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
	found := e.whyOf(queue)
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
	p := e.problem()
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
	e.put("sync", "old", qless.Delay(time.Hour), qless.Unique("acme"))
	e.put("sync", "soon", qless.Delay(time.Minute), qless.Unique("globex"))
	e.put("sync", "quiet", qless.Delay(time.Hour), qless.Unique("umbrella"))
	e.put("sync", "timed", qless.Delay(time.Hour), qless.Unique("hooli").For(2*time.Hour))
	refused("crm", "hooli")
	refused("crm", "acme")
	refused("crm", "globex")
	p := e.problem()
	require.Equal(t, "unique_held: puts with the unique key of job old are refused until it is due at "+
		e.clock.Now().Add(time.Hour).UTC().Format(time.DateTime)+" UTC", p.String())
	require.Equal(t, []string{"sync", "old", "qless job show old"}, []string{p.Queue, p.JID, p.Command})
	e.requireExplained("sync", p)

	e.put("mail", "later", qless.Delay(2*time.Hour), qless.Unique("initech"))
	refused("crm", "initech")
	p = e.problem()
	require.Equal(t, "puts with the unique keys of 2 jobs are refused until these are due, "+
		"the last at "+e.clock.Now().Add(2*time.Hour).UTC().Format(time.DateTime)+" UTC",
		p.Sentence)
	require.Equal(t, "later", p.JID)

	e.do(e.Cancel(ctx, "later", "soon", "timed"))
	e.clock.Advance(55 * time.Minute)
	require.Empty(t, e.told(time.Hour), "it is due soon")
}

func TestAStatusNamesFullKeysOfLimits(t *testing.T) {
	e := newEnvWith(t, nil)
	e.do(e.Limit("api").Set(t.Context(), qless.LimitConfig{Concurrency: 1}))
	for _, jid := range []string{"one", "two", "three"} {
		e.put("mail", jid, qless.Limits{"api/acme"})
	}
	e.put("mail", "four", qless.Limits{"api/free"})
	must(e.Queue("mail").Pop(t.Context(), 4))(t)
	status := e.status(time.Hour)
	require.Len(t, status.FullLimits, 1)
	require.Equal(t, "api/acme", status.FullLimits[0].Name)
	require.Equal(t, doctor.ReasonLimitFull, e.problem().Code)
	require.Equal(t, 2, e.problem().Jobs)
}

func TestAStatusNamesSchedulesThatNoWorkerFollows(t *testing.T) {
	e := newEnvWith(t, nil)
	worker := must(qless.NewWorker(e.Client, qless.WorkerConfig{
		Queues: []string{"reports"}, Logger: testkit.Quiet(),
		Schedules: []qless.Schedule{{
			ID: "nightly", When: "0 3 * * *", Queue: "reports", Job: qless.JobSpec{Klass: "Report"},
		}},
	}))(t)
	worker.Handle("Report", nothing)
	e.do(worker.Start(e.ctx))
	testkit.Until(t, "the worker follows it", func() bool {
		found, err := inspect.New(e.Client).Schedule(t.Context(), "nightly")
		return err == nil && len(found.Followers) == 1
	})
	require.Empty(t, e.told(time.Hour))
	e.do(worker.Stop(e.ctx))
	p := e.problem()
	require.Equal(t, doctor.ReasonScheduleUnfollowed, p.Code)
	e.requireExplained("reports", p)
	require.Regexp(t, `^no worker follows schedule nightly, whose next job is due at \S+ 03:00:00 UTC$`,
		p.Sentence)
}

func TestAStatusNamesAJobThatRunsUnusuallyLong(t *testing.T) {
	e := newEnv(t)
	attention := func() []string { return e.told(24 * time.Hour) }
	e.do(e.Config().Set(t.Context(), "heartbeat", 24*time.Hour))
	e.put("mail", "hangs")
	e.pop("mail", 1)
	e.clock.Advance(59 * time.Minute)
	require.Empty(t, attention())
	e.clock.Advance(6 * time.Minute)
	require.Equal(t, []string{"long_run: queue mail has a job that has been running for 1h05m, " +
		"much longer than usual: hangs, a K, on w1; qless job show hangs"}, attention())

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
	e.put("mail", "poison", qless.Retries(1))
	for range 2 {
		e.pop("mail", 1)
		e.clock.Advance(61 * time.Second)
		e.do(errOf(e.Queue("mail").Pop(e.ctx, 1))) // its grace period begins
		e.clock.Advance(11 * time.Second)
	}
	e.do(errOf(e.Queue("mail").Pop(e.ctx, 1)))
	found := e.status(24 * time.Hour).Attention
	require.Len(t, found, 1)
	require.Equal(t, "deadly: job poison, a K, has failed after its worker died or lost it "+
		"at each of 2 runs", found[0].String())
	e.requireExplained("mail", doctor.Reason{Code: doctor.ReasonDeadly, Queue: "mail", JID: "poison"})
}

func TestAStatusNamesABatchThatStaysOpen(t *testing.T) {
	e := newEnv(t)
	batch := must(e.NewBatch(e.ctx, "reports", qless.JobSpec{Klass: "K"}))(t)
	e.clock.Advance(23 * time.Hour)
	require.Empty(t, e.told(time.Hour))
	e.clock.Advance(2 * time.Hour)
	require.Equal(t, "open_batch: queue reports has a batch that has been open for 1d01h, with the callback "+
		batch.ID+": will it be committed?", e.problem().String())
	e.do(batch.Commit(e.ctx))
	e.clock.Advance(0)
	for _, r := range e.status(time.Hour).Attention {
		require.NotEqual(t, doctor.ReasonOpenBatch, r.Code)
	}
}

func TestAStatusNamesJobsWhoseLocksAreGone(t *testing.T) {
	e := newEnv(t)
	attention := func() []string { return e.told(time.Hour) }
	e.put("mail", "j1 j2 j3")
	e.pop("mail", 3)
	require.Empty(t, attention())
	e.do(e.rdb.ZRem(e.ctx, e.Namespace()+"q:mail-locks", "j2").Err())
	require.Equal(t, []string{"lost: 1 job is running without a lock, which was deleted or evicted, such as j2: " +
		"if its worker dies, it never runs again; qless doctor --fix"}, attention())
	e.requireExplained("mail", doctor.Reason{Code: doctor.ReasonLost, Queue: "mail", JID: "j2"})
	e.fix(e.examine()...)
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
	require.Equal(t, 2, e.problem().Jobs)
	require.Equal(t, "outbox: the outbox shop has set 2 jobs aside, which wait for Relay.Retry or Drop",
		e.problem().String())
	want := doctor.Outbox{
		Name: "shop", Reported: e.clock.Now().Truncate(time.Second).UTC(), Rows: 3, Oldest: 2 * time.Second,
		Problems: map[string]int{"invalid": 2},
	}
	require.Equal(t, []doctor.Outbox{want}, e.status(time.Hour).Outboxes)
	text := must(json.Marshal(want))(t)
	require.Contains(t, string(text), `"oldest":"2s"`)
	var read doctor.Outbox
	require.NoError(t, json.Unmarshal(text, &read))
	require.Equal(t, want, read)
}

func TestAStatusNamesTheDamagedListOfSchedules(t *testing.T) {
	e := newEnv(t)
	e.do(e.rdb.Set(t.Context(), e.Namespace()+"x:schedule-ids", "x", 0).Err())
	require.Equal(t, e.Namespace()+"x:schedule-ids", e.status(time.Hour).Attention[0].Key)
}

func TestAStatusSaysThatTheServerRefusesChanges(t *testing.T) {
	e := newEnvWith(t, nil)
	for _, code := range []string{"MISCONF", "NOREPLICAS"} {
		undo := e.server.Refuse(t, code)
		status := e.status(time.Hour)
		require.Equal(t, code, status.Refuses)
		require.Equal(t, doctor.ReasonRefused, status.Attention[0].Code)
		_, err := e.Queue("mail").Put(t.Context(), "Send", nil)
		require.ErrorContains(t, err, code)
		undo()
		require.Empty(t, e.status(time.Hour).Attention)
	}
}

func TestAStatusRemarksThatNothingIsKeptOnDisk(t *testing.T) {
	remarks := func(server *testkit.Server) []doctor.Reason {
		client := must(qless.New(server.Client(t), nil))(t)
		status := must(doctor.ReadStatus(t.Context(), client, time.Hour))(t)
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
	e := newEnvWith(t, nil)
	e.do(e.rdb.Do(t.Context(), "replicaof", "127.0.0.1", "1").Err())
	status := e.status(time.Hour)
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
		for _, p := range e.status(time.Hour).Attention {
			codes = append(codes, string(p.Code)+" "+p.Queue)
		}
		return codes
	}
	register("w1", "Send", `,"unhandled":[{"queue":"mail","klass":"Bill"},{"queue":"gone","klass":"Bill"}]`)
	require.Equal(t, []string{"no_handler mail"}, codes())
	register("w2", "B*", "")
	require.Empty(t, codes(), "another worker handles them")
}
