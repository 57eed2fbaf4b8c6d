package api

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
	"github.com/qless/qless-go/tests/repairs"
)

// latency reads the latency of the queue q, in whole seconds.
func (e *env) latency() inspect.Latency {
	e.T.Helper()
	var l inspect.Latency
	e.Unchanged(func() { l = must(e.inspect().Latency(e.T.Context(), "q"))(e.T) })
	l.Oldest = l.Oldest.Round(time.Second)
	for i := range l.ByPriority {
		l.ByPriority[i].Oldest = l.ByPriority[i].Oldest.Round(time.Second)
	}
	if !l.NextDue.IsZero() {
		l.NextDue = l.NextDue.Round(time.Second).UTC()
	}
	return l
}

func waits(priority int, oldest time.Duration) inspect.PriorityLatency {
	return inspect.PriorityLatency{Priority: priority, Oldest: oldest}
}

func TestLatencyIsTheAgeOfTheOldestJobOfEachPriority(t *testing.T) {
	const minute = time.Minute
	for name, c := range map[string]struct {
		do   func(e *env)
		want []inspect.PriorityLatency
	}{
		"an empty queue": {func(*env) {}, nil},
		"one":            {func(e *env) { e.Put("q"); e.Clock.Advance(minute) }, []inspect.PriorityLatency{waits(0, minute)}},
		"several": {func(e *env) {
			for _, priority := range []int{0, 7, -3, 1000, 7, 0} {
				e.Put("q", qless.Priority(priority))
				e.Clock.Advance(minute)
			}
		}, []inspect.PriorityLatency{waits(1000, 3*minute), waits(7, 5*minute), waits(0, 6*minute), waits(-3, 4*minute)}},
		"one that was popped": {func(e *env) {
			e.Put("q")
			e.Clock.Advance(minute)
			e.Put("q")
			e.Pop("q")
			e.Clock.Advance(minute)
		}, []inspect.PriorityLatency{waits(0, minute)}},
		"one that was released counts from its pop": {func(e *env) {
			e.Put("q")
			e.Clock.Advance(minute)
			e.Put("q")
			e.Clock.Advance(minute)
			job := e.Pop("q")
			e.Clock.Advance(minute)
			require.NoError(e.T, job.Release(e.T.Context(), 0))
		}, []inspect.PriorityLatency{waits(0, 2*minute)}},
		"one with another priority": {func(e *env) {
			e.Put("q", qless.JID("j"))
			e.Clock.Advance(minute)
			e.Put("q", qless.Priority(5))
			require.NoError(e.T, e.Read("j").SetPriority(e.T.Context(), 5))
		}, []inspect.PriorityLatency{waits(5, minute)}},
		"one that was timed out": {func(e *env) {
			e.Put("q", qless.Priority(2))
			job := e.Pop("q")
			e.Put("q")
			e.Clock.Advance(minute)
			require.NoError(e.T, repairs.TimeOut(e.T.Context(), e.Client, job.JID))
		}, []inspect.PriorityLatency{waits(2, minute), waits(0, minute)}},
		"a due job that has not been moved": {func(e *env) {
			e.Put("q", qless.Delay(minute), qless.Priority(4))
			e.Clock.Advance(2 * minute)
			e.Put("q")
		}, []inspect.PriorityLatency{waits(4, minute), waits(0, 0)}},
		"a recurring one": {func(e *env) {
			require.NoError(e.T, errOf(e.Queue("q").Recur(e.T.Context(), "K", nil, time.Hour, qless.JID("r"), qless.Priority(3))))
			e.Clock.Advance(minute)
		}, []inspect.PriorityLatency{waits(3, minute)}},
		"those that take turns wait behind the others": {func(e *env) {
			e.Put("q", qless.Fair("a"))
			e.Clock.Advance(minute)
			e.Put("q")
		}, []inspect.PriorityLatency{waits(0, minute)}},
		"a lost job is not waiting": {func(e *env) {
			e.Put("q")
			e.Pop("q")
			e.Clock.Advance(time.Hour)
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(t *testing.T, e *env) {
				c.do(e)
				l := e.latency()
				if c.want == nil {
					c.want = []inspect.PriorityLatency{}
				}
				require.Equal(t, c.want, l.ByPriority)
				var oldest time.Duration
				for _, one := range c.want {
					oldest = max(oldest, one.Oldest)
				}
				require.Equal(t, oldest, l.Oldest)
				require.False(t, l.More)
			})
		})
	}
}

func TestLatencyLooksAtSixteenPriorities(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		for n := 1; n <= 17; n++ {
			e.Put("q", qless.Priority(100-n))
			l := e.latency()
			require.Len(t, l.ByPriority, min(n, 16))
			require.Equal(t, n > 16, l.More)
			require.Equal(t, 99, l.ByPriority[0].Priority)
		}
	})
}

func TestLatencyReportsWhenTheNextJobIsDue(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		require.Zero(t, e.latency().NextDue)
		e.Put("q", qless.Delay(time.Hour))
		require.Equal(t, noon.Add(time.Hour), e.latency().NextDue)
		_, err := e.Queue("q").Recur(t.Context(), "K", nil, time.Hour, qless.Offset(time.Minute))
		require.NoError(t, err)
		require.Equal(t, noon.Add(time.Minute), e.latency().NextDue)
		e.Clock.Advance(2 * time.Minute)
		require.Equal(t, noon.Add(time.Minute), e.latency().NextDue, "no worker has asked")
	})
}

func TestLatencyOfAQueueWithoutAName(t *testing.T) {
	requireCode(t, qless.ErrInvalid, errOf(inspect.New(newEnv(t).Client).Latency(t.Context(), "")))
}
