package qlessprom

import (
	"context"
	"time"

	"github.com/qless/qless-go/doctor"
)

var (
	problem = describe("qless_problem",
		"Whether a problem needs attention, by its code: 0 no, 1 yes, 2 urgently.", "code")
	problemSubject = describe("qless_problem_subject",
		"The subject of a problem: a queue, limit, schedule, failure group or key.",
		"code", "kind", "name")
	workersGone = describe("qless_workers_gone",
		"Number of Go workers that have died within max-worker-age.")
)

// lateJobs is the longest that the oldest job of a queue may wait before it is late.
const lateJobs = 5 * time.Minute

// maxSubjects is the number of subjects of each code that have labels.
const maxSubjects = 10

// A subject is the subject of a problem, such as a queue.
type subject struct{ code, kind, name string }

// findings are the problems found at a time.
type findings struct {
	at       time.Time
	gone     int
	levels   map[string]float64 // by code; nil if they were never read
	subjects map[subject]bool
}

// add adds a problem and its subjects, up to maxSubjects of its code.
func (f *findings) add(p *doctor.Problem, counts map[string]int) {
	f.levels[p.Code] = max(f.levels[p.Code], 1+number(p.Urgent))
	subjects := []subject{
		{p.Code, "limit", p.Limit}, {p.Code, "schedule", p.Schedule}, {p.Code, "group", p.Group},
		{p.Code, "key", p.Key}, {p.Code, "queue", p.Queue},
	}
	for _, queue := range p.Queues {
		subjects = append(subjects, subject{p.Code, "queue", queue})
	}
	for _, s := range subjects {
		if s.name == "" {
			continue
		}
		if s.name = label(s.name); !f.subjects[s] && counts[s.code] < maxSubjects {
			counts[s.code]++
			f.subjects[s] = true
		}
	}
}

// readProblems reads the problems unless they are known. Only the scrape that reads may call it.
func (c *Collector) readProblems(ctx context.Context) *findings {
	known := c.problems
	if c.knowsProblems() || c.inGroup && !c.turn {
		return known
	}
	status, err := doctor.ReadStatus(ctx, c.client, lateJobs)
	if err != nil {
		c.failed(err)
		return known
	}
	now := &findings{time.Now(), status.Workers.Gone, map[string]float64{}, map[subject]bool{}}
	if !c.inGroup {
		for _, code := range doctor.ProblemCodes() {
			now.levels[code] = 0
		}
	}
	counts := map[string]int{}
	for i := range status.Attention {
		now.add(&status.Attention[i], counts)
	}
	c.problems = now
	return now
}

// knowsProblems reports whether the known problems are recent enough.
func (c *Collector) knowsProblems() bool {
	every := c.options.ProblemsEvery
	return every < 0 || time.Since(c.problems.at) < every
}

func (w *writer) writeProblems(f *findings) {
	if f.levels == nil {
		return
	}
	w.gauges(problem, f.levels)
	for s := range f.subjects {
		w.gauge(problemSubject, 1, s.code, s.kind, s.name)
	}
	w.gauge(workersGone, float64(f.gone))
}
