package web

import (
	"context"
	"fmt"
	"html/template"
	"slices"
	"time"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/doctor"
	"github.com/qless/qless-go/inspect"
	"github.com/qless/qless-go/web/internal/charts"
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
	return !slices.ContainsFunc(q.Why.Causes, func(c doctor.Cause) bool {
		return !slices.Contains(calmCauses, c.Code)
	})
}

// IsUrgent reports whether a cause, though perhaps not the first one, ends only if an operator
// acts. The banner has the colour of the worst cause.
func (q *queueData) IsUrgent() bool {
	return slices.ContainsFunc(q.Why.Causes, func(c doctor.Cause) bool {
		return slices.Contains(urgentCauses, c.Code)
	})
}

var (
	calmCauses = []doctor.Code{
		doctor.CodeEmpty, doctor.CodeFlowing, doctor.CodeRecurring, doctor.CodeRunning,
		doctor.CodeScheduled,
	}
	urgentCauses = []doctor.Code{
		doctor.CodeNoWorkers, doctor.CodeNoHandler, doctor.CodeStalled, doctor.CodeUnhandled,
		doctor.CodeFailedDependency, doctor.CodeNoCompletions,
	}
)

// Nothing says that a list is empty, and what brings jobs into it.
func (q *queueData) Nothing() string {
	return map[inspect.List]string{
		inspect.Waiting: "Nothing waits in " + q.Name + ". Put a job, or look at another state above.",
		inspect.Running: "No job of " + q.Name + " runs. A worker of the queue starts the waiting ones.",
		inspect.Stalled: "No lock of " + q.Name + " has ended: all workers renew theirs in time.",
		inspect.Scheduled: "Nothing is scheduled in " + q.Name + ". Jobs with a delay wait here, and " +
			"failed ones for their next attempt.",
		inspect.Depends: "No job of " + q.Name + " waits for others. Jobs put with DependsOn do.",
	}[q.List]
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
	if data.Rates, err = s.rateHistory(ctx, q.name, spanOf(q)); err != nil {
		return nil, err
	}
	if err := s.addStats(ctx, q, data); err != nil {
		return nil, err
	}
	return &view{
		Title: q.name, Data: data, isStill: data.Search != nil, isPart: data.Rates.HasMore,
		order: data.order,
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

// A rateHistory has the rates of a time, step by step: of a queue, or of all of them.
type rateHistory struct {
	rates.Known
	Over    rates.Span          `json:"over"`
	Minutes []inspect.RatePoint `json:"minutes"`
	Sum     inspect.Rates       `json:"sum"`
}

// rateHistory returns the rates of a queue, or of all if it is empty.
func (s *site) rateHistory(
	ctx context.Context, queue string, over rates.Span,
) (*rateHistory, error) {
	key := fmt.Sprintf("rates %s %q", over.Name, queue)
	return sampled(ctx, &s.samples, key, func(ctx context.Context) (*rateHistory, error) {
		known, err := s.readRates(ctx, key, queue, over)
		history := &rateHistory{Known: known, Over: over, Minutes: known.Points(over.Step)}
		for _, point := range history.Minutes {
			history.Sum.Add(point.Rates)
		}
		return history, err
	})
}

func (s *site) readRates(
	ctx context.Context, key, queue string, over rates.Span,
) (rates.Known, error) {
	if queue == "" && over.Length <= rates.LastHour.Length {
		known, err := s.allRates(ctx)
		return known.Last(over.Length), err
	}
	read := rates.Minutes(s.in, inspect.RateQuery{Queue: queue})
	over.IsLight = queue == ""
	return s.tallies.Read(ctx, key, over.InSteps(), read)
}

// Chart draws what was completed, failed and retried in each step.
func (h *rateHistory) Chart() template.HTML { return h.Runs("Jobs "+h.Over.Each(), h.Over.Step) }

// Failures draws what failed and was retried in each step.
func (h *rateHistory) Failures() template.HTML {
	return h.Runs("Failures "+h.Over.Each(), h.Over.Step, "retried", "failed")
}

// Latest are the steps, the latest first, for the table.
func (h *rateHistory) Latest() []inspect.RatePoint {
	all := slices.Clone(h.Minutes)
	slices.Reverse(all)
	return all
}

// Spark draws what was counted in each step: completed, failed or retried runs.
func (h *rateHistory) Spark(which string) template.HTML {
	var values []float64
	for _, p := range h.Minutes {
		values = append(values, rates.CountOf(&p, which))
	}
	return charts.Spark(which+" "+h.Over.Each(), values)
}

// IsEmpty reports whether no run was counted.
func (h *rateHistory) IsEmpty() bool { return h.Sum.Completed+h.Sum.Failed+h.Sum.Retried == 0 }
