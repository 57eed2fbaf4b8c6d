package api

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
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

// A waiting is the age of the oldest job of a priority, in minutes.
type waiting struct{ priority, minutes int }

// A latencyOf has steps in the queue q, and the latency after them.
type latencyOf struct {
	do   func()
	want []waiting
}

func latencies(e *env) map[string]latencyOf {
	pass := func() { e.Clock.Advance(time.Minute) }
	put := func(priority int, options ...qless.PutOption) {
		e.Put("q", append(options, qless.Priority(priority))...)
	}
	fair := func() { e.Put("q", qless.Fair("a")) }
	release := func(job *qless.Job) { require.NoError(e.T, job.Release(e.T.Context(), 0)) }
	return map[string]latencyOf{
		"an empty queue": {func() {}, nil},
		"one":            {func() { put(0); pass() }, []waiting{{0, 1}}},
		"several": {func() {
			for _, priority := range []int{0, 7, -3, 1000, 7, 0} {
				put(priority)
				pass()
			}
		}, []waiting{{1000, 3}, {7, 5}, {0, 6}, {-3, 4}}},
		"one that was popped": {func() { put(0); pass(); put(0); e.Pop("q"); pass() }, []waiting{{0, 1}}},
		"one that was released counts from its pop": {func() {
			put(0)
			pass()
			put(0)
			pass()
			job := e.Pop("q")
			pass()
			release(job)
		}, []waiting{{0, 2}}},
		"one with another priority": {func() {
			put(0, qless.JID("j"))
			pass()
			put(5)
			require.NoError(e.T, e.Read("j").SetPriority(e.T.Context(), 5))
		}, []waiting{{5, 1}}},
		"one that was timed out": {func() {
			job := e.start("q", qless.Priority(2))
			put(0)
			pass()
			require.NoError(e.T, repairs.TimeOut(e.T.Context(), e.Client, job.JID))
		}, []waiting{{2, 1}, {0, 1}}},
		"a due job that has not been moved": {
			func() { put(4, qless.Delay(time.Minute)); pass(); pass(); put(0) }, []waiting{{4, 1}, {0, 0}},
		},
		"a recurring one": {func() {
			_, err := e.Queue("q").Recur(e.T.Context(), "K", nil, time.Hour, qless.Priority(3))
			require.NoError(e.T, err)
			pass()
		}, []waiting{{3, 1}}},
		"tenants wait behind the others":  {func() { fair(); pass(); put(0) }, []waiting{{0, 1}}},
		"tenants, below another priority": {func() { fair(); pass(); put(2) }, []waiting{{2, 0}, {0, 1}}},
		"one that was released, below another priority": {func() {
			put(0)
			pass()
			job := e.Pop("q")
			put(2)
			release(job)
			pass()
		}, []waiting{{2, 1}, {0, 1}}},
		"a lost job is not waiting": {func() { e.start("q"); e.Clock.Advance(time.Hour) }, nil},
	}
}

func TestLatencyIsTheAgeOfTheOldestJobOfEachPriority(t *testing.T) {
	for name := range latencies(nil) {
		runOnEach(t, name, func(t *testing.T, e *env) {
			c := latencies(e)[name]
			c.do()
			l, want, oldest := e.latency(), []inspect.PriorityLatency{}, time.Duration(0)
			for _, w := range c.want {
				age := time.Duration(w.minutes) * time.Minute
				want = append(want, inspect.PriorityLatency{Priority: w.priority, Oldest: age})
				oldest = max(oldest, age)
			}
			require.Equal(t, want, l.ByPriority)
			require.Equal(t, oldest, l.Oldest)
			require.False(t, l.More)
			for _, queue := range e.overview(inspect.OverviewQuery{}).Queues {
				require.Equal(t, oldest, queue.Oldest.Round(time.Second), "of an overview")
			}
		})
	}
}

// The methods of statsOnEach are tests on a real server, and on miniredis.
type statsOnEach struct{}

func TestStatsOnEachServer(t *testing.T) { runEach(t, statsOnEach{}) }

func (statsOnEach) LatencyLooksAtSixteenPriorities(t *testing.T, e *env) {
	for n := 1; n <= 17; n++ {
		e.Put("q", qless.Priority(100-n))
		l := e.latency()
		require.Len(t, l.ByPriority, min(n, 16))
		require.Equal(t, n > 16, l.More)
		require.Equal(t, 99, l.ByPriority[0].Priority)
		e.Clock.Advance(time.Second)
		require.Equal(t, e.latency().Oldest, e.overview(inspect.OverviewQuery{}).Queues[0].Oldest.Round(time.Second))
	}
}

