package qlessprom_test

import (
	"context"
	"fmt"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/doctor"
	"github.com/qless/qless-go/inspect"
	"github.com/qless/qless-go/internal/testkit"
	"github.com/qless/qless-go/qlessprom"
)

func TestMain(m *testing.M) {
	testkit.Main(m)
}

// An env is a server with a client, and a clock advanced only by the test.
type env struct {
	*qless.Client
	t      testing.TB
	server *testkit.Server
	rdb    *redis.Client
	clock  *testkit.Clock
}

func newEnv(t testing.TB) *env {
	t.Helper()
	e := &env{t: t, server: testkit.Start(t), clock: testkit.NewClock()}
	e.rdb = e.server.Client(t)
	e.Client = e.client(qless.ClientConfig{})
	return e
}

func (e *env) client(config qless.ClientConfig) *qless.Client {
	e.t.Helper()
	config.Clock, config.Logger, config.WorkerName = e.clock.Now, testkit.Quiet(), "w1"
	client, err := qless.New(e.rdb, &config)
	require.NoError(e.t, err)
	return client
}

func (e *env) put(queue string, options ...qless.PutOption) {
	e.t.Helper()
	_, err := e.Queue(queue).Put(e.t.Context(), "K", nil, options...)
	require.NoError(e.t, err)
}

func (e *env) pop(queue string) *qless.Job {
	e.t.Helper()
	jobs, err := e.Queue(queue).Pop(e.t.Context(), 1)
	require.NoError(e.t, err)
	require.Len(e.t, jobs, 1)
	return jobs[0]
}

func (e *env) fail(queue, group string) {
	e.t.Helper()
	e.put(queue)
	require.NoError(e.t, e.pop(queue).Fail(e.t.Context(), group, "message"))
}

// collector returns a collector that reads at each scrape.
func (e *env) collector(options qlessprom.Options) *qlessprom.Collector {
	options.MaxAge = -1
	return qlessprom.NewCollector(e.Client, options)
}

// furnish puts jobs of all states into two queues.
func (e *env) furnish() {
	e.t.Helper()
	ctx := e.t.Context()
	mail := e.Queue("mail")
	require.NoError(e.t, mail.SetMaxConcurrency(ctx, 7))
	require.NoError(e.t, e.Limit("api").Set(ctx, qless.LimitConfig{Concurrency: 2}))
	require.NoError(e.t, e.Limit("rate").Set(ctx, qless.LimitConfig{Rate: 5, Per: time.Hour}))
	e.put("mail")
	e.clock.Advance(3500 * time.Millisecond)
	job := e.pop("mail")
	e.clock.Advance(90 * time.Second)
	require.NoError(e.t, job.Complete(ctx))
	e.fail("mail", "SMTPError")
	e.fail("mail", "SMTPError")
	e.fail("mail", "Timeout")
	e.put("mail")
	e.pop("mail")
	e.clock.Advance(2 * time.Minute)
	e.put("mail", qless.JID("parent"), qless.Limits{"api"})
	e.pop("mail")
	e.put("mail")
	e.put("mail", qless.Delay(time.Hour))
	e.put("mail", qless.DependsOn{"parent"})
	_, err := mail.Recur(ctx, "K", nil, time.Hour, qless.Offset(time.Hour))
	require.NoError(e.t, err)
	require.NoError(e.t, e.Queue("reports").Pause(ctx))
	e.put("reports")
	e.clock.Advance(time.Minute)
}

