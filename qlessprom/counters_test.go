package qlessprom_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
	"github.com/qless/qless-go/internal/testkit"
	"github.com/qless/qless-go/qlessprom"
)

// A ledger computes the increases of counters like Prometheus.
type ledger struct {
	t        *testing.T
	starts   int                // of the collector
	last     map[string]sample  // by series
	increase map[string]float64 // by metric
}

// A sample is a value, and the start of its collector.
type sample struct {
	value float64
	start int
}

func newLedger(t *testing.T) *ledger {
	return &ledger{t: t, last: map[string]sample{}, increase: map[string]float64{}}
}

// scrape adds the samples of a scrape. No counter may be less than before, even if it was gone
// meanwhile.
func (l *ledger) scrape(c prometheus.Collector) {
	l.t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(c)
	families, err := registry.Gather()
	require.NoError(l.t, err)
	for _, family := range families {
		for _, m := range family.GetMetric() {
			series := fmt.Sprint(family.GetName(), m.GetLabel())
			switch family.GetType() {
			case dto.MetricType_COUNTER:
				l.sample(family.GetName(), series, m.GetCounter().GetValue())
			case dto.MetricType_HISTOGRAM:
				h := m.GetHistogram()
				l.sample(family.GetName()+"_count", series+"_count", float64(h.GetSampleCount()))
				l.sample(family.GetName()+"_sum", series+"_sum", h.GetSampleSum())
				below := 0.0
				for _, bucket := range h.GetBucket() {
					at := fmt.Sprint("_bucket", bucket.GetUpperBound())
					count := float64(bucket.GetCumulativeCount())
					require.GreaterOrEqual(l.t, count, below)
					below = count
					l.sample(family.GetName()+at, series+at, count)
				}
			}
		}
	}
}

func (l *ledger) sample(metric, series string, value float64) {
	last, known := l.last[series]
	switch {
	case known && value >= last.value:
		l.increase[metric] += value - last.value
	case known:
		require.Less(l.t, last.start, l.starts, "%s fell from %g to %g", series, last.value, value)
		l.increase[metric] += value
	}
	l.last[series] = sample{value, l.starts}
}

// happened returns the server's statistics of all queues for two days, with the jobs of less than 5
// s in their histograms.
func (e *env) happened(queue string, days ...time.Time) map[string]float64 {
	sum := map[string]float64{}
	add := func(name string, s qless.Summary) {
		sum[name+"_count"] += float64(s.Count)
		sum[name+"_sum"] += s.Mean.Seconds() * float64(s.Count)
		for _, bucket := range s.Histogram {
			if bucket.To <= 5*time.Second {
				sum[name+"_bucket5"] += float64(bucket.Count)
			}
		}
	}
	for _, day := range days {
		s, err := e.Queue(queue).Stats(e.t.Context(), day)
		require.NoError(e.t, err)
		sum["qless_queue_failures_total"] += float64(s.Failures)
		sum["qless_queue_lost_locks_total"] += float64(s.Retries)
		add("qless_queue_wait_seconds", s.Wait)
		add("qless_queue_run_seconds", s.Run)
	}
	return sum
}

// A shift is a random course of jobs, and of events that make counters fall.
type shift struct {
	*env
	random   *rand.Rand
	options  qlessprom.Options
	c        *qlessprom.Collector
	ledger   *ledger
	happened map[string]float64
	born     int // the first queue since the last restart of the collector
}

func (s *shift) queue() string { return fmt.Sprint("q", s.born+s.random.IntN(8)) }

// work runs a job, and counts the changes.
func (s *shift) work() {
	ctx, queue, began := s.t.Context(), s.queue(), s.clock.Now()
	s.clock.Advance(time.Minute) // the job may be taken over
	days := []time.Time{began}
	if now := s.clock.Now(); now.UTC().Truncate(24*time.Hour) != began.UTC().Truncate(24*time.Hour) {
		days = append(days, now)
	}
	before := s.env.happened(queue, days...)
	s.put(queue)
	jobs, err := s.Queue(queue).Pop(ctx, 3)
	require.NoError(s.t, err)
	for _, job := range jobs {
		switch s.random.IntN(4) {
		case 0: // the lock is lost
		case 1:
			require.NoError(s.t, job.Complete(ctx))
		default:
			require.NoError(s.t, job.Fail(ctx, "g", "m"))
		}
	}
	for name, value := range s.env.happened(queue, days...) {
		s.happened[name] += value - before[name]
	}
}

func (s *shift) step() {
	switch n := s.random.IntN(40); {
	case n < 20:
		s.work()
	case n < 33:
		s.ledger.scrape(s.c)
	case n < 35:
		s.clock.Advance(time.Duration(s.random.IntN(30*60)) * time.Minute)
	case n < 38: // even if it has jobs
		s.ledger.scrape(s.c)
		_, err := s.Do(s.t.Context(), "queue.forget", s.queue())
		require.NoError(s.t, err)
	case n < 39:
		s.settle()
		s.ledger.starts++
		s.c = s.collector(s.options)
		s.born += 8 // a new collector can't know the earlier counts of a forgotten queue
		s.ledger.scrape(s.c)
	default:
		s.settle()
		require.NoError(s.t, s.rdb.FlushAll(s.t.Context()).Err())
		s.born += 8 // nor that the server has lost counts of a forgotten queue
		s.ledger.scrape(s.c)
	}
}

