package doctor_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/doctor"
	"github.com/qless/qless-go/inspect"
	"github.com/qless/qless-go/internal/testkit"
)

// free is the registration of a worker with free slots.
const free = `{"queues":["q"],"klasses":["K"],"slots":5}`

// whyOf returns the explanation of a queue.
func (e *env) whyOf(queue string) *doctor.Explanation {
	e.t.Helper()
	return must(doctor.Explain(e.ctx, e.Client, queue))(e.t)
}

// why returns the explanation of the queue q.
func (e *env) why() *doctor.Explanation {
	e.t.Helper()
	found := e.whyOf("q")
	require.NotEmpty(e.t, found.Causes)
	for _, c := range found.Causes {
		require.True(e.t, strings.HasSuffix(c.Sentence, "."), c.Sentence)
		require.NotContains(e.t, c.Sentence, "%!")
	}
	return found
}

// codes returns the codes of the causes, in order.
func codes(found *doctor.Explanation) string {
	var all []string
	for _, c := range found.Causes {
		all = append(all, string(c.Code))
	}
	return strings.Join(all, " ")
}

// only requires a single cause.
func (e *env) only(code doctor.ReasonCode) doctor.Reason {
	e.t.Helper()
	found := e.why()
	require.Equal(e.t, string(code), codes(found), "%+v", found.Causes)
	return found.Causes[0]
}

// cause returns the cause with a code.
func (e *env) cause(code doctor.ReasonCode) doctor.Reason {
	e.t.Helper()
	found := e.why()
	for _, c := range found.Causes {
		if c.Code == code {
			return c
		}
	}
	require.Failf(e.t, "no such cause", "%s in %s", code, codes(found))
	return doctor.Reason{}
}

func TestAQueueThatNobodyKnows(t *testing.T) {
	e := newEnv(t)
	c := e.only(doctor.ReasonUnknown)
	require.True(t, c.Certain)
	require.Equal(t, `No queue "q" is known: it never had a job, or it was forgotten.`, c.Sentence)
}

func TestAQueueWithoutJobs(t *testing.T) {
	e := newEnv(t)
	e.put("q", "j")
	e.do(e.pop("q", 1)[0].Complete(e.ctx))
	require.True(t, e.only(doctor.ReasonEmpty).Certain)
}

func TestAPausedQueue(t *testing.T) {
	e := newEnv(t)
	e.register("free", free)
	e.put("q", "j")
	e.do(e.Queue("q").Pause(e.ctx))
	c := e.only(doctor.ReasonPaused)
	require.True(t, c.Certain)
	require.Equal(t, 1, c.Jobs)
}

func TestAQueueAtItsMaxConcurrency(t *testing.T) {
	e := newEnv(t)
	e.register("free", free)
	e.do(e.Queue("q").SetMaxConcurrency(e.ctx, 1))
	e.put("q", "j1 j2 j3")
	e.pop("q", 1)
	c := e.only(doctor.ReasonMaxConcurrency)
	require.Equal(t, []any{true, 2, 1, 1}, []any{c.Certain, c.Jobs, c.Max, c.Busy})
	require.Equal(t, []string{"j1"}, c.JIDs)
	require.Equal(t, []string{"w1"}, c.Workers)
	require.Equal(t, "No more than 1 job of the queue may run at once, and 1 job runs: j1.", c.Sentence)
}

func TestAQueueAtItsMaxRate(t *testing.T) {
	e := newEnv(t)
	e.register("free", free)
	e.do(e.Queue("q").SetMaxRate(e.ctx, 2, time.Minute))
	e.put("q", "j1 j2 j3")
	e.pop("q", 2)
	c := e.only(doctor.ReasonMaxRate)
	require.Equal(t, []any{true, 1, 2}, []any{c.Certain, c.Jobs, c.Max})
	require.WithinDuration(t, testkit.Noon.Add(time.Minute), c.Until, time.Second)
	require.Contains(t, c.Sentence, "No more than 2 jobs may start in 1m0s, the next one at 2024-01-02 12:01:00")
}

