// Package rates caches the rates of the last minutes, hours and days, and reads a part of them with
// each reading.
package rates

import (
	"cmp"
	"context"
	"html/template"
	"maps"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/qless/qless-go/inspect"
	"github.com/qless/qless-go/internal/units"
	"github.com/qless/qless-go/web/internal/charts"
	"github.com/qless/qless-go/web/internal/words"
)

// A Span is a span of time for showing rates.
type Span struct {
	Name   string        `json:"name"` // in the URL
	Title  string        `json:"-"`
	Length time.Duration `json:"-"`
	Step   time.Duration `json:"-"` // of a chart
	Cell   time.Duration `json:"-"` // of a table; beginning with a cell
	Keep   time.Duration `json:"-"` // how long a reading is kept

	// First, unless 0, limits the first reading to the last full minute and so many groups before.
	First int `json:"-"`

	units.Period // the given beginning, and the end if that is over
}

// Spans returns the available spans.
func (Span) Spans() []Span { return Spans }

// Each describes the length of a step.
func (s Span) Each() string {
	if s.Step == time.Minute {
		return "a minute"
	}
	return "per " + words.Exact(s.Step)
}

// Begin returns the beginning of the span.
func (s Span) Begin() time.Time {
	switch {
	case !s.Since.IsZero():
		return s.Since
	case s.Until.IsZero():
		return time.Now().Add(-s.Length)
	}
	return s.Until.Add(-s.Length)
}

// InWords describes the span: "last 3 h".
func (s Span) InWords() string {
	if s.Title == "" {
		return "in this time"
	}
	return "last " + s.Title
}

// CountRuns returns the number of all runs.
func CountRuns(r *inspect.Rates) int { return r.Completed + r.Retried + r.Failed }

const minute, hour = time.Minute, time.Hour

// Spans are the available spans. Workers report their rates every 15 seconds.
var Spans = []Span{
	{"15m", "15 min", 15 * minute, minute, minute, 10 * time.Second, 0, units.Period{}},
	{"1h", "1 h", hour, minute, 5 * minute, 15 * time.Second, 0, units.Period{}},
	{"3h", "3 h", 3 * hour, 3 * minute, 15 * minute, 30 * time.Second, 0, units.Period{}},
	{"24h", "24 h", 24 * hour, 30 * minute, hour, 5 * minute, 0, units.Period{}},
	{"3d", "3 days", 3 * 24 * hour, hour, hour, 15 * minute, 0, units.Period{}},
}

// Between returns a span for a period, in the steps of the shortest span as long. The beginning of
// a longer period is cut off. Without a beginning, the span is an hour.
func Between(p units.Period) Span {
	end := time.Now()
	if !p.Until.IsZero() && p.Until.Before(end) {
		end = p.Until
	} else {
		p.Until = time.Time{}
	}
	length := time.Hour
	if !p.Since.IsZero() {
		length = max(time.Minute, min(end.Sub(p.Since), Spans[len(Spans)-1].Length))
	}
	between := Spans[slices.IndexFunc(Spans, func(s Span) bool { return s.Length >= length })]
	between.Name, between.Title, between.Length, between.Period = "", "", length, p
	return between
}

// InSteps returns the span with a cell for each step of a chart.
func (s Span) InSteps() Span {
	s.Cell = s.Step
	return s
}

// LastHour is the span of the rates of all queues.
var LastHour = Span{
	Length: time.Hour, Step: time.Minute, Cell: time.Minute, Keep: 4 * time.Second, First: 400,
}

// A Part holds the rates of some minutes.
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

// Minutes reads a query's rates minute by minute.
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

// Groups reads rates by queue or klass, as returned by ask, one part for each cell.
func Groups(cell time.Duration, query inspect.RateQuery, ask func(
	context.Context, inspect.RateQuery,
) ([]inspect.RateGroup, error)) Reader {
	return func(ctx context.Context, from, to time.Time) (parts []Part, err error) {
		for at := from; at.Before(to); at = query.To {
			query.From, query.To = at, at.Truncate(cell).Add(cell)
			if query.To.After(to) {
				query.To = to
			}
			p := Part{From: query.From, To: query.To}
			if p.Groups, err = ask(ctx, query); err != nil {
				return nil, err
			}
			parts = append(parts, p)
		}
		return parts, nil
	}
}

// A Known holds the known rates after a reading.
type Known struct {
	Begin   time.Time `json:"from"`              // of the span
	To      time.Time `json:"to"`                // when the end was read
	Since   time.Time `json:"since"`             // everything after Since is known
	HasMore bool      `json:"has_more,omitzero"` // the rest is read by the next readings
	Parts   []Part    `json:"-"`                 // in order, from Since on
}

