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
	cell   time.Duration // of a table: it begins with one
	keep   time.Duration // how long a reading is good enough

	// isLight says that a look reads little: the first one the last minute that is over, each of the
	// next ones one more.
	isLight bool
}

// rateSpans are those to choose from. Workers tell their rates every 15 seconds.
var rateSpans = []rateSpan{
	{"15m", "15 minutes", 15 * time.Minute, time.Minute, time.Minute, 10 * time.Second, false},
	{"1h", "1 hour", time.Hour, time.Minute, 5 * time.Minute, 15 * time.Second, false},
	{"6h", "6 hours", 6 * time.Hour, 10 * time.Minute, 10 * time.Minute, time.Minute, false},
	{"24h", "24 hours", 24 * time.Hour, time.Hour, time.Hour, 5 * time.Minute, false},
	{"3d", "3 days", 3 * 24 * time.Hour, time.Hour, time.Hour, 15 * time.Minute, false},
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

// Spans are the times to choose from.
func (s rateSpan) Spans() []rateSpan { return rateSpans }

// A klassesData is what workers did by klass.
type klassesData struct {
	Over    rateSpan   `json:"over"`
	From    time.Time  `json:"from"`
	To      time.Time  `json:"to"`
	Since   time.Time  `json:"since"`             // what was before is not read yet
	HasMore bool       `json:"has_more,omitzero"` // it is read with the next looks
	Queue   string     `json:"queue,omitempty"`   // only the jobs of this one
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
	all, err := sampled(r.Context(), &s.samples, key,
		func(ctx context.Context) (*klassesData, error) { return s.readKlasses(ctx, key, span, queue) })
	if err != nil {
		return nil, err
	}
	data := *all
	data.Klasses = part(all.Klasses, from, pageSize)
	data.Rows = rows{from, len(data.Klasses), data.Total}
	return &view{
		template: "klasses", title: "Klasses", section: "klasses", data: &data, isPart: data.HasMore,
	}, nil
}

func (s *site) readKlasses(
	ctx context.Context, key string, span rateSpan, queue string,
) (*klassesData, error) {
	known, err := s.tallies.look(ctx, key, span, s.klassesOf(qless.RateFilter{Queue: queue}))
	if err != nil {
		return nil, err
	}
	data := &klassesData{
		Over: span, Queue: queue, Klasses: []klassRow{}, From: known.begin, To: known.to,
		Since: known.since, HasMore: known.since.After(known.begin),
	}
	byName := map[string][]qless.Rates{}
	for _, p := range known.parts {
		for _, group := range p.groups {
			byName[group.Name] = append(byName[group.Name], group.Rates)
		}
	}
	for name, rates := range byName {
		group := qless.RateGroup{Name: name, Rates: sumOfRates(rates)}
		data.Klasses = append(data.Klasses, newKlassRow(group, data.To.Sub(data.Since)))
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
	Klass   string            `json:"klass"`
	Over    rateSpan          `json:"over"`
	Step    float64           `json:"step"` // in seconds
	From    time.Time         `json:"from"`
	Since   time.Time         `json:"since"`             // what was before is not read yet
	HasMore bool              `json:"has_more,omitzero"` // it is read with the next looks
	Sum     klassRow          `json:"sum"`
	Points  []qless.RatePoint `json:"points"`
}

// klass shows what workers did with the jobs of a klass.
func (s *site) klass(r *http.Request) (*view, error) {
	name, span := nameOf(r, "klass"), rateSpanOf(r)
	key := fmt.Sprintf("klass %s %q", span.Name, name)
	data, err := sampled(r.Context(), &s.samples, key,
		func(ctx context.Context) (*klassData, error) { return s.readKlass(ctx, key, name, span) })
	if err != nil {
		return nil, err
	}
	return &view{
		template: "klass", title: name, section: "klasses", data: data, isPart: data.HasMore,
	}, nil
}

func (s *site) readKlass(
	ctx context.Context, key, name string, span rateSpan,
) (*klassData, error) {
	if name == "" {
		return nil, &qless.Error{Code: qless.CodeNotFound, Op: "web", Message: "no klass is named"}
	}
	span.cell = span.Step
	known, err := s.tallies.look(ctx, key, span, s.minutesOf(qless.RateFilter{Klass: name}))
	if err != nil {
		return nil, err
	}
	data := &klassData{
		Klass: name, Over: span, Step: span.Step.Seconds(), From: known.begin, Since: known.since,
		HasMore: known.since.After(known.begin), Points: known.points(span.Step),
	}
	all := make([]qless.Rates, len(data.Points))
	for i := range data.Points {
		all[i] = data.Points[i].Rates
	}
	data.Sum = newKlassRow(qless.RateGroup{Name: name, Rates: sumOfRates(all)},
		known.to.Sub(known.since))
	return data, nil
}

// Chart draws how many runs ended in each step.
func (d *klassData) Chart() template.HTML {
	lines := []line{{Name: "completed"}, {Name: "failed"}, {Name: "retried"}}
	d.skipUnknown(lines)
	for _, point := range d.Points {
		for i, n := range []int{point.Completed, point.Failed, point.Retried} {
			lines[i].Values = append(lines[i].Values, float64(n))
		}
	}
	return lineChart("Runs of "+d.Klass+" in each "+d.Every(), d.From, d.Over.Step, lines)
}

// Times draws how long half and 90 % of the runs took in each step.
func (d *klassData) Times() template.HTML {
	lines := []line{
		{Name: "p50 of run"}, {Name: "p90 of run"}, {Name: "p50 of wait"}, {Name: "p90 of wait"},
	}
	d.skipUnknown(lines)
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
	return lineChart("Seconds that "+d.Klass+" ran and waited", d.From, d.Over.Step, lines)
}

// skipUnknown begins lines where a chart begins, though nothing may be known of that time yet.
func (d *klassData) skipUnknown(lines []line) {
	for at := d.From; len(d.Points) > 0 && at.Before(d.Points[0].Time); at = at.Add(d.Over.Step) {
		for i := range lines {
			lines[i].Values = append(lines[i].Values, math.NaN())
		}
	}
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
