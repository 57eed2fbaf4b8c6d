package api

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
	"github.com/qless/qless-go/tests/testbed"
)

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

func TestRatesAreAddedByMinute(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
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
	})
}

// Names that look like parts of a field are still just names.
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

func TestRatesThatAreSentAgainCountOnce(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		require.EqualValues(t, 1, e.addRates("a", 1, 0, "q", "K", "1,0,0||"))
		require.EqualValues(t, 0, e.addRates("a", 1, 0, "q", "K", "1,0,0||"))
		require.EqualValues(t, 1, e.addRates("a", 3, 0, "q", "K", "1,0,0||"))
		require.EqualValues(t, 0, e.addRates("a", 2, 0, "q", "K", "1,0,0||"))
		require.EqualValues(t, 1, e.addRates("b", 1, 0, "q", "K", "1,0,0||"), "another worker")
		require.Equal(t, []string{"3 0 0 0/0"}, e.rates(inspect.RateQuery{}, 1))
	})
}

func TestRatesAreKeptForThreeDays(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
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
	})
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

func TestRatesOfSeveralNamespacesAddUp(t *testing.T) {
	e := newEnv(t)
	var clients []*qless.Client
	for i := range 3 {
		clients = append(clients, e.NewClient(e.Redis, qless.ClientConfig{Namespace: fmt.Sprintf("n%d:", i)}))
		shard := &env{&testbed.Env{Client: clients[i], T: t, Redis: e.Redis, Clock: e.Clock}}
		shard.addRates("a", 1, 0, "q", "K", "1,0,0|3:1|4:1", "q", fmt.Sprint("K", i), "0,1,0||")
	}
	var sum inspect.Rates
	for _, client := range clients {
		points := must(inspect.New(client).Rates(t.Context(), inspect.RateQuery{From: noon, To: noon.Add(time.Minute)}))(t)
		require.Len(t, points, 1)
		sum.Add(points[0].Rates)
	}
	require.Equal(t, "3 3 0 3/3", tally(sum))
	require.Equal(t, 3, sum.Wait.Histogram[0].Count)
	require.Len(t, sum.Wait.Histogram, 1)
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
