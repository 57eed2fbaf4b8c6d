package web

import (
	"cmp"
	"context"
	"fmt"
	"html/template"
	"math"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/qless/qless-go"
)

// A rateSpan is a time that rates are shown of.
type rateSpan struct {
	Name   string        `json:"name"` // in the URL
	Title  string        `json:"-"`
	Length time.Duration `json:"-"`
	Step   time.Duration `json:"-"` // of a chart
	keep   time.Duration // how long a reading is good enough
}

// rateSpans are those to choose from. Workers tell their rates every 15 seconds.
var rateSpans = []rateSpan{
	{"15m", "15 minutes", 15 * time.Minute, time.Minute, 10 * time.Second},
	{"1h", "1 hour", time.Hour, time.Minute, 15 * time.Second},
	{"6h", "6 hours", 6 * time.Hour, 10 * time.Minute, time.Minute},
	{"24h", "24 hours", 24 * time.Hour, time.Hour, 5 * time.Minute},
	{"3d", "3 days", 3 * 24 * time.Hour, time.Hour, 15 * time.Minute},
}

// rateSpanOf returns the time that a request asks for: an hour, unless it says something else.
func rateSpanOf(r *http.Request) rateSpan {
	for _, span := range rateSpans {
		if span.Name == r.URL.Query().Get("over") {
			return span
		}
	}
	return rateSpans[1]
}

// between returns the times that a span begins and ends at. It begins with a step.
func (s rateSpan) between(now time.Time) (from, to time.Time) {
	return now.Add(s.Step - s.Length).Truncate(s.Step), now
}

// Spans are the times to choose from.
func (s rateSpan) Spans() []rateSpan { return rateSpans }

// A klassesData is what workers did by klass.
type klassesData struct {
	Over    rateSpan   `json:"over"`
	From    time.Time  `json:"from"`
	To      time.Time  `json:"to"`
	Queue   string     `json:"queue,omitempty"` // only the jobs of this one
	Total   int        `json:"total"`
	Klasses []klassRow `json:"klasses"`
	Rows    rows       `json:"-"`
}

// A klassRow is a klass with its rates.
type klassRow struct {
	Name       string  `json:"name"` // empty for what the server counts without names
	PerMinute  float64 `json:"ended_per_minute"`
	FailedPart float64 `json:"failed_part"` // of the jobs that have ended
	qless.Rates
}

// klasses lists the klasses, those with the most runs first.
func (s *site) klasses(r *http.Request) (*view, error) {
	span, from, queue := rateSpanOf(r), fromOf(r), r.URL.Query().Get("queue")
	key := fmt.Sprintf("klasses %s %q", span.Name, queue)
	all, err := sampledFor(r.Context(), &s.samples, span.keep, key,
		func(ctx context.Context) (*klassesData, error) { return s.readKlasses(ctx, span, queue) })
	if err != nil {
		return nil, err
	}
	data := *all
	data.Klasses = part(all.Klasses, from, pageSize)
	data.Rows = rows{from, len(data.Klasses), data.Total}
	return &view{template: "klasses", title: "Klasses", section: "klasses", data: &data}, nil
}

func (s *site) readKlasses(ctx context.Context, span rateSpan, queue string) (*klassesData, error) {
	data := &klassesData{Over: span, Queue: queue, Klasses: []klassRow{}}
	data.From, data.To = span.between(time.Now())
	groups, err := s.Client.KlassRates(ctx, qless.RateFilter{Queue: queue}, data.From, data.To)
	if err != nil {
		return nil, err
	}
	for _, group := range groups {
		data.Klasses = append(data.Klasses, newKlassRow(group, data.To.Sub(data.From)))
	}
	slices.SortFunc(data.Klasses, func(a, b klassRow) int {
		return cmp.Or(cmp.Compare(b.runs(), a.runs()), cmp.Compare(a.Name, b.Name))
	})
	data.Total = len(data.Klasses)
	return data, nil
}