// settle scrapes until everything is read.
func (s *shift) settle() {
	for range s.born/2 + 8 {
		s.ledger.scrape(s.c)
	}
}

func TestIncreasesAreWhatHappened(t *testing.T) {
	for range 3 {
		t.Run("", func(t *testing.T) {
			seed := testkit.Seed(t)
			s := &shift{
				env: newEnv(t), random: rand.New(rand.NewPCG(seed, 1)), happened: map[string]float64{},
				options: qlessprom.Options{MaxQueues: 3, StatsAtOnce: 2, QueuesAtOnce: -1, ProblemsEvery: -1},
				ledger:  newLedger(t),
			}
			s.c = s.collector(s.options)
			s.ledger.scrape(s.c)
			for range 200 {
				s.step()
			}
			s.settle()
			require.NotZero(t, s.happened["qless_queue_lost_locks_total"])
			for name, want := range s.happened {
				assert.InDelta(t, want, s.ledger.increase[name], 0.01+want/1e4, name)
			}
		})
	}
}

// A server that lost its last changes has counted less than before.
func TestAServerWithOlderStatisticsCountsOn(t *testing.T) {
	e, l := newEnv(t), newLedger(t)
	for range 9 {
		e.fail("q", "g")
	}
	c := e.collector(qlessprom.Options{})
	l.scrape(c)
	e.fail("q", "g")
	l.scrape(c)
	keys, err := e.rdb.Keys(t.Context(), "ql:s:stats:*:q").Result()
	require.NoError(t, err)
	require.Len(t, keys, 1)
	require.NoError(t, e.rdb.HIncrBy(t.Context(), keys[0], "failures", -3).Err())
	l.scrape(c)
	e.fail("q", "g")
	l.scrape(c)
	require.Equal(t, 2.0, l.increase["qless_queue_failures_total"])
}

// Problems of the server at midnight lose nothing.
func TestYesterdayIsCountedWhenItCanBeRead(t *testing.T) {
	e, l := newEnv(t), newLedger(t)
	e.put("q")
	c := e.collector(qlessprom.Options{Timeout: testkit.Patience})
	l.scrape(c)
	e.fail("q", "g")
	e.clock.Advance(48 * time.Hour)
	require.NoError(t, e.rdb.ConfigSet(t.Context(), "maxmemory", "1").Err())
	l.scrape(c)
	require.NoError(t, e.rdb.ConfigSet(t.Context(), "maxmemory", "0").Err())
	e.fail("q", "g")
	e.clock.Advance(time.Hour)
	l.scrape(c)
	require.Equal(t, 2.0, l.increase["qless_queue_failures_total"])
}

func TestMissesOfSchedulesThatComeAndGo(t *testing.T) {
	e, l := newEnv(t), newLedger(t)
	ctx := t.Context()
	miss := func(id string, times int64) {
		require.NoError(t, e.rdb.ZAdd(ctx, "ql:x:schedule-ids", redis.Z{Member: id}).Err())
		require.NoError(t, e.rdb.HSet(ctx, "ql:x:schedule:"+id, "spec", "@every 1m").Err())
		require.NoError(t, e.rdb.HIncrBy(ctx, "ql:x:schedule:"+id, "missed", times).Err())
	}
	c := e.collector(qlessprom.Options{MaxSchedules: 1})
	for _, id := range []string{"a", "b", "c"} {
		miss(id, 7)
	}
	l.scrape(c)
	miss("a", 1)
	miss("c", 2)
	l.scrape(c)
	for _, id := range []string{"a", "b"} {
		require.NoError(t, inspect.New(e.Client).ForgetSchedule(ctx, id))
	}
	l.scrape(c)
	miss("b", 4)
	l.scrape(c)
	miss("b", 1)
	l.scrape(c)
	require.Equal(t, 1.0+2+4+1, l.increase["qless_schedule_missed_total"])
}

func TestNamespacesThatComeAndGo(t *testing.T) {
	e, l := newEnv(t), newLedger(t)
	g := e.group(qlessprom.Options{NamespacesEvery: -1, ProblemsEvery: -1})
	l.scrape(g)
	long := strings.Repeat("x", 250)
	var clients []*qless.Client
	for _, name := range []string{"a", long + "1", long + "2"} {
		client, err := qless.New(e.rdb, &qless.ClientConfig{Namespace: "{mail-" + name + "}:ql:"})
		require.NoError(t, err)
		clients = append(clients, client)
	}
	fail := func(c *qless.Client) {
		_, err := c.Queue("q").Put(t.Context(), "K", nil)
		require.NoError(t, err)
		jobs, err := c.Queue("q").Pop(t.Context(), 1)
		require.NoError(t, err)
		require.NoError(t, jobs[0].Fail(t.Context(), "g", "m"))
	}
	until := func(count float64) {
		testkit.Until(t, fmt.Sprint(count, " failures"), func() bool {
			l.scrape(g)
			return l.increase["qless_queue_failures_total"] == count
		})
	}
	for _, c := range clients {
		fail(c)
	}
	until(3)
	for _, c := range clients {
		require.NoError(t, inspect.New(c).ForgetQueue(t.Context(), "q"))
	}
	testkit.Until(t, "no namespaces", func() bool {
		l.scrape(g)
		return strings.Contains(gather(t, g), `qless_namespaces{state="read"} 0`)
	})
	for _, c := range clients {
		fail(c)
	}
	until(6)
}
