package worker

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
)

// reserveWeighted reserves jobs from the queues a, b and c with the weights 6, 3 and 1, and counts
// them by queue. The jids begin with the name of the queue.
func (e *env) reserveWeighted(count, cursor int) map[string]int {
	e.T.Helper()
	d := drawing{queues: []string{"a", "b", "c"}, weights: "6 3 1", cursor: fmt.Sprint(cursor)}
	return e.draw(&d, count)
}

// A drawing is the arguments of consecutive weighted reserves.
type drawing struct {
	queues  []string
	weights string
	cursor  string
	ahead   int
}

// draw reserves jobs, and counts them by queue. Each jid is the name of its queue and a number.
func (e *env) draw(d *drawing, count int) map[string]int {
	e.T.Helper()
	reply := must(e.Run(e.T.Context(), "reserve", "", d.args(count)...))(e.T)
	d.cursor = fmt.Sprint(reply.([]any)[0])
	counts := map[string]int{}
	for _, jid := range reservedJIDs(reply) {
		counts[strings.TrimRight(jid, "0123456789")]++
	}
	return counts
}

func (d *drawing) args(count int) []any {
	args := []any{
		"w", fmt.Sprint(count), "3600", "8", "order", "weighted", "weights", d.weights,
		"cursor", d.cursor, "ahead", fmt.Sprint(d.ahead),
	}
	for _, queue := range d.queues {
		args = append(args, queue)
	}
	return args
}

// putInto puts jobs with the jids queue0, queue1 and so on.
func (e *env) putInto(queue string, count int, options ...qless.PutOption) {
	e.T.Helper()
	e.putSized(queue, count, 0, options...)
}

// putSized is like putInto, for jobs with some bytes of data.
func (e *env) putSized(queue string, count, bytes int, options ...qless.PutOption) {
	e.T.Helper()
	specs := make([]qless.JobSpec, count)
	for i := range specs {
		own := append([]qless.PutOption{qless.JID(fmt.Sprint(queue, i))}, options...)
		specs[i] = qless.JobSpec{Klass: "K", Data: strings.Repeat("x", bytes), Options: own}
	}
	must(e.Queue(queue).PutMany(e.T.Context(), specs))(e.T)
}

// The cursors are fixed, and thus the draws.
func TestQueuesGiveJobsByTheirWeights(t *testing.T) {
	for _, count := range []int{1, 7, 50} {
		e := newEnv(t)
		for _, queue := range []string{"a", "b", "c"} {
			e.putInto(queue, 1200)
		}
		sum := map[string]int{}
		for i := 0; i < 1000; i += count {
			for queue, jobs := range e.reserveWeighted(count, 1_000_003*(i+1)%2147483647) {
				sum[queue] += jobs
			}
		}
		require.InDelta(t, 600, sum["a"], 60, "%v", sum)
		require.InDelta(t, 300, sum["b"], 60, "%v", sum)
		require.InDelta(t, 100, sum["c"], 40, "%v", sum)
	}
}

// fillMany puts jobs into queues named a-, b- and so on, and returns a drawing of them.
func (e *env) fillMany(queues, jobs int, weight func(i int) int) drawing {
	e.T.Helper()
	d := drawing{cursor: "20261128"}
	for i := range queues {
		name := string([]rune{'a' + rune(i/26), 'a' + rune(i%26), '-'})
		e.putInto(name, jobs)
		d.queues = append(d.queues, name)
		d.weights += fmt.Sprint(weight(i), " ")
	}
	return d
}

