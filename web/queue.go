package web

import (
	"context"
	"fmt"
	"html/template"
	"slices"
	"strconv"
	"time"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/doctor"
	"github.com/qless/qless-go/inspect"
	"github.com/qless/qless-go/web/internal/rates"
)

// A queueData is a queue, with one of its lists.
type queueData struct {
	queueCounts
	*jobList
	List     inspect.List              `json:"list"`
	Page     inspect.Page[inspect.Row] `json:"jobs"` // the same jobs
	Why      *doctor.Explanation       `json:"why"`
	Settings qless.QueueSettings       `json:"settings"`
	Rates    *rateHistory              `json:"rates"`
	Day      string                    `json:"day"`
	Stats    qless.Stats               `json:"statistics"`
	Days     []string                  `json:"-"`
}

// queues lists all queues.
func (s *site) queues(ctx context.Context, _ query) (*view, error) {
	status, err := s.status(ctx)
	return &view{Title: "Queues", Data: status}, err
}

// queueCounts are the figures of a queue that all its lists have.
type queueCounts struct {
	qless.QueueCounts
	Latency inspect.Latency `json:"latency"`
}

// Tabs are the lists of a queue, with the number of their jobs.
func (q *queueData) Tabs() []tab {
	return []tab{
		{inspect.Waiting, q.Waiting}, {inspect.Running, q.Running}, {inspect.Stalled, q.Stalled},
		{inspect.Scheduled, q.Scheduled}, {inspect.Depends, q.Depends},
		{inspect.Recurring, q.Recurring},
	}
}

// A tab leads to a list of jobs.
type tab struct {
	List  inspect.List
	Count int
}

// Cause is the likeliest cause of what the queue waits for, and More is the number of the others.
func (q *queueData) Cause() doctor.Cause { return q.Why.Causes[0] }
func (q *queueData) More() int           { return len(q.Why.Causes) - 1 }

// IsCalm reports whether nothing keeps jobs from being run.
func (q *queueData) IsCalm() bool {
	switch q.Cause().Code {
	case doctor.CodeEmpty, doctor.CodeFlowing, doctor.CodeRecurring, doctor.CodeRunning,
		doctor.CodeScheduled:
		return true
	}
	return false
}

// queue shows a queue.
func (s *site) queue(ctx context.Context, q query) (*view, error) {
	data := &queueData{List: inspect.Waiting}
	if list := q.Get("list"); list != "" {
		data.List = inspect.List(list)
	}
	var err error
	data.queueCounts, err = sampled(ctx, &s.samples, "queue counts "+q.name,
		func(ctx context.Context) (queueCounts, error) { return s.readCounts(ctx, q.name) })
	if err != nil {
		return nil, err
	}
	if data.jobList, err = s.readJobs(ctx, q, s.in.Queue(q.name, data.List)); err != nil {
		return nil, err
	}
	data.Page = inspect.Page[inspect.Row]{Items: data.Jobs, Total: data.Total}
	if data.Why, err = s.readWhy(ctx, q.name); err != nil {
		return nil, err
	}
	data.Settings, err = sampledFor(ctx, &s.samples, settingsAge, "queue settings "+q.name,
		func(ctx context.Context) (qless.QueueSettings, error) {
			return s.Client.Queue(q.name).Settings(ctx)
		})
	if err != nil {
		return nil, err
	}
	if data.Rates, err = s.rateHistory(ctx, q.name); err != nil {
		return nil, err
	}
	if err := s.addStats(ctx, q, data); err != nil {
		return nil, err
	}
	return &view{
		Title: q.name, Data: data, isStill: data.Search != nil, isPart: data.Rates.HasMore,
	}, nil
}

// How old what is read of a queue besides its jobs may be.
const (
	settingsAge = 5 * time.Second
	whyAge      = 5 * time.Second
	statsAge    = 10 * time.Second
)

func (s *site) readCounts(ctx context.Context, queue string) (counts queueCounts, err error) {
	if counts.QueueCounts, err = s.Client.Queue(queue).Counts(ctx); err != nil {
		return counts, err
	}
	counts.Latency, err = s.in.Latency(ctx, queue)
	return counts, err
}

// statsDays is the number of days with a link.
const statsDays = 7

// addStats adds the statistics of the day that is asked for, or of today.
func (s *site) addStats(ctx context.Context, q query, data *queueData) error {
	today := time.Now().UTC()
	day := today
	if text := q.Get("day"); text != "" {
		var err error
		if day, err = time.Parse(time.DateOnly, text); err != nil {
			return invalid("the day %q is not a date such as %s", text, today.Format(time.DateOnly))
		}
	}
	data.Day = day.Format(time.DateOnly)
	for i := range statsDays {
		data.Days = append(data.Days, today.AddDate(0, 0, -i).Format(time.DateOnly))
	}
	var err error
	data.Stats, err = sampledFor(ctx, &s.samples, statsAge,
		fmt.Sprintf("queue stats %s %s", data.Day, q.name),
		func(ctx context.Context) (qless.Stats, error) {
			return s.Client.Queue(q.name).Stats(ctx, day)
		})
	return err
}

// why explains what a queue waits for.
func (s *site) why(ctx context.Context, q query) (*view, error) {
	data, err := s.readWhy(ctx, q.name)
	return &view{Title: "Why: " + q.name, Data: data}, err
}

// readWhy returns what a queue waits for, as it was read lately.
func (s *site) readWhy(ctx context.Context, queue string) (*doctor.Explanation, error) {
	return sampledFor(ctx, &s.samples, whyAge, "why "+queue,
		func(ctx context.Context) (*doctor.Explanation, error) {
			return doctor.Why(ctx, s.Client, queue)
		})
}

// A rateHistory has the rates of the last hours, minute by minute.
type rateHistory struct {
	rates.Known
	Minutes  []inspect.RatePoint `json:"minutes"`
	LastHour inspect.Rates       `json:"last_hour"`
}

// rateHistory returns the rates of the last hours of a queue.
func (s *site) rateHistory(ctx context.Context, queue string) (*rateHistory, error) {
	key := "rates " + strconv.Quote(queue)
	return sampled(ctx, &s.samples, key, func(ctx context.Context) (*rateHistory, error) {
		read := rates.Minutes(s.in, inspect.RateQuery{Queue: queue})
		known, err := s.tallies.Read(ctx, key, rates.QueueHours, read)
		history := &rateHistory{Known: known, Minutes: known.Points(time.Minute)}
		for _, point := range history.Minutes {
			if point.Time.After(known.To.Add(-time.Hour)) {
				history.LastHour.Add(point.Rates)
			}
		}
		return history, err
	})
}

// Chart draws what was completed, failed and retried in each minute.
func (h *rateHistory) Chart() template.HTML {
	return h.Known.Chart("Runs a minute in the last 3 hours", time.Minute, h.Minutes, rates.Counts,
		"Completed", "Failed", "Retried")
}

// Quarters are the same in steps of a quarter of an hour, the latest first, for the table.
func (h *rateHistory) Quarters() []inspect.RatePoint {
	all := h.Points(15 * time.Minute)
	slices.Reverse(all)
	return all
}

// IsEmpty reports whether no run was counted.
func (h *rateHistory) IsEmpty() bool {
	return !slices.ContainsFunc(h.Minutes, func(m inspect.RatePoint) bool {
		return m.Completed+m.Failed+m.Retried > 0
	})
}
