package web

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/doctor"
	"github.com/qless/qless-go/inspect"
	"github.com/qless/qless-go/internal/together"
	"github.com/qless/qless-go/web/internal/find"
	"github.com/qless/qless-go/web/internal/rates"
)

// status returns a recent status of the namespace.
func (s *site) status(ctx context.Context) (*doctor.Status, error) {
	return sampled(ctx, &s.samples, "status", func(ctx context.Context) (*doctor.Status, error) {
		reader := doctor.StatusReader{
			Client: s.Client, Late: s.handler.options.Late, Rates: s.lastRates,
		}
		status, err := reader.Read(ctx)
		if err == nil {
			s.record(ctx, status.Time)
			s.last.Store(status)
		}
		return status, err
	})
}

// statusTime is the time covered by the rates of the status: five minutes and the current minute.
const statusTime = 6 * time.Minute

// lastRates returns the known rates of all queues in the last few minutes.
func (s *site) lastRates(ctx context.Context) (doctor.QueueRates, error) {
	known, err := s.allRates(ctx)
	known = known.Last(statusTime)
	last := doctor.QueueRates{From: known.Since, To: known.To}
	for _, p := range known.Parts {
		last.Queues = append(last.Queues, p.Groups...)
	}
	return last, err
}

// allRates returns the known rates of all queues in the last hour.
func (s *site) allRates(ctx context.Context) (rates.Known, error) {
	return sampled(ctx, &s.samples, "all rates", func(ctx context.Context) (rates.Known, error) {
		return s.tallies.Read(ctx, "queues", rates.LastHour,
			rates.Groups(time.Minute, inspect.RateQuery{}, s.in.RatesByQueue))
	})
}

// An overviewData is the status with figures from more than one reading.
type overviewData struct {
	*queuesData
	History *rateHistory `json:"history"`
	Trends  past         `json:"trends"`
	Week    past         `json:"week"`
}

// attentionShown is the number of problems shown at first by the first page.
const attentionShown = 5

// Causes returns the first problems that need attention, and the other method the rest.
func (d *overviewData) Causes() []doctor.Reason { return part(d.Attention, 0, attentionShown) }
func (d *overviewData) MoreCauses() []doctor.Reason {
	return part(d.Attention, attentionShown, len(d.Attention))
}

// Urgent returns the number of urgent problems.
func (d *overviewData) Urgent() int { return urgent(d.Status) }

func urgent(status *doctor.Status) (n int) {
	for i := range status.Attention {
		if status.Attention[i].Urgent() {
			n++
		}
	}
	return n
}

// Waiting returns the number of waiting jobs in all queues.
func (d *overviewData) Waiting() int { return sumOf(d.Queues).Waiting }

// sumOf returns the figures of all queues together.
func sumOf(queues []doctor.QueueStatus) (sum qless.QueueCounts) {
	for i := range queues {
		addCounts(&sum, &queues[i].QueueCounts)
	}
	return sum
}

func addCounts(sum, more *qless.QueueCounts) {
	sum.Waiting += more.Waiting
	sum.Running += more.Running
	sum.Stalled += more.Stalled
	sum.Scheduled += more.Scheduled
	sum.Depends += more.Depends
}

// Oldest returns the queue with the longest wait of its oldest job, or nil if no job waits.
func (d *overviewData) Oldest() (oldest *doctor.QueueStatus) {
	for i := range d.Queues {
		q := &d.Queues[i]
		if q.Oldest > 0 && (oldest == nil || q.Oldest > oldest.Oldest) {
			oldest = q
		}
	}
	return oldest
}

// overview is the first page: rates, problems, queues and workers.
func (s *site) overview(ctx context.Context, q query) (*view, error) {
	queues, err := s.readQueues(ctx, q)
	if err != nil {
		return nil, err
	}
	history, err := s.rateHistory(ctx, q, inspect.RateQuery{}, "queue")
	if err != nil {
		return nil, err
	}
	trends, err := s.pasts(ctx, q)
	if err != nil {
		return nil, err
	}
	days := inspect.HistoryQuery{From: time.Now().AddDate(0, 0, -7)}
	week, err := s.readPasts(ctx, days, "week")
	if err != nil {
		return nil, err
	}
	data := &overviewData{queues, history, trends[0], week[0]}
	return &view{Title: "Overview", Data: data, isPart: history.HasMore, order: queues.order}, nil
}

// A queuesData is the status with a page of the queues.
type queuesData struct {
	*doctor.Status
	Shown  []doctor.QueueStatus `json:"-"`
	Rows   rows                 `json:"-"`
	Search string               `json:"-"`
	Only   string               `json:"-"` // "busy" for queues with jobs, or the code of a cause
	Busy   int                  `json:"-"`
	Most   int                  `json:"-"` // the largest number of waiting jobs
	order  order

	waits  map[string]inspect.Percentiles // by queue
	trends map[string]past                // of the shown queues
}

// Cause returns the cause that selects the listed queues, or "".
func (d *queuesData) Cause() string {
	if d.Only == "busy" {
		return ""
	}
	return strings.ReplaceAll(d.Only, "_", " ")
}

