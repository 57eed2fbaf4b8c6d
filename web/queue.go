package web

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/doctor"
)

// pageSize is how many rows a page has.
const pageSize = 50

// How old what is read of a queue besides its jobs may be.
const (
	settingsAge = 5 * time.Second
	whyAge      = 5 * time.Second
	statsAge    = 10 * time.Second
)

// queues lists all queues.
func (s *site) queues(r *http.Request) (*view, error) {
	status, err := s.status(r.Context())
	if err != nil {
		return nil, err
	}
	return &view{template: "queues", title: "Queues", section: "queues", data: status}, nil
}

// A queueData is a queue, with one of its lists.
type queueData struct {
	qless.QueueCounts
	List     qless.List                   `json:"list"`
	Jobs     qless.Page[qless.JobSummary] `json:"jobs"`
	Filter   jobFilter                    `json:"filter"`
	Search   *search                      `json:"search,omitempty"`
	Why      *doctor.Explanation          `json:"why"`
	Settings queueSettings                `json:"settings"`
	Rates    *rateHistory                 `json:"rates"`
	Day      string                       `json:"day"`
	Stats    qless.Stats                  `json:"statistics"`
	Rows     rows                         `json:"-"`
	Days     []string                     `json:"-"`
}

// Tabs are the lists of a queue, with how many jobs each has.
func (q *queueData) Tabs() []tab {
	return []tab{
		{qless.ListWaiting, q.Waiting}, {qless.ListRunning, q.Running}, {qless.ListStalled, q.Stalled},
		{qless.ListScheduled, q.Scheduled}, {qless.ListDepends, q.Depends},
		{qless.ListRecurring, q.Recurring},
	}
}

// IsRecurring reports whether the list has recurring jobs.
func (q *queueData) IsRecurring() bool { return q.List == qless.ListRecurring }

// Cause is the likeliest cause of what the queue waits for, and More is how many others there are.
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

// A tab leads to a list of jobs.
type tab struct {
	List  qless.List
	Count int
}

// queueSettings are the settings of a queue.
type queueSettings struct {
	Heartbeat      time.Duration `json:"-"`
	MaxConcurrency int           `json:"max_concurrency"`
	MaxRate        int           `json:"max_rate"`
	Per            time.Duration `json:"-"`

	HeartbeatSeconds float64 `json:"heartbeat"`
	PerSeconds       float64 `json:"per"`
}

// queue shows a queue.
func (s *site) queue(r *http.Request) (*view, error) {
	ctx, name := r.Context(), nameOf(r, "queue")
	data := &queueData{List: qless.List(r.URL.Query().Get("list"))}
	if data.List == "" {
		data.List = qless.ListWaiting
	}
	quoted := strconv.Quote(name)
	var err error
	data.QueueCounts, err = sampled(ctx, &s.samples, "queue counts "+quoted,
		func(ctx context.Context) (qless.QueueCounts, error) {
			return s.Client.Queue(name).Counts(ctx, qless.IncludeLatency)
		})
	if err != nil {
		return nil, err
	}
	if err := s.addJobs(r, data); err != nil {
		return nil, err
	}
	if data.Why, err = s.readWhy(ctx, name); err != nil {
		return nil, err
	}
	data.Settings, err = sampledFor(ctx, &s.samples, settingsAge, "queue settings "+quoted,
		func(ctx context.Context) (queueSettings, error) { return s.readSettings(ctx, name) })
	if err != nil {
		return nil, err
	}
	if data.Rates, err = s.rateHistory(ctx, name); err != nil {
		return nil, err
	}
	if err := s.addStats(r, data); err != nil {
		return nil, err
	}
	return &view{
		template: "queue", title: name, section: "queues", data: data, isStill: data.Search != nil,
		isPart: data.Rates.HasMore,
	}, nil
}

