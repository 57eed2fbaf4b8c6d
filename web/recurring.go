package web

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/qless/qless-go"
)

// What the pages about recurring jobs show at most. Each row costs a call.
const (
	recurringShown = 25 // recurring jobs
	schedulesShown = 20 // schedules below them
	childrenShown  = 10 // jobs that a recurring job has put
)

// A recurringData is a part of the recurring jobs, and the first schedules.
type recurringData struct {
	Queue     string                         `json:"queue,omitempty"` // only those of this one
	Total     int                            `json:"total"`
	Jobs      []recurringRow                 `json:"jobs"`
	Schedules qless.Page[qless.ScheduleInfo] `json:"schedules"`
	Rows      sizedRows                      `json:"-"`
}

// A recurringRow is a recurring job, and how many jobs it has put.
type recurringRow struct {
	Summary qless.JobSummary `json:"job"`
	Queue   string           `json:"queue"`
	Count   int              `json:"count"`
}

// recurring lists the recurring jobs by queue, and schedules.
func (s *site) recurring(r *http.Request) (*view, error) {
	from, queue := fromOf(r), r.URL.Query().Get("queue")
	key := fmt.Sprintf("recurring %q %d", queue, from)
	data, err := sampled(r.Context(), &s.samples, key,
		func(ctx context.Context) (*recurringData, error) { return s.readRecurring(ctx, queue, from) })
	if err != nil {
		return nil, err
	}
	return &view{template: "recurring", title: "Recurring", section: "recurring", data: data}, nil
}

func (s *site) readRecurring(ctx context.Context, only string, from int) (*recurringData, error) {
	seen, _, err := s.seen(ctx)
	if err != nil {
		return nil, err
	}
	data := &recurringData{Queue: only, Jobs: []recurringRow{}}
	for i := range seen.Queues {
		queue := &seen.Queues[i]
		if queue.Recurring <= 0 || only != "" && queue.Name != only {
			continue
		}
		before := data.Total
		data.Total += queue.Recurring
		if room := recurringShown - len(data.Jobs); room > 0 && data.Total > from {
			part := qless.Range{Offset: max(0, from-before), Limit: room}
			if err := s.addRecurring(ctx, data, queue.Name, part); err != nil {
				return nil, err
			}
		}
	}
	data.Rows = sizedRows{rows{from, len(data.Jobs), data.Total}, recurringShown}
	data.Schedules, err = s.Client.Schedules(ctx, qless.Range{Limit: schedulesShown})
	return data, err
}

// seenAge is how old the figures of all queues may be on the pages that need little of them.
const seenAge = 10 * time.Second

// seen returns the figures of all queues as they were lately, by name, and whether it has read
// them.
func (s *site) seen(ctx context.Context) (*qless.Overview, bool, error) {
	var isNew bool
	seen, err := sampledFor(ctx, &s.samples, seenAge, "seen",
		func(ctx context.Context) (*qless.Overview, error) {
			isNew = true
			seen, err := s.Client.Overview(ctx, qless.OverviewQuery{})
			slices.SortFunc(seen.Queues, func(a, b qless.QueueOverview) int {
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
	ctx context.Context, data *recurringData, queue string, r qless.Range,
) error {
	jobs, err := s.Client.Queue(queue).List(ctx, qless.ListRecurring, r)
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
	*qless.RecurringJob
	Summary  *qless.JobSummary  `json:"summary,omitempty"` // with its next time, if it was found
	Children []qless.JobSummary `json:"children"`          // those that are left, the latest first
}

// MarshalJSON writes the fields of the job, too.
func (d *recurringJobData) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Job      *qless.RecurringJob `json:"job"`
		Summary  *qless.JobSummary   `json:"summary,omitempty"`
		Children []qless.JobSummary  `json:"children"`
	}{d.RecurringJob, d.Summary, d.Children})
}

// PrettyData is the data of each job, indented.
func (d *recurringJobData) PrettyData() string { return pretty(d.Data) }

// recurringJob shows a recurring job.
func (s *site) recurringJob(r *http.Request) (*view, error) {
	jid := nameOf(r, "jid")
	data, err := sampled(r.Context(), &s.samples, "recurring job "+strconv.Quote(jid),
		func(ctx context.Context) (*recurringJobData, error) { return s.readRecurringJob(ctx, jid) })
	if err != nil {
		return nil, err
	}
	return &view{template: "recurringjob", title: jid, section: "recurring", data: data}, nil
}

func (s *site) readRecurringJob(ctx context.Context, jid string) (*recurringJobData, error) {
	job, err := s.Client.RecurringJob(ctx, jid)
	if err != nil {
		return nil, err
	}
	data := &recurringJobData{RecurringJob: job, Children: []qless.JobSummary{}}
	if data.Summary, err = s.recurringSummary(ctx, job); err != nil {
		return nil, err
	}
	if s.IsRedacted() {
		job.Data = nil
	}
	var jids []string
	for n := job.Count; n > 0 && n > job.Count-childrenShown; n-- {
		jids = append(jids, jid+"-"+strconv.Itoa(n))
	}
	if len(jids) == 0 {
		return data, nil
	}
	children, err := s.Client.Jobs(ctx, jids...)
	if err != nil {
		return nil, err
	}
	for _, child := range children {
		data.Children = append(data.Children, summaryOf(child))
	}
	s.redactAll(data.Children)
	return data, nil
}

// recurringSummary looks for a recurring job in its queue, for its next time. A call looks at a
// thousand, so that in a queue with more of them it may not be found.
func (s *site) recurringSummary(
	ctx context.Context, job *qless.RecurringJob,
) (*qless.JobSummary, error) {
	filter := qless.Filter{JID: job.JID}
	found, err := s.Client.Queue(job.Queue).Find(ctx, qless.ListRecurring, filter, "")
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