const golden = `
# HELP qless_failed_jobs Number of failed jobs by failure group.
# TYPE qless_failed_jobs gauge
qless_failed_jobs{group="SMTPError"} 2
qless_failed_jobs{group="Timeout"} 1
# HELP qless_limit_parked Number of jobs that wait for a limit.
# TYPE qless_limit_parked gauge
qless_limit_parked{limit="api"} 0
qless_limit_parked{limit="rate"} 0
# HELP qless_limit_size Number of slots of a limit's concurrency.
# TYPE qless_limit_size gauge
qless_limit_size{limit="api"} 2
# HELP qless_limit_used Number of slots of a limit's concurrency in use.
# TYPE qless_limit_used gauge
qless_limit_used{limit="api"} 1
# HELP qless_queue_failures_total Number of jobs that failed.
# TYPE qless_queue_failures_total counter
qless_queue_failures_total{queue="mail"} 3
qless_queue_failures_total{queue="reports"} 0
# HELP qless_queue_jobs Number of jobs in a queue by state. Jobs that have fallen due are waiting.
# TYPE qless_queue_jobs gauge
qless_queue_jobs{queue="mail",state="depends"} 1
qless_queue_jobs{queue="mail",state="recurring"} 1
qless_queue_jobs{queue="mail",state="running"} 0
qless_queue_jobs{queue="mail",state="scheduled"} 1
qless_queue_jobs{queue="mail",state="stalled"} 2
qless_queue_jobs{queue="mail",state="waiting"} 1
qless_queue_jobs{queue="reports",state="depends"} 0
qless_queue_jobs{queue="reports",state="recurring"} 0
qless_queue_jobs{queue="reports",state="running"} 0
qless_queue_jobs{queue="reports",state="scheduled"} 0
qless_queue_jobs{queue="reports",state="stalled"} 0
qless_queue_jobs{queue="reports",state="waiting"} 1
# HELP qless_queue_lost_locks_total Number of locks that workers lost.
# TYPE qless_queue_lost_locks_total counter
qless_queue_lost_locks_total{queue="mail"} 1
qless_queue_lost_locks_total{queue="reports"} 0
# HELP qless_queue_max_concurrency Maximum number of jobs of the queue that run at once, if limited.
# TYPE qless_queue_max_concurrency gauge
qless_queue_max_concurrency{queue="mail"} 7
# HELP qless_queue_paused Whether the queue is paused.
# TYPE qless_queue_paused gauge
qless_queue_paused{queue="mail"} 0
qless_queue_paused{queue="reports"} 1
# HELP qless_queue_run_seconds Run time of the jobs that were completed.
# TYPE qless_queue_run_seconds histogram
qless_queue_run_seconds_bucket{queue="mail",le="1"} 0
qless_queue_run_seconds_bucket{queue="mail",le="2"} 0
qless_queue_run_seconds_bucket{queue="mail",le="5"} 0
qless_queue_run_seconds_bucket{queue="mail",le="10"} 0
qless_queue_run_seconds_bucket{queue="mail",le="30"} 0
qless_queue_run_seconds_bucket{queue="mail",le="60"} 0
qless_queue_run_seconds_bucket{queue="mail",le="120"} 1
qless_queue_run_seconds_bucket{queue="mail",le="300"} 1
qless_queue_run_seconds_bucket{queue="mail",le="600"} 1
qless_queue_run_seconds_bucket{queue="mail",le="1800"} 1
qless_queue_run_seconds_bucket{queue="mail",le="3600"} 1
qless_queue_run_seconds_bucket{queue="mail",le="10800"} 1
qless_queue_run_seconds_bucket{queue="mail",le="43200"} 1
qless_queue_run_seconds_bucket{queue="mail",le="86400"} 1
qless_queue_run_seconds_bucket{queue="mail",le="+Inf"} 1
`

func TestAScrapeHasTheFiguresOfTheServer(t *testing.T) {
	e := newEnv(t)
	c := e.collector(qlessprom.Options{ProblemsEvery: -1})
	gather(t, c)
	e.furnish()
	gather(t, c) // the counters of new queues begin at 0
	text := gather(t, c)
	for line := range strings.Lines(strings.TrimSpace(golden) + "\n") {
		require.Contains(t, text, line)
	}
	require.Regexp(t, `qless_queue_run_seconds_sum\{queue="mail"\} 90\.0000`, text)
	require.Contains(t, text, `qless_queue_run_seconds_count{queue="mail"} 1`)
	require.Contains(t, text, `qless_queue_wait_seconds_bucket{queue="mail",le="2"} 5`)
	require.Contains(t, text, `qless_queue_wait_seconds_bucket{queue="mail",le="5"} 6`)
	require.Contains(t, text, `qless_queue_wait_seconds_count{queue="mail"} 6`)
	require.Regexp(t, `qless_queue_oldest_waiting_seconds\{queue="mail"\} 60(\.0\d*)?\n`, text)
	require.Contains(t, text, "qless_workers 1\n")
	require.Contains(t, text, `qless_worker_held_jobs{state="running"} 0`)
	require.Contains(t, text, `qless_worker_held_jobs{state="stalled"} 2`)
	require.Contains(t, text, "qless_scrape_errors_total 0\n")
}