// addJobs adds the jobs of the list: a part of it, or those that a filter finds.
func (s *site) addJobs(r *http.Request, data *queueData) error {
	name := data.Name
	data.Filter = filterOf(r)
	key := "queue jobs " + strconv.Quote(name) + " " + strconv.Quote(string(data.List)) + " "
	if !data.Filter.isEmpty() {
		if err := s.checkFilter(data.Filter); err != nil {
			return err
		}
		found, err := s.search(r, key, data.count(), data.Filter,
			func(ctx context.Context, filter qless.Filter, after qless.Cursor) (qless.Finding, error) {
				return s.Client.Queue(name).Find(ctx, data.List, filter, after)
			})
		if err != nil {
			return err
		}
		data.Search = found
		data.Jobs = qless.Page[qless.JobSummary]{Items: found.Items, Total: len(found.Items)}
		return nil
	}
	from := fromOf(r)
	var err error
	data.Jobs, err = sampled(r.Context(), &s.samples, key+strconv.Itoa(from),
		func(ctx context.Context) (qless.Page[qless.JobSummary], error) {
			page, err := s.Client.Queue(name).List(ctx, data.List,
				qless.Range{Offset: from, Limit: pageSize})
			s.redactAll(page.Items)
			return page, err
		})
	data.Rows = rows{From: from, Shown: len(data.Jobs.Items), Total: data.Jobs.Total}
	return err
}

// count returns how many jobs the shown list has.
func (q *queueData) count() int {
	for _, tab := range q.Tabs() {
		if tab.List == q.List {
			return tab.Count
		}
	}
	return 0
}

func (s *site) readSettings(ctx context.Context, name string) (queueSettings, error) {
	var settings queueSettings
	q := s.Client.Queue(name)
	var err error
	if settings.Heartbeat, err = q.Heartbeat(ctx); err != nil {
		return settings, err
	}
	if settings.MaxConcurrency, err = q.MaxConcurrency(ctx); err != nil {
		return settings, err
	}
	settings.MaxRate, settings.Per, err = q.MaxRate(ctx)
	settings.HeartbeatSeconds = settings.Heartbeat.Seconds()
	settings.PerSeconds = settings.Per.Seconds()
	return settings, err
}

// statsDays is how many days have a link.
const statsDays = 7

// addStats adds the statistics of the day that a request asks for, or of today.
func (s *site) addStats(r *http.Request, data *queueData) error {
	today := time.Now().UTC()
	day := today
	if text := r.URL.Query().Get("day"); text != "" {
		var err error
		if day, err = time.Parse(time.DateOnly, text); err != nil {
			return invalid("the day %q is not a date such as %s", text, today.Format(time.DateOnly))
		}
	}
	data.Day = day.Format(time.DateOnly)
	for i := range statsDays {
		data.Days = append(data.Days, today.AddDate(0, 0, -i).Format(time.DateOnly))
	}
	name := data.Name
	var err error
	data.Stats, err = sampledFor(r.Context(), &s.samples, statsAge,
		"queue stats "+strconv.Quote(name)+" "+data.Day,
		func(ctx context.Context) (qless.Stats, error) { return s.Client.Queue(name).Stats(ctx, day) })
	return err
}

// fromOf returns the first row that a request asks for.
func fromOf(r *http.Request) int {
	from, err := strconv.Atoi(r.URL.Query().Get("from"))
	if err != nil {
		return 0
	}
	return max(0, from)
}

// rows are the rows of a list that a page shows.
type rows struct{ From, Shown, Total int }

// First and Last are the numbers of the first and last row, from 1 on.
func (r rows) First() int { return min(r.From+1, r.Total) }
func (r rows) Last() int  { return r.From + r.Shown }

// HasNext reports whether there is a next page, and Next is its first row.
func (r rows) HasNext() bool { return r.Last() < r.Total }
func (r rows) Next() string  { return strconv.Itoa(r.From + pageSize) }

// HasPrevious reports whether there is a previous page, and Previous is its first row.
func (r rows) HasPrevious() bool { return r.From > 0 }
func (r rows) Previous() string  { return strconv.Itoa(max(0, r.From-pageSize)) }

// Tab is the URL of a list of the queue that is shown, perhaps with another parameter.
func (f *frame) Tab(list qless.List, parameter ...string) string {
	query := url.Values{}
	here := f.Request.URL.Query()
	for _, kept := range []string{"name", "day"} {
		if here.Has(kept) {
			query.Set(kept, here.Get(kept))
		}
	}
	if list != qless.ListWaiting {
		query.Set("list", string(list))
	}
	for i := 0; i+1 < len(parameter); i += 2 {
		query.Set(parameter[i], parameter[i+1])
	}
	if len(query) == 0 {
		return f.Request.URL.EscapedPath()
	}
	return f.Request.URL.EscapedPath() + "?" + query.Encode()
}