func TestAFullLimitAndWhoHoldsIt(t *testing.T) {
	e := newEnv(t)
	e.register("free", free)
	e.do(e.Limit("shop").Set(e.ctx, qless.LimitConfig{Concurrency: 1}))
	e.put("other", "holder", qless.Limits{"shop/7"})
	e.pop("other", 1)
	e.put("q", "j1 j2", qless.Limits{"shop/7"})
	require.Empty(t, errOf(e.Queue("q").Pop(e.ctx, 2)))
	c := e.only(doctor.ReasonLimitFull)
	require.Equal(t, []any{true, 2, 1, "shop/7"}, []any{c.Certain, c.Jobs, c.Max, c.Limit})
	require.Equal(t, []string{"holder"}, c.JIDs)
	require.Equal(t, `2 jobs wait for the limit "shop/7": no more than 1 may run at once, and these do: holder.`,
		c.Sentence)

	e.do(e.Limit("shop/7").Hold(e.ctx, time.Hour))
	c = e.only(doctor.ReasonLimitFull)
	require.WithinDuration(t, testkit.Noon.Add(time.Hour), c.Until, time.Second)
	require.Contains(t, c.Sentence, "is held until 2024-01-02 13:00:00")
}

func TestALimitWhoseRateIsUsedUp(t *testing.T) {
	e := newEnv(t)
	e.register("free", free)
	e.do(e.Limit("api").Set(e.ctx, qless.LimitConfig{Rate: 1, Per: time.Minute}))
	e.put("q", "j1 j2", qless.Limits{"api"})
	e.pop("q", 1)
	require.Empty(t, errOf(e.Queue("q").Pop(e.ctx, 1)))
	c := e.only(doctor.ReasonLimitFull)
	require.Equal(t, []any{true, 1, 1}, []any{c.Certain, c.Jobs, c.Max})
	require.WithinDuration(t, testkit.Noon.Add(time.Minute), c.Until, time.Second)

	e.do(e.rdb.HSet(e.ctx, "ql:x:limits", "api", "0 9 60").Err()) // so that no worker notices
	c = e.cause(doctor.ReasonLimitFull)
	require.False(t, c.Certain)
	require.Contains(t, c.Sentence, "has free slots now")
}

func TestNoWorkerListens(t *testing.T) {
	e := newEnv(t)
	e.put("q", "j")
	c := e.only(doctor.ReasonNoWorkers)
	require.True(t, c.Certain)
	require.Equal(t, "No known worker takes jobs from the queue.", c.Sentence)

	e.register("elsewhere", `{"queues":["other","!q","*-q"],"klasses":["K"],"slots":5}`)
	require.True(t, e.only(doctor.ReasonNoWorkers).Certain)

	e.put("other", "o")
	e.pop("other", 1) // by w1, which is not registered
	c = e.only(doctor.ReasonNoWorkers)
	require.False(t, c.Certain, "w1 may take jobs from q")
	require.Equal(t, 1, c.Silent)
	require.Contains(t, c.Sentence, "The queues of 1 listed worker are unknown")
}

func TestAQueueWhoseNameIsMisspelt(t *testing.T) {
	e := newEnv(t)
	e.register("free", `{"queues":["mail","b*"],"klasses":["K"],"slots":5}`)
	e.put("mail", "j")
	e.put("mial", "j2")
	for name, want := range map[string]string{
		"mial":  "No known worker takes jobs from the queue. Did you mean mail, which has workers?",
		"mai":   `No queue "mai" is known: it never had a job, or it was forgotten. Did you mean mail?`,
		"other": `No queue "other" is known: it never had a job, or it was forgotten.`,
		"mail2": `No queue "mail2" is known: it never had a job, or it was forgotten.`,
	} {
		require.Equal(t, want, e.whyOf(name).Causes[0].Sentence)
	}
	require.Equal(t, "qless queue move mial mail", e.whyOf("mial").Causes[0].Command)

	e.clock.Advance(time.Minute)
	status := e.status(time.Hour)
	require.Equal(t, "queue mial has no workers: 1 job waits, the oldest for 1m00s. "+
		"Did you mean mail, which has workers?", status.Attention[0].Sentence)
	require.Equal(t, "qless queue move mial mail", status.Attention[0].Command)
}