func TestMetricsAreNamedAsPrometheusAdvises(t *testing.T) {
	e := newEnv(t)
	e.furnish()
	for _, c := range []prometheus.Collector{
		e.collector(qlessprom.Options{}), observedClient(e), observedWorker(e),
	} {
		problems, err := testutil.CollectAndLint(c)
		require.NoError(t, err)
		require.Empty(t, problems)
	}
}

// gather returns the metrics of a registry of collectors as text.
func gather(t testing.TB, collectors ...prometheus.Collector) string {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(collectors...)
	return textOf(t, registry)
}

func TestLabelsAreBounded(t *testing.T) {
	e := newEnv(t)
	c := e.collector(qlessprom.Options{MaxQueues: 2, MaxGroups: 2, MaxLimits: 2})
	gather(t, c)
	for i := range 5 {
		name := fmt.Sprint("q", i)
		for range i + 1 {
			e.fail(name, "group "+name)
		}
		e.put(name)
		require.NoError(t, e.Limit(fmt.Sprint("l", i)).Set(t.Context(), qless.LimitConfig{Concurrency: 2}))
		e.clock.Advance(time.Second)
	}
	gather(t, c)
	text := gather(t, c)
	for _, line := range []string{
		`qless_queue_jobs{queue="q0",state="waiting"} 1`,
		`qless_queue_jobs{queue="other",state="waiting"} 3`,
		`qless_queue_failures_total{queue="q1"} 2`,
		`qless_queue_failures_total{queue="other"} 12`,
		`qless_queue_wait_seconds_count{queue="other"} 12`,
		`qless_failed_jobs{group="group q4"} 5`,
		`qless_failed_jobs{group="other"} 6`,
		`qless_limit_size{limit="l1"} 2`,
		`qless_limit_size{limit="other"} 6`,
		`qless_worker_held_jobs{state="running"} 0`,
	} {
		require.Contains(t, text, line+"\n")
	}
	require.Regexp(t, `qless_queue_oldest_waiting_seconds\{queue="other"\} 3(\.0\d*)?\n`, text)
	require.NotContains(t, text, `queue="q2"`)
	require.NotContains(t, text, `limit="l2"`)
	require.NotContains(t, text, `group="group q0"`)
}

func TestMinusOneMeansNone(t *testing.T) {
	e := newEnv(t)
	e.fail("q", "g")
	require.NoError(t, e.Limit("l").Set(t.Context(), qless.LimitConfig{Concurrency: 2}))
	none := qlessprom.Options{
		MaxAge: -1, MaxGroups: -1, MaxLimits: -1, MaxNamespaces: -1, MaxQueues: -1, MaxSchedules: -1,
		NamespacesEvery: -1, ProblemsEvery: -1, QueuesAtOnce: -1, StatsAtOnce: -1, Timeout: -1,
	}
	c := qlessprom.NewCollector(e.Client, none)
	gather(t, c)
	text := gather(t, c)
	require.Contains(t, text, `qless_failed_jobs{group="other"} 1`)
	require.Contains(t, text, `qless_limit_size{limit="other"}`)
	require.NotContains(t, text, `queue="q"`)
	require.NotContains(t, text, "qless_problem{")

	e.shards(1)
	text = gather(t, qlessprom.NewGroup(e.rdb, "{mail-*}:ql:", none))
	require.Contains(t, text, `qless_namespaces{state="left_out"} 1`)
}

