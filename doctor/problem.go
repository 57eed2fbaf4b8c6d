package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/qless/qless-go/inspect"
	"github.com/qless/qless-go/internal/units"
)

// A Problem is something that a person should look at.
type Problem struct {
	// Code is paused, no_workers, old, max_concurrency, stalled, failing, limit_full,
	// schedule_missed or damaged. Programs may rely on it.
	Code string `json:"code"`

	Queue    string `json:"queue,omitempty"`
	Limit    string `json:"limit,omitempty"`
	Schedule string `json:"schedule,omitempty"`

	// JID is one of the jobs that have the slots of a full limit.
	JID string `json:"jid,omitempty"`

	// Urgent means that jobs will be late or lost unless an operator acts.
	Urgent bool `json:"urgent"`

	// Sentence says it in words.
	Sentence string `json:"sentence"`
}

// The share of runs that may fail, and the number a minute, before that needs attention.
const (
	failingShare = 0.1
	failingRate  = 1
)

// problems returns what needs attention: what is urgent first, then the queues that are latest.
func (s *Status) problems(late time.Duration) []Problem {
	found := []Problem{}
	if len(s.Damaged) > 0 {
		found = append(found, Problem{
			Code: "damaged", Urgent: true,
			Sentence: "figures are missing, because keys are damaged: " + strings.Join(s.Damaged, ", "),
		})
	}
	byAge := slices.Clone(s.Queues)
	slices.SortStableFunc(byAge, func(a, b QueueStatus) int { return cmp.Compare(b.Oldest, a.Oldest) })
	for i := range byAge {
		found = append(found, byAge[i].problems(late, s.Workers.Silent)...)
	}
	for i := range s.FullLimits {
		found = append(found, fullLimit(&s.FullLimits[i]))
	}
	for _, schedule := range s.overdue {
		found = append(found, Problem{
			Code:     "schedule_missed",
			Queue:    schedule.Queue,
			Schedule: schedule.ID,
			Urgent:   true,
			Sentence: fmt.Sprintf("schedule %s is overdue: %s, and %s", schedule.ID,
				count(schedule.Overdue, "time")+" passed without a job",
				followers(len(schedule.Followers))),
		})
	}
	slices.SortStableFunc(found, func(a, b Problem) int {
		switch {
		case a.Urgent == b.Urgent:
			return 0
		case a.Urgent:
			return -1
		}
		return 1
	})
	return found
}

// problems returns the problems of a queue, given the number of unregistered workers.
func (q *QueueStatus) problems(late time.Duration, silent int) []Problem {
	var found []Problem
	add := func(code string, urgent bool, sentence string, args ...any) {
		found = append(found, Problem{Code: code, Queue: q.Name, Urgent: urgent,
			Sentence: "queue " + q.Name + fmt.Sprintf(sentence, args...)})
	}
	waiting, oldest := waits(q.Waiting), units.Age(q.Oldest)
	switch {
	case q.Waiting == 0:
	case q.Paused:
		add("paused", false, " is paused: %s, the oldest for %s", waiting, oldest)
	case q.Workers == 0 && q.Running == 0 && silent == 0:
		add("no_workers", true, " has no workers: %s, the oldest for %s", waiting, oldest)
	case q.Oldest >= late:
		add("old", true, " is late: %s, the oldest for %s", waiting, oldest)
	case q.MaxConcurrency > 0 && q.Running >= q.MaxConcurrency:
		add("max_concurrency", false, " runs as many as it may, %d: %s", q.MaxConcurrency, waiting)
	}
	if q.Stalled > 0 {
		add("stalled", true, " has %s whose locks have ended: did workers die?",
			count(q.Stalled, "job"))
	}
	failed, all := q.Rates.Failed, q.Rates.Completed+q.Rates.Failed+q.Rates.Retried
	if failed >= failingRate && failed > failingShare*all {
		add("failing", true, " fails %.0f %% of its jobs, %s a minute",
			100*failed/all, units.Rate(failed))
	}
	return found
}

func waits(n int) string {
	if n == 1 {
		return "1 job waits"
	}
	return fmt.Sprintf("%d jobs wait", n)
}

func followers(n int) string {
	switch n {
	case 0:
		return "no worker follows it"
	case 1:
		return "1 worker follows it"
	}
	return fmt.Sprintf("%d workers follow it", n)
}

func fullLimit(limit *inspect.LimitInfo) Problem {
	p := Problem{
		Code:     "limit_full",
		Limit:    limit.Name,
		Sentence: fmt.Sprintf("limit %s is full: %s for it", limit.Name, waits(limit.Parked)),
	}
	switch {
	case !limit.HeldUntil.IsZero():
		p.Sentence += ", and it is held until " + limit.HeldUntil.UTC().Format(time.TimeOnly) + " UTC"
	case len(limit.Running) > 0:
		p.Sentence += fmt.Sprintf(", and %s its slots", has(len(limit.Running)))
		p.JID = limit.Running[0]
	}
	return p
}

func has(n int) string {
	if n == 1 {
		return "1 job has"
	}
	return fmt.Sprintf("%d jobs have", n)
}
