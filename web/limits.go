package web

import (
	"context"
	"net/http"
	"strconv"
	"strings"

	"github.com/qless/qless-go"
)

// What the pages about limits show at most. Each row costs a call.
const (
	limitsShown    = 20
	limitJobsShown = 25
)

// A limitsData is a part of the limits that have a definition.
type limitsData struct {
	Total  int               `json:"total"`
	Limits []qless.LimitInfo `json:"limits"`
	Rows   sizedRows         `json:"-"`
}

// limits lists the limits that have a definition.
func (s *site) limits(r *http.Request) (*view, error) {
	from := fromOf(r)
	data, err := sampled(r.Context(), &s.samples, "limits "+strconv.Itoa(from),
		func(ctx context.Context) (*limitsData, error) { return s.readLimits(ctx, from) })
	if err != nil {
		return nil, err
	}
	return &view{template: "limits", title: "Limits", section: "limits", data: data}, nil
}

func (s *site) readLimits(ctx context.Context, from int) (*limitsData, error) {
	page, err := s.Client.Limits(ctx, qless.Range{Offset: from, Limit: limitsShown})
	if err != nil {
		return nil, err
	}
	data := &limitsData{Total: page.Total, Limits: []qless.LimitInfo{}}
	for _, limit := range page.Items {
		info, err := s.Client.Limit(limit.Name).Info(ctx)
		if err != nil {
			return nil, err
		}
		data.Limits = append(data.Limits, info)
	}
	data.Rows = sizedRows{rows{from, len(data.Limits), data.Total}, limitsShown}
	return data, nil
}

// A limitData is a limit with the jobs that run.
type limitData struct {
	qless.LimitInfo
	Family string             `json:"family,omitempty"` // the limit whose definition it has
	Jobs   []qless.JobSummary `json:"jobs"`             // some of those that run
}

// IsSet reports whether the limit, or its family, has a definition.
func (d *limitData) IsSet() bool { return d.Config != qless.LimitConfig{} }

// limit shows a limit.
func (s *site) limit(r *http.Request) (*view, error) {
	name := nameOf(r, "name")
	data, err := sampled(r.Context(), &s.samples, "limit "+strconv.Quote(name),
		func(ctx context.Context) (*limitData, error) { return s.readLimit(ctx, name) })
	if err != nil {
		return nil, err
	}
	return &view{template: "limit", title: name, section: "limits", data: data}, nil
}

func (s *site) readLimit(ctx context.Context, name string) (*limitData, error) {
	info, err := s.Client.Limit(name).Info(ctx)
	if err != nil {
		return nil, err
	}
	data := &limitData{LimitInfo: info, Jobs: []qless.JobSummary{}}
	if family, _, isKey := strings.Cut(name, "/"); isKey && !info.Own && data.IsSet() {
		data.Family = family
	}
	shown := part(info.Running, 0, limitJobsShown)
	if len(shown) == 0 {
		return data, nil
	}
	jobs, err := s.Client.Jobs(ctx, shown...)
	if err != nil {
		return nil, err
	}
	for _, job := range jobs {
		data.Jobs = append(data.Jobs, summaryOf(job))
	}
	s.redactAll(data.Jobs)
	return data, nil
}
