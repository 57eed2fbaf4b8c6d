package web

import (
	"context"
	"slices"
	"strings"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
)

// A limitsData holds a page of the defined limits.
type limitsData struct {
	Total  int                 `json:"total"`
	Limits []inspect.LimitInfo `json:"limits"`
	Rows   rows                `json:"-"`
}

// The maximum numbers of rows on the pages about limits. Each row costs a call.
const (
	limitsShown    = 20
	limitJobsShown = 25
)

// limitOrders are the columns by which limits are sorted.
var limitOrders = orders[inspect.LimitInfo]{
	"limit":   func(one *inspect.LimitInfo) any { return one.Name },
	"running": func(one *inspect.LimitInfo) any { return one.Used },
	"waiting": func(one *inspect.LimitInfo) any { return one.Parked },
}

// limits lists the defined limits.
func (s *site) limits(ctx context.Context, q query) (*view, error) {
	page, err := s.in.Limits(ctx, inspect.Range{Offset: q.from(), Limit: limitsShown})
	if err != nil {
		return nil, err
	}
	data := &limitsData{
		Total: page.Total, Limits: []inspect.LimitInfo{},
		Rows: rows{q.from(), len(page.Items), page.Total, limitsShown},
	}
	for _, limit := range page.Items {
		info, err := s.in.Limit(ctx, limit.Name)
		if err != nil {
			return nil, err
		}
		data.Limits = append(data.Limits, info)
	}
	by := limitOrders.sortWhole(data.Limits, data.Rows, q)
	return &view{Title: "Limits", Data: data, order: by}, nil
}

// A limitData is a limit with some of its jobs.
type limitData struct {
	inspect.LimitInfo
	Family string        `json:"family,omitempty"` // the limit whose definition applies
	Jobs   []inspect.Row `json:"jobs"`             // some that run, and then the next that wait
}

// IsSet reports whether the limit, or its family, has a definition.
func (d *limitData) IsSet() bool { return d.Config != qless.LimitConfig{} }

// IsFull reports whether a job can start only after another one ends.
func (d *limitData) IsFull() bool {
	return d.Config.Concurrency > 0 && d.Used >= d.Config.Concurrency
}

// Hidden returns the number of jobs that are not in the list.
func (d *limitData) Hidden() int {
	return max(0, len(d.Running)-limitJobsShown) + max(0, d.Parked-limitJobsShown)
}

// limit shows a limit.
func (s *site) limit(ctx context.Context, q query) (*view, error) {
	info, err := s.in.Limit(ctx, q.name)
	if err != nil {
		return nil, err
	}
	data := &limitData{LimitInfo: info}
	if family, _, isKey := strings.Cut(q.name, "/"); isKey && !info.Own && data.IsSet() {
		data.Family = family
	}
	data.Jobs, err = s.rowsOf(ctx, slices.Concat(
		part(info.Running, 0, limitJobsShown), part(info.Waiting, 0, limitJobsShown)))
	return &view{Title: q.name, Data: data}, err
}
