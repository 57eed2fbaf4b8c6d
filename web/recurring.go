package web

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
	"github.com/qless/qless-go/web/internal/words"
)

// A recurringData is a part of the recurring jobs, and the first schedules.
type recurringData struct {
	Queue     string                         `json:"queue,omitempty"` // only those of this one
	Total     int                            `json:"total"`
	Jobs      []recurringRow                 `json:"jobs"`
	Schedules inspect.Page[inspect.Schedule] `json:"schedules"`
	Rows      rows                           `json:"-"`
}

// The most that the pages about recurring jobs show. Each row costs a call.
const (
	recurringShown = 25 // recurring jobs
	schedulesShown = 20 // schedules below them
	childrenShown  = 10 // jobs that a recurring job has put
	runsShown      = 5  // times at which a schedule is due
)

// A recurringRow is a recurring job, and the number of jobs that it has put.
type recurringRow struct {
	Summary inspect.Row `json:"job"`
	Queue   string      `json:"queue"`
	Count   int         `json:"count"`
}

// recurring lists the recurring jobs by queue, and schedules.
func (s *site) recurring(ctx context.Context, q query) (*view, error) {
	seen, _, err := s.seen(ctx)
	if err != nil {
		return nil, err
	}
	data := &recurringData{Queue: q.Get("queue"), Jobs: []recurringRow{}}
	for i := range seen.Queues {
		queue := &seen.Queues[i]
		if queue.Recurring <= 0 || data.Queue != "" && queue.Name != data.Queue {
			continue
		}
		before := data.Total
		data.Total += queue.Recurring
		if room := recurringShown - len(data.Jobs); room > 0 && data.Total > q.from() {
			part := inspect.Range{Offset: max(0, q.from()-before), Limit: room}
			if err := s.addRecurring(ctx, data, queue.Name, part); err != nil {
				return nil, err
			}
		}
	}
	data.Rows = rows{q.from(), len(data.Jobs), data.Total, recurringShown}
	data.Schedules, err = s.in.Schedules(ctx, inspect.Range{Limit: schedulesShown})
	return &view{Title: "Recurring", Data: data}, err
}

// seenAge is how old the figures of all queues may be on the pages that need little of them.
const seenAge = 10 * time.Second

// seen returns the figures of all queues as they were lately, by name, and whether it has read
// them.
func (s *site) seen(ctx context.Context) (*inspect.Overview, bool, error) {
	var isNew bool
	seen, err := sampledFor(ctx, &s.samples, seenAge, "seen",
		func(ctx context.Context) (*inspect.Overview, error) {
			isNew = true
			seen, err := s.in.Overview(ctx, inspect.OverviewQuery{})
			slices.SortFunc(seen.Queues, func(a, b inspect.QueueOverview) int {
				return cmp.Compare(a.Name, b.Name)
			})
			return &seen, err
		})
	if err != nil { // perhaps it is still being read
		return nil, false, err
	}
	return seen, isNew, nil
}

func (s *site) addRecurring(
	ctx context.Context, data *recurringData, queue string, r inspect.Range,
) error {
	jobs, err := s.in.Queue(queue, inspect.Recurring).List(ctx, r)
	if err != nil {
		return err
	}
	for _, job := range jobs.Items {
		row := recurringRow{Summary: job, Queue: queue}
		known, err := s.Client.RecurringJob(ctx, job.JID)
		if err != nil && !errors.Is(err, qless.ErrNotFound) {
			return err
		}
		if known != nil {
			row.Count = known.Count
		}
		data.Jobs = append(data.Jobs, row)
	}
	return nil
}

// A recurringJobData is a recurring job with the last jobs that it has put.
type recurringJobData struct {
	Job      *qless.RecurringJob `json:"job"`
	Summary  *inspect.Row        `json:"summary,omitempty"` // with its next time, if it was found
	Children []inspect.Row       `json:"children"`          // the remaining ones, the latest first
}

// recurringJob shows a recurring job.
func (s *site) recurringJob(ctx context.Context, q query) (*view, error) {
	job, err := s.Client.RecurringJob(ctx, q.name)
	if err != nil {
		return nil, err
	}
	data := &recurringJobData{Job: job}
	if data.Summary, err = s.recurringSummary(ctx, job); err != nil {
		return nil, err
	}
	if s.IsRedacted() {
		job.Data = nil
	}
	var jids []string
	for n := job.Count; n > 0 && n > job.Count-childrenShown; n-- {
		jids = append(jids, q.name+"-"+strconv.Itoa(n))
	}
	data.Children, err = s.rowsOf(ctx, jids)
	return &view{Title: q.name, Data: data}, err
}

// recurringSummary looks for a recurring job in its queue, for its next time. A call looks at a
// thousand, so that in a queue with more of them it may not be found.
func (s *site) recurringSummary(
	ctx context.Context, job *qless.RecurringJob,
) (*inspect.Row, error) {
	filter := inspect.Filter{JID: job.JID}
	found, err := s.in.Queue(job.Queue, inspect.Recurring).Where(filter).Find(ctx, "")
	if err != nil {
		return nil, err
	}
	for i := range found.Items {
		if found.Items[i].JID == job.JID {
			return &found.Items[i], nil
		}
	}
	return nil, nil
}

// A schedulesData is a part of the schedules.
type schedulesData struct {
	inspect.Page[inspect.Schedule]
	Rows rows `json:"-"`
}

// scheduleOrders are the columns by which schedules are sorted.
var scheduleOrders = orders[inspect.Schedule]{
	"id":      func(one *inspect.Schedule) any { return one.ID },
	"klass":   func(one *inspect.Schedule) any { return one.Klass },
	"queue":   func(one *inspect.Schedule) any { return one.Queue },
	"next":    func(one *inspect.Schedule) any { return one.Next },
	"last":    func(one *inspect.Schedule) any { return one.Last },
	"overdue": func(one *inspect.Schedule) any { return one.Overdue },
	"missed":  func(one *inspect.Schedule) any { return one.Missed },
	"workers": func(one *inspect.Schedule) any { return len(one.Followers) },
}

// schedules lists the schedules that workers have registered.
func (s *site) schedules(ctx context.Context, q query) (*view, error) {
	page, err := s.in.Schedules(ctx, inspect.Range{Offset: q.from(), Limit: pageSize})
	data := &schedulesData{page, rows{q.from(), len(page.Items), page.Total, pageSize}}
	by := scheduleOrders.sortWhole(page.Items, data.Rows, q)
	return &view{Title: "Schedules", Data: data, order: by}, err
}

// A scheduleData is a schedule.
type scheduleData struct {
	*inspect.Schedule
	Words string      `json:"words,omitempty"` // when it is due, in words
	Runs  []time.Time `json:"next_runs"`
}

// schedule shows a schedule.
func (s *site) schedule(ctx context.Context, q query) (*view, error) {
	schedule, err := s.in.Schedule(ctx, q.name)
	if err != nil {
		return nil, err
	}
	if s.IsRedacted() {
		schedule.Data = nil
	}
	data := &scheduleData{
		schedule, words.Schedule(schedule.Spec), schedule.NextRuns(time.Now(), runsShown),
	}
	return &view{Title: q.name, Data: data}, nil
}
