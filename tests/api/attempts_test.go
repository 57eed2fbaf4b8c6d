package api

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/tests/repairs"
)

// attemptsOf returns the attempts of a job, without the microseconds by which the clock advances.
func attemptsOf(job *qless.Job) []qless.Attempt {
	for i := range job.Attempts {
		job.Attempts[i].Ran = job.Attempts[i].Ran.Truncate(time.Millisecond)
	}
	return job.Attempts
}

func TestAJobKeepsItsAttempts(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		ctx := t.Context()
		e.Set("grace-period", 0)
		jid := e.Put("q", qless.Retries(3))
		var want []qless.Attempt
		// run pops the job, and ends the run after the attempt's time.
		run := func(a qless.Attempt, end func(job *qless.Job) error) {
			t.Helper()
			job := e.Pop("q")
			require.Empty(t, job.Attempts)
			a.Began, a.Worker, a.Queue = job.PoppedAt, "w1", "q"
			want = append(want, a)
			e.Clock.Advance(a.Ran)
			require.NoError(t, end(job))
			e.Clock.Advance(a.Delay)
		}
		require.Empty(t, e.Read(jid).Attempts)
		run(qless.Attempt{
			What: "retried", Ran: 1500 * time.Millisecond, Delay: 8 * time.Second, Group: "io", Message: "no route",
		}, func(job *qless.Job) error {
			return errOf(job.Retry(ctx, 8*time.Second, "io", "no route\n\nstack"))
		})
		run(qless.Attempt{What: "released", Ran: time.Second, Delay: time.Minute}, func(job *qless.Job) error {
			return job.Release(ctx, time.Minute)
		})
		run(qless.Attempt{What: "timed_out", Ran: 2 * time.Second}, func(*qless.Job) error {
			return repairs.TimeOut(ctx, e.Client, jid)
		})
		run(qless.Attempt{What: "released"}, func(*qless.Job) error {
			return errOf(repairs.End(ctx, e.Client, jid, repairs.Ending{TryAgain: 9}))
		})
		run(qless.Attempt{What: "lost", Ran: time.Minute}, func(*qless.Job) error {
			e.Clock.Advance(time.Hour)
			return nil
		})
		run(qless.Attempt{What: "retried"}, func(job *qless.Job) error {
			return errOf(job.Retry(ctx, 0, "", ""))
		})
		run(qless.Attempt{What: "failed", Ran: time.Second, Group: "io", Message: "boom"}, func(job *qless.Job) error {
			return job.Fail(ctx, "io", "boom")
		})
		read := e.Read(jid)
		require.Equal(t, want, attemptsOf(read))

		require.NoError(t, read.Unfail(ctx))
		job := e.Pop("q")
		require.NoError(t, job.Refresh(ctx))
		require.Equal(t, want, attemptsOf(job))
		require.NoError(t, job.Complete(ctx))
		jobs := must(e.Jobs(ctx, jid))(t)
		require.Equal(t, want, attemptsOf(jobs[0]), "a completing attempt is not listed")

		text := must(json.Marshal(want[0]))(t)
		require.Contains(t, string(text), `"ran":"1.5s","delay":"8s"`)
		var again qless.Attempt
		require.NoError(t, json.Unmarshal(text, &again))
		require.Equal(t, want[0].Ran, again.Ran)
		require.Equal(t, want[0].Delay, again.Delay)
		require.Error(t, json.Unmarshal([]byte(`[]`), &again))
	})
}

func TestAttemptsOfJobsWithoutRetriesLeft(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		e.Set("grace-period", 0)
		for queue, end := range map[string]func(job *qless.Job) error{
			"retried": func(job *qless.Job) error { return errOf(job.Retry(t.Context(), time.Minute, "g", "m")) },
			"lost": func(*qless.Job) error {
				e.Clock.Advance(time.Hour)
				e.Pops("lost", 1)
				return nil
			},
		} {
			jid := e.Put(queue, qless.Retries(0))
			require.NoError(t, end(e.Pop(queue)))
			read := e.Read(jid)
			require.Equal(t, qless.StateFailed, read.State)
			require.Len(t, read.Attempts, 1)
			require.Zero(t, read.Attempts[0].Delay)
		}
	})
}

func TestABackOffAfterALostLock(t *testing.T) {
	e := newEnv(t)
	e.Set("grace-period", 0)
	e.Set("backoff-initial-delay", 30)
	jid := e.Put("q")
	e.Pop("q")
	e.Clock.Advance(time.Hour)
	require.Empty(t, e.Pops("q", 1))
	require.Equal(t, 90*time.Second, e.Read(jid).Attempts[0].Delay, "the factor is 3")
}

func TestAttemptsAreBounded(t *testing.T) {
	e := newEnv(t)
	jid := e.Put("q", qless.Retries(99))
	for i := range 30 {
		message := "\n" + strings.Repeat("ü", i*10+1) + "\r\nnot this"
		require.NoError(t, errOf(e.Pop("q").Retry(t.Context(), 0, "g", message)))
		last := e.Read(jid).Attempts
		require.Equal(t, strings.Repeat("ü", min(i*10+1, 100)), last[len(last)-1].Message)
	}
	read := e.Read(jid)
	require.Len(t, read.Attempts, 25)
	require.Equal(t, strings.Repeat("ü", 51), read.Attempts[0].Message)
	require.NoError(t, errOf(e.Pop("q").Retry(t.Context(), 0, "g", "a"+strings.Repeat("ü", 100))))
	require.Equal(t, "a"+strings.Repeat("ü", 99), e.Read(jid).Attempts[24].Message)

	require.NoError(t, e.Redis.HSet(t.Context(), "ql:j:"+jid, "x:attempts", `{"what":`).Err())
	require.Empty(t, e.Read(jid).Attempts, "damaged attempts count as none")
	require.NoError(t, read.Cancel(t.Context()))
	require.Zero(t, e.Redis.Exists(t.Context(), "ql:j:"+jid).Val())
}

func TestAttemptsCostAPlainJobNothing(t *testing.T) {
	e := newEnv(t)
	jid := e.Put("q")
	require.NoError(t, e.Pop("q").Complete(t.Context()))
	require.NotContains(t, e.Redis.HGetAll(t.Context(), "ql:j:"+jid).Val(), "x:attempts")

	cost := func(jid string) int { return len(e.Server.Commands(t, func() { e.Read(jid) })) }
	plain := cost(jid)
	jid = e.Put("q")
	require.NoError(t, e.Pop("q").Release(t.Context(), 0))
	require.Len(t, e.Read(jid).Attempts, 1)
	require.Equal(t, plain, cost(jid))
}
