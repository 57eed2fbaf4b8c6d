package api

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
	"github.com/qless/qless-go/tests/repairs"
)

const day = 24 * time.Hour

func (e *env) stats(queue string, at time.Time) qless.Stats {
	e.T.Helper()
	return must(e.Queue(queue).Stats(e.T.Context(), at))(e.T)
}

// work puts a job, and lets it wait and run for given times.
func (e *env) work(queue string, waits, runs time.Duration) {
	e.T.Helper()
	e.Put(queue)
	e.Clock.Advance(waits)
	job := e.Pop(queue)
	e.Clock.Advance(runs)
	require.NoError(e.T, job.Complete(e.T.Context()))
}

func TestStatsOfADay(t *testing.T) {
	e := newEnv(t)
	require.Equal(t, qless.Stats{}, e.stats("q", noon))
	e.work("q", 2*time.Second, 10*time.Second)
	e.work("q", 4*time.Second, 30*time.Second)
	e.work("q", 6*time.Second, 20*time.Second)
	e.work("other", time.Second, time.Second)

	stats := e.stats("q", noon)
	require.Equal(t, 3, stats.Wait.Count)
	require.InDelta(t, 4, stats.Wait.Mean.Seconds(), 1e-4)
	require.InDelta(t, 2, stats.Wait.Std.Seconds(), 1e-4)
	require.Equal(t, 3, stats.Run.Count)
	require.InDelta(t, 20, stats.Run.Mean.Seconds(), 1e-4)
	require.InDelta(t, 10, stats.Run.Std.Seconds(), 1e-4)
	require.Equal(t, []qless.Bucket{
		{From: 10 * time.Second, To: 11 * time.Second, Count: 1},
		{From: 20 * time.Second, To: 21 * time.Second, Count: 1},
		{From: 30 * time.Second, To: 31 * time.Second, Count: 1},
	}, stats.Run.Histogram)

	start, end := noon.Truncate(day), noon.Truncate(day).Add(day-time.Second)
	require.Equal(t, stats, e.stats("q", start), "any time of the day will do")
	require.Equal(t, stats, e.stats("q", end))
	require.Equal(t, qless.Stats{}, e.stats("q", end.Add(time.Second)))
	require.Equal(t, qless.Stats{}, e.stats("q", start.Add(-time.Second)))
}

func TestBatchesHaveTheStatisticsOfSingleJobs(t *testing.T) {
	e := newEnv(t)
	waits := []time.Duration{7 * time.Second, 5 * time.Second, 2 * time.Second, time.Second}
	for i, wait := range waits {
		e.Put("q")
		if i+1 < len(waits) {
			e.Clock.Advance(wait - waits[i+1])
		} else {
			e.Clock.Advance(wait)
		}
	}
	require.Len(t, e.Pops("q", 10), 4)
	wait := e.stats("q", noon).Wait
	require.Equal(t, 4, wait.Count)
	require.InDelta(t, 3.75, wait.Mean.Seconds(), 1e-4)
	require.InDelta(t, math.Sqrt((3.25*3.25+1.25*1.25+1.75*1.75+2.75*2.75)/3), wait.Std.Seconds(), 1e-4)
	require.Len(t, wait.Histogram, 4)
}

func TestHistogramBuckets(t *testing.T) {
	e := newEnv(t)
	e.Set("heartbeat", 30*day)
	for _, c := range []struct{ waits, from, to time.Duration }{
		{0, 0, time.Second},
		{59*time.Second + 900*time.Millisecond, 59 * time.Second, time.Minute},
		{60 * time.Second, time.Minute, 2 * time.Minute},
		{59*time.Minute + 59*time.Second, 59 * time.Minute, time.Hour},
		{time.Hour, time.Hour, 2 * time.Hour},
		{24*time.Hour - time.Second, 23 * time.Hour, day},
		{day, day, 2 * day},
		{6*day + 23*time.Hour, 6 * day, 7 * day},
	} {
		queue := c.waits.String()
		e.Put(queue)
		e.Clock.Advance(c.waits)
		e.Pop(queue)
		stats := e.stats(queue, e.Clock.Now())
		require.Equal(t, []qless.Bucket{{From: c.from, To: c.to, Count: 1}}, stats.Wait.Histogram, queue)
	}
}

func TestStatisticsExpire(t *testing.T) {
	e := newEnv(t)
	e.Set("stats-history", 3)
	e.work("q", 0, 0)
	require.NoError(t, e.start("q").Fail(t.Context(), "g", "m"))
	keys := must(e.Redis.Keys(t.Context(), "ql:s:*").Result())(t)
	require.Len(t, keys, 3)
	for _, key := range keys {
		ttl := e.Redis.TTL(t.Context(), key).Val()
		require.InDelta(t, (3*day + day/2).Hours(), ttl.Hours(), 0.1, key)
	}
}

func TestHistogramsEndBeforeTheirSummaries(t *testing.T) {
	e := newEnv(t)
	e.Set("histogram-history", 2)
	e.work("q", time.Second, time.Second)
	e.Clock.Advance(2 * day)
	e.work("q", time.Second, time.Second)
	require.Len(t, e.stats("q", noon).Wait.Histogram, 1)
	e.Clock.Advance(day)
	e.work("q", time.Second, time.Second)
	old := e.stats("q", noon).Wait
	require.Empty(t, old.Histogram)
	require.Equal(t, 1, old.Count)
	require.Len(t, e.stats("q", noon.Add(2*day)).Wait.Histogram, 1)
}

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
			job := e.start("q", qless.Priority(2))
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
		"tenants wait behind the others": {func(e *env) {
			e.Put("q", qless.Fair("a"))
			e.Clock.Advance(minute)
			e.Put("q")
		}, []inspect.PriorityLatency{waits(0, minute)}},
		"tenants, below another priority": {func(e *env) {
			e.Put("q", qless.Fair("a"))
			e.Clock.Advance(minute)
			e.Put("q", qless.Priority(2))
		}, []inspect.PriorityLatency{waits(2, 0), waits(0, minute)}},
		"one that was released, below another priority": {func(e *env) {
			e.Put("q")
			e.Clock.Advance(minute)
			job := e.Pop("q")
			e.Put("q", qless.Priority(2))
			require.NoError(e.T, job.Release(e.T.Context(), 0))
			e.Clock.Advance(minute)
		}, []inspect.PriorityLatency{waits(2, minute), waits(0, minute)}},
		"a lost job is not waiting": {func(e *env) {
			e.start("q")
			e.Clock.Advance(time.Hour)
		}, nil},
	} {
		runOnEach(t, name, func(t *testing.T, e *env) {
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
			for _, queue := range e.overview(inspect.OverviewQuery{}).Queues {
				require.Equal(t, oldest, queue.Oldest.Round(time.Second), "of an overview")
			}
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
			e.Clock.Advance(time.Second)
			require.Equal(t, e.latency().Oldest, e.overview(inspect.OverviewQuery{}).Queues[0].Oldest.Round(time.Second))
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