// Points returns the rates in steps, from the first step that is at least partly known.
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

// Last returns the known rates of the last part of the span.
func (k Known) Last(length time.Duration) Known {
	k.Begin = latest(k.Begin, k.To.Add(time.Minute-length).Truncate(time.Minute))
	k.Since = latest(k.Since, k.Begin)
	k.HasMore = k.Since.After(k.Begin)
	k.Parts = slices.DeleteFunc(slices.Clone(k.Parts), func(p Part) bool {
		return p.From.Before(k.Begin)
	})
	return k
}

// A Series holds the number of runs of a kind in each step, from the first known step.
type Series struct {
	Name string `json:"name"`
	Runs []int  `json:"runs"`
	hue  string
}

// Ends returns the completed, retried and failed runs of each step.
func (k *Known) Ends(step time.Duration) []Series {
	all := []Series{{Name: "done"}, {Name: "retried"}, {Name: "failed"}}
	for i := range all {
		all[i].hue = all[i].Name
	}
	return k.series(step, all, func(group *inspect.RateGroup, add func(int, int)) {
		add(0, group.Completed)
		add(1, group.Retried)
		add(2, group.Failed)
	})
}

// maxGroups is the maximum number of groups in a chart.
const maxGroups = 5

// Largest returns the runs of each step for the groups with the most runs, and for all others
// together.
func (k *Known) Largest(step time.Duration) []Series {
	runs := map[string]int{}
	for _, part := range k.Parts {
		for i := range part.Groups {
			runs[part.Groups[i].Name] += CountRuns(&part.Groups[i].Rates)
		}
	}
	names := slices.SortedFunc(maps.Keys(runs), func(a, b string) int {
		return cmp.Or(runs[b]-runs[a], cmp.Compare(a, b))
	})
	var all []Series
	place := map[string]int{}
	for i, name := range names {
		if place[name] = min(i, maxGroups); i <= maxGroups {
			all = append(all, Series{Name: cmp.Or(name, "others"), hue: "g" + strconv.Itoa(i)})
		}
	}
	if len(names) > maxGroups+1 {
		all[maxGroups].Name = "others"
	}
	return k.series(step, all, func(group *inspect.RateGroup, add func(int, int)) {
		add(place[group.Name], CountRuns(&group.Rates))
	})
}

// series adds up runs step by step. A function adds the runs of a group to the series by their
// places.
func (k *Known) series(
	step time.Duration, all []Series, each func(*inspect.RateGroup, func(place, runs int)),
) []Series {
	last := -1
	for _, part := range k.Parts {
		for at := int(part.From.Sub(k.first(step)) / step); last < at; last++ {
			for i := range all {
				all[i].Runs = append(all[i].Runs, 0)
			}
		}
		for i := range part.Groups {
			each(&part.Groups[i], func(place, runs int) { all[place].Runs[last] += runs })
		}
	}
	return all
}

// first returns the beginning of the first known step.
func (k *Known) first(step time.Duration) time.Time { return k.Parts[0].From.Truncate(step) }

// Stack draws series as stacked bars.
func (k *Known) Stack(title string, step time.Duration, all []Series) template.HTML {
	lines := make([]charts.Line, len(all))
	for i, one := range all {
		lines[i] = charts.Line{Name: one.Name, Hue: one.hue, Values: k.unknown(step)}
		for _, runs := range one.Runs {
			lines[i].Values = append(lines[i].Values, float64(runs))
		}
	}
	return charts.Stack(title, k.note(), k.Begin, step, lines)
}

// Curves draws lines through the values of points.
func (k *Known) Curves(
	title string, step time.Duration, values func(*inspect.RatePoint) []float64, names ...string,
) template.HTML {
	lines := make([]charts.Line, len(names))
	for i, name := range names {
		lines[i].Name, lines[i].Values = name, k.unknown(step)
		lines[i].Hue = []string{"running", "scheduled", "waiting", "depends"}[i%4]
	}
	points := k.Points(step)
	for i := range points {
		for at, value := range values(&points[i]) {
			lines[at].Values = append(lines[at].Values, value)
		}
	}
	return charts.Curves(title, k.note(), k.Begin, step, lines)
}

// note describes the part of the span that was read, unless all was read.
func (k *Known) note() string {
	if k.HasMore {
		return "in the " + words.Exact(k.To.Sub(k.Since).Truncate(time.Second)) + " read so far"
	}
	return ""
}

// unknown returns the values of the steps before the first known step, because a chart begins with
// the span.
func (k *Known) unknown(step time.Duration) (values []float64) {
	if len(k.Parts) == 0 {
		return nil
	}
	for at := k.Begin; at.Before(k.first(step)); at = at.Add(step) {
		values = append(values, math.NaN())
	}
	return values
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
