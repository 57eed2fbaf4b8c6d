// Package charts draws numbers over time, the history of a job, and its dependencies, as SVG.
//
// Each chart over time comes with a table of the numbers. The style sheet defines the colors.
// Patterns and titles make charts readable without them.
package charts

import (
	"cmp"
	"fmt"
	"html/template"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/units"
	"github.com/qless/qless-go/web/internal/words"
)

// A Line is a row of values of a chart: a color of the stacked bars, or a curve. NaN values are
// omitted.
type Line struct {
	Name   string
	Hue    string // the class of the color, such as the name of a state
	Values []float64
}

// A plot is a chart as wide as the page, with a table of its values. Only the parts without text
// are stretched.
type plot struct {
	Label  string
	Width  int // in values
	Key    []key
	Names  []string  // of the lines
	Rows   []row     // a row for each value
	Note   string    // on missing values
	Grid   []float64 // the heights of lines, from the top
	Scale  []string  // labels of these lines
	Paths  []path
	Ticks  []tick
	isTime bool // values are durations in seconds
}

// A row has the values of all lines at one place, or none if unknown.
type row struct {
	Head, Title string
	Cells       []string
}

type key struct{ Name, Hue, Sum string }
type path struct{ Class, Path string }
type tick struct {
	X      float64 // in percent
	IsRare bool    // omitted on a phone
	Text   string
}

// plotHeight is the height of a plot in its own units.
const plotHeight = 100.0

// Stack draws stacked bars over time, the last line at the bottom. The first values are for the
// time from; the others follow at intervals of step. A note may name the missing values.
func Stack(label, note string, from time.Time, step time.Duration, lines []Line) template.HTML {
	p := newPlot(&plot{Label: label, Note: note}, lines)
	p.times(from, step)
	p.stack(lines)
	return p.html()
}

// Curves draws seconds over time, each line with a different dash.
func Curves(label, note string, from time.Time, step time.Duration, lines []Line) template.HTML {
	p := newPlot(&plot{Label: label, Note: note, isTime: true}, lines)
	p.times(from, step)
	top := 0.0
	for _, line := range lines {
		for _, value := range line.Values {
			top = max(top, finite(value))
		}
	}
	top = p.scale(top, false)
	for i, line := range lines {
		p.Paths = append(p.Paths, path{
			fmt.Sprintf("curve hue c%d %s", i%4, line.Hue), pathOf(line.Values,
				func(i int) float64 { return float64(i) + 0.5 },
				func(value float64) float64 { return plotHeight * (1 - finite(value)/top) }),
		})
	}
	return p.html()
}

// minBuckets is the minimum number of buckets with room in a histogram.
const minBuckets = 12

// Histogram draws the number of durations in each bucket. A single bucket is described in words.
func Histogram(label string, buckets []qless.Bucket) template.HTML {
	if len(buckets) == 1 {
		only := buckets[0]
		return template.HTML(fmt.Sprintf(`<p>All %s: from %s to %s.</p>`, words.Number(only.Count),
			units.Duration(only.From), units.Duration(only.To)))
	}
	line := Line{Name: "runs", Hue: "running"}
	for _, b := range buckets {
		line.Values = append(line.Values, float64(b.Count))
	}
	p := newPlot(&plot{Label: label, Width: minBuckets}, []Line{line})
	p.Key = nil
	every := max(1, (len(buckets)+7)/8)
	for i, b := range buckets {
		row := &p.Rows[i]
		row.Head = units.Duration(b.From)
		row.Title = "from " + row.Head + ": " + row.Title
		if i%every == 0 {
			p.tick(i, row.Head)
		}
	}
	p.stack([]Line{line})
	return p.html()
}

// newPlot adds the values of lines to a plot.
func newPlot(p *plot, lines []Line) *plot {
	for _, line := range lines {
		p.Width = max(p.Width, len(line.Values))
		p.Key = append(p.Key, key{Name: line.Name, Hue: line.Hue})
		p.Names = append(p.Names, line.Name)
	}
	for i := range p.Width {
		var r row
		for _, line := range lines {
			if i < len(line.Values) && !math.IsNaN(line.Values[i]) {
				text := p.text(finite(line.Values[i]))
				r.Cells = append(r.Cells, text)
				r.Title = strings.TrimPrefix(r.Title+", "+text+" "+line.Name, ", ")
			} else if len(r.Cells) > 0 {
				r.Cells = append(r.Cells, "–")
			}
		}
		p.Rows = append(p.Rows, r)
	}
	return p
}

// text writes a value.
func (p *plot) text(value float64) string {
	switch {
	case !p.isTime:
		return words.Number(int(min(value, 1e15)))
	case value <= 0:
		return "0"
	}
	return words.Took(time.Duration(min(value, 1e9) * float64(time.Second)))
}

// Table has the known values, the latest first.
func (p *plot) Table() []row {
	known := slices.DeleteFunc(slices.Clone(p.Rows), func(r row) bool { return r.Cells == nil })
	if p.Key != nil {
		slices.Reverse(known)
	}
	return known
}

