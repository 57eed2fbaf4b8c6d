// Package charts draws numbers over time, the history of a job, and its dependencies, as SVG.
//
// A page has a table with the same numbers beside each chart. The style sheet has the colors;
// patterns and titles say the same without.
package charts

import (
	"fmt"
	"html/template"
	"math"
	"strconv"
	"time"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/units"
)

// A bar of a bar chart.
type bar struct {
	Label string // what it is: "1s–2s"
	Value float64
	Title string // what it says: "1s–2s: 12 jobs"
}

// A Line of a line chart. A value that is NaN is left out.
type Line struct {
	Name   string
	Values []float64
}

// The size of a chart, and of its parts.
const (
	chartWidth  = 720.0
	chartHeight = 150.0
	chartLeft   = 46.0
	chartRight  = 12.0
	chartTop    = 10.0
	chartBottom = 20.0
	plotWidth   = chartWidth - chartLeft - chartRight
	plotHeight  = chartHeight - chartTop - chartBottom
)

func newChart(label string) *drawing {
	return &drawing{Label: label, Class: "chart", Width: chartWidth, Height: chartHeight}
}

// bars draws upright bars side by side.
func bars(label string, bars []bar) template.HTML {
	top := 0.0
	for _, b := range bars {
		top = max(top, finite(b.Value))
	}
	d := newChart(label)
	d.axes(top)
	slot := plotWidth / float64(max(1, len(bars)))
	width := max(1, min(slot*0.8, 40))
	at := func(i int) float64 { return chartLeft + slot*(float64(i)+0.5) }
	for i, b := range bars {
		height := scaled(b.Value, top)
		d.add(shape{
			Kind: "rect", Class: "bar", Title: b.Title, Width: width, Height: height,
			X: at(i) - width/2, Y: chartTop + plotHeight - height,
		})
	}
	d.ticks(len(bars), at, func(i int) string { return bars[i].Label })
	return d.html("chart")
}

// Lines draws lines over time, each with a dash of its own, and a key to them. The first values are
// those at a time, and the others follow in steps.
func Lines(label string, from time.Time, step time.Duration, lines []Line) template.HTML {
	top, n := 0.0, 0
	for _, l := range lines {
		n = max(n, len(l.Values))
		for _, value := range l.Values {
			top = max(top, finite(value))
		}
	}
	d := newChart(label)
	d.axes(top)
	at := func(i int) float64 { return chartLeft + plotWidth*float64(i)/float64(max(1, n-1)) }
	for i, l := range lines {
		path := pathOf(l.Values, at, func(value float64) float64 {
			return chartTop + plotHeight - scaled(value, top)
		})
		d.add(shape{Kind: "path", Class: lineClass(i), Title: l.Name, Text: path})
		d.Key = append(d.Key, l.Name)
	}
	d.ticks(n, at, func(i int) string {
		return from.Add(time.Duration(i) * step).UTC().Format("15:04")
	})
	return d.html("chart")
}

// Spark draws a small line without axes, as high as a line of text.
func Spark(label string, values []float64) template.HTML {
	const width, height = 80.0, 18.0
	top := 0.0
	for _, value := range values {
		top = max(top, finite(value))
	}
	d := &drawing{Label: label, Class: "spark", Width: width, Height: height}
	last := float64(max(1, len(values)-1))
	d.add(shape{Kind: "path", Class: "line line-0", Text: pathOf(values,
		func(i int) float64 { return 1 + (width-2)*float64(i)/last },
		func(value float64) float64 {
			return height - 1 - (height-2)*max(0, finite(value))/max(top, math.SmallestNonzeroFloat64)
		})})
	return d.html("chart")
}

// Histogram draws the number of durations in each bucket.
func Histogram(label string, buckets []qless.Bucket) template.HTML {
	all := make([]bar, len(buckets))
	for i, b := range buckets {
		name := units.Duration(b.From)
		all[i] = bar{name, float64(b.Count), fmt.Sprintf("from %s: %d", name, b.Count)}
	}
	return bars(label, all)
}

// lineKinds is the number of kinds of lines in the style sheet.
const lineKinds = 4

func lineClass(i int) string { return "line line-" + strconv.Itoa(i%lineKinds) }

// ticks labels some of n values: the first, the last, and some between them.
func (d *drawing) ticks(n int, at func(int) float64, label func(int) string) {
	shown := []int{0, (n - 1) / 4, (n - 1) / 2, 3 * (n - 1) / 4, n - 1}
	if n <= 6 {
		shown = nil
		for i := range n {
			shown = append(shown, i)
		}
	}
	for _, i := range shown {
		anchor := "middle"
		switch { // the labels at both ends stay within the chart
		case n > 6 && i == 0:
			anchor = "start"
		case n > 6 && i == n-1:
			anchor = "end"
		}
		d.text(at(i), chartHeight-5, anchor, label(i))
	}
}

// axes draws the lines at zero, half and the greatest value.
func (d *drawing) axes(top float64) {
	for _, part := range []float64{0, 0.5, 1} {
		y := chartTop + plotHeight*(1-part)
		d.add(shape{Kind: "path", Class: "grid", Text: fmt.Sprintf("M%s %sH%s",
			coordinate(chartLeft), coordinate(y), coordinate(chartWidth-chartRight))})
		if top > 0 || part == 0 {
			d.text(chartLeft-6, y+4, "end", amount(top*part))
		}
	}
}

// scaled returns the height of a value in a plot. Any value but zero is visible.
func scaled(value, top float64) float64 {
	value = finite(value)
	if value <= 0 || top <= 0 {
		return 0
	}
	return max(1, plotHeight*value/top)
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
