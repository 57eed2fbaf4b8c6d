package web

import (
	"cmp"
	"context"
	"fmt"
	"html/template"
	"net/url"
	"slices"
	"time"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/doctor"
	"github.com/qless/qless-go/inspect"
	"github.com/qless/qless-go/internal/units"
	"github.com/qless/qless-go/web/internal/charts"
	"github.com/qless/qless-go/web/internal/rates"
)

// A queueData is a queue with one of its lists.
type queueData struct {
	queueCounts
	*jobList
	List inspect.List `json:"list"`
	// HasCharts means that the page has charts in place of a list.
	HasCharts bool                      `json:"-"`
	Page      inspect.Page[inspect.Row] `json:"jobs"` // the same jobs
	Why       *doctor.Explanation       `json:"why"`
	Settings  qless.QueueSettings       `json:"settings"`
	Rates     *rateHistory              `json:"rates"`
	Pasts     []past                    `json:"history"` // of this queue, then of a queue to compare
	With      string                    `json:"-"`
	Day       string                    `json:"day"`
	Stats     qless.Stats               `json:"statistics"`
}

// queueCounts are the figures of a queue shown with each of its lists.
type queueCounts struct {
	qless.QueueCounts
	Latency inspect.Latency `json:"latency"`
}

// Tabs returns the lists of a queue with the numbers of their jobs.
func (q *queueData) Tabs() []counted { return listsOf(&q.QueueCounts) }

// listsOf returns the lists of queues.
func listsOf(q *qless.QueueCounts) []counted {
	var lists []counted
	for _, list := range append(inspect.JobLists(), inspect.Recurring) {
		lists = append(lists, counted{string(list), list.Count(q)})
	}
	return lists
}

// Cause returns the likeliest cause, and More the number of other causes.
func (q *queueData) Cause() doctor.Reason { return q.Why.Causes[0] }
func (q *queueData) More() int            { return len(q.Why.Causes) - 1 }

// IsCalm reports whether nothing keeps jobs from running.
func (q *queueData) IsCalm() bool {
	return !slices.ContainsFunc(q.Why.Causes, func(r doctor.Reason) bool {
		return r.Gravity != doctor.Calm
	})
}

// IsUrgent reports whether any cause needs an operator to act.
func (q *queueData) IsUrgent() bool {
	return slices.ContainsFunc(q.Why.Causes, doctor.Reason.Urgent)
}

// chartsTab stands for a list on the page of a queue.
const chartsTab = "charts"

// queue shows a queue.
func (s *site) queue(ctx context.Context, q query) (*view, error) {
	list := inspect.List(cmp.Or(q.Get("list"), string(inspect.Waiting)))
	if list == inspect.Recurring {
		return &view{goTo: s.Base + "/recurring?queue=" + url.QueryEscape(q.name)}, nil
	}
	data := &queueData{List: list, jobList: &jobList{}}
	var err error
	data.queueCounts, err = sampled(ctx, &s.samples, "queue counts "+q.name,
		func(ctx context.Context) (queueCounts, error) { return s.readCounts(ctx, q.name) })
	if err != nil {
		return nil, err
	}
	if list != chartsTab {
		if data.jobList, err = s.readJobs(ctx, q, s.in.Queue(q.name, list)); err != nil {
			return nil, err
		}
	}
	data.Page = inspect.Page[inspect.Row]{Items: data.Jobs, Total: data.Total}
	if data.Why, err = s.readWhy(ctx, q.name); err != nil {
		return nil, err
	}
	if data.Settings, err = s.readSettings(ctx, q.name); err != nil {
		return nil, err
	}
	if data.isUnknown() {
		return unknown(q.name, data.Cause().Sentence), nil
	}
	if data.Rates, err = s.rateHistory(ctx, q, inspect.RateQuery{Queue: q.name}, "klass"); err != nil {
		return nil, err
	}
	if err := s.addStats(ctx, q, data); err != nil {
		return nil, err
	}
	runs, err := s.readRuns(ctx, data.Jobs)
	return &view{
		Title: q.name, Data: data, isStill: data.Search != nil, search: data.Search,
		isPart: data.Rates.HasMore, order: data.order, runs: runs,
	}, err
}

// readSettings returns recent settings of a queue.
func (s *site) readSettings(ctx context.Context, queue string) (qless.QueueSettings, error) {
	return sampledFor(ctx, &s.samples, settingsAge, "queue settings "+queue,
		func(ctx context.Context) (qless.QueueSettings, error) {
			return s.Client.Queue(queue).Settings(ctx)
		})
}

// isUnknown reports whether the queue neither exists nor has any setting.
func (q *queueData) isUnknown() bool {
	hasJobs := slices.ContainsFunc(q.Tabs(), func(list counted) bool { return list.Jobs > 0 })
	isSet := q.Paused || q.Settings.MaxConcurrency > 0 || q.Settings.MaxRate > 0
	return q.Cause().Code == doctor.ReasonUnknown && !hasJobs && !isSet
}

// The maximum ages of readings of a queue, except for its jobs.
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