// A call ends when 60 queues have given jobs. The next call continues from its cursor, or from any.
func TestWeightsAreKeptOverManyQueues(t *testing.T) {
	for _, random := range []bool{false, true} {
		e := newEnv(t)
		d := e.fillMany(400, 20, func(int) int { return 1 })
		sums := [4]int{} // of the quarters of the list
		for call := range 40 {
			if random {
				d.cursor = fmt.Sprint(1_000_003 * (call + 1))
			}
			counts := e.draw(&d, 250)
			require.Len(t, counts, 60)
			for i, queue := range d.queues {
				sums[i/100] += counts[queue]
			}
		}
		all := sums[0] + sums[1] + sums[2] + sums[3]
		require.Equal(t, all, 40*60)
		for _, sum := range sums {
			require.InDelta(t, all/4, sum, 120, "5 sigma; %v", sums)
		}
	}
}

// One queue of 200 has a third of all draws.
func TestAHeavyQueueAmongManyKeepsItsShare(t *testing.T) {
	e := newEnv(t)
	d := e.fillMany(200, 30, func(i int) int { return 1 + 99*(i/199) })
	heavy := d.queues[199]
	e.putInto(heavy, 2000)
	taken, all := 0, 0
	for range 30 {
		counts := e.draw(&d, 250)
		taken += counts[heavy]
		for _, count := range counts {
			all += count
		}
	}
	require.Greater(t, all, 2000)
	require.InDelta(t, float64(all)*100/299, taken, 120, "5 sigma, of %d", all)
}

// A call checks only the queues that it draws. The costs are in commands per job.
func TestWeightsCostLittleMoreThanRoundRobin(t *testing.T) {
	e := newEnv(t)
	d := e.fillMany(1000, 8, func(i int) int { return 1 + i%5 })
	for _, count := range []int{1, 10, 100, 250} {
		cost := func(args []any) float64 {
			jobs := 0
			commands := len(e.Server.Commands(t, func() {
				jobs = len(reservedJIDs(must(e.Run(t.Context(), "reserve", "", args...))(t)))
			}))
			require.GreaterOrEqual(t, jobs, min(count, 60))
			return float64(commands) / float64(jobs)
		}
		weighted := d.args(count)
		turns := []any{"w", fmt.Sprint(count), "3600", "2", "order", "round-robin"}
		turns = append(turns, weighted[12:]...)
		cost(turns) // the first call in a moment finds out more
		inTurns, byWeight := cost(turns), cost(weighted)
		t.Logf("%d free slots: %.1f in turns, %.1f by weight", count, inTurns, byWeight)
		require.LessOrEqual(t, byWeight, 1.5*inTurns)
	}
}

// A call ends at 2 MiB of data, or prefetches nothing from some queues or jobs. Their turns are
// owed to them by the next call.
func TestWeightsAreKeptWhereACallEndsEarly(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		a, b           int // bytes of data of the jobs
		maxConcurrency int // of a
		ahead          int
		options        []qless.PutOption // of the jobs of b
	}{
		"large jobs":           {a: 300_000, b: 300_000},
		"large and small jobs": {a: 300_000},
		"small and large jobs": {b: 300_000},
		"a max-concurrency":    {maxConcurrency: 1000, ahead: 9},
		"jobs with limits":     {options: []qless.PutOption{qless.Limits{"l"}}, ahead: 9},
	} {
		for _, count := range []int{1, 16} {
			t.Run(fmt.Sprint(name, "/", count), func(t *testing.T) {
				e := newEnv(t)
				d := drawing{queues: []string{"a", "b"}, weights: "1 1", cursor: "20261128", ahead: c.ahead}
				if c.maxConcurrency > 0 {
					e.Set("a-max-concurrency", c.maxConcurrency)
				}
				e.putSized("a", 150, c.a)
				e.putSized("b", 150, c.b, c.options...)
				sum := map[string]int{}
				for sum["a"]+sum["b"] < 200 {
					counts := e.draw(&d, count)
					require.NotEmpty(t, counts)
					sum["a"], sum["b"] = sum["a"]+counts["a"], sum["b"]+counts["b"]
				}
				require.InDelta(t, sum["a"], sum["b"], 60, "4 sigma and the turns owed; %v", sum)
			})
		}
	}
}