func newKlassRow(group qless.RateGroup, length time.Duration) klassRow {
	row := klassRow{Name: group.Name, Rates: group.Rates}
	ended := float64(row.Completed + row.Failed)
	if ended > 0 {
		row.FailedPart = float64(row.Failed) / ended
	}
	row.PerMinute = ended / length.Minutes()
	return row
}

// runs is how often jobs of the klass were run.
func (k klassRow) runs() int { return k.Completed + k.Failed + k.Retried }

// A klassData is a klass over time.
type klassData struct {
	Klass  string            `json:"klass"`
	Over   rateSpan          `json:"over"`
	Step   float64           `json:"step"` // in seconds
	Sum    klassRow          `json:"sum"`
	Points []qless.RatePoint `json:"points"`
}

// klass shows what workers did with the jobs of a klass.
func (s *site) klass(r *http.Request) (*view, error) {
	name, span := nameOf(r, "klass"), rateSpanOf(r)
	key := fmt.Sprintf("klass %s %q", span.Name, name)
	data, err := sampledFor(r.Context(), &s.samples, span.keep, key,
		func(ctx context.Context) (*klassData, error) { return s.readKlass(ctx, name, span) })
	if err != nil {
		return nil, err
	}
	return &view{template: "klass", title: name, section: "klasses", data: data}, nil
}

func (s *site) readKlass(ctx context.Context, name string, span rateSpan) (*klassData, error) {
	if name == "" {
		return nil, &qless.Error{Code: qless.CodeNotFound, Op: "web", Message: "no klass is named"}
	}
	data := &klassData{Klass: name, Over: span, Step: span.Step.Seconds()}
	from, to := span.between(time.Now())
	var err error
	data.Points, err = s.Client.Rates(ctx, qless.RateFilter{Klass: name}, from, to, span.Step)
	if err != nil {
		return nil, err
	}
	sum := qless.RateGroup{Name: name, Rates: sumOfRates(data.Points)}
	data.Sum = newKlassRow(sum, to.Sub(from))
	return data, nil
}

// Chart draws how many runs ended in each step.
func (d *klassData) Chart() template.HTML {
	lines := []line{{Name: "completed"}, {Name: "failed"}, {Name: "retried"}}
	for _, point := range d.Points {
		for i, n := range []int{point.Completed, point.Failed, point.Retried} {
			lines[i].Values = append(lines[i].Values, float64(n))
		}
	}
	return lineChart("Runs of "+d.Klass+" in each "+d.Every(), d.begin(), d.Over.Step, lines)
}

// Times draws how long half and 90 % of the runs took in each step.
func (d *klassData) Times() template.HTML {
	lines := []line{
		{Name: "p50 of run"}, {Name: "p90 of run"}, {Name: "p50 of wait"}, {Name: "p90 of wait"},
	}
	for _, point := range d.Points {
		times := []time.Duration{point.Run.P50, point.Run.P90, point.Wait.P50, point.Wait.P90}
		for i, one := range times {
			value := one.Seconds()
			if point.Run.Count == 0 {
				value = math.NaN()
			}
			lines[i].Values = append(lines[i].Values, value)
		}
	}
	return lineChart("Seconds that "+d.Klass+" ran and waited", d.begin(), d.Over.Step, lines)
}

func (d *klassData) begin() time.Time {
	if len(d.Points) == 0 {
		return time.Time{}
	}
	return d.Points[0].Time
}

// Every is the step of the charts: "minute", "10 minutes" or "hour".
func (d *klassData) Every() string {
	switch d.Over.Step {
	case time.Minute:
		return "minute"
	case time.Hour:
		return "hour"
	}
	return strconv.Itoa(int(d.Over.Step.Minutes())) + " minutes"
}

// percent writes a part of a whole.
func percent(part float64) string {
	if part > 0 && part < 0.001 {
		return "<0.1 %"
	}
	return strconv.FormatFloat(100*part, 'f', 1, 64) + " %"
}
