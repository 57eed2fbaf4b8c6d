package web

import (
	"context"
	"net/http"
	"strconv"

	"github.com/qless/qless-go"
)

// A schedulesData is a part of the schedules.
type schedulesData struct {
	qless.Page[qless.ScheduleInfo]
	Rows rows `json:"-"`
}

// schedules lists the schedules that workers have registered.
func (s *site) schedules(r *http.Request) (*view, error) {
	from := fromOf(r)
	data, err := sampled(r.Context(), &s.samples, "schedules "+strconv.Itoa(from),
		func(ctx context.Context) (*schedulesData, error) {
			page, err := s.Client.Schedules(ctx, qless.Range{Offset: from, Limit: pageSize})
			return &schedulesData{page, rows{from, len(page.Items), page.Total}}, err
		})
	if err != nil {
		return nil, err
	}
	return &view{template: "schedules", title: "Schedules", section: "recurring", data: data}, nil
}

// A scheduleData is a schedule.
type scheduleData struct {
	*qless.ScheduleInfo
	Words string `json:"words,omitempty"` // when it is due, in words
}

// PrettyData is the data of its jobs, indented.
func (d *scheduleData) PrettyData() string { return pretty(d.Data) }

// schedule shows a schedule.
func (s *site) schedule(r *http.Request) (*view, error) {
	id := nameOf(r, "id")
	data, err := sampled(r.Context(), &s.samples, "schedule "+strconv.Quote(id),
		func(ctx context.Context) (*scheduleData, error) {
			info, err := s.Client.Schedule(ctx, id)
			if err != nil {
				return nil, err
			}
			if s.IsRedacted() {
				info.Data = nil
			}
			return &scheduleData{info, specInWords(info.Spec)}, nil
		})
	if err != nil {
		return nil, err
	}
	return &view{template: "schedule", title: id, section: "recurring", data: data}, nil
}
