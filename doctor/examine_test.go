package doctor_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/doctor"
	"github.com/qless/qless-go/tests/repairs"
	"github.com/qless/qless-go/tests/scripts"
	"github.com/qless/qless-go/tests/tour"
)

func TestANamespaceWithJobsInAllStatesIsWell(t *testing.T) {
	e := newEnvWith(t, nil)
	e.furnish()
	before := e.dump()
	require.Empty(t, e.examine())
	require.Empty(t, changed(before, e.dump()), "it changes nothing")
}

// A timed-out job keeps the field of its grace period.
func TestAJobThatWasTimedOutInItsGracePeriodIsWell(t *testing.T) {
	e := newEnvWith(t, nil)
	e.put("q", "j")
	e.pop("q", 1)
	e.do(e.rdb.HSet(t.Context(), "ql:j:j", "grace", "1").Err())
	e.do(errOf(e.Client.Do(t.Context(), "timeout", "j")))
	e.pop("q", 1)
	require.Equal(t, "1", e.rdb.HGet(t.Context(), "ql:j:j", "grace").Val())
	require.Empty(t, e.examine())
}

// Classic scripts do not record when to delete a job, and that of qless-php keeps a list for each
// queue.
func TestAJobThatAnotherScriptCompletesLeavesNoDamage(t *testing.T) {
	e := newEnvWith(t, nil)
	e.put("q", "j", qless.KeepFor(time.Hour))
	e.do(e.pop("q", 1)[0].Complete(t.Context()))
	e.redis("ZREM x:until j")
	findings := e.examine()
	requireFound(t, "deadline_lacking j:j", findings)
	require.Equal(t, doctor.Leftover, findings[0].Gravity)
	e.redis("ZADD q:q-completed 1 j")
	require.Equal(t, findings, e.examine())
	require.Equal(t, findings, e.fix(findings...))
	require.Empty(t, e.examine())
}

// Leftovers do not count as damage.
func TestANamespaceInWhichEverythingWasUsedIsWell(t *testing.T) {
	e := newEnvWith(t, nil)
	tour.Client(t, e.Client)
	tour.Worker(t, e.Client, e.as("w2"))
	e.furnish()
	for _, f := range e.examine() {
		require.NotEqual(t, doctor.Broken, f.Gravity, "%+v", f)
		t.Log(f)
	}
}

// Classic clients run the drop-in script, send the time, and know no extensions.
func TestJobsOfOtherClientsAreWell(t *testing.T) {
	e := newEnvWith(t, nil)
	now := time.Now()
	run := func(words ...any) any {
		t.Helper()
		line := append([]any{words[0], fmt.Sprintf("%d.%06d", now.Unix(), now.Nanosecond()/1000)}, words[1:]...)
		reply := must(scripts.RunDropIn(t.Context(), e.rdb, line...))(t)
		now = now.Add(time.Millisecond)
		return reply
	}
	for i := range 6 {
		run("put", "py", "q", fmt.Sprint("j", i), "pkg.Job", "{}", 0, "tags", `["a","b"]`, "priority", i)
	}
	run("put", "py", "q", "late", "pkg.Job", "{}", 100)
	run("put", "py", "q", "dep", "pkg.Job", "{}", 0, "depends", `["j0","j1"]`)
	run("recur", "q", "r", "pkg.Job", "{}", "interval", 60, 0)
	run("pop", "q", "py", 4)
	run("complete", "j5", "py", "q", "{}")
	run("fail", "j4", "py", "group", "why")
	run("retry", "j3", "q", "py", 0)
	run("heartbeat", "j2", "py", "{}")
	run("track", "track", "j1")
	run("tag", "add", "j1", "c")
	run("timeout", "j2")
	run("cancel", "j3")
	for _, f := range e.examine() {
		require.Equal(t, doctor.Leftover, f.Gravity, "%+v", f)
	}
}

func TestAnEmptyNamespaceIsWell(t *testing.T) {
	e := newEnvWith(t, nil)
	e.do(e.rdb.Set(t.Context(), "other", "x", 0).Err())
	require.Empty(t, e.examine())
}

// Other namespaces are not examined, even if their prefix is a pattern.
func TestOnlyTheNamespaceIsLookedAt(t *testing.T) {
	e := newEnvWith(t, nil)
	e.furnish()
	for _, key := range []string{"ql:q:q-work", "q*:j:x"} {
		e.do(e.rdb.Del(t.Context(), key).Err())
	}
	options := e.options()
	options.Namespace = "q*:"
	report := e.report(options)
	require.Zero(t, report.Keys)
	for _, f := range report.Findings {
		require.Equal(t, doctor.ReasonNoPersistence, f.Code)
	}
	other := must(qless.New(e.rdb, &qless.ClientConfig{Namespace: "q*:"}))(t)
	e.do(errOf(other.Queue("q").Put(t.Context(), "K", nil)))
	e.do(e.rdb.Del(t.Context(), "q*:q:q-work").Err())
	report = e.report(options)
	broken := report.With(doctor.Broken)
	require.Len(t, broken, 1)
	require.Equal(t, doctor.ReasonLost, broken[0].Code)
}

// Jobs run while everything is examined again and again.
func TestWorkIsNotTakenForDamage(t *testing.T) {
	e := newEnvWith(t, nil)
	const rounds = 300
	done := make(chan error, 1)
	go func() {
		var err error
		for i := 0; err == nil && i < rounds; i++ {
			err = e.busy(t.Context(), i)
		}
		done <- err
	}()
	for exams := 0; ; exams++ {
		for _, f := range e.examine() {
			require.NotEqual(t, doctor.Broken, f.Gravity, "%+v", f)
		}
		select {
		case err := <-done:
			e.do(err)
			require.Positive(t, exams)
			return
		default:
		}
	}
}

