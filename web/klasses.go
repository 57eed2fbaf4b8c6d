package web

import (
	"context"
	"fmt"
	"html/template"
	"math"
	"slices"

	"github.com/qless/qless-go/inspect"
	"github.com/qless/qless-go/web/internal/rates"
)

// A klassesData holds the rates by klass.
type klassesData struct {
	rates.Known
	Over    rates.Span `json:"over"`
	Queue   string     `json:"queue,omitempty"` // only jobs of this queue
	Total   int        `json:"total"`
	Klasses []klassRow `json:"klasses"`
	Rows    rows       `json:"-"`
}

// Chart draws the runs of the klasses with the most runs in each cell.
func (d *klassesData) Chart() template.HTML {
	return d.Stack("Jobs "+d.Each(), d.Over.Cell, d.Largest(d.Over.Cell))
}

// Each describes the length of a bar of the chart.
func (d *klassesData) Each() string { return rates.Span{Step: d.Over.Cell}.Each() }

// A klassRow is a klass with its rates.
type klassRow struct {
	Name       string  `json:"name"` // empty for klasses counted without names by the server
	PerMinute  float64 `json:"ended_per_minute"`
	FailedPart float64 `json:"failed_part"` // of the ended jobs
	inspect.Rates
}

// klasses lists the klasses, most runs first.
func (s *site) klasses(ctx context.Context, q query) (*view, error) {
	over, key, err := spanOf(q)
	if err != nil {
		return nil, err
	}
	data := &klassesData{Over: over, Queue: q.Get("queue")}
	key = fmt.Sprintf("klasses %s %q", key, data.Queue)
	all, err := sampled(ctx, &s.samples, key, func(ctx context.Context) (*klassesData, error) {
		asked := inspect.RateQuery{Queue: data.Queue}
		read := rates.Groups(data.Over.Cell, asked, s.in.RatesByKlass)
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

// klassOrders are the columns for sorting klasses.
var klassOrders = orders[klassRow]{
	"klass":   func(k *klassRow) any { return k.Name },
	"runs":    func(k *klassRow) any { return rates.CountRuns(&k.Rates) },
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
	return all
}

func newKlassRow(name string, sum inspect.Rates, known *rates.Known) klassRow {
	ended := float64(sum.Completed + sum.Failed)
	return klassRow{
		Name: name, Rates: sum, PerMinute: ended / known.To.Sub(known.Since).Minutes(),
		FailedPart: float64(sum.Failed) / max(1, ended),
	}
}

// A klassData holds the figures of a klass over time.
type klassData struct {
	Klass   string       `json:"klass"`
	Sum     klassRow     `json:"sum"`
	History *rateHistory `json:"history"`
}

// klass shows the runs of the jobs of a klass.
func (s *site) klass(ctx context.Context, q query) (*view, error) {
	if q.name == "" {
		return nil, notFound("no klass is named")
	}
	history, err := s.rateHistory(ctx, q, inspect.RateQuery{Klass: q.name}, "queue")
	if err != nil {
		return nil, err
	}
	sum := newKlassRow(q.name, history.Sum, &history.Known)
	data := &klassData{Klass: q.name, Sum: sum, History: history}
	return &view{Title: q.name, Data: data, isPart: history.HasMore}, nil
}

// Times draws the median and the 90th percentile of the run times in each step.
func (d *klassData) Times() template.HTML {
	times := func(p *inspect.RatePoint) []float64 {
		if p.Run.Count == 0 {
			return []float64{math.NaN(), math.NaN(), math.NaN(), math.NaN()}
		}
		return []float64{
			p.Run.P50.Seconds(), p.Run.P90.Seconds(), p.Wait.P50.Seconds(), p.Wait.P90.Seconds(),
		}
	}
	return d.History.Curves("Times that "+d.Klass+" ran and waited", d.History.Over.Step, times,
		"run, median", "run, 90 %", "wait, median", "wait, 90 %")
}