func TestTheWorkersOfAQueueHaveDied(t *testing.T) {
	e := newEnv(t)
	e.register("elsewhere", `{"queues":["other"],"klasses":["K"],"slots":5}`)
	e.register("dead", free)
	e.clock.Advance(151 * time.Second)
	e.put("q", "j")
	c := e.only(doctor.ReasonNoWorkers)
	require.True(t, c.Certain)
	require.Zero(t, c.Silent)
	require.Equal(t, "No known worker takes jobs from the queue. Gone: dead.", c.Sentence)
}

func TestAllWorkersArePaused(t *testing.T) {
	e := newEnv(t)
	e.put("q", "j")
	e.register("p", `{"queues":["q*"],"klasses":["K"],"slots":5,"paused":true}`)
	e.register("s", `{"queues":["q"],"klasses":["K"],"slots":5,"stopping":true}`)
	c := e.only(doctor.ReasonWorkersPaused)
	require.True(t, c.Certain)
	require.ElementsMatch(t, []string{"p", "s"}, c.Workers)
}

func TestAllWorkersAreBusy(t *testing.T) {
	e := newEnv(t)
	e.register("w1", `{"queues":["q"],"klasses":["K"],"slots":2}`)
	e.put("q", "j1 j2 j3")
	e.pop("q", 2)
	c := e.only(doctor.ReasonWorkersBusy)
	require.Equal(t, []any{true, 1, 2, 2}, []any{c.Certain, c.Jobs, c.Slots, c.Busy})
	require.Equal(t, "1 worker takes jobs from the queue, and none has a free slot: 2 jobs in 2 slots.",
		c.Sentence)
}

// A Ruby worker has a job of the queue, and its capacity is unknown.
func TestWorkersThatSayNothingOfThemselvesMayBeBusy(t *testing.T) {
	e := newEnv(t)
	e.put("q", "j1 j2")
	e.pop("q", 1)
	c := e.only(doctor.ReasonWorkersBusy)
	require.False(t, c.Certain)
	require.Equal(t, []string{"w1"}, c.Workers)
	require.Contains(t, c.Sentence, "1 worker runs its jobs with an unknown number of slots")
}

func TestAKlassThatNoWorkerHandles(t *testing.T) {
	e := newEnv(t)
	e.register("free", `{"queues":["q"],"klasses":["L","M*"],"slots":5}`)
	e.put("q", "j1")
	e.do(errOf(e.Queue("q").Put(e.ctx, "Many", nil)))
	e.do(errOf(e.Queue("q").Put(e.ctx, "L", nil)))
	c := e.only(doctor.ReasonNoHandler)
	require.Equal(t, []any{true, 1, "K"}, []any{c.Certain, c.Jobs, c.Klass})
	require.Equal(t, []string{"j1"}, c.JIDs)
}

// A real worker releases jobs without a handler.
func TestAWorkerWithoutAHandlerIsNamed(t *testing.T) {
	e := newEnvWith(t, nil)
	worker := must(qless.NewWorker(e.Client, qless.WorkerConfig{
		Queues: []string{"q"}, UnknownKlassDelay: time.Hour, Logger: testkit.Quiet(),
	}))(e.t)
	worker.Handle("Other", nothing)
	e.put("q", "j")
	e.do(worker.Start(e.ctx))
	defer func() { e.do(worker.Stop(e.ctx)) }()
	testkit.Until(t, "the job is released", func() bool {
		return strings.HasPrefix(codes(e.why()), "no_handler scheduled")
	})
	c := e.cause(doctor.ReasonNoHandler)
	require.Equal(t, []string{"j"}, c.JIDs)
	require.Len(t, c.Workers, 1)
}