// busy puts jobs and ends them in many ways.
func (e *env) busy(ctx context.Context, i int) error {
	queue, jid := e.Queue("q"), fmt.Sprint("job", i)
	_, err := queue.Put(ctx, "K", nil, qless.JID(jid), qless.Tags{"t", fmt.Sprint("t", i%5)}, qless.TTL(time.Hour))
	if err != nil {
		return err
	}
	_, err = queue.Put(ctx, "K", nil, qless.DependsOn{jid})
	if err == nil {
		_, err = queue.Put(ctx, "K", nil, qless.Unique(i%7).Replace())
	}
	if err != nil {
		return err
	}
	jobs, err := queue.Pop(ctx, 2)
	for _, job := range jobs {
		switch {
		case err != nil:
		case i%4 == 0:
			err = job.Fail(ctx, fmt.Sprint("g", i%3), "why")
		case i%4 == 1:
			err = errOf(job.Retry(ctx, 0, "", ""))
		default:
			err = job.Complete(ctx)
		}
	}
	if err == nil && i%20 == 0 {
		_, err = repairs.Unfail(ctx, e.Client, "g0", 100)
	}
	return err
}

func TestProgressIsTold(t *testing.T) {
	e := newEnvWith(t, nil)
	e.furnish()
	var last doctor.Progress
	calls := 0
	options := e.options()
	options.Progress = func(p doctor.Progress) {
		require.GreaterOrEqual(t, p.Keys, last.Keys)
		last, calls = p, calls+1
	}
	report := e.report(options)
	require.Greater(t, calls, 1)
	require.Equal(t, report.Keys, last.Keys)
	require.Equal(t, last.Total, last.Keys)
	require.Equal(t, 12, report.Jobs)
	require.Positive(t, report.Took)
}

func TestAnExamEndsWithItsContext(t *testing.T) {
	e := newEnvWith(t, nil)
	e.furnish()
	ctx, cancel := context.WithCancel(t.Context())
	options := e.options()
	options.Progress = func(doctor.Progress) { cancel() }
	report, err := doctor.Examine(ctx, e.rdb, options)
	require.ErrorIs(t, err, context.Canceled)
	require.Positive(t, report.Keys)
}

func TestNoMoreFindingsAreKeptThanWanted(t *testing.T) {
	e := newEnvWith(t, nil)
	e.put("q", "a b c d")
	e.do(e.rdb.Del(t.Context(), "ql:q:q-work").Err())
	options := e.options()
	options.MaxFindings = 3
	report := e.report(options)
	require.Len(t, report.Findings, 3)
	require.True(t, report.Truncated)
}

func TestAReportIsJSON(t *testing.T) {
	e := newEnvWith(t, nil)
	e.put("q", "a")
	e.do(e.rdb.Del(t.Context(), "ql:q:q-work").Err())
	report := e.report(e.options())
	text := must(json.Marshal(report))(t)
	var again doctor.Report
	e.do(json.Unmarshal(text, &again))
	require.Equal(t, report, &again)
	require.Len(t, e.fix(again.Findings...), 1, "findings that were kept as JSON can be repaired")
}

// A plain job costs few commands, and no command reads many keys.
func TestAnExamIsCheap(t *testing.T) {
	e := newEnvWith(t, nil)
	const jobs = 1000
	var specs []qless.JobSpec
	for range jobs {
		specs = append(specs, qless.JobSpec{Klass: "K"})
	}
	e.do(errOf(e.Queue("q").PutMany(t.Context(), specs)))
	var report *doctor.Report
	commands := e.server.Monitored(t, func() { report = e.report(doctor.Options{Pause: -1}) })
	require.Equal(t, jobs, report.Jobs)
	t.Logf("%.1f commands a job, %d steps", float64(len(commands))/jobs, report.Steps)
	require.Less(t, len(commands), 10*jobs)
	for _, command := range commands {
		require.NotContains(t, []string{"KEYS", "keys", "SMEMBERS", "HGETALL", "hgetall"}, command.Words[0])
	}
	estimate := must(doctor.EstimateExam(t.Context(), e.rdb, doctor.Options{}))(t)
	require.InDelta(t, report.Steps, estimate.Steps, float64(report.Steps))
	require.Positive(t, estimate.Took)
}

// Rates and statistics make many keys, each of which an exam reads.
func TestAnEstimateKnowsOfRatesAndStatistics(t *testing.T) {
	e := newEnvWith(t, nil)
	const minutes, klasses = 1000, 30
	e.put("q", "job")
	for _, other := range []string{"", "other:"} { // other programs also use the database
		t.Run(other, func(t *testing.T) {
			pipe := e.rdb.Pipeline()
			for i := range minutes {
				key := fmt.Sprint(other, "ql:x:rates:", 60*i)
				fields := make([]any, 0, 2*klasses)
				for k := range klasses {
					fields = append(fields, fmt.Sprintf("1:q:K%d", k), "1,2,3|20:1|30:5")
				}
				pipe.HSet(t.Context(), key, fields...)
				pipe.Expire(t.Context(), key, time.Hour)
			}
			e.do(errOf(pipe.Exec(t.Context())))
			report := e.report(doctor.Options{Pause: -1})
			estimate := must(doctor.EstimateExam(t.Context(), e.rdb, doctor.Options{}))(t)
			t.Logf("%d keys, %d steps, of which %d were foreseen", report.Keys, report.Steps, estimate.Steps)
			require.Greater(t, report.Steps, minutes)
			require.Greater(t, estimate.Steps, report.Steps/3)
			require.Less(t, estimate.Steps, report.Steps*3)
		})
	}
}