func (statsOnEach) LatencyReportsWhenTheNextJobIsDue(t *testing.T, e *env) {
	require.Zero(t, e.latency().NextDue)
	e.Put("q", qless.Delay(time.Hour))
	require.Equal(t, noon.Add(time.Hour), e.latency().NextDue)
	_, err := e.Queue("q").Recur(t.Context(), "K", nil, time.Hour, qless.Offset(time.Minute))
	require.NoError(t, err)
	require.Equal(t, noon.Add(time.Minute), e.latency().NextDue)
	e.Clock.Advance(2 * time.Minute)
	require.Equal(t, noon.Add(time.Minute), e.latency().NextDue, "no worker has asked")
}

// addRates adds to the rates like a worker's script. Each count is a queue, a klass and a value.
func (e *env) addRates(run string, number int, age time.Duration, counts ...string) int64 {
	e.T.Helper()
	args := []any{run, fmt.Sprint(number), fmt.Sprint(age.Seconds())}
	for _, count := range counts {
		args = append(args, count)
	}
	return e.run("rates.add", args...).(int64)
}

// tally returns a short text for a point or a group.
func tally(r inspect.Rates) string {
	return fmt.Sprintf("%d %d %d %d/%d", r.Completed, r.Failed, r.Retried, r.Wait.Count, r.Run.Count)
}

// rates returns the tallies of the last minutes, oldest first.
func (e *env) rates(query inspect.RateQuery, minutes int) []string {
	e.T.Helper()
	query.To = e.Clock.Now().Add(time.Millisecond)
	query.From = query.To.Truncate(time.Minute).Add(-time.Duration(minutes-1) * time.Minute)
	points := must(e.inspect().Rates(e.T.Context(), query))(e.T)
	require.Len(e.T, points, minutes)
	var all []string
	for _, p := range points {
		all = append(all, tally(p.Rates))
	}
	return all
}

const zero = "0 0 0 0/0"

func (statsOnEach) RatesAreAddedByMinute(t *testing.T, e *env) {
	e.Clock.Advance(30 * time.Second)
	require.EqualValues(t, 1, e.addRates("a", 1, 0, "q", "K", "2,0,0|3:1 5:1|7:2", "q", "L", "0,1,0||9:1"))
	require.EqualValues(t, 1, e.addRates("b", 1, 20*time.Second, "q", "K", "1,2,3|5:2|6:1 7:5"))
	require.EqualValues(t, 1, e.addRates("a", 2, 100*time.Second, "p", "K", "4,0,0||"))
	require.Equal(t, []string{"4 0 0 0/0", zero, "3 3 3 4/9"}, e.rates(inspect.RateQuery{}, 3))
	require.Equal(t, "3,2,3|3:1 5:3|7:7 6:1",
		e.Redis.HGet(t.Context(), fmt.Sprint("ql:x:rates:", noon.Unix()), "1:q:K").Val())
	for filter, want := range map[inspect.RateQuery][]string{
		{Queue: "q"}:                 {zero, zero, "3 3 3 4/9"},
		{Queue: "p"}:                 {"4 0 0 0/0", zero, zero},
		{Klass: "K"}:                 {"4 0 0 0/0", zero, "3 2 3 4/8"},
		{Klass: "L"}:                 {zero, zero, "0 1 0 0/1"},
		{Queue: "q", Klass: "L"}:     {zero, zero, "0 1 0 0/1"},
		{Queue: "p", Klass: "L"}:     {zero, zero, zero},
		{Queue: "q:K"}:               {zero, zero, zero},
		{Klass: "q:K"}:               {zero, zero, zero},
		{Queue: "nowhere"}:           {zero, zero, zero},
		{Queue: "q", Klass: "other"}: {zero, zero, zero},
	} {
		require.Equal(t, want, e.rates(filter, 3), "%v", filter)
	}
}

