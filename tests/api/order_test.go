package api

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/tests/repairs"
)

func TestPutManyJobsArePoppedInOrderAtAnyPriority(t *testing.T) {
	for _, priority := range []int{0, 1, 10, 1000, 100_000, 1 << 30, -1, -16, -1000} {
		t.Run(fmt.Sprint(priority), func(t *testing.T) {
			e := newEnv(t)
			jobs := make([]qless.JobSpec, 500)
			for i := range jobs {
				jobs[i] = qless.JobSpec{Klass: "K", Options: []qless.PutOption{qless.Priority(priority)}}
			}
			put := must(e.Queue("q").PutMany(t.Context(), jobs))(t)
			require.Equal(t, put, jids(e.Pops("q", 500)))
		})
	}
}

func TestTheDelayOfAnEarlierPutEndsWithTheNextPut(t *testing.T) {
	e := newEnv(t)
	e.Put("p", qless.JID("parent"))
	e.Put("q", qless.JID("j"), qless.DependsOn{"parent"}, qless.Delay(24*time.Hour))
	e.Put("q", qless.JID("j"), qless.DependsOn{"parent"})
	require.NoError(t, e.Pop("p").Complete(t.Context()))
	require.Equal(t, "j", e.Pop("q").JID)
}

func TestTheDelayOfAnEarlierPutEndsWithTheNextQueue(t *testing.T) {
	e := newEnv(t)
	e.Put("p", qless.JID("parent"), qless.Priority(-1))
	e.Put("p", qless.JID("j"), qless.DependsOn{"parent"}, qless.Delay(24*time.Hour))
	require.NoError(t, e.Read("j").UndependAll(t.Context()))
	require.NoError(t, e.Pop("p").Next(t.Context(), "q", qless.DependsOn{"parent"}))
	require.NoError(t, e.Pop("p").Complete(t.Context()))
	require.Equal(t, "j", e.Pop("q").JID)
}

func TestADelayThatIsSetAgainCountsAgain(t *testing.T) {
	e := newEnv(t)
	e.Put("p", qless.JID("parent"))
	e.Put("q", qless.JID("j"), qless.DependsOn{"parent"}, qless.Delay(time.Hour))
	e.Put("q", qless.JID("j"), qless.DependsOn{"parent"})
	e.Put("q", qless.JID("j"), qless.DependsOn{"parent"}, qless.Delay(time.Minute))
	require.NoError(t, e.Pop("p").Complete(t.Context()))
	require.Empty(t, e.Pops("q", 1))
	e.Clock.Advance(time.Minute)
	require.Equal(t, "j", e.Pop("q").JID)
	require.NotContains(t, must(e.Redis.HKeys(t.Context(), "ql:j:j").Result())(t), "x:undelayed")
}

// The grace period in which a job is timed out is that of its worker, not of the next one.
func TestTheNextHolderOfATimedOutJobHasAGracePeriod(t *testing.T) {
	for name, between := range map[string]func(job *qless.Job) error{
		"timed out":               func(*qless.Job) error { return nil },
		"timed out, and promoted": func(job *qless.Job) error { return job.SetPriority(t.Context(), 5) },
	} {
		t.Run(name, func(t *testing.T) {
			e := newEnv(t)
			e.Put("q", qless.JID("j"))
			job := e.Pop("q")
			e.Clock.Advance(61 * time.Second)
			require.Empty(t, e.Pops("q", 1), "its worker is warned")
			require.NoError(t, repairs.TimeOut(t.Context(), e.Client, "j"))
			require.NoError(t, between(job))
			e.Pop("q")
			e.Clock.Advance(61 * time.Second)
			require.Empty(t, e.Pops("q", 1), "its worker is warned")
			e.Clock.Advance(10 * time.Second)
			require.Equal(t, "j", e.Pop("q").JID)
		})
	}
}

func TestAHeartbeatThatIsNoNumberCountsAsNotSet(t *testing.T) {
	for value, want := range map[string]time.Duration{"soon": time.Minute, "0": 0, "-5": -5 * time.Second} {
		e := newEnv(t)
		require.NoError(t, errOf(e.Run(t.Context(), "config.set", "", "q-heartbeat", value)))
		e.Put("q", qless.JID("j"))
		job := e.Pop("q")
		require.WithinDuration(t, noon.Add(want), job.Expires, time.Second, value)
		until := must(job.Heartbeat(t.Context()))(t)
		require.WithinDuration(t, noon.Add(want), until, time.Second, value)
	}
}
