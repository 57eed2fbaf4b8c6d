package api

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
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
	e.put("q", qless.JID("j"), qless.DependsOn("parent"), qless.Delay(24*time.Hour))
	e.put("q", qless.JID("j"), qless.DependsOn("parent"))
	require.NoError(t, e.pop("p").Complete(t.Context()))
	require.Equal(t, "j", e.pop("q").JID)
}

func TestTheDelayOfAnEarlierPutEndsWithTheNextQueue(t *testing.T) {
	e := newEnv(t)
	e.put("p", qless.JID("parent"), qless.Priority(-1))
	e.put("p", qless.JID("j"), qless.DependsOn("parent"), qless.Delay(24*time.Hour))
	require.NoError(t, e.job("j").UndependAll(t.Context()))
	job := e.pop("p")
	require.NoError(t, job.Next(t.Context(), "q", qless.DependsOn("parent")))
	require.NoError(t, e.pop("p").Complete(t.Context()))
	require.Equal(t, "j", e.pop("q").JID)
}

func TestADelayThatIsSetAgainCountsAgain(t *testing.T) {
	e := newEnv(t)
	e.put("p", qless.JID("parent"))
	e.put("q", qless.JID("j"), qless.DependsOn("parent"), qless.Delay(time.Hour))
	e.put("q", qless.JID("j"), qless.DependsOn("parent"))
	e.put("q", qless.JID("j"), qless.DependsOn("parent"), qless.Delay(time.Minute))
	require.NoError(t, e.pop("p").Complete(t.Context()))
	require.Empty(t, e.pops("q", 1))
	e.clock.Advance(time.Minute)
	require.Equal(t, "j", e.pop("q").JID)
	fields, err := e.rdb.HKeys(t.Context(), "ql:j:j").Result()
	require.NoError(t, err)
	require.NotContains(t, fields, "x:undelayed")
}

func TestTheNextHolderHasAGracePeriodOfItsOwn(t *testing.T) {
	e := newEnv(t)
	e.set(qless.ConfigGracePeriod, 10)
	e.put("q", qless.JID("j"))
	e.pop("q")
	e.clock.Advance(61 * time.Second)
	require.Empty(t, e.pops("q", 1), "its worker is warned")
	require.NoError(t, e.Timeout(t.Context(), "j"))
	e.pop("q")
	e.clock.Advance(61 * time.Second)
	require.Empty(t, e.pops("q", 1), "the next one is warned, too")
	e.clock.Advance(10 * time.Second)
	require.Equal(t, "j", e.pop("q").JID)
}

func TestTheNextHolderHasAGracePeriodAfterAChangeOfPriority(t *testing.T) {
	e := newEnv(t)
	e.put("q", qless.JID("j"))
	job := e.pop("q")
	e.clock.Advance(61 * time.Second)
	require.Empty(t, e.pops("q", 1), "its worker is warned")
	require.NoError(t, e.Timeout(t.Context(), "j"))
	require.NoError(t, job.SetPriority(t.Context(), 5))
	e.pop("q")
	e.clock.Advance(61 * time.Second)
	require.Empty(t, e.pops("q", 1), "the next one is warned, too")
}

func TestAHeartbeatOfNothingCountsAsNotSet(t *testing.T) {
	for _, value := range []string{"0", "-5", "soon"} {
		e := newEnv(t)
		_, err := e.Run(t.Context(), "config.set", "", "q-heartbeat", value)
		require.NoError(t, err)
		e.put("q", qless.JID("j"))
		job := e.pop("q")
		require.WithinDuration(t, noon.Add(time.Minute), job.Expires, time.Second, value)
		require.NoError(t, errOf(job.Heartbeat(t.Context())))
		require.WithinDuration(t, noon.Add(time.Minute), job.Expires, time.Second, value)
	}
}
