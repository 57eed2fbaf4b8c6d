package web

import (
	"context"
	"net/http"
	"time"

	"github.com/qless/qless-go/doctor"
)

// status returns what the namespace does, as it was read lately.
func (s *site) status(ctx context.Context) (*doctor.Status, error) {
	return sampled(ctx, &s.samples, "status", func(ctx context.Context) (*doctor.Status, error) {
		reader := doctor.StatusReader{
			Client: s.Client, Late: s.handler.options.Late, Rates: s.lastRates,
		}
		status, err := reader.Read(ctx)
		if err == nil {
			groups := map[string]int{}
			for _, group := range status.Failures {
				groups[group.Name] = group.Jobs
			}
			s.growth.add(sizes{status.Time, groups})
		}
		return status, err
	})
}

// lastMinutes is the time that the rates of all queues are of: five minutes, and the one that is
// not over.
var lastMinutes = rateSpan{
	Length: 6 * time.Minute, cell: time.Minute, keep: 4 * time.Second, isLight: true,
}

// lastRates returns the rates of all queues in the last minutes, as far as they are known.
func (s *site) lastRates(ctx context.Context) (doctor.QueueRates, error) {
	known, err := s.tallies.look(ctx, "queues", lastMinutes, s.queueRates)
	rates := doctor.QueueRates{From: known.since, To: known.to}
	for _, p := range known.parts {
		rates.Queues = append(rates.Queues, p.groups...)
	}
	return rates, err
}

// An overviewData is the status with what needs to be looked at twice.
type overviewData struct {
	*doctor.Status
	Growing []*growing `json:"growing"` // the failure groups that have grown most
	Week    *weekData  `json:"week"`
}

// IsWell reports whether nothing needs attention.
func (d *overviewData) IsWell() bool { return len(d.Attention)+len(d.Growing) == 0 }

// overview is the first page: what needs attention, and what there is.
func (s *site) overview(r *http.Request) (*view, error) {
	status, err := s.status(r.Context())
	if err != nil {
		return nil, err
	}
	queues := make([]string, len(status.Queues))
	for i := range status.Queues {
		queues[i] = status.Queues[i].Name
	}
	week, err := s.week(r.Context(), queues, status.Total)
	if err != nil {
		return nil, err
	}
	data := &overviewData{status, s.growth.most(growthShown), week}
	return &view{
		template: "overview", title: "Overview", section: "overview", data: data,
		isPart: week.HasMore,
	}, nil
}

// A total is what one of several namespaces has.
type total struct {
	Name      string         `json:"name"`
	Status    *doctor.Status `json:"status,omitempty"`
	Error     string         `json:"error,omitempty"`
	Waiting   int            `json:"waiting"`
	Running   int            `json:"running"`
	Stalled   int            `json:"stalled"`
	Scheduled int            `json:"scheduled"`
	Failed    int            `json:"failed"`
	Base      string         `json:"-"`
}

// serveSum shows the namespaces, and their sum.
func (h *Handler) serveSum(w http.ResponseWriter, r *http.Request) {
	totals := make([]total, 0, len(h.sites)+1)
	sum := total{Name: "all"}
	for _, s := range h.sites {
		one := s.total(r.Context())
		totals = append(totals, one)
		sum.Waiting += one.Waiting
		sum.Running += one.Running
		sum.Stalled += one.Stalled
		sum.Scheduled += one.Scheduled
		sum.Failed += one.Failed
	}
	h.sites[0].show(w, r, &view{
		template: "sum", title: "Namespaces", data: append(totals, sum), isStill: true,
	})
}

func (s *site) total(ctx context.Context) total {
	one := total{Name: s.Name, Base: s.base}
	status, err := s.status(ctx)
	if err != nil {
		one.Error = err.Error()
		return one
	}
	one.Status = status
	for i := range status.Queues {
		one.Waiting += status.Queues[i].Waiting
		one.Running += status.Queues[i].Running
		one.Stalled += status.Queues[i].Stalled
		one.Scheduled += status.Queues[i].Scheduled
	}
	one.Failed = status.Failed()
	return one
}
