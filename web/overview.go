package web

import (
	"context"
	"net/http"

	"github.com/qless/qless-go/doctor"
	"github.com/qless/qless-go/web/internal/rates"
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

// lastRates returns the rates of all queues in the last minutes, as far as they are known.
func (s *site) lastRates(ctx context.Context) (doctor.QueueRates, error) {
	known, err := s.tallies.Read(ctx, "queues", rates.LastMinutes, rates.Queues(s.in))
	last := doctor.QueueRates{From: known.Since, To: known.To}
	for _, p := range known.Parts {
		last.Queues = append(last.Queues, p.Groups...)
	}
	return last, err
}

// An overviewData is the status with what needs to be looked at twice.
type overviewData struct {
	*doctor.Status
	Growing []*growing `json:"growing"` // the failure groups that have grown most
	Week    *weekData  `json:"week"`
}

// overview is the first page: what needs attention, and what there is.
func (s *site) overview(ctx context.Context, _ query) (*view, error) {
	status, err := s.status(ctx)
	if err != nil {
		return nil, err
	}
	queues := make([]string, len(status.Queues))
	for i := range status.Queues {
		queues[i] = status.Queues[i].Name
	}
	week, err := s.week(ctx, queues, status.Total)
	if err != nil {
		return nil, err
	}
	data := &overviewData{status, s.growth.most(growthShown), week}
	return &view{Title: "Overview", Data: data, isPart: week.HasMore}, nil
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
	var totals []total
	sum := total{Name: "all"}
	for _, s := range h.sites {
		one := total{Name: s.Name, Base: s.Base}
		status, err := s.status(r.Context())
		if err != nil {
			one.Error = err.Error()
		} else {
			one.Status = status
			one.add(status)
			sum.add(status)
		}
		totals = append(totals, one)
	}
	h.sites[0].show(w, r, &view{
		template: "sum", Title: "Namespaces", Data: append(totals, sum), isStill: true,
	})
}

func (t *total) add(status *doctor.Status) {
	for i := range status.Queues {
		t.Waiting += status.Queues[i].Waiting
		t.Running += status.Queues[i].Running
		t.Stalled += status.Queues[i].Stalled
		t.Scheduled += status.Queues[i].Scheduled
	}
	t.Failed += status.Failed()
}
