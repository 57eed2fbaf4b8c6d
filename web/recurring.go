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

// A recurringData holds a page of the recurring jobs.
type recurringData struct {
	Queue string         `json:"queue,omitempty"` // only jobs of this queue
	Total int            `json:"total"`
	Jobs  []recurringRow `json:"jobs"`
	Rows  rows           `json:"-"`
}

// The maximum numbers of rows on the pages about recurring jobs. Each row costs a call.
const (
	recurringShown = 25 // recurring jobs
	childrenShown  = 10 // jobs put by a recurring job
	runsShown      = 5  // due times of a schedule
)

// A recurringRow is a recurring job with the number of jobs put so far.
type recurringRow struct {
	Summary inspect.Row `json:"job"`
	Queue   string      `json:"queue"`
	Count   int         `json:"count"`
}

// recurring lists the recurring jobs by queue.
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
	return &view{Title: "Recurring", Data: data}, nil
}

// seenAge is the maximum age of the figures of all queues on pages that hardly need the figures.
const seenAge = 10 * time.Second

// seen returns recent figures of all queues by name, and reports whether it has just read them.
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
	if err != nil { // perhaps still being read
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

// A recurringJobData is a recurring job with the last jobs put.
type recurringJobData struct {
	Job      *qless.RecurringJob `json:"job"`
	Summary  *inspect.Row        `json:"summary,omitempty"` // with the next time, if found
	Children []inspect.Row       `json:"children"`          // the existing jobs, latest first
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

// recurringSummary looks up the next time of a recurring job in its queue. It reads a thousand
// recurring jobs, and so may miss the job in a longer queue.
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

// A schedulesData holds a page of the schedules.
type schedulesData struct {
	inspect.Page[inspect.ScheduleInfo]
	Rows rows `json:"-"`
}

// scheduleOrders are the columns for sorting schedules.
var scheduleOrders = orders[inspect.ScheduleInfo]{
	"id":      func(one *inspect.ScheduleInfo) any { return one.ID },
	"klass":   func(one *inspect.ScheduleInfo) any { return one.Klass },
	"queue":   func(one *inspect.ScheduleInfo) any { return one.Queue },
	"next":    func(one *inspect.ScheduleInfo) any { return one.Next },
	"last":    func(one *inspect.ScheduleInfo) any { return one.Last },
	"overdue": func(one *inspect.ScheduleInfo) any { return one.Overdue },
	"missed":  func(one *inspect.ScheduleInfo) any { return one.Missed },
	"workers": func(one *inspect.ScheduleInfo) any { return len(one.Followers) },
}

// schedules lists the schedules registered by workers.
func (s *site) schedules(ctx context.Context, q query) (*view, error) {
	page, err := s.in.Schedules(ctx, inspect.Range{Offset: q.from(), Limit: pageSize})
	data := &schedulesData{page, rows{q.from(), len(page.Items), page.Total, pageSize}}
	by := scheduleOrders.sortWhole(page.Items, data.Rows, q)
	return &view{Title: "Schedules", Data: data, order: by}, err
}

// A scheduleData is a schedule with its next times.
type scheduleData struct {
	*inspect.ScheduleInfo
	Words string      `json:"words,omitempty"` // the times in words
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
		schedule, words.Schedule(schedule.When), schedule.NextRuns(time.Now(), runsShown),
	}
	return &view{Title: q.name, Data: data}, nil
}
