// Package rates keeps the rates of the last minutes, hours and days, of which it reads a part with
// each reading.
package rates

import (
	"cmp"
	"context"
	"html/template"
	"math"
	"slices"
	"time"

	"github.com/qless/qless-go/inspect"
	"github.com/qless/qless-go/web/internal/charts"
	"github.com/qless/qless-go/web/internal/words"
)

// A Span is a time that rates are shown of.
type Span struct {
	Name   string        `json:"name"` // in the URL
	Title  string        `json:"-"`
	Length time.Duration `json:"-"`
	Step   time.Duration `json:"-"` // of a chart
	Cell   time.Duration `json:"-"` // of a table: it begins with one
	Keep   time.Duration `json:"-"` // how long a reading is good enough

	// IsLight limits the first reading to the last minute that is over.
	IsLight bool `json:"-"`
}

// Spans are the times to choose from.
func (Span) Spans() []Span { return Spans }

// Each says how long a step is.
func (s Span) Each() string {
	if s.Step == time.Minute {
		return "a minute"
	}
	return "in " + words.Exact(s.Step)
}

// CountOf returns how many runs of a step ended so: done, retried or failed.
func CountOf(p *inspect.RatePoint, end string) float64 {
	return float64(map[string]int{
		"done": p.Completed, "retried": p.Retried, "failed": p.Failed,
	}[end])
}

// Spans are those to choose from. Workers report their rates every 15 seconds.
var Spans = []Span{
	{"15m", "15 min", 15 * time.Minute, time.Minute, time.Minute, 10 * time.Second, false},
	{"1h", "1 h", time.Hour, time.Minute, 5 * time.Minute, 15 * time.Second, false},
	{"3h", "3 h", 3 * time.Hour, 3 * time.Minute, 15 * time.Minute, 30 * time.Second, false},
	{"24h", "24 h", 24 * time.Hour, 30 * time.Minute, time.Hour, 5 * time.Minute, false},
	{"3d", "3 days", 3 * 24 * time.Hour, time.Hour, time.Hour, 15 * time.Minute, false},
}

// InSteps is the span with a cell for each step of a chart.
func (s Span) InSteps() Span {
	s.Cell = s.Step
	return s
}

// LastHour is the time that the rates of all queues are of.
var LastHour = Span{
	Length: time.Hour, Step: time.Minute, Cell: time.Minute, Keep: 4 * time.Second, IsLight: true,
}

// A Part has the rates of some minutes.
type Part struct {
	From, To time.Time
	Groups   []inspect.RateGroup // by name
}

// Sum returns the rates of all groups together.
func (p *Part) Sum() (sum inspect.Rates) {
	for i := range p.Groups {
		sum.Add(p.Groups[i].Rates)
	}
	return sum
}

// Add adds the rates of other minutes.
func (p *Part) Add(other Part) {
	for _, group := range other.Groups {
		i, found := slices.BinarySearchFunc(p.Groups, group, func(a, b inspect.RateGroup) int {
			return cmp.Compare(a.Name, b.Name)
		})
		if found {
			p.Groups[i].Add(group.Rates)
		} else {
			p.Groups = slices.Insert(p.Groups, i, group)
		}
	}
	if other.From.Before(p.From) {
		p.From = other.From
	}
	p.To = latest(p.To, other.To)
}

// A Reader reads the rates of some minutes, in order.
type Reader func(ctx context.Context, from, to time.Time) ([]Part, error)

// Minutes reads the rates that a query selects minute by minute.
func Minutes(in *inspect.Inspector, query inspect.RateQuery) Reader {
	return func(ctx context.Context, from, to time.Time) ([]Part, error) {
		query.From, query.To = from, to
		points, err := in.Rates(ctx, query)
		parts := make([]Part, len(points))
		for i, p := range points {
			parts[i] = Part{p.Time, p.Time.Add(time.Minute), []inspect.RateGroup{{Rates: p.Rates}}}
		}
		return parts, err
	}
}

