package web

import (
	"cmp"
	"context"
	"fmt"
	"html/template"
	"math"
	"slices"

	"github.com/qless/qless-go/inspect"
	"github.com/qless/qless-go/web/internal/rates"
	"github.com/qless/qless-go/web/internal/words"
)

// spanOf returns the time that is asked for: an hour, unless it says something else.
func spanOf(q query) rates.Span {
	for _, span := range rates.Spans {
		if span.Name == q.Get("over") {
			return span
		}
	}
	return rates.Spans[1]
}

// A klassesData is what workers did by klass.
type klassesData struct {
	rates.Known
	Over    rates.Span `json:"over"`
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
	inspect.Rates
}

// klasses lists the klasses, those with the most runs first.
func (s *site) klasses(ctx context.Context, q query) (*view, error) {
	data := &klassesData{Over: spanOf(q), Queue: q.Get("queue")}
	key := fmt.Sprintf("klasses %s %q", data.Over.Name, data.Queue)
	all, err := sampled(ctx, &s.samples, key, func(ctx context.Context) (*klassesData, error) {
		read := rates.Klasses(s.in, inspect.RateQuery{Queue: data.Queue})
		known, err := s.tallies.Read(ctx, key, data.Over, read)
		return &klassesData{Known: known, Klasses: klassRows(&known)}, err
	})
	if err != nil {
		return nil, err
	}
	data.Known, data.Total = all.Known, len(all.Klasses)
	sorted := slices.Clone(all.Klasses)
	by := klassOrders.sort(sorted, q, "runs")
	data.Klasses = part(sorted, q.from(), pageSize)
	data.Rows = rows{q.from(), len(data.Klasses), data.Total, pageSize}
	return &view{Title: "Klasses", Data: data, isPart: data.HasMore, order: by}, nil
}

// klassOrders are the columns by which klasses are sorted.
var klassOrders = orders[klassRow]{
	"klass":   func(k *klassRow) any { return k.Name },
	"runs":    func(k *klassRow) any { return k.runs() },
	"done":    func(k *klassRow) any { return k.Completed },
	"failed":  func(k *klassRow) any { return k.Failed },
	"retried": func(k *klassRow) any { return k.Retried },
	"rate":    func(k *klassRow) any { return k.PerMinute },
	"part":    func(k *klassRow) any { return k.FailedPart },
	"wait":    func(k *klassRow) any { return k.Wait.P50.Seconds() },
	"run":     func(k *klassRow) any { return k.Run.P50.Seconds() },
}

func klassRows(known *rates.Known) []klassRow {
	var sum rates.Part
	for _, part := range known.Parts {
		sum.Add(part)
	}
	all := make([]klassRow, len(sum.Groups))
	for i, group := range sum.Groups {
		all[i] = newKlassRow(group.Name, group.Rates, known)
	}
	slices.SortStableFunc(all, func(a, b klassRow) int { return cmp.Compare(b.runs(), a.runs()) })
	return all
}

func newKlassRow(name string, sum inspect.Rates, known *rates.Known) klassRow {
	ended := float64(sum.Completed + sum.Failed)
	return klassRow{
		Name: name, Rates: sum, PerMinute: ended / known.To.Sub(known.Since).Minutes(),
		FailedPart: float64(sum.Failed) / max(1, ended),
	}
}

// runs is the number of runs of jobs of the klass.
func (k klassRow) runs() int { return k.Completed + k.Failed + k.Retried }

// A klassData is a klass over time.
type klassData struct {
	rates.Known
	Klass  string              `json:"klass"`
	Over   rates.Span          `json:"over"`
	Step   float64             `json:"step"` // in seconds
	Sum    klassRow            `json:"sum"`
	Points []inspect.RatePoint `json:"points"`
}

// klass shows what workers did with the jobs of a klass.
func (s *site) klass(ctx context.Context, q query) (*view, error) {
	span := spanOf(q)
	if q.name == "" {
		return nil, notFound("no klass is named")
	}
	span = span.InSteps()
	key := fmt.Sprintf("klass %s %q", span.Name, q.name)
	read := rates.Minutes(s.in, inspect.RateQuery{Klass: q.name})
	known, err := s.tallies.Read(ctx, key, span, read)
	if err != nil {
		return nil, err
	}
	data := &klassData{
		Known: known, Klass: q.name, Over: span, Step: span.Step.Seconds(),
		Points: known.Points(span.Step),
	}
	var sum inspect.Rates
	for _, point := range data.Points {
		sum.Add(point.Rates)
	}
	data.Sum = newKlassRow(q.name, sum, &known)
	return &view{Title: q.name, Data: data, isPart: data.HasMore}, nil
}

// Chart draws the number of runs that ended in each step.
func (d *klassData) Chart() template.HTML {
	return d.Runs("Runs of "+d.Klass+" every "+words.Exact(d.Over.Step), d.Over.Step)
}

// Times draws how long half and 90 % of the runs took in each step.
func (d *klassData) Times() template.HTML {
	times := func(p *inspect.RatePoint) []float64 {
		if p.Run.Count == 0 {
			return []float64{math.NaN(), math.NaN(), math.NaN(), math.NaN()}
		}
		return []float64{
			p.Run.P50.Seconds(), p.Run.P90.Seconds(), p.Wait.P50.Seconds(), p.Wait.P90.Seconds(),
		}
	}
	return d.Curves("Seconds that "+d.Klass+" ran and waited", d.Over.Step, times,
		"run, median", "run, 90 %", "wait, median", "wait, 90 %")
}
