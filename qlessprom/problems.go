package qlessprom

import (
	"context"
	"time"

	"github.com/qless/qless-go/doctor"
	"github.com/qless/qless-go/inspect"
)

var (
	problem = describe("qless_problem",
		"Whether a problem needs attention, by its code: 0 no, 1 yes, 2 urgently.", "code")
	problemSubject = describe("qless_problem_subject",
		"The subject of a problem: a queue, job, limit, schedule, outbox, failure group or key.",
		"code", "kind", "name")
	workersGone = describe("qless_workers_gone",
		"Number of Go workers that have died within max-worker-age.")
	outboxRows = describe("qless_outbox_rows",
		"Number of rows of an outbox that wait, by the last report of its relays; 10000 if more.",
		"outbox")
	outboxOldest = describe("qless_outbox_oldest_seconds",
		"Age of the oldest row of an outbox that waits, with the time since the last report.", "outbox")
	outboxProblems = describe("qless_outbox_problems",
		"Number of rows of an outbox that are set aside, by the kind of their problem.",
		"outbox", "kind")
)

// maxSubjects is the maximum number of subjects of each code with labels.
const maxSubjects = 10

// A subject is the subject of a problem, such as a queue.
type subject struct{ code, kind, name string }

// findings are the problems found at a time.
type findings struct {
	at       time.Time
	gone     int
	levels   map[string]float64 // by code; nil if never read
	subjects map[subject]bool
	outboxes []doctor.Outbox
	keys     []inspect.LimitOverview // full limits
}

// add adds a problem, and up to maxSubjects subjects of its code.
func (f *findings) add(p *doctor.Reason, counts map[string]int) {
	code := string(p.Code)
	f.levels[code] = max(f.levels[code], 1+number(p.Urgent()))
	subjects := []subject{
		{code, "limit", p.Limit}, {code, "schedule", p.Schedule}, {code, "group", p.Group},
		{code, "key", p.Key}, {code, "queue", p.Queue}, {code, "outbox", p.Outbox}, {code, "job", p.JID},
	}
	for _, queue := range p.Queues {
		subjects = append(subjects, subject{code, "queue", queue})
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

// readProblems reads the problems unless known. Only the reading scrape may call it.
func (c *Collector) readProblems(ctx context.Context) *findings {
	known := c.problems
	if c.knowsProblems() || c.inGroup && !c.turn {
		return known
	}
	status, err := doctor.ReadStatus(ctx, c.client, doctor.Late)
	if err != nil {
		c.failed(err)
		return known
	}
	now := &findings{
		time.Now(), status.Workers.Gone, map[string]float64{}, map[subject]bool{}, status.Outboxes,
		nil,
	}
	for i := range status.FullLimits {
		now.keys = append(now.keys, status.FullLimits[i].LimitOverview)
	}
	if !c.inGroup {
		for _, code := range doctor.ProblemCodes() {
			now.levels[string(code)] = 0
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
	w.writeOutboxes(f.outboxes)
}

// writeOutboxes writes the gauges of outboxes. Names with the same label are written once.
func (w *writer) writeOutboxes(outboxes []doctor.Outbox) {
	written := map[string]bool{}
	for i := range outboxes {
		o := &outboxes[i]
		name := label(o.Name)
		if written[name] {
			continue
		}
		written[name] = true
		w.gauge(outboxRows, float64(o.Rows), name)
		age := 0.0
		if o.Rows > 0 {
			age = (o.Oldest + max(time.Since(o.Reported), 0)).Seconds()
		}
		w.gauge(outboxOldest, age, name)
		kinds := map[string]int{} // two shortened kinds may have the same label
		for kind, n := range o.Problems {
			kinds[label(kind)] += n
		}
		for kind, n := range kinds {
			w.gauge(outboxProblems, float64(n), name, kind)
		}
	}
}