// Names that resemble parts of a field are still just names.
func TestRatesOfOddNames(t *testing.T) {
	e := newEnv(t)
	names := []string{"a", "a:b", ":", "1:a", "é|*%", "12:", "[^%d]", "a b", "0::"}
	var counts []string
	for _, queue := range names {
		for _, klass := range names {
			counts = append(counts, queue, klass, "1,0,0||")
		}
	}
	e.addRates("run", 1, 0, counts...)
	for _, name := range names {
		require.Equal(t, []string{"9 0 0 0/0"}, e.rates(inspect.RateQuery{Queue: name}, 1), name)
		require.Equal(t, []string{"9 0 0 0/0"}, e.rates(inspect.RateQuery{Klass: name}, 1), name)
		for _, klass := range names {
			require.Equal(t, []string{"1 0 0 0/0"}, e.rates(inspect.RateQuery{Queue: name, Klass: klass}, 1))
		}
	}
}

func (statsOnEach) RatesThatAreSentAgainCountOnce(t *testing.T, e *env) {
	require.EqualValues(t, 1, e.addRates("a", 1, 0, "q", "K", "1,0,0||"))
	require.EqualValues(t, 0, e.addRates("a", 1, 0, "q", "K", "1,0,0||"))
	require.EqualValues(t, 1, e.addRates("a", 3, 0, "q", "K", "1,0,0||"))
	require.EqualValues(t, 0, e.addRates("a", 2, 0, "q", "K", "1,0,0||"))
	require.EqualValues(t, 1, e.addRates("b", 1, 0, "q", "K", "1,0,0||"), "another worker")
	require.Equal(t, []string{"3 0 0 0/0"}, e.rates(inspect.RateQuery{}, 1))
}

func (statsOnEach) RatesAreKeptForThreeDays(t *testing.T, e *env) {
	const kept = 3 * 24 * time.Hour
	e.addRates("a", 1, 0, "q", "K", "1,0,0||")
	for key, seconds := range map[string]float64{
		fmt.Sprint("ql:x:rates:", noon.Unix()): kept.Seconds(), "ql:x:rates:sent:a": 1800,
	} {
		require.InDelta(t, seconds, e.Redis.TTL(t.Context(), key).Val().Seconds(), 60, key)
	}
	require.EqualValues(t, 1, e.addRates("a", 2, kept-time.Second, "q", "K", "1,0,0||"))
	require.EqualValues(t, 0, e.addRates("a", 3, kept+time.Second, "q", "K", "1,0,0||"))
	require.Len(t, e.Redis.Keys(t.Context(), "ql:x:rates:1*").Val(), 2)
}

func TestAMinuteHasRatesOfFiveHundredQueuesAndKlasses(t *testing.T) {
	e := newEnv(t)
	some := func(from, to int) (counts []string) {
		for i := from; i < to; i++ {
			counts = append(counts, fmt.Sprint("q", i%10), fmt.Sprint("K", i), "1,1,1|3:1|4:1")
		}
		return counts
	}
	e.addRates("a", 1, 0, some(0, 400)...)
	e.addRates("a", 2, 0, some(300, 700)...)
	e.addRates("a", 3, 0, append(some(0, 1), some(600, 700)...)...)
	key := fmt.Sprint("ql:x:rates:", noon.Unix())
	require.EqualValues(t, 501, e.Redis.HLen(t.Context(), key).Val())
	require.Equal(t, "300,300,300|3:300|4:300", e.Redis.HGet(t.Context(), key, "0::").Val())
	require.Equal(t, []string{"901 901 901 901/901"}, e.rates(inspect.RateQuery{}, 1), "nothing is lost")
	groups := must(e.inspect().RatesByQueue(t.Context(), inspect.RateQuery{From: noon, To: noon.Add(time.Minute)}))(t)
	require.Len(t, groups, 11)
	require.Empty(t, groups[0].Name)
	require.Equal(t, 300, groups[0].Completed)
}