func TestEverythingIsScheduled(t *testing.T) {
	e := newEnv(t)
	e.register("free", free)
	e.put("q", "late", qless.Delay(2*time.Hour))
	e.put("q", "soon", qless.Delay(time.Hour))
	c := e.only(doctor.ReasonScheduled)
	require.Equal(t, []any{true, 2}, []any{c.Certain, c.Jobs})
	require.WithinDuration(t, testkit.Noon.Add(time.Hour), c.Until, time.Second)
	require.Contains(t, c.Sentence, "2 jobs are scheduled, the next for 2024-01-02 13:00:00 UTC.")
}

func TestOnlyRecurringJobs(t *testing.T) {
	e := newEnv(t)
	e.register("free", free)
	e.do(errOf(e.Queue("q").Recur(e.ctx, "K", nil, time.Hour, qless.Offset(time.Minute))))
	c := e.only(doctor.ReasonRecurring)
	require.WithinDuration(t, testkit.Noon.Add(time.Minute), c.Until, time.Second)
}

func TestJobsWaitForOthersOfWhichSomeHaveFailed(t *testing.T) {
	e := newEnv(t)
	e.register("free", free)
	e.put("other", "fails waits")
	e.put("q", "d1", qless.DependsOn{"fails", "waits"})
	e.put("q", "d2", qless.DependsOn{"waits"})
	require.Equal(t, "depends", codes(e.why()))
	e.put("q", "later", qless.Delay(time.Hour))
	e.do(e.pop("other", 1)[0].Fail(e.ctx, "Timeout", "why"))
	found := e.why()
	require.Equal(t, "failed_dependency depends scheduled", codes(found))
	failed, waits := found.Causes[0], found.Causes[1]
	require.Equal(t, []doctor.Blocker{{
		JID: "fails", Klass: "K", Queue: "other", State: qless.StateFailed, Group: "Timeout", Jobs: 1,
	}}, failed.Blockers)
	require.Equal(t, []string{"Timeout"}, failed.Groups)
	require.Equal(t, []string{"d1"}, failed.JIDs)
	require.Equal(t, []any{true, 1}, []any{failed.Certain, failed.Jobs})
	require.Contains(t, failed.Sentence, "1 job waits for others, of which 1 has failed, in Timeout")
	require.Equal(t, 1, waits.Jobs, "the other one is told already")
	require.Equal(t, []doctor.Blocker{{
		JID: "waits", Klass: "K", Queue: "other", State: qless.StateWaiting, Jobs: 2,
	}}, waits.Blockers)
	require.Equal(t, `1 job waits for others to complete, such as waits, which is waiting in "other".`,
		waits.Sentence)
}

// A classic script fails a job without notifying the dependents.
func TestAJobThatWasNotToldOfAFailure(t *testing.T) {
	e := newEnvWith(t, nil)
	e.register("free", free)
	e.put("other", "bad")
	e.put("q", "runs", qless.DependsOn{"bad"}, qless.OnFailureRun)
	e.put("q", "waits", qless.DependsOn{"bad"})
	e.redis("ZREM q:other-work bad\nHSET j:bad state failed failure {\"group\":\"g\"}\n" +
		"LPUSH f:g bad\nSADD failures g")
	found := e.why()
	require.Equal(t, "not_notified failed_dependency", codes(found))
	require.Equal(t, []string{"runs"}, found.Causes[0].JIDs)
	require.Equal(t, []string{"waits"}, found.Causes[1].JIDs)
	findings := e.examine()
	requireFound(t, "not_notified j:runs", findings)
	require.Equal(t, doctor.Leftover, findings[0].Gravity)
	require.Equal(t, "The job runs was not notified that bad, which it waits for, has failed: a sweep notifies it.",
		findings[0].Sentence)
	e.do(errOf(inspect.New(e.Client).Sweep(e.ctx)))
	require.Empty(t, e.examine())
	require.Equal(t, "runs", e.pop("q", 1)[0].JID)
}

