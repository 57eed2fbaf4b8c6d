package api

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/testkit/repairs"
)

func TestJobsOfOnePutManyArePoppedInTheirOrderWhateverTheirPriority(t *testing.T) {
	for _, priority := range []int{0, 1, 10, 1000, 100_000, 1 << 30, -1, -16, -1000} {
		t.Run(fmt.Sprint(priority), func(t *testing.T) {
			e := newEnv(t)
			jobs := make([]qless.JobSpec, 500)
			for i := range jobs {
				jobs[i] = qless.JobSpec{Klass: "K", Options: []qless.PutOption{qless.Priority(priority)}}
			}
			put, err := e.Queue("q").PutMany(t.Context(), jobs)
			require.NoError(t, err)
			require.Equal(t, put, jids(e.pops("q", 500)))
		})
	}
}

func TestTheDelayOfAnEarlierPutEndsWithTheNextPut(t *testing.T) {
	e := newEnv(t)
	e.put("p", qless.JID("parent"))
	e.put("q", qless.JID("j"), qless.DependsOn{"parent"}, qless.Delay(24*time.Hour))
	e.put("q", qless.JID("j"), qless.DependsOn{"parent"})
	require.NoError(t, e.pop("p").Complete(t.Context()))
	require.Equal(t, "j", e.pop("q").JID)
}

func TestTheDelayOfAnEarlierPutEndsWithTheNextQueue(t *testing.T) {
	e := newEnv(t)
	e.put("p", qless.JID("parent"), qless.Priority(-1))
	e.put("p", qless.JID("j"), qless.DependsOn{"parent"}, qless.Delay(24*time.Hour))
	require.NoError(t, e.job("j").UndependAll(t.Context()))
	job := e.pop("p")
	require.NoError(t, job.Next(t.Context(), "q", qless.DependsOn{"parent"}))
	require.NoError(t, e.pop("p").Complete(t.Context()))
	require.Equal(t, "j", e.pop("q").JID)
}

func TestADelayThatIsSetAgainCountsAgain(t *testing.T) {
	e := newEnv(t)
	e.put("p", qless.JID("parent"))
	e.put("q", qless.JID("j"), qless.DependsOn{"parent"}, qless.Delay(time.Hour))
	e.put("q", qless.JID("j"), qless.DependsOn{"parent"})
	e.put("q", qless.JID("j"), qless.DependsOn{"parent"}, qless.Delay(time.Minute))
	require.NoError(t, e.pop("p").Complete(t.Context()))
	require.Empty(t, e.pops("q", 1))
	e.clock.Advance(time.Minute)
	require.Equal(t, "j", e.pop("q").JID)
	fields, err := e.rdb.HKeys(t.Context(), "ql:j:j").Result()
	require.NoError(t, err)
	require.NotContains(t, fields, "x:undelayed")
}

// Other clients' scripts do the same: the worker that is timed out was warned, and the next one
// counts as warned.
func TestTheNextHolderOfATimedOutJobHasNoGracePeriod(t *testing.T) {
	for name, between := range map[string]func(job *qless.Job) error{
		"timed out":               func(*qless.Job) error { return nil },
		"timed out, and promoted": func(job *qless.Job) error { return job.SetPriority(t.Context(), 5) },
	} {
		t.Run(name, func(t *testing.T) {
			e := newEnv(t)
			e.put("q", qless.JID("j"))
			job := e.pop("q")
			e.clock.Advance(61 * time.Second)
			require.Empty(t, e.pops("q", 1), "its worker is warned")
			require.NoError(t, repairs.TimeOut(t.Context(), e.Client, "j"))
			require.NoError(t, between(job))
			e.pop("q")
			e.clock.Advance(61 * time.Second)
			require.Equal(t, "j", e.pop("q").JID)
		})
	}
}

func TestAHeartbeatThatIsNoNumberCountsAsNotSet(t *testing.T) {
	for value, want := range map[string]time.Duration{"soon": time.Minute, "0": 0, "-5": -5 * time.Second} {
		e := newEnv(t)
		_, err := e.Run(t.Context(), "config.set", "", "q-heartbeat", value)
		require.NoError(t, err)
		e.put("q", qless.JID("j"))
		job := e.pop("q")
		require.WithinDuration(t, noon.Add(want), job.Expires, time.Second, value)
		until, err := job.Heartbeat(t.Context())
		require.NoError(t, err)
		require.WithinDuration(t, noon.Add(want), until, time.Second, value)
	}
}