// stack adds bars, and their sums to the key.
func (p *plot) stack(lines []Line) {
	base := make([]float64, p.Width)
	for _, line := range lines {
		for i, value := range line.Values {
			base[i] += max(0, finite(value))
		}
	}
	top := p.scale(slices.Max(append(base, 0)), true)
	for at, line := range lines {
		var b strings.Builder
		sum := 0.0
		for i, value := range line.Values {
			value = max(0, finite(value))
			sum += value
			if value == 0 {
				continue
			}
			high := plotHeight * (1 - base[i]/top)
			base[i] -= value
			height := max(1, plotHeight*(1-base[i]/top)-high)
			fmt.Fprintf(&b, "M%s %sv%sh.84v-%sz", coordinate(float64(i)+0.1), coordinate(high),
				coordinate(height), coordinate(height))
		}
		p.Paths = append(p.Paths, path{"hue " + line.Hue, b.String()})
		if at < len(p.Key) {
			p.Key[at].Sum = words.Number(int(min(sum, 1e15)))
		}
	}
}

// scale draws lines at round values up to top, and returns the first round value not below top.
func (p *plot) scale(top float64, isWhole bool) float64 {
	step, steps := roundStep(finite(top), isWhole)
	for i := steps; i >= 0; i-- {
		text := amount(step * float64(i))
		if p.isTime {
			text = p.text(step * float64(i))
		}
		p.Scale = append(p.Scale, text)
		p.Grid = append(p.Grid, plotHeight*float64(steps-i)/float64(steps))
	}
	return step * float64(steps)
}

// roundStep returns a round distance between lines, and the number of lines up to top, at most 4.
func roundStep(top float64, isWhole bool) (step float64, steps int) {
	if top <= 0 {
		return 1, 1
	}
	unit := math.Pow(10, math.Floor(math.Log10(top/4)))
	if isWhole {
		unit = max(1, unit)
	}
	for _, factor := range []float64{1, 2, 5, 10} {
		step = factor * unit
		if steps = int(math.Ceil(top / step)); steps <= 4 {
			break
		}
	}
	return step, steps
}

// tickSteps are the possible times between two ticks.
var tickSteps = []time.Duration{
	time.Minute, 5 * time.Minute, 10 * time.Minute, 15 * time.Minute, 30 * time.Minute, time.Hour,
	3 * time.Hour, 6 * time.Hour, 12 * time.Hour, 24 * time.Hour,
}

// times adds the times of values to their titles, and ticks at round times.
func (p *plot) times(from time.Time, step time.Duration) {
	every := 24 * time.Hour * (1 + time.Duration(p.Width)*step/(7*24*time.Hour))
	for _, one := range slices.Backward(tickSteps) {
		if time.Duration(p.Width)*step <= 7*one {
			every = one
		}
	}
	for i := range p.Width {
		at := from.Add(time.Duration(i) * step).UTC()
		r := &p.Rows[i]
		r.Head = at.Format("Jan 2 15:04")
		r.Title = at.Format("15:04") + ": " + cmp.Or(r.Title, "not known")
		if round := at.Truncate(every); at.Sub(round) < step {
			text := round.Format("15:04")
			if every >= 12*time.Hour {
				text = round.Format("Jan 2 15:04")
			}
			p.tick(i, text)
		}
	}
}

func (p *plot) tick(i int, text string) {
	x := 100 * float64(i) / float64(max(1, p.Width))
	if x < 96 {
		p.Ticks = append(p.Ticks, tick{x, len(p.Ticks)%2 == 1, text})
	}
}

func (p *plot) html() template.HTML { return execute("plot", p) }

// Spark draws a small line without axes, as high as a line of text, and the area below the line.
func Spark(label string, values []float64) template.HTML {
	const width, height = 80.0, 18.0
	top := 0.0
	for _, value := range values {
		top = max(top, finite(value))
	}
	last := float64(max(1, len(values)-1))
	line := pathOf(values,
		func(i int) float64 { return width * float64(i) / last },
		func(value float64) float64 {
			return height - 1 - (height-2)*max(0, finite(value))/max(top, math.SmallestNonzeroFloat64)
		})
	d := &plot{Label: label, Paths: []path{{"line", line}}}
	if len(values) > 1 && strings.Count(line, "M") == 1 {
		first, _, _ := strings.Cut(line[1:], " ")
		d.Paths = append(d.Paths, path{"area", line + "V18H" + first + "z"})
	}
	return execute("spark", d)
}

// amount writes a number beside an axis, such as 12, 0.5 or 3.2M.
func amount(value float64) string {
	for _, unit := range []struct {
		size float64
		sign string
	}{{1e9, "G"}, {1e6, "M"}, {1e3, "k"}} {
		if value >= 10*unit.size {
			return strconv.FormatFloat(value/unit.size, 'g', 3, 64) + unit.sign
		}
	}
	return strconv.FormatFloat(value, 'g', 4, 64)
}