func TestABatchThatIsNotCommitted(t *testing.T) {
	e := newEnv(t)
	e.register("free", free)
	batch := must(e.NewBatch(e.ctx, "q", qless.JobSpec{Klass: "K"}))(e.t)
	require.Equal(t, "open_batch", codes(e.why()))
	e.do(errOf(batch.Add(e.ctx, "other", []qless.JobSpec{{Klass: "K"}})))
	e.do(batch.Commit(e.ctx))
	require.Equal(t, "depends", codes(e.why()))
}

func TestJobsThatWaitForEachOther(t *testing.T) {
	e := newEnv(t)
	e.register("free", free)
	e.put("other", "start")
	e.put("q", "a", qless.DependsOn{"start"})
	e.put("q", "b", qless.DependsOn{"a"})
	require.Equal(t, "depends", codes(e.why()))
	e.redis("SADD j:a-dependencies b\nSADD j:b-dependents a")
	c := e.cause(doctor.ReasonCircle)
	require.Equal(t, "Queue q has jobs that wait for each other, and never run: a, b.", c.Sentence)
	require.Equal(t, "qless job undepend a --on b", c.Command)
	status := e.status(time.Hour)
	require.Equal(t, "circle: queue q has jobs that wait for each other, and never run: a, b",
		status.Attention[0].String())
	require.Equal(t, c.Command, status.Attention[0].Command)

	e.do(must(e.Job(t.Context(), "a"))(t).Undepend(t.Context(), "b"))
	require.Equal(t, "depends", codes(e.why()))
}

func TestARecurringJobThatHasMissedManyRuns(t *testing.T) {
	e := newEnv(t)
	e.register("free", free)
	e.do(errOf(e.Queue("q").Recur(e.ctx, "K", nil, time.Second, qless.JID("tick"))))
	e.do(errOf(e.Queue("q").Recur(e.ctx, "K", nil, time.Second, qless.JID("last"), qless.Backlog(1))))
	attention := func() []string { return e.told(30 * 24 * time.Hour) }
	e.clock.Advance(99 * time.Second)
	e.register("free", free)
	require.Empty(t, attention())
	e.clock.Advance(time.Hour)
	e.register("free", free)
	e.put("q", "behind")
	require.Equal(t, []string{"backlog: queue q has a recurring job, tick, that has missed 3699 runs: their jobs " +
		"go before newer ones; qless recur set tick --backlog 1"}, attention())
	jids := []string{}
	for _, job := range e.pop("q", 100) {
		jids = append(jids, job.JID)
	}
	require.NotContains(t, jids, "behind")
	c := e.cause(doctor.ReasonBacklog)
	require.Regexp(t, `^Queue q has a recurring job, tick, that has missed 3\d{3} runs: their jobs go before newer ones.$`,
		c.Sentence)
	require.Equal(t, "qless recur set tick --backlog 1", c.Command)

	job := must(e.RecurringJob(t.Context(), "tick"))(e.t)
	job.Backlog = 1
	e.do(job.Update(t.Context()))
	require.NotContains(t, codes(e.why()), "backlog")
	require.Empty(t, attention())
}

func TestLocksInTheirGracePeriod(t *testing.T) {
	e := newEnv(t)
	e.put("q", "j1 j2")
	e.pop("q", 1)
	e.clock.Advance(61 * time.Second)
	require.Len(t, must(e.as("w2").Queue("q").Pop(e.ctx, 5))(t), 1, "j2")
	c := e.cause(doctor.ReasonGrace)
	require.Equal(t, []any{true, 1, []string{"j1"}, []string{"w1"}},
		[]any{c.Certain, c.Jobs, c.JIDs, c.Workers})
	require.WithinDuration(t, testkit.Noon.Add(71*time.Second), c.Until, time.Second)
}