func TestNamesThatAreNoLabels(t *testing.T) {
	e := newEnv(t)
	e.fail("q", "other")
	for _, group := range []string{"bad \xff", "bad \xfe"} { // as written by some other clients
		require.NoError(t, e.rdb.SAdd(t.Context(), "ql:failures", group).Err())
		require.NoError(t, e.rdb.RPush(t.Context(), "ql:f:"+group, "jid").Err())
	}
	e.fail("q", strings.Repeat("long", 100))
	text := gather(t, e.collector(qlessprom.Options{MaxGroups: 4}))
	require.Contains(t, text, "qless_failed_jobs{group=\"bad \uFFFD\"} 2\n")
	require.Contains(t, text, `{group="`+strings.Repeat("long", 50)+`"} 1`)
	require.Contains(t, text, `{group="other"} 1`)
}

func TestAScrapeChangesNothing(t *testing.T) {
	e := newEnv(t)
	e.furnish()
	e.put("mail", qless.Delay(time.Second))
	e.clock.Advance(time.Minute)
	before := testkit.Dump(t, e.rdb, "ql:*")
	gather(t, e.collector(qlessprom.Options{}))
	require.Equal(t, before, testkit.Dump(t, e.rdb, "ql:*"))
}

func TestStatisticsAreReadInTurn(t *testing.T) {
	e := newEnv(t)
	const queues = 7
	read := regexp.MustCompile(`failures_total\{queue="q."\} 1\n`)
	c := e.collector(qlessprom.Options{StatsAtOnce: 3})
	gather(t, c)
	for i := range queues {
		e.fail(fmt.Sprint("q", i), "g")
	}
	for _, want := range []int{0, 3, 6, 7, 7} {
		text := gather(t, c)
		require.Equal(t, queues, strings.Count(text, "qless_queue_failures_total{"))
		require.Len(t, read.FindAllString(text, -1), want)
	}
	e.fail("q0", "g")
	require.Eventually(t, func() bool {
		return strings.Contains(gather(t, c), `qless_queue_failures_total{queue="q0"} 2`)
	}, testkit.Patience, time.Millisecond)
	require.NoError(t, inspect.New(e.Client).ForgetQueue(t.Context(), "q1"))
	require.Contains(t, gather(t, c), `_total{queue="q1"}`, "with what was not yet counted")
	require.NotContains(t, gather(t, c), `"q1"`)
}

func TestCountersGoOnAtMidnight(t *testing.T) {
	e := newEnv(t)
	e.put("q")
	c := e.collector(qlessprom.Options{})
	gather(t, c)
	e.fail("q", "g")
	e.clock.Advance(24 * time.Hour)
	require.Contains(t, gather(t, c), `qless_queue_failures_total{queue="q"} 1`)
	e.fail("q", "g")
	require.Contains(t, gather(t, c), `qless_queue_failures_total{queue="q"} 2`)
}

func TestDamagedKeysLeaveTheRest(t *testing.T) {
	e := newEnv(t)
	var problems []string
	c := e.collector(qlessprom.Options{OnError: func(err error) { problems = append(problems, err.Error()) }})
	gather(t, c)
	e.furnish()
	gather(t, c)
	for _, key := range []string{"ql:q:mail-work", "ql:failures", "ql:x:schedule-ids", "ql:x:limits"} {
		require.NoError(t, e.rdb.Set(t.Context(), key, "damaged", 0).Err())
	}
	text := gather(t, c)
	require.NotContains(t, text, `qless_queue_jobs{queue="mail",state="waiting"}`)
	require.NotContains(t, text, `qless_queue_oldest_waiting_seconds{queue="mail"}`)
	require.NotContains(t, text, `qless_failed_jobs{`)
	require.Contains(t, text, `qless_queue_jobs{queue="mail",state="scheduled"} 1`)
	require.Contains(t, text, `qless_queue_jobs{queue="reports",state="waiting"} 1`)
	require.Contains(t, text, `qless_queue_failures_total{queue="mail"} 3`)
	require.Contains(t, text, "qless_workers 1\n")
	require.Contains(t, text, "qless_scrape_errors_total 4\n")
	require.Len(t, problems, 4)
	require.Contains(t, strings.Join(problems, "\n"), "ql:q:mail-work")
}