func TestRatesByKlassAndByQueue(t *testing.T) {
	e := newEnv(t)
	e.addRates("a", 1, 0, "q", "K", "2,0,0|3:2|7:2", "q", "L", "0,1,0||9:1", "p", "K", "1,0,0||7:1")
	e.addRates("a", 2, time.Hour, "old", "Old", "1,0,0||")
	from, to := noon.Add(-time.Minute), e.Clock.Now()
	named := func(groups []inspect.RateGroup, err error) map[string]string {
		require.NoError(t, err)
		all := map[string]string{}
		for _, g := range groups {
			all[g.Name] = tally(g.Rates)
		}
		return all
	}
	klasses := func(query inspect.RateQuery) map[string]string {
		query.From, query.To = from, to
		return named(e.inspect().RatesByKlass(t.Context(), query))
	}
	queues := func(query inspect.RateQuery) map[string]string {
		query.From, query.To = from, to
		return named(e.inspect().RatesByQueue(t.Context(), query))
	}
	require.Equal(t, map[string]string{"K": "3 0 0 2/3", "L": "0 1 0 0/1"}, klasses(inspect.RateQuery{}))
	require.Equal(t, map[string]string{"K": "1 0 0 0/1"}, klasses(inspect.RateQuery{Queue: "p"}))
	require.Equal(t, map[string]string{"p": "1 0 0 0/1", "q": "2 1 0 2/3"}, queues(inspect.RateQuery{}))
	require.Equal(t, map[string]string{"q": "0 1 0 0/1"}, queues(inspect.RateQuery{Klass: "L"}))
	require.Empty(t, klasses(inspect.RateQuery{Klass: "M"}))

	both := must(e.inspect().RatesByQueue(t.Context(), inspect.RateQuery{From: from, To: to}))(t)
	both[0].Add(both[1].Rates)
	require.Equal(t, "3 1 0 2/4", tally(both[0].Rates))
	require.Len(t, both[0].Run.Histogram, 2)
}

func TestRatesInSteps(t *testing.T) {
	e := newEnv(t)
	for i := range 300 { // one per minute, for five hours
		e.addRates("a", i+1, time.Duration(i)*time.Minute, "q", "K", "1,0,0||21:1")
	}
	points := must(e.inspect().Rates(t.Context(), inspect.RateQuery{From: noon.Add(-4 * time.Hour), To: noon.Add(time.Second), Step: time.Hour}))(t)
	require.Len(t, points, 5)
	for i, p := range points {
		require.True(t, p.Time.Equal(noon.Add(time.Duration(i-4)*time.Hour)), p.Time)
		require.Equal(t, map[bool]int{true: 60, false: 1}[i < 4], p.Completed)
	}
	p := points[0].Run
	require.Equal(t, 60, p.Count)
	require.Equal(t, []qless.Bucket{{From: 1024 * time.Microsecond, To: 1448155, Count: 60}}, p.Histogram)
	require.InDelta(t, 1236*time.Microsecond, p.P50, float64(time.Microsecond))
	require.Less(t, p.P50, p.P90)
	require.Less(t, p.P90, p.P99)

	var again inspect.RatePoint
	require.NoError(t, json.Unmarshal([]byte(jsonOf(t, points[0])), &again))
	require.JSONEq(t, jsonOf(t, points[0]), jsonOf(t, again))
	require.Equal(t, points[0].Rates, again.Rates)
}

func TestRatesThatCannotBeAskedFor(t *testing.T) {
	e := newEnv(t)
	for _, c := range []struct {
		filter   inspect.RateQuery
		from, to time.Time
		step     time.Duration
		message  string
	}{
		{from: noon, to: noon, step: time.Minute, message: "is not before"},
		{from: noon, to: noon.Add(-time.Hour), step: time.Minute, message: "is not before"},
		{from: noon, to: noon.Add(73 * time.Hour), step: time.Minute, message: "more than 72h0m0s"},
		{to: noon, step: time.Minute, message: "more than 72h0m0s"},
		{from: time.Unix(-90, 0), to: time.Unix(90, 0), step: time.Minute, message: "before 1970"},
		{from: noon, to: noon.Add(time.Hour), step: -time.Minute, message: "not a number of minutes"},
		{from: noon, to: noon.Add(time.Hour), step: 90 * time.Second, message: "not a number of minutes"},
		{from: noon, to: noon.Add(time.Hour), step: 73 * time.Hour, message: "step 73h0m0s is more than"},
		{inspect.RateQuery{Queue: "\xff"}, noon, noon.Add(time.Hour), time.Minute, "the queue"},
		{inspect.RateQuery{Klass: "\xff"}, noon, noon.Add(time.Hour), time.Minute, "the klass"},
	} {
		c.filter.From, c.filter.To, c.filter.Step = c.from, c.to, c.step
		_, err := e.inspect().Rates(t.Context(), c.filter)
		require.Contains(t, requireCode(t, qless.ErrInvalid, err).Message, c.message)
	}
	require.ErrorIs(t, errOf(e.inspect().RatesByKlass(t.Context(), inspect.RateQuery{From: noon, To: noon})), qless.ErrInvalid)
	require.ErrorIs(t, errOf(e.inspect().RatesByQueue(t.Context(), inspect.RateQuery{From: noon, To: noon})), qless.ErrInvalid)
}