// addStats adds the histories, and the statistics of the requested day, or of today.
func (s *site) addStats(ctx context.Context, q query, data *queueData) error {
	data.With = q.Get("with")
	pasts, err := s.pasts(ctx, q, q.name, data.With)
	if err != nil {
		return err
	}
	data.Pasts = pasts[1:]
	today := time.Now().UTC()
	day := today
	if text := q.Get("day"); text != "" {
		if day, err = time.Parse(time.DateOnly, text); err != nil {
			return invalid("the day %q is not a date such as %s", text, today.Format(time.DateOnly))
		}
	}
	data.Day = day.Format(time.DateOnly)
	data.Stats, err = sampledFor(ctx, &s.samples, statsAge,
		fmt.Sprintf("queue stats %s %s", data.Day, q.name),
		func(ctx context.Context) (qless.Stats, error) {
			return s.Client.Queue(q.name).Stats(ctx, day)
		})
	return err
}

// why explains why the jobs of a queue wait.
func (s *site) why(ctx context.Context, q query) (*view, error) {
	data, err := s.readWhy(ctx, q.name)
	return &view{Title: "Why: " + q.name, Data: data}, err
}

// readWhy returns a recent explanation of a queue's wait.
func (s *site) readWhy(ctx context.Context, queue string) (*doctor.Explanation, error) {
	return sampledFor(ctx, &s.samples, whyAge, "why "+queue,
		func(ctx context.Context) (*doctor.Explanation, error) {
			return doctor.Explain(ctx, s.Client, queue)
		})
}

// A rateHistory holds the rates of one or all queues over a span of time, step by step.
type rateHistory struct {
	rates.Known
	Over    rates.Span          `json:"over"`
	Minutes []inspect.RatePoint `json:"minutes"`
	Sum     inspect.Rates       `json:"sum"`
	By      string              `json:"by,omitempty"` // queue or klass, if split
	Series  []rates.Series      `json:"series"`
	Split   string              `json:"-"` // queue or klass, for splitting
	ends    []rates.Series
}

// rateHistory returns the rates of a query, perhaps split by queue or klass.
func (s *site) rateHistory(
	ctx context.Context, q query, asked inspect.RateQuery, split string,
) (*rateHistory, error) {
	over, key, err := spanOf(q)
	if err != nil {
		return nil, err
	}
	by := ""
	if q.Get("by") == split {
		by = split
	}
	key = fmt.Sprintf("rates %s %s %q %q", key, by, asked.Queue, asked.Klass)
	return sampled(ctx, &s.samples, key, func(ctx context.Context) (*rateHistory, error) {
		known, err := s.readRates(ctx, key, asked, over, by)
		history := &rateHistory{
			Known: known, Over: over, Minutes: known.Points(over.Step), By: by, Split: split,
			ends: known.Ends(over.Step),
		}
		for _, point := range history.Minutes {
			history.Sum.Add(point.Rates)
		}
		if history.Series = history.ends; by != "" {
			history.Series = known.Largest(over.Step)
		}
		return history, err
	})
}

func (s *site) readRates(
	ctx context.Context, key string, asked inspect.RateQuery, over rates.Span, by string,
) (rates.Known, error) {
	if asked == (inspect.RateQuery{}) {
		if over.Until.IsZero() && over.Length <= rates.LastHour.Length {
			known, err := s.allRates(ctx)
			return known.Last(over.Length), err
		}
		over.First = 1 // each minute is one group, perhaps a large one on the server
	}
	read := rates.Minutes(s.in, asked)
	switch by {
	case "queue":
		read = rates.Groups(over.Step, asked, s.in.RatesByQueue)
	case "klass":
		read = rates.Groups(over.Step, asked, s.in.RatesByKlass)
	}
	return s.tallies.Read(ctx, key, over.InSteps(), read)
}

// Chart draws the series.
func (h *rateHistory) Chart() template.HTML {
	return h.Stack("Jobs "+h.Over.Each(), h.Over.Step, h.Series)
}

// Spark draws one of the ends.
func (h *rateHistory) Spark(end string) template.HTML {
	var values []float64
	for _, one := range h.ends {
		for _, runs := range one.Runs {
			if one.Name == end {
				values = append(values, float64(runs))
			}
		}
	}
	return charts.Spark(end+" "+h.Over.Each(), values)
}

// IsEmpty reports whether no run was counted.
func (h *rateHistory) IsEmpty() bool { return rates.CountRuns(&h.Sum) == 0 }

// spanOf returns the requested span of time, an hour by default, and the key of its readings.
func spanOf(q query) (over rates.Span, key string, err error) {
	period, err := q.period()
	if err != nil {
		return over, "", err
	}
	if period.Period != (units.Period{}) {
		over = rates.Between(period.Period)
		return over, fmt.Sprintf("%q %q %v", period.SinceText, period.UntilText, over.Step), nil
	}
	for _, span := range rates.Spans {
		if span.Name == q.Get("over") {
			return span, span.Name, nil
		}
	}
	return rates.Spans[1], rates.Spans[1].Name, nil
}
