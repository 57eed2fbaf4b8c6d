package web

import (
	"context"
	"fmt"
	"html/template"
	"math"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/qless/qless-go/inspect"
	"github.com/qless/qless-go/internal/units"
	"github.com/qless/qless-go/web/internal/charts"
	"github.com/qless/qless-go/web/internal/words"
)

// A past draws figures of one or all queues over time.
type past struct{ inspect.History }

// pastAge is the maximum age of a reading of histories, updated once a minute.
const pastAge = 15 * time.Second

// pasts returns the histories of all queues together, and of some, in the period of a query or the
// span of its charts.
func (s *site) pasts(ctx context.Context, q query, queues ...string) ([]past, error) {
	over, key, err := spanOf(q)
	if err != nil {
		return nil, err
	}
	return s.readPasts(ctx, inspect.HistoryQuery{
		From: over.Begin(), To: over.Until, Queues: queues,
	}, key)
}

// readPasts returns histories, sampled by the key of their period.
func (s *site) readPasts(
	ctx context.Context, asked inspect.HistoryQuery, period string,
) ([]past, error) {
	asked.Queues = slices.DeleteFunc(slices.Clone(asked.Queues), func(queue string) bool {
		return queue == "" || !utf8.ValidString(queue)
	})
	key := fmt.Sprintf("history %s %q", period, asked.Queues)
	return sampledFor(ctx, &s.samples, pastAge, key, func(ctx context.Context) ([]past, error) {
		histories, err := s.in.History(ctx, asked)
		all := make([]past, len(histories))
		for i, one := range histories {
			all[i].History = one
		}
		return all, err
	})
}

// record records the figures of a minute once. Without write permission, nothing is recorded.
func (s *site) record(ctx context.Context, at time.Time) {
	if minute := at.Unix() / 60; s.recorded.Swap(minute) != minute {
		_ = s.in.RecordHistory(ctx)
	}
}

// value returns a figure of a point, or NaN if unknown.
func (p past) value(figure string, at int) float64 {
	if at < 0 || at >= len(p.Points) || p.Points[at].Known == 0 {
		return math.NaN()
	}
	switch point := &p.Points[at]; figure {
	case "waiting":
		return float64(point.Waiting)
	case "oldest":
		return point.Oldest.Seconds()
	case "running":
		return float64(point.Running)
	case "workers":
		return float64(point.Workers)
	default:
		return float64(point.Failed)
	}
}

// Spark draws a figure, with gaps at unknown values.
func (p past) Spark(figure string) template.HTML {
	values := make([]float64, len(p.Points))
	for i := range values {
		values[i] = p.value(figure, i)
		alone := math.IsNaN(p.value(figure, i-1)) && math.IsNaN(p.value(figure, i+1))
		if i > 0 && alone { // a line needs two points
			values[i-1] = values[i]
		}
	}
	return charts.Spark(figure+" each "+words.Exact(p.Step)+", at most "+p.Most(figure), values)
}

// maxBars limits a chart of failures.
const maxBars = 100

// Failures draws the failures.
func (p past) Failures() template.HTML {
	if len(p.Points) == 0 {
		return ""
	}
	each := 1 + (len(p.Points)-1)/maxBars
	var values []float64
	for some := range slices.Chunk(p.Points, each) {
		bar := math.NaN()
		for _, point := range some {
			if point.Known > 0 && math.IsNaN(bar) {
				bar = 0
			}
			bar += float64(point.Failed)
		}
		values = append(values, bar)
	}
	return failureBars(p.Gap(), p.Points[0].Time, time.Duration(each)*p.Step, values)
}

// Most returns the highest figure.
func (p past) Most(figure string) string {
	most := 0.0
	for i := range p.Points {
		if value := p.value(figure, i); value > most {
			most = value
		}
	}
	if figure == "oldest" {
		return units.Age(time.Duration(most) * time.Second)
	}
	return words.Number(int(most))
}

// Gap returns the known part of the period, as text, or "" if the whole period is known.
func (p past) Gap() string {
	if p.Known >= p.Period {
		return ""
	}
	return units.Duration(p.Known) + " of " + units.Duration(p.Period) + " known"
}