func TestAMisdeedOfOnErrorChangesNothing(t *testing.T) {
	for _, misdeed := range []func(){func() { panic("a misdeed") }, runtime.Goexit} {
		e := newEnv(t)
		c := e.collector(qlessprom.Options{OnError: func(error) { misdeed() }})
		require.NoError(t, e.rdb.Set(t.Context(), "ql:failures", "damaged", 0).Err())
		require.Contains(t, gather(t, c), "qless_scrape_errors_total 1\n")
	}
}

func TestAServerThatIsAwayIsCounted(t *testing.T) {
	e := newEnv(t)
	e.put("q")
	server := testkit.Start(t)
	rdb := server.Client(t)
	client, err := qless.New(rdb, &qless.ClientConfig{Logger: testkit.Quiet()})
	require.NoError(t, err)
	c := qlessprom.NewCollector(client, qlessprom.Options{MaxAge: -1, Timeout: testkit.Patience})
	require.Contains(t, gather(t, c), "qless_scrape_errors_total 0\n")
	server.Kill()
	text := gather(t, c)
	require.Contains(t, text, "qless_scrape_errors_total 2\n")
	require.NotContains(t, text, "qless_workers")
	server.Restart()
	require.Eventually(t, func() bool { return strings.Contains(gather(t, c), "qless_workers 0\n") },
		testkit.Patience, 10*time.Millisecond)
}

func TestAServerThatHangsIsGivenUp(t *testing.T) {
	server := testkit.Start(t)
	client, err := qless.New(server.Client(t), &qless.ClientConfig{Logger: testkit.Quiet()})
	require.NoError(t, err)
	c := qlessprom.NewCollector(client, qlessprom.Options{MaxAge: -1, Timeout: 50 * time.Millisecond})
	server.Suspend()
	defer server.Resume()
	done := make(chan string, 1)
	go func() { done <- gather(t, c) }()
	require.Contains(t, testkit.Soon(t, "the scrape", done), "qless_scrape_errors_total 2\n")
}

func TestScrapesShareAReadAndItsAge(t *testing.T) {
	e := newEnv(t)
	e.put("q")
	var mu sync.Mutex
	calls := 0
	client := e.client(qless.ClientConfig{Observer: func(context.Context, qless.Command) {
		mu.Lock()
		defer mu.Unlock()
		calls++
	}})
	c := qlessprom.NewCollector(client, qlessprom.Options{MaxAge: time.Hour, ProblemsEvery: -1})
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(c)
	var scrapes sync.WaitGroup
	for range 20 {
		scrapes.Go(func() {
			_, err := registry.Gather()
			require.NoError(t, err)
		})
	}
	scrapes.Wait()
	require.Equal(t, 3, calls, "the overview, the first statistics, the schedules")
}

// docs/metrics.md quotes sums of these numbers of commands.
func TestCommandsThatAScrapeCosts(t *testing.T) {
	const queues, withStats = 200, 25
	const idleQueue, busyQueue, stats = 1, 1 + 3 + 4, 4
	const overview, withoutQueues, schedules = 10, 7, 2
	const firstReads = queues / 50 // of all statistics
	for _, busy := range []int{0, 50, queues} {
		t.Run(fmt.Sprint(busy, " are busy"), func(t *testing.T) {
			e := newEnv(t)
			for i := range queues {
				e.makeIdle(fmt.Sprint("q", i))
			}
			for i := range busy {
				e.makeBusy(fmt.Sprint("q", i*queues/busy))
			}
			scripts := 0
			client := e.client(qless.ClientConfig{Observer: func(context.Context, qless.Command) { scripts++ }})
			c := qlessprom.NewCollector(client, qlessprom.Options{MaxAge: -1, ProblemsEvery: -1})
			cost := func() int { return len(e.server.Commands(t, func() { gather(t, c) })) }

			all := (queues-busy)*idleQueue + busy*busyQueue
			require.Equal(t, overview+all+firstReads*withoutQueues+queues*stats+schedules, cost())
			require.Equal(t, 2+firstReads, scripts)
			const scrapes = 4 // read all
			later := 0
			for range scrapes {
				later += cost()
			}
			require.Equal(t, all+scrapes*(overview+withStats*stats+schedules), later)
			require.Equal(t, 2+firstReads+2*scrapes, scripts)
		})
	}
}