func TestWeightsOfQueuesWithoutJobsDoNotCount(t *testing.T) {
	e := newEnv(t)
	require.Empty(t, e.reserveWeighted(5, 1))
	e.putInto("c", 4)
	e.putInto("a", 2)
	require.NoError(t, e.Queue("b").Pause(t.Context()))
	e.putInto("b", 2)
	require.Equal(t, map[string]int{"a": 2, "c": 4}, e.reserveWeighted(10, 1))
	require.NoError(t, e.Queue("b").Resume(t.Context()))
	require.Equal(t, map[string]int{"b": 2}, e.reserveWeighted(10, 1), "of queues known to be empty")
}

func TestWeightsRespectMaxConcurrency(t *testing.T) {
	e := newEnv(t)
	e.Set("a-max-concurrency", 3)
	e.putInto("a", 20)
	e.putInto("c", 20)
	require.Equal(t, map[string]int{"a": 3, "c": 7}, e.reserveWeighted(10, 1))
}

func TestAReserveRefusesWeightsThatDoNotFit(t *testing.T) {
	e := newEnv(t)
	for weights, message := range map[string]string{
		"":      `Arg "weights" has 0 for 2 queues`,
		"1":     `Arg "weights" has 1 for 2 queues`,
		"1 2 3": `Arg "weights" has 3 for 2 queues`,
		"1 0":   `Arg "weights" not positive: 0`,
		"1 -1":  `Arg "weights" not positive: -1`,
		"1 x":   `Arg "weights" not a number: x`,
	} {
		_, err := e.Run(t.Context(), "reserve", "", "w", "1", "10", "4", "order", "weighted",
			"weights", weights, "a", "b")
		require.ErrorContains(t, err, message)
	}
}

// While a and b-1 have jobs, nineteen of twenty come from a.
func TestAWorkerDrawsQueuesByWeight(t *testing.T) {
	e := newLiveEnv(t)
	e.putInto("a", 400)
	e.putInto("b-1", 400)
	var mu sync.Mutex
	first, full := map[string]int{}, make(chan bool)
	w := e.worker(qless.WorkerConfig{
		Queues: []string{"a", "b-*"}, Weights: map[string]int{"a": 19}, Concurrency: 2,
	})
	w.Handle("K", func(_ context.Context, job *qless.Job) error {
		mu.Lock()
		defer mu.Unlock()
		if n := first["a"] + first["b-1"]; n < 200 {
			first[job.Queue]++
			if n == 199 {
				close(full)
			}
		}
		return nil
	})
	w.start()
	soon(t, "200 jobs", full)
	mu.Lock()
	require.Less(t, first["b-1"], 60, "%v", first) // 10 are expected; 60 occur once in 10^25 runs
	mu.Unlock()
	until(t, "all are complete", func() bool { return w.Stats().Completed == 800 })
}

// A worker of its own keeps slots for a queue while the other worker is full.
func TestAGroupKeepsSlotsForAQueue(t *testing.T) {
	e := newLiveEnv(t)
	group := qless.WorkerGroup{
		newWorker(t, e.Client, qless.WorkerConfig{Queues: []string{"critical"}, Concurrency: 1}),
		newWorker(t, e.Client, qless.WorkerConfig{Queues: []string{"critical", "low"}, Concurrency: 2}),
	}
	running, end := make(chan string, 10), make(chan bool)
	group.Handle("K", func(_ context.Context, job *qless.Job) error {
		running <- job.Queue
		<-end
		return nil
	})
	require.NoError(t, group.Start(t.Context()))
	defer func() { require.NoError(t, group.Stop(context.Background())) }()
	defer close(end)
	e.putInto("low", 5)
	require.Equal(t, "low", soon(t, "a job", running))
	require.Equal(t, "low", soon(t, "a job", running))
	e.putInto("critical", 1)
	require.Equal(t, "critical", soon(t, "a job", running))
}
