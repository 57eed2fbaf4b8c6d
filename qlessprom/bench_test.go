package qlessprom_test

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/qlessprom"
)

// makeIdle lets a queue have had a job.
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

// populate makes 200 queues, each with a day's histograms, some of which are busy.
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

// The server's time that docs/metrics.md gives: go test -run NONE -bench Scrape .
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
// what else the machine does.
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

// serverTime returns for how long scripts ran on the server meanwhile.
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