// waiting returns the number of waiting jobs of each queue, as reported by a scrape.
func waiting(t *testing.T, c prometheus.Collector) map[string]float64 {
	t.Helper()
	registry := prometheus.NewRegistry()
	require.NoError(t, registry.Register(c))
	families, err := registry.Gather()
	require.NoError(t, err)
	found := map[string]float64{}
	for _, family := range families {
		if family.GetName() != "qless_queue_jobs" {
			continue
		}
		for _, metric := range family.GetMetric() {
			labels := map[string]string{}
			for _, label := range metric.GetLabel() {
				labels[label.GetName()] = label.GetValue()
			}
			if labels["state"] == "waiting" {
				found[labels["queue"]] = metric.GetGauge().GetValue()
			}
		}
	}
	return found
}

func TestAScrapeReadsTheQueuesThatWereReadLongestAgo(t *testing.T) {
	for name, test := range map[string]struct {
		atOnce, queues int // of the option, and in the namespace
		age            int // of the oldest figures, in scrapes
	}{
		"a few":              {0, 49, 0},
		"the default":        {0, 121, 2},
		"at least a quarter": {10, 121, 3},
		"half":               {61, 121, 1},
		"all":                {-1, 121, 0},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEnv(t)
			putAll := func() {
				for i := range test.queues {
					e.put(fmt.Sprint("q", i))
				}
			}
			putAll()
			c := e.collector(qlessprom.Options{QueuesAtOnce: test.atOnce})
			require.Equal(t, map[int]int{0: test.queues}, ages(waiting(t, c), 1))
			for puts := 2; puts <= 6; puts++ {
				putAll()
				found := ages(waiting(t, c), puts)
				for age := range found {
					require.LessOrEqual(t, age, min(test.age, puts-1))
				}
				require.Len(t, found, 1+min(test.age, puts-1))
			}
		})
	}
}

// ages counts the queues by the age of their figures, in scrapes, with a put into all queues before
// each scrape.
func ages(waiting map[string]float64, puts int) map[int]int {
	found := map[int]int{}
	for _, jobs := range waiting {
		found[puts-int(jobs)]++
	}
	return found
}

func TestAScrapeReadsAllQueuesIfSomeAreNewOrGone(t *testing.T) {
	e := newEnv(t)
	for i := range 120 {
		e.put(fmt.Sprint("q", i))
	}
	c := e.collector(qlessprom.Options{})
	require.Len(t, waiting(t, c), 120)
	e.put("new")
	require.Equal(t, 1.0, waiting(t, c)["new"])
	for _, queue := range []string{"q0", "q119"} {
		require.NoError(t, e.pop(queue).Complete(t.Context()))
		require.NoError(t, inspect.New(e.Client).ForgetQueue(t.Context(), queue))
		require.NotContains(t, waiting(t, c), queue)
	}
	// One goes and one comes: the number stays.
	require.NoError(t, e.pop("q1").Complete(t.Context()))
	require.NoError(t, inspect.New(e.Client).ForgetQueue(t.Context(), "q1"))
	e.put("other")
	figures := waiting(t, c)
	require.Len(t, figures, 119)
	figures = waiting(t, c)
	require.NotContains(t, figures, "q1")
	require.Contains(t, figures, "other")
}