func TestDamagedRatesCostOnlyThemselves(t *testing.T) {
	e := newEnv(t)
	e.addRates("a", 1, 0, "q", "K", "1,0,0||", "q", "L", "1,0,0||")
	key := fmt.Sprint("ql:x:rates:", noon.Unix())
	require.NoError(t, e.Redis.HSet(t.Context(), key, "1:q:K", "damaged", "x", "1,0,0||", "3:q:K", "1,0,0||").Err())
	require.NoError(t, e.Redis.RPush(t.Context(), fmt.Sprint("ql:x:rates:", noon.Unix()-60), "x").Err())
	require.Equal(t, []string{zero, "1 0 0 0/0"}, e.rates(inspect.RateQuery{}, 2))
	require.Equal(t, []string{zero, zero}, e.rates(inspect.RateQuery{Queue: "q", Klass: "K"}, 2))
	e.addRates("a", 2, 0, "q", "K", "5,0,0||")
	require.Equal(t, []string{zero, "6 0 0 0/0"}, e.rates(inspect.RateQuery{}, 2))
	e.Unchanged(func() {
		_, err := e.Run(t.Context(), "rates.add", "", "a", "3", "60", "q", "K", "5,0,0||")
		require.ErrorContains(t, err, "WRONGTYPE")
	})
}

func TestCommandsThatRatesCost(t *testing.T) {
	e := newEnv(t)
	var counts []string
	for i := range 500 {
		counts = append(counts, "q", fmt.Sprint("K", i), "1,0,0|3:1|4:1")
	}
	cost := func(run func()) string { return strings.Join(e.Server.Commands(t, run), " ") }
	require.Equal(t, "get hmget hlen set hset expire", cost(func() { e.addRates("a", 1, 0, counts...) }))
	require.Equal(t, "get hmget hlen set hset", cost(func() { e.addRates("a", 2, 0, counts...) }))
	require.Equal(t, "get", cost(func() { e.addRates("a", 2, 0, counts...) }))
	for filter, command := range map[inspect.RateQuery]string{
		{}: "hgetall", {Queue: "q"}: "hgetall", {Klass: "K1"}: "hgetall", {Queue: "q", Klass: "K1"}: "hget",
	} {
		require.Equal(t, strings.Repeat(command+" ", 9)+command, cost(func() { e.rates(filter, 10) }))
	}
}

// This is the server's memory in docs/metrics.md.
func TestMemoryThatRatesTake(t *testing.T) {
	e := newEnv(t)
	const klasses = 100
	var counts []string
	for i := range klasses {
		counts = append(counts, "some-queue", fmt.Sprint("Some::Klass", i),
			"812,3,12|40:12 41:55 42:101 43:222 44:301 45:88 46:33 47:1|33:1 34:207 35:501 36:99 37:7")
	}
	e.addRates("a", 1, 0, counts...)
	used := e.Redis.MemoryUsage(t.Context(), fmt.Sprint("ql:x:rates:", noon.Unix())).Val()
	require.InDelta(t, 200, used/klasses, 60)
}

// record records the figures of this minute.
func (e *env) record() {
	e.T.Helper()
	require.NoError(e.T, e.inspect().RecordHistory(e.T.Context()))
}

// recordFor records the figures of some minutes from now on.
func (e *env) recordFor(minutes int) {
	e.T.Helper()
	for range minutes {
		e.record()
		e.Clock.Advance(time.Minute)
	}
}

// history returns the histories of a query.
func (e *env) history(query inspect.HistoryQuery) []inspect.History {
	e.T.Helper()
	histories := must(e.inspect().History(e.T.Context(), query))(e.T)
	require.Len(e.T, histories, 1+len(query.Queues))
	return histories
}

// last returns the history of a queue in the last minutes or hours.
func (e *env) last(queue string, length time.Duration) inspect.History {
	e.T.Helper()
	from := e.Clock.Now().Add(-length)
	if queue == "" {
		return e.history(inspect.HistoryQuery{From: from})[0]
	}
	return e.history(inspect.HistoryQuery{From: from, Queues: []string{queue}})[1]
}

// present returns the figures of a queue in this minute.
func (e *env) present(queue string) inspect.HistoryPoint {
	e.T.Helper()
	points := e.last(queue, time.Second).Points
	return points[len(points)-1]
}

