package qlessprom

import (
	"context"
	"time"

	"github.com/qless/qless-go/doctor"
)

var (
	problem = describe("qless_problem",
		"What needs attention, by its code: 0 no, 1 yes, 2 urgently.", "code")
	workersGone = describe("qless_workers_gone",
		"How many Go workers have died within max-worker-age.")
)

// lateJobs is for how long the oldest job of a queue may wait before it is late.
const lateJobs = 5 * time.Minute

// A findings is what needs attention, as it was at a time.
type findings struct {
	at     time.Time
	gone   int
	levels map[string]float64 // by code; nil if they were never read
}

// readProblems reads what needs attention, unless that is known. It belongs to the scrape that
// reads.
func (c *Collector) readProblems(ctx context.Context) *findings {
	known := c.problems
	if c.options.ProblemsEvery < 0 || time.Since(known.at) < c.options.ProblemsEvery {
		return known
	}
	status, err := doctor.ReadStatus(ctx, c.client, lateJobs)
	if err != nil {
		c.failed(err)
		return known
	}
	now := &findings{time.Now(), status.Workers.Gone, map[string]float64{}}
	for _, code := range doctor.ProblemCodes() {
		now.levels[code] = 0
	}
	for i := range status.Attention {
		p := &status.Attention[i]
		now.levels[p.Code] = max(now.levels[p.Code], 1+number(p.Urgent))
	}
	c.problems = now
	return now
}

func (w *writer) writeProblems(f *findings) {
	if f.levels == nil {
		return
	}
	w.gauges(problem, f.levels)
	w.gauge(workersGone, float64(f.gone))
}