func TestLocksOfDeadWorkers(t *testing.T) {
	e := newEnv(t)
	e.register("free", free)
	e.put("q", "j1")
	e.pop("q", 1)
	e.do(inspect.New(e.Client).ForgetWorkers(e.ctx, "w1"))
	e.clock.Advance(61 * time.Second)
	c := e.only(doctor.ReasonStalled)
	require.Equal(t, []any{true, 1, []string{"j1"}, []string{"w1"}},
		[]any{c.Certain, c.Jobs, c.JIDs, c.Workers})
	require.Contains(t, c.Sentence, "held by w1, have expired, and no worker has asked the queue for jobs since. No longer listed: w1.")
	e.put("q", "j2")
	e.only(doctor.ReasonStalled)
}

func TestJobsThatFailedBecauseNobodyFoundTheirCode(t *testing.T) {
	e := newEnv(t)
	e.register("free", free)
	e.put("q", "python ruby other")
	for i, group := range []string{"q-method-missing", "K:NameError", "K:Other"} {
		e.do(e.pop("q", 1)[0].Fail(e.ctx, group, fmt.Sprint(i)))
	}
	require.Equal(t, "empty unhandled", codes(e.why()))
	e.put("q", "j")
	found := e.why()
	require.Equal(t, "unhandled flowing", codes(found))
	c := found.Causes[0]
	require.False(t, c.Certain)
	require.Equal(t, []string{"K:NameError", "q-method-missing"}, c.Groups)
	require.Equal(t, 2, c.Jobs)
}

func TestAKlassOfWhichNothingIsCompleted(t *testing.T) {
	e := newEnv(t)
	e.put("q", "j")
	e.clock.Advance(time.Hour)
	e.register("free", free)
	c := e.only(doctor.ReasonNoCompletions)
	require.Equal(t, []any{false, 1, "K"}, []any{c.Certain, c.Jobs, c.Klass})
}

func TestAKlassWhoseJobsAreOnlyRetried(t *testing.T) {
	e := newEnvWith(t, nil)
	e.register("busy", `{"queues": ["q"], "slots": 1, "klasses": ["K"], "jobs": ["now"]}`)
	e.put("q", "first second now")
	for i, job := range e.pop("q", 3)[:2] {
		must(job.Retry(e.ctx, time.Duration(i)*time.Hour, "bank", "no answer"))(e.t)
	}
	minute := time.Now().Truncate(time.Minute).Unix()
	e.redis(fmt.Sprintf("HSET x:rates:%d 1:q:K 0,2,8||", minute))
	found := e.why()
	require.Equal(t, doctor.ReasonNoCompletions, found.Causes[0].Code)
	require.Equal(t, []any{2, 2, 8},
		[]any{found.Causes[0].Jobs, found.Causes[0].Failed, found.Causes[0].Retried})
	require.Equal(t, `No Go worker has completed a job of the klass "K" from this queue in the last hour: `+
		"2 failed and 8 were retried, the last in bank.", found.Causes[0].Sentence)
	require.False(t, found.Causes[0].Sampled)
	for i := range 100 {
		e.put("q", fmt.Sprint("later-", i), qless.Delay(2*time.Hour))
	}
	require.True(t, e.why().Causes[0].Sampled)

	e.redis(fmt.Sprintf("HSET x:rates:%d 1:q:K 1,2,8||", minute))
	require.NotContains(t, codes(e.why()), doctor.ReasonNoCompletions)
	e.redis(fmt.Sprintf("HSET x:rates:%d 1:q:K 0,1,8||", minute))
	require.NotContains(t, codes(e.why()), doctor.ReasonNoCompletions)
}

func TestAQueueThatWaitsForNothing(t *testing.T) {
	e := newEnv(t)
	e.register("free", free)
	e.put("q", "j1")
	c := e.only(doctor.ReasonFlowing)
	require.Equal(t, []any{1, 5, 0}, []any{c.Jobs, c.Slots, c.Busy})
	e.pop("q", 1)
	require.Equal(t, 1, e.only(doctor.ReasonRunning).Jobs)
}

