package qlessprom_test

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/qlessprom"
)

// makeIdle makes a queue without jobs known.
func (e *env) makeIdle(name string) {
	e.t.Helper()
	e.put(name)
	require.NoError(e.t, e.pop(name).Complete(e.t.Context()))
}

// makeBusy puts jobs into a queue: two wait, one runs, and one is scheduled.
func (e *env) makeBusy(name string) {
	e.t.Helper()
	e.put(name)
	e.put(name)
	e.put(name)
	e.put(name, qless.Delay(time.Hour))
	e.pop(name)
}

// populate makes 200 queues, each with a day's histograms, and some of them busy.
func (e *env) populate(busy int) {
	e.t.Helper()
	for i := range 200 {
		name := fmt.Sprint("q", i)
		for j := range 10 {
			e.put(name)
			e.clock.Advance(time.Duration(j) * time.Second)
			job := e.pop(name)
			e.clock.Advance(time.Duration(j) * time.Minute)
			require.NoError(e.t, job.Complete(e.t.Context()))
		}
		e.clock.Advance(-45 * time.Minute)
	}
	for i := range busy {
		e.makeBusy(fmt.Sprint("q", i*200/busy))
	}
}

// BenchmarkScrape measures the server's time quoted in docs/metrics.md: go test -run NONE -bench
// Scrape .
func BenchmarkScrape(b *testing.B) {
	for _, busy := range []int{50, 200} {
		e := newEnv(b)
		e.populate(busy)
		b.Run(fmt.Sprint("first/busy=", busy), func(b *testing.B) {
			e.measure(b, func() *qlessprom.Collector { return e.collector(qlessprom.Options{}) })
		})
		b.Run(fmt.Sprint("later/busy=", busy), func(b *testing.B) {
			c := e.collector(qlessprom.Options{})
			gather(b, c)
			e.measure(b, func() *qlessprom.Collector { return c })
		})
	}
}

// measure reports the server's time for a scrape: the mean, and the median, which depends less on
// the load of the machine.
func (e *env) measure(b *testing.B, collector func() *qlessprom.Collector) {
	var all []time.Duration
	var sum time.Duration
	for b.Loop() {
		c := collector()
		all = append(all, e.serverTime(func() { gather(b, c) }))
		sum += all[len(all)-1]
	}
	slices.Sort(all)
	b.ReportMetric(float64(sum.Microseconds())/float64(len(all)), "mean-us")
	b.ReportMetric(float64(all[len(all)/2].Microseconds()), "median-us")
}

var scriptTime = regexp.MustCompile(`cmdstat_(?:evalsha|fcall)[a-z_]*:calls=\d+,usec=(\d+)`)

// serverTime returns the running time of scripts on the server during run.
func (e *env) serverTime(run func()) time.Duration {
	e.t.Helper()
	total := func() (spent time.Duration) {
		stats, err := e.rdb.Info(context.Background(), "commandstats").Result()
		require.NoError(e.t, err)
		for _, found := range scriptTime.FindAllStringSubmatch(stats, -1) {
			micros, err := strconv.Atoi(found[1])
			require.NoError(e.t, err)
			spent += time.Duration(micros) * time.Microsecond
		}
		return spent
	}
	before := total()
	run()
	return total() - before
}

// BenchmarkGroup measures the scrapes of 1,000 namespaces with ten queues each: the first, later
// ones with the problems of a quarter of the namespaces, and later ones without.
func BenchmarkGroup(b *testing.B) {
	e := newEnv(b)
	for i := range 1000 {
		client, err := qless.New(e.rdb, &qless.ClientConfig{Namespace: fmt.Sprintf("{tenant-%d}:ql:", i)})
		require.NoError(b, err)
		for j := range 10 {
			_, err := client.Queue(fmt.Sprint("queue-", j)).Put(b.Context(), "K", nil)
			require.NoError(b, err)
		}
	}
	group := func(every time.Duration) *qlessprom.Group {
		return qlessprom.NewGroup(e.rdb, "{tenant-*}:ql:",
			qlessprom.Options{MaxAge: -1, ProblemsEvery: every, Timeout: time.Minute})
	}
	for _, c := range []struct {
		name    string
		every   time.Duration
		isFirst bool
	}{{"first", time.Minute, true}, {"problems", time.Nanosecond, false}, {"later", -1, false}} {
		b.Run(c.name, func(b *testing.B) {
			g := group(c.every)
			if !c.isFirst {
				gather(b, g)
			}
			before := e.spent()
			for b.Loop() {
				if c.isFirst {
					g = group(c.every)
				}
				b.ReportMetric(float64(len(gather(b, g)))/1e6, "MB")
			}
			after, n := e.spent(), float64(b.N)
			b.ReportMetric(1000*(after["used_cpu_user"]+after["used_cpu_sys"]-before["used_cpu_user"]-
				before["used_cpu_sys"])/n, "server-ms")
			b.ReportMetric((after["total_commands_processed"]-before["total_commands_processed"])/n, "commands")
		})
	}
}

// spent returns the server's figures of CPU time and commands.
func (e *env) spent() map[string]float64 {
	e.t.Helper()
	numbers := map[string]float64{}
	for line := range strings.Lines(e.rdb.Info(context.Background(), "all").Val()) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if number, err := strconv.ParseFloat(value, 64); err == nil {
			numbers[name] = number
		}
	}
	return numbers
}