func TestEachProblemIsExported(t *testing.T) {
	e := newEnv(t)
	e.fail("pages", "timeout")
	e.put("export")
	require.NoError(t, e.Queue("export").Pause(t.Context()))
	c := qlessprom.NewCollector(e.Client, qlessprom.Options{MaxAge: -1})
	shown := gather(t, c)
	for _, code := range doctor.ProblemCodes() {
		require.Contains(t, shown, `qless_problem{code="`+code+`"} `)
	}
	require.Contains(t, shown, `qless_problem{code="paused"} 1`)
	require.Contains(t, shown, `qless_problem{code="damaged"} 0`)
	require.Contains(t, shown, "qless_workers_gone 0\n")

	require.NoError(t, e.rdb.Set(t.Context(), "ql:q:export-scheduled", "x", 0).Err())
	require.Contains(t, gather(t, c), `qless_problem{code="damaged"} 0`, "they are a minute old at most")
	c = qlessprom.NewCollector(e.Client, qlessprom.Options{MaxAge: -1})
	shown = gather(t, c)
	require.Contains(t, shown, `qless_problem{code="damaged"} 2`)
	require.Contains(t, shown,
		`qless_problem_subject{code="damaged",kind="key",name="ql:q:export-scheduled"} 1`)
	require.Contains(t, shown, `qless_problem_subject{code="paused",kind="queue",name="export"} 1`)
}

// Relays report to the server. Two names, or two kinds, with the same label are no error.
func TestReportsOfOutboxesAreExported(t *testing.T) {
	e := newEnv(t)
	now := time.Now().Unix()
	long := strings.Repeat("x", 300)
	for name, report := range map[string]string{
		"shop":     fmt.Sprintf(`{"time": %d, "rows": 7, "oldest": 50, "problems": {"invalid": 2, "parent": 1}}`, now-40),
		"idle":     fmt.Sprintf(`{"time": %d, "rows": 0, "oldest": 0}`, now-40),
		"odd":      fmt.Sprintf(`{"problems": {"%[1]s1": 2, "%[1]s2": 3}}`, long),
		long + "1": "{}", long + "2": "{}", "broken": "[",
	} {
		require.NoError(t, e.rdb.HSet(t.Context(), "ql:x:outbox", name, report).Err())
	}
	shown := gather(t, e.collector(qlessprom.Options{}))
	require.Contains(t, shown, `qless_outbox_rows{outbox="shop"} 7`)
	require.Regexp(t, `qless_outbox_oldest_seconds\{outbox="shop"\} 9\d`, shown)
	require.Contains(t, shown, `qless_outbox_problems{kind="invalid",outbox="shop"} 2`)
	require.Contains(t, shown, `qless_outbox_problems{kind="parent",outbox="shop"} 1`)
	require.Contains(t, shown, `qless_problem_subject{code="outbox",kind="outbox",name="shop"} 1`)
	require.Contains(t, shown, `qless_outbox_oldest_seconds{outbox="idle"} 0`)
	require.Equal(t, 4, strings.Count(shown, "qless_outbox_rows{"))
	require.Regexp(t, `qless_outbox_problems\{kind="x+",outbox="odd"\} 5`, shown)
}

func TestSubjectsOfProblemsAreBounded(t *testing.T) {
	e := newEnv(t)
	for i := range 20 {
		name := fmt.Sprint("q", i)
		e.put(name)
		require.NoError(t, e.Queue(name).Pause(t.Context()))
	}
	shown := gather(t, e.collector(qlessprom.Options{}))
	require.Equal(t, 10, strings.Count(shown, `qless_problem_subject{code="paused",kind="queue"`))
}

func TestFullKeysOfLimitsHaveLabels(t *testing.T) {
	e := newEnv(t)
	require.NoError(t, e.Limit("api").Set(t.Context(), qless.LimitConfig{Concurrency: 1}))
	for i := range 12 {
		for range 2 {
			e.put("mail", qless.Limits{fmt.Sprintf("api/%d", i)})
		}
	}
	_, err := e.Queue("mail").Pop(t.Context(), 24)
	require.NoError(t, err)
	text := gather(t, e.collector(qlessprom.Options{}))
	require.Equal(t, 10, strings.Count(text, `qless_limit_parked{limit="api/`))
	require.Regexp(t, `qless_limit_used\{limit="api/\d+"\} 1`, text)
	require.Contains(t, text, `qless_limit_parked{limit="api"} 0`)
	require.NotContains(t, gather(t, e.collector(qlessprom.Options{MaxLimits: -1})), `limit="api/`)
}