// Queues reads all rates by queue, minute by minute.
func Queues(in *inspect.Inspector) Reader {
	return func(ctx context.Context, from, to time.Time) (parts []Part, err error) {
		for at := from; at.Before(to); at = at.Add(time.Minute) {
			p := Part{From: at, To: at.Add(time.Minute)}
			p.Groups, err = in.RatesByQueue(ctx, inspect.RateQuery{From: p.From, To: p.To})
			if err != nil {
				return nil, err
			}
			parts = append(parts, p)
		}
		return parts, nil
	}
}

// Klasses reads the rates that a query selects by klass.
func Klasses(in *inspect.Inspector, query inspect.RateQuery) Reader {
	return func(ctx context.Context, from, to time.Time) ([]Part, error) {
		query.From, query.To = from, to
		groups, err := in.RatesByKlass(ctx, query)
		return []Part{{from, to, groups}}, err
	}
}

// A Known is what is known after a reading.
type Known struct {
	Begin   time.Time `json:"from"`              // of the span
	To      time.Time `json:"to"`                // when its end was read
	Since   time.Time `json:"since"`             // all from then on is known
	HasMore bool      `json:"has_more,omitzero"` // the rest is read with the next readings
	Parts   []Part    `json:"-"`                 // in order, from Since on
}

// Points returns the rates in steps, from the first of which something is known.
func (k *Known) Points(step time.Duration) []inspect.RatePoint {
	points := []inspect.RatePoint{}
	for i := range k.Parts {
		at := k.Parts[i].From.Truncate(step)
		if n := len(points); n == 0 || !points[n-1].Time.Equal(at) {
			points = append(points, inspect.RatePoint{Time: at})
		}
		points[len(points)-1].Add(k.Parts[i].Sum())
	}
	return points
}

// Last returns what is known of the last part of the span.
func (k Known) Last(length time.Duration) Known {
	k.Begin = latest(k.Begin, k.To.Add(time.Minute-length).Truncate(time.Minute))
	k.Since = latest(k.Since, k.Begin)
	k.HasMore = k.Since.After(k.Begin)
	k.Parts = slices.DeleteFunc(slices.Clone(k.Parts), func(p Part) bool {
		return p.From.Before(k.Begin)
	})
	return k
}

// Runs draws what was completed, retried and failed in each step.
func (k *Known) Runs(title string, step time.Duration, ends ...string) template.HTML {
	if len(ends) == 0 {
		ends = []string{"done", "retried", "failed"}
	}
	lines := k.lines(step, func(p *inspect.RatePoint) (values []float64) {
		for _, end := range ends {
			values = append(values, CountOf(p, end))
		}
		return values
	}, ends...)
	for i := range lines {
		lines[i].Hue = lines[i].Name
	}
	return charts.Stack(title, k.Begin, step, lines)
}

// Curves draws lines through the values of points.
func (k *Known) Curves(
	title string, step time.Duration, values func(*inspect.RatePoint) []float64, names ...string,
) template.HTML {
	lines := k.lines(step, values, names...)
	for i := range lines {
		lines[i].Hue = []string{"running", "scheduled", "waiting", "depends"}[i%4]
	}
	return charts.Curves(title, k.Begin, step, lines)
}

// lines are values in steps. They begin where the span begins, though nothing may be known of that
// time yet.
func (k *Known) lines(
	step time.Duration, values func(*inspect.RatePoint) []float64, names ...string,
) []charts.Line {
	lines := make([]charts.Line, len(names))
	for i, name := range names {
		lines[i].Name = name
	}
	points := k.Points(step)
	for at := k.Begin; len(points) > 0 && at.Before(points[0].Time); at = at.Add(step) {
		for i := range lines {
			lines[i].Values = append(lines[i].Values, math.NaN())
		}
	}
	for i := range points {
		for at, value := range values(&points[i]) {
			lines[at].Values = append(lines[at].Values, value)
		}
	}
	return lines
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
