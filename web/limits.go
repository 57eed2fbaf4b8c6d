package web

import (
	"context"
	"strings"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
)

// A limitsData is a part of the limits that have a definition.
type limitsData struct {
	Total  int                 `json:"total"`
	Limits []inspect.LimitInfo `json:"limits"`
	Rows   rows                `json:"-"`
}

// The most that the pages about limits show. Each row costs a call.
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

// limits lists the limits that have a definition.
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

// A limitData is a limit with the jobs that run.
type limitData struct {
	inspect.LimitInfo
	Family string        `json:"family,omitempty"` // the limit whose definition it has
	Jobs   []inspect.Row `json:"jobs"`             // some of the running ones
}

// IsSet reports whether the limit, or its family, has a definition.
func (d *limitData) IsSet() bool { return d.Config != qless.LimitConfig{} }

// IsFull reports whether no job can start before another one ends.
func (d *limitData) IsFull() bool {
	return d.Config.Concurrency > 0 && d.Used >= d.Config.Concurrency
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
	data.Jobs, err = s.rowsOf(ctx, part(info.Running, 0, limitJobsShown))
	return &view{Title: q.name, Data: data}, err
}
