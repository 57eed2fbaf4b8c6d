package doctor

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
)

// codes returns the codes of the problems of an overview, in order.
func codes(o *Status) string {
	var all []string
	for _, p := range o.problems(5 * time.Minute) {
		all = append(all, p.Code)
	}
	return strings.Join(all, " ")
}

func queueOf(counts qless.QueueCounts, oldest time.Duration) QueueStatus {
	counts.Name = "mail"
	return QueueStatus{
		QueueOverview: inspect.QueueOverview{QueueCounts: counts, Oldest: oldest}, Workers: 1,
	}
}

func TestEachProblemOfAQueue(t *testing.T) {
	waiting := qless.QueueCounts{Waiting: 3}
	for _, test := range []struct {
		want   string
		oldest time.Duration
		counts qless.QueueCounts
		change func(*Status)
	}{
		{"", time.Minute, waiting, nil},
		{"", 0, qless.QueueCounts{Paused: true}, nil},
		{"old", 5 * time.Minute, waiting, nil},
		{"paused", time.Hour, qless.QueueCounts{Waiting: 1, Paused: true}, nil},
		{"no_workers", time.Second, waiting, func(o *Status) { o.Queues[0].Workers = 0 }},
		{"", time.Second, waiting, func(o *Status) { o.Queues[0].Workers, o.Workers.Silent = 0, 1 }},
		{"", time.Second, qless.QueueCounts{Waiting: 1, Running: 1}, func(o *Status) {
			o.Queues[0].Workers = 0
		}},
		{"max_concurrency", time.Second, qless.QueueCounts{Waiting: 1, Running: 2}, func(o *Status) {
			o.Queues[0].MaxConcurrency = 2
		}},
		{"stalled", 0, qless.QueueCounts{Stalled: 1}, nil},
		{"failing", 0, waiting, func(o *Status) { o.Queues[0].Rates = Rates{Completed: 8, Failed: 2} }},
		{"", 0, waiting, func(o *Status) { o.Queues[0].Rates = Rates{Completed: 98, Failed: 2} }},
		{"", 0, waiting, func(o *Status) { o.Queues[0].Rates = Rates{Failed: 0.5} }},
		{"limit_full", 0, waiting, func(o *Status) {
			o.FullLimits = []inspect.LimitInfo{{
				LimitOverview: inspect.LimitOverview{Name: "shop", Parked: 2}, HeldUntil: time.Now(),
			}}
		}},
		{"schedule_missed", 0, waiting, func(o *Status) {
			o.overdue = []inspect.Schedule{{ID: "nightly", Overdue: 2}}
		}},
	} {
		o := &Status{Queues: []QueueStatus{queueOf(test.counts, test.oldest)}}
		if test.change != nil {
			test.change(o)
		}
		require.Equal(t, test.want, codes(o), "%+v", test)
	}
}

func TestUrgentProblemsComeFirstThenTheLatestQueues(t *testing.T) {
	paused := queueOf(qless.QueueCounts{Waiting: 1, Paused: true}, 24*time.Hour)
	late := queueOf(qless.QueueCounts{Waiting: 1}, time.Hour)
	later := queueOf(qless.QueueCounts{Waiting: 1}, 2*time.Hour)
	later.Name = "later"
	o := &Status{Queues: []QueueStatus{paused, late, later}}
	require.Equal(t, "old old paused", codes(o))
	require.Equal(t, "later", o.problems(time.Minute)[0].Queue)
}