func TestCausesAreInOrderOfLikelihood(t *testing.T) {
	e := newEnv(t)
	e.put("other", "fails")
	e.put("q", "d", qless.DependsOn{"fails"})
	e.do(e.pop("other", 1)[0].Fail(e.ctx, "g", "why"))
	e.put("other", "open")
	e.put("q", "d2", qless.DependsOn{"open"})
	e.put("q", "s", qless.Delay(24*time.Hour))
	require.Equal(t, "failed_dependency depends scheduled no_workers", codes(e.why()),
		"there is nothing to take")

	e.put("q", "lost")
	e.pop("q", 1)
	e.clock.Advance(61 * time.Second)
	require.Equal(t, "no_workers failed_dependency depends scheduled stalled", codes(e.why()))

	e.put("q", "w1 w2")
	e.pop("q", 1)
	e.do(e.Queue("q").SetMaxConcurrency(e.ctx, 1))
	e.do(e.Queue("q").SetMaxRate(e.ctx, 1, time.Minute))
	e.do(e.Queue("q").Pause(e.ctx))
	require.Equal(t, "paused max_concurrency workers_busy failed_dependency depends scheduled grace",
		codes(e.why()))
}

func TestAnExplanationIsJSON(t *testing.T) {
	e := newEnv(t)
	e.do(e.Limit("shop").Set(e.ctx, qless.LimitConfig{Concurrency: 1}))
	e.put("q", "j1 j2", qless.Limits{"shop"})
	e.pop("q", 1)
	require.Empty(t, errOf(e.Queue("q").Pop(e.ctx, 1)))
	found := e.why()
	text := must(json.Marshal(found))(e.t)
	require.Contains(t, string(text), `"code":"limit_full"`)
	var again doctor.Explanation
	e.do(json.Unmarshal(text, &again))
	require.Equal(t, codes(found), codes(&again))
}

// Why reads only the first jobs, however many there are.
func TestWhyLooksAtABoundedNumberOfJobs(t *testing.T) {
	e := newEnv(t)
	var specs []qless.JobSpec
	for i := range 400 {
		specs = append(specs, qless.JobSpec{Klass: "K"},
			qless.NewKlass[any]("K").Spec(nil, qless.Delay(time.Hour)),
			qless.NewKlass[any]("K").Spec(nil, qless.DependsOn{"p"}, qless.JID(fmt.Sprint(i))))
	}
	e.put("other", "p")
	e.do(errOf(e.Queue("q").PutMany(e.ctx, specs)))
	e.do(errOf(e.Queue("q").Pop(e.ctx, 200)))
	var found *doctor.Explanation
	commands := e.server.Commands(t, func() { found = e.why() })
	require.Less(t, len(commands), 2000)
	t.Logf("%d commands: %s", len(commands), codes(found))
	require.Equal(t, 400, found.Causes[len(found.Causes)-1].Jobs, "but it counts all")
}

func TestWhyAsksForNoFailureGroupsButThoseOfItsCauses(t *testing.T) {
	e := newEnv(t)
	e.register("free", free)
	e.put("q", "j")
	cost := func(groups int) int {
		for i := range groups {
			e.put("other", fmt.Sprint(groups, "-", i))
			e.do(e.pop("other", 1)[0].Fail(e.ctx, fmt.Sprint("group", i), "why"))
		}
		return len(e.server.Commands(t, func() { e.why() }))
	}
	require.Equal(t, cost(1), cost(50))
}

func TestWhyReturnsTheErrorsOfTheClient(t *testing.T) {
	e := newEnv(t)
	requireCode(t, qless.ErrInvalid, errOf(doctor.Explain(t.Context(), e.Client, "")))
	e.put("q", "j")
	e.do(e.rdb.Set(t.Context(), "ql:workers", "damaged", 0).Err())
	requireCode(t, qless.ErrServer, errOf(doctor.Explain(t.Context(), e.Client, "q")))
}

func TestAJobThatWaitsForOneThatWaitsForOthers(t *testing.T) {
	e := newEnv(t)
	e.put("q", "first")
	e.put("q", "second", qless.DependsOn{"first"})
	e.put("r", "third", qless.DependsOn{"second"})
	require.Contains(t, e.whyOf("r").Causes[0].Sentence,
		`such as second, which waits for others in "q".`)
}