// figures returns a short text for each point: waiting, oldest, running, workers and failed; or -.
func figures(h inspect.History) string {
	var all []string
	for _, p := range h.Points {
		text := "-"
		if p.Known > 0 {
			text = fmt.Sprintf("%d %v %d %d %d", p.Waiting, p.Oldest, p.Running, p.Workers, p.Failed)
		}
		all = append(all, text)
	}
	return strings.Join(all, ", ")
}

// registerFor registers a worker of some queues, as JSON.
func (e *env) registerFor(worker, queues string) {
	e.T.Helper()
	e.register(worker, 0, fmt.Sprintf(`{"queues":%s,"klasses":["K"],"slots":1}`, queues))
}

func (statsOnEach) FiguresOfQueuesAreRecordedByMinute(t *testing.T, e *env) {
	q := e.Client.Queue("q")
	e.recordFor(1)
	for range 3 {
		require.NoError(t, errOf(q.Put(t.Context(), "K", nil)))
	}
	require.NoError(t, errOf(q.Put(t.Context(), "K", nil, qless.Delay(90*time.Second))))
	require.NoError(t, errOf(q.Pop(t.Context(), 1)))
	e.registerFor("w", `["q"]`)
	e.recordFor(2)
	e.fails("other", "g", "a", "b")
	e.record()
	e.record() // this minute again
	require.Equal(t, "-, 0 0s 0 0 0, 2 0s 1 1 0, 2 1m0s 0 1 0, 3 2m0s 0 1 0", figures(e.last("q", 4*time.Minute)))
	require.Equal(t, "0 0s 0 0 0, 0 0s 0 0 0, 0 0s 0 0 2", figures(e.last("other", 2*time.Minute)))
	all := e.last("", 4*time.Minute)
	require.Equal(t, "-, 0 0s 0 0 0, 2 0s 1 1 0, 2 1m0s 0 1 0, 3 2m0s 0 1 2", figures(all))
	require.Equal(t, 4*time.Minute, all.Known)
	require.Equal(t, 5*time.Minute, all.Period)
	require.Equal(t, 2, all.Failed)
}

// Longer steps have the highest figures of their minutes, and the sum of failures.
func (statsOnEach) AHistoryHasLongerStepsForLongerTimes(t *testing.T, e *env) {
	e.recordFor(2)
	e.Put("q", qless.JID("a"))
	e.Put("q", qless.JID("b"), qless.Delay(time.Hour))
	e.recordFor(1)
	e.Pops("q", 1)
	e.recordFor(1)
	e.fails("q", "g", "c", "d")
	e.recordFor(4)
	e.Put("q", qless.JID("e"))
	require.NoError(t, e.Pop("q").Fail(t.Context(), "g", "m")) // of the job with the expired lock
	e.recordFor(1)
	five := e.last("q", 23*time.Hour)
	require.Equal(t, 5*time.Minute, five.Step)
	require.Equal(t, 23*12+1, len(five.Points))
	five.Points = five.Points[23*12-1:]
	require.Equal(t, "1 0s 1 0 2, 1 0s 0 0 1", figures(five))
	require.Equal(t, 4*time.Minute, five.Points[1].Known)
	require.Equal(t, 3, five.Failed)
	require.Equal(t, 9*time.Minute, five.Known)

	hours := e.last("q", 29*24*time.Hour)
	require.Equal(t, time.Hour, hours.Step)
	require.Equal(t, "1 0s 1 0 3", figures(inspect.History{Points: hours.Points[29*24:]}))
	require.Equal(t, 9*time.Minute, hours.Known)
	require.Equal(t, 29*24*time.Hour+10*time.Minute, hours.Period)
	require.Equal(t, hours.Points[0].Time, noon.Add(-29*24*time.Hour).Local())
}