// harmed returns the queues harmed together by a cause.
func (d *queuesData) harmed() (names []string) {
	for i := range d.Attention {
		if string(d.Attention[i].Code) == d.Only {
			names = append(names, d.Attention[i].Queues...)
		}
	}
	return names
}

// queues lists all queues.
func (s *site) queues(ctx context.Context, q query) (*view, error) {
	data, err := s.readQueues(ctx, q)
	if err != nil {
		return nil, err
	}
	return &view{Title: "Queues", Data: data, order: data.order}, nil
}

// queueOrders are the columns for sorting queues.
var queueOrders = orders[doctor.QueueStatus]{
	"queue":     func(q *doctor.QueueStatus) any { return q.Name },
	"waiting":   func(q *doctor.QueueStatus) any { return q.Waiting },
	"oldest":    func(q *doctor.QueueStatus) any { return q.Oldest.Seconds() },
	"running":   func(q *doctor.QueueStatus) any { return q.Running },
	"stalled":   func(q *doctor.QueueStatus) any { return q.Stalled },
	"scheduled": func(q *doctor.QueueStatus) any { return q.Scheduled },
	"depends":   func(q *doctor.QueueStatus) any { return q.Depends },
	"done":      func(q *doctor.QueueStatus) any { return q.Rates.Completed },
	"failed":    func(q *doctor.QueueStatus) any { return q.Rates.Failed },
	"workers":   func(q *doctor.QueueStatus) any { return q.Workers },
}

func (s *site) readQueues(ctx context.Context, q query) (*queuesData, error) {
	status, err := s.status(ctx)
	if err != nil {
		return nil, err
	}
	data := &queuesData{Status: status, Search: q.Get("q"), Only: q.Get("only")}
	var all []doctor.QueueStatus
	harmed := data.harmed()
	for i := range status.Queues {
		one := &status.Queues[i]
		isBusy := one.Waiting+one.Running+one.Stalled > 0
		if isBusy {
			data.Busy++
		}
		data.Most = max(data.Most, one.Waiting)
		isAsked := data.Only == "" || data.Only == "busy" && isBusy || slices.Contains(harmed, one.Name)
		if isAsked && find.HasText(one.Name, data.Search) {
			all = append(all, *one)
		}
	}
	data.order = queueOrders.sort(all, q, "waiting")
	data.Shown = part(all, q.from(), pageSize)
	data.Rows = rows{q.from(), len(data.Shown), len(all), pageSize}
	return data, s.addWaits(ctx, data)
}

// addWaits adds the waits of the last minutes, and the trends of the last hour of the shown queues.
func (s *site) addWaits(ctx context.Context, data *queuesData) error {
	known, err := s.allRates(ctx)
	if err != nil {
		return err
	}
	var sum rates.Part
	for _, p := range known.Last(statusTime).Parts {
		sum.Add(p)
	}
	data.waits, data.trends = map[string]inspect.Percentiles{}, map[string]past{}
	for _, group := range sum.Groups {
		data.waits[group.Name] = group.Wait
	}
	names := make([]string, len(data.Shown))
	for i := range data.Shown {
		names[i] = data.Shown[i].Name
	}
	slices.Sort(names)
	trends, err := s.readPasts(ctx, inspect.HistoryQuery{Queues: names}, "")
	for _, one := range trends {
		data.trends[one.Queue] = one
	}
	return err
}

// Wait returns the recent waits of a queue's jobs, and Trend the queue's history.
func (d *queuesData) Wait(queue string) inspect.Percentiles { return d.waits[queue] }
func (d *queuesData) Trend(queue string) past               { return d.trends[queue] }

// A total sums up a namespace, one of several.
type total struct {
	Name      string         `json:"name"`
	Status    *doctor.Status `json:"status,omitempty"`
	Error     string         `json:"error,omitempty"`
	Waiting   int            `json:"waiting"`
	Running   int            `json:"running"`
	Stalled   int            `json:"stalled"`
	Scheduled int            `json:"scheduled"`
	Failed    int            `json:"failed"`
	Urgent    int            `json:"urgent"` // problems
	Base      string         `json:"-"`
}

// totalsAtOnce is the number of namespaces read at a time.
const totalsAtOnce = 16

// sum shows the namespaces and their sum. With few namespaces, an open page is updated.
func (h *Handler) sum(r *http.Request) (*view, error) {
	h.look()
	totals, _ := together.AskFew(totalsAtOnce, h.sites(), func(s *site) (total, error) {
		one := total{Name: s.Name, Base: s.Base}
		status, err := s.status(r.Context())
		if err != nil {
			one.Error = err.Error()
			return one, nil
		}
		one.Status = status
		one.add(status)
		return one, nil
	})
	all := total{Name: "all"}
	for _, one := range totals {
		if one.Status != nil {
			all.add(one.Status)
		}
	}
	return &view{
		template: "sum", Title: "Namespaces", Section: "namespaces", Data: append(totals, all),
		isStill: len(h.sites()) > sitesShown,
	}, nil
}

func (t *total) add(status *doctor.Status) {
	sum := sumOf(status.Queues)
	t.Waiting += sum.Waiting
	t.Running += sum.Running
	t.Stalled += sum.Stalled
	t.Scheduled += sum.Scheduled
	t.Failed += status.Failed()
	t.Urgent += urgent(status)
}