// Each ring is full after its time, and then takes no more bytes.
func TestAHistoryIsBounded(t *testing.T) {
	e := newEnv(t)
	size := func() int64 { return e.Redis.StrLen(t.Context(), "ql:x:history:q").Val() }
	e.registerFor("w", `["q"]`)
	e.Put("q")
	e.recordFor(1)
	require.EqualValues(t, 20204, size())
	e.recordFor(199)
	e.record()
	require.EqualValues(t, 20204, size())
	require.Less(t, e.Redis.MemoryUsage(t.Context(), "ql:x:history:q").Val(), int64(21000))
	minutes := e.last("q", 179*time.Minute)
	require.Equal(t, 180, len(minutes.Points))
	require.Equal(t, minutes.Period.Truncate(time.Minute), minutes.Known.Truncate(time.Minute))
	require.Equal(t, 21*time.Minute, minutes.Points[0].Oldest)
	require.Equal(t, 200*time.Minute, minutes.Points[179].Oldest)
	require.Equal(t, 5*time.Minute, e.last("q", 180*time.Minute).Step)

	e.Clock.Advance(30*24*time.Hour - 100*time.Minute) // the places of the last records
	e.record()
	require.Equal(t, 1, known(e.last("q", 179*time.Minute)), "older minutes are not those of today")
	require.Equal(t, 1, known(e.last("q", 23*time.Hour)))
	require.Equal(t, 3, known(e.last("q", 30*24*time.Hour)))
	for _, key := range []string{"ql:x:history", "ql:x:history:q"} {
		require.InDelta(t, 31*24*3600, e.Redis.TTL(t.Context(), key).Val().Seconds(), 60, key)
	}
}

// known returns the number of points with known figures.
func known(h inspect.History) (n int) {
	for _, p := range h.Points {
		if p.Known > 0 {
			n++
		}
	}
	return n
}

func TestAHistoryOfAPeriod(t *testing.T) {
	e := newEnv(t)
	for range 60 {
		e.Put("q")
		e.recordFor(1)
	}
	period := e.history(inspect.HistoryQuery{From: noon.Add(10*time.Minute + time.Second), To: noon.Add(12 * time.Minute)})[0]
	require.Equal(t, "11 10m0s 0 0 0, 12 11m0s 0 0 0", figures(period))
	require.Equal(t, 2*time.Minute, period.Known)
	require.Empty(t, e.history(inspect.HistoryQuery{From: noon.Add(2 * time.Hour)})[0].Points, "the future")
	before := e.history(inspect.HistoryQuery{From: noon.Add(-2 * time.Hour), To: noon.Add(-time.Hour)})[0]
	require.Equal(t, 12, len(before.Points))
	require.Zero(t, known(before))
	ages := e.history(inspect.HistoryQuery{From: time.Unix(1, 0)})[0]
	require.Equal(t, 719, len(ages.Points))
	for _, wrong := range []inspect.HistoryQuery{{From: noon, To: noon.Add(-1)}, {Queues: []string{""}}} {
		require.ErrorIs(t, errOf(e.inspect().History(t.Context(), wrong)), qless.ErrInvalid)
	}
}

// Failures of a time without records count for none of the minutes.
func TestAHistoryHasGaps(t *testing.T) {
	e := newEnv(t)
	e.fails("q", "g", "before")
	e.recordFor(1)
	e.fails("q", "g", "a")
	e.Clock.Advance(2 * time.Minute)
	e.fails("q", "g", "b")
	e.recordFor(1)
	e.fails("q", "g", "c")
	e.Clock.Advance(10 * time.Minute)
	e.recordFor(1)
	e.fails("q", "g", "d")
	e.record()
	h := e.last("q", 15*time.Minute)
	require.Equal(t, "0 0s 0 0 0, -, -, 0 0s 0 0 2, -, -, -, -, -, -, -, -, -, -, 0 0s 0 0 0, 0 0s 0 0 1", figures(h))
	require.Equal(t, 3, h.Failed)
	require.Equal(t, "0 0s 0 0 0, 0 0s 0 0 0", figures(e.last("never seen", time.Minute)), "nothing is a figure, too")
}

func TestFailuresAroundMidnightCountOnce(t *testing.T) {
	e := newEnv(t)
	e.Clock.Advance(12*time.Hour - 2*time.Minute)
	e.fails("q", "g", "a")
	e.recordFor(1)
	e.fails("q", "g", "b", "c")
	e.record()
	e.Clock.Advance(50 * time.Second)
	e.fails("q", "g", "d")
	e.Clock.Advance(10 * time.Second)
	e.fails("q", "g", "e", "f", "g")
	e.recordFor(2)
	require.Equal(t, "0 0s 0 0 0, 0 0s 0 0 2, 0 0s 0 0 4, 0 0s 0 0 0", figures(e.last("q", 4*time.Minute)))
}

func (statsOnEach) WorkersOfAHistoryMatchPatterns(t *testing.T, e *env) {
	for _, queue := range []string{"mail", "mail-a", "mail-a.b", "sms", "a-mail", "[m%d"} {
		e.Put(queue)
	}
	e.registerFor("1", `["mail","sms"]`)
	e.registerFor("2", `["mail","sms"]`)
	e.registerFor("3", `["mail*"]`)
	e.registerFor("4", `["*","!mail-*","!sms"]`)
	e.registerFor("5", `["m*a*b","[m%d"]`)
	e.registerFor("6", `["a\u0000*","*mail"]`)
	e.register("paused", 0, `{"queues":["*"],"paused":true}`)
	e.register("stopping", 0, `{"queues":["*"],"stopping":true}`)
	e.register("odd", 0, `{"queues":{"a":1}}`)
	e.register("odder", 0, `{"queues":null}`)
	e.register("oddest", 0, `[1]`)
	e.record()
	for queue, want := range map[string]int{
		"mail": 5, "mail-a": 1, "mail-a.b": 2, "sms": 2, "a-mail": 2, "[m%d": 2,
	} {
		require.Equal(t, want, e.present(queue).Workers, queue)
	}
	require.Equal(t, 11, e.present("").Workers)
	e.Clock.Advance(3 * time.Minute)
	e.record()
	require.Zero(t, e.present("mail").Workers, "they have gone")
}

func TestAThousandQueuesHaveHistories(t *testing.T) {
	e := newEnv(t)
	pipe := e.Redis.Pipeline()
	for i := range 1100 {
		e.Clock.Advance(time.Microsecond)
		queue := fmt.Sprintf("q%04d", i)
		pipe.ZAdd(t.Context(), "ql:queues", redis.Z{Score: float64(i), Member: queue})
		pipe.ZAdd(t.Context(), "ql:q:"+queue+"-work", redis.Z{Member: "j"}, redis.Z{Member: "k"})
	}
	require.NoError(t, errOf(pipe.Exec(t.Context())))
	scripts := e.scriptsOf(e.record)
	require.Len(t, scripts, 10)
	for _, script := range scripts {
		require.LessOrEqual(t, len(script), 30+23*100)
	}
	require.Len(t, e.Redis.Keys(t.Context(), "ql:x:history*").Val(), 1001)
	require.Equal(t, 2000, e.present("").Waiting)
	require.Equal(t, 2, e.present("q0999").Waiting)
	require.Zero(t, e.present("q1000").Waiting)
	var all []string
	for i := range 250 {
		all = append(all, fmt.Sprintf("q%04d", i))
	}
	scripts = e.scriptsOf(func() {
		for i, h := range e.history(inspect.HistoryQuery{Queues: all})[1:] {
			require.Equal(t, all[i], h.Queue)
			require.Equal(t, 2, h.Points[len(h.Points)-1].Waiting)
		}
	})
	require.Len(t, scripts, 3)
}

// An idle queue without workers costs only a look.
func (statsOnEach) AnIdleOrForgottenQueueHasNoHistory(t *testing.T, e *env) {
	require.NoError(t, e.Redis.ZAdd(t.Context(), "ql:queues", redis.Z{Score: 1, Member: "idle"}).Err())
	e.fails("q", "g", "a")
	e.Put("q")
	e.record()
	require.Equal(t, []string{"ql:x:history:q"}, e.Redis.Keys(t.Context(), "ql:x:history:*").Val())
	require.Equal(t, "-, 0 0s 0 0 0", figures(e.last("idle", time.Minute)))
	e.run("queue.forget", "q")
	require.Empty(t, e.Redis.Keys(t.Context(), "ql:x:history:*").Val())
}

// Damaged keys are passed over.
func (statsOnEach) HistoriesOfDamagedKeys(t *testing.T, e *env) {
	for _, queue := range []string{"a", "b", "c", "d"} {
		e.Put(queue)
	}
	ctx := t.Context()
	require.NoError(t, e.Redis.LPush(ctx, "ql:x:history:a", "x").Err())
	require.NoError(t, e.Redis.Set(ctx, "ql:x:history:b", "short", 0).Err())
	require.NoError(t, e.Redis.Del(ctx, "ql:q:c-work").Err())
	require.NoError(t, e.Redis.LPush(ctx, "ql:q:c-work", "x").Err())
	e.record()
	for queue, want := range map[string]int{"a": 0, "b": 1, "c": 0, "d": 1} {
		require.Equal(t, want, e.present(queue).Waiting, queue)
	}
	require.Equal(t, 3, e.present("").Waiting)
}
