package web

import (
	"fmt"
	"html/template"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/qless/qless-go"
)

// Charts are SVG made of numbers and escaped text. A page has a table with the same numbers beside
// each. The style sheet gives them colors; patterns and titles say the same without.

// A bar of a bar chart.
type bar struct {
	Label string // what it is: "1s–2s"
	Value float64
	Title string // what it says: "1s–2s: 12 jobs"
}

// A line of a line chart. A value that is NaN is left out.
type line struct {
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

// barChart draws upright bars side by side.
func barChart(label string, bars []bar) template.HTML {
	top := 0.0
	for _, b := range bars {
		top = max(top, finite(b.Value))
	}
	d := newDrawing(label, chartWidth, chartHeight)
	d.axes(top)
	slot := plotWidth / float64(max(1, len(bars)))
	width := max(1, min(slot*0.8, 40))
	for i, b := range bars {
		height := scaled(b.Value, top)
		x := chartLeft + slot*(float64(i)+0.5)
		d.rect("bar", x-width/2, chartTop+plotHeight-height, width, height, b.Title)
	}
	for _, i := range ticks(len(bars)) {
		d.text(chartLeft+slot*(float64(i)+0.5), chartHeight-5, anchorAt(i, len(bars)), bars[i].Label)
	}
	return d.html()
}

// lineChart draws lines over time, each with a dash of its own, and a key to them. The first values
// are those at a time, and the others follow in steps.
func lineChart(label string, from time.Time, step time.Duration, lines []line) template.HTML {
	top, n := 0.0, 0
	for _, l := range lines {
		n = max(n, len(l.Values))
		for _, value := range l.Values {
			top = max(top, finite(value))
		}
	}
	d := newDrawing(label, chartWidth, chartHeight)
	d.axes(top)
	at := func(i int) float64 { return chartLeft + plotWidth*float64(i)/float64(max(1, n-1)) }
	for i, l := range lines {
		d.path(lineClass(i), l.Name, pathOf(l.Values, at, func(value float64) float64 {
			return chartTop + plotHeight - scaled(value, top)
		}))
	}
	for _, i := range ticks(n) {
		when := from.Add(time.Duration(i) * step).UTC().Format("15:04")
		d.text(at(i), chartHeight-5, anchorAt(i, n), when)
	}
	return d.html() + keyOf(lines)
}

// sparkline draws a small line without axes, as high as a line of text.
func sparkline(label string, values []float64) template.HTML {
	const width, height = 80.0, 18.0
	top := 0.0
	for _, value := range values {
		top = max(top, finite(value))
	}
	d := newDrawing(label, width, height)
	d.class = "spark"
	last := float64(max(1, len(values)-1))
	d.path("line line-0", "", pathOf(values,
		func(i int) float64 { return 1 + (width-2)*float64(i)/last },
		func(value float64) float64 {
			if top == 0 {
				return height - 1
			}
			return height - 1 - (height-2)*max(0, finite(value))/top
		}))
	return d.html()
}

// histogramOf draws how many durations are in each bucket.
func histogramOf(label string, buckets []qless.Bucket) template.HTML {
	bars := make([]bar, len(buckets))
	for i, b := range buckets {
		name := bucketLabel(b)
		bars[i] = bar{name, float64(b.Count), fmt.Sprintf("from %s: %d", name, b.Count)}
	}
	return barChart(label, bars)
}

// bucketLabel writes from where on a bucket counts.
func bucketLabel(b qless.Bucket) string {
	switch {
	case b.From == 0:
		return "0s"
	case b.From < time.Minute:
		return took(b.From)
	case b.From < time.Hour:
		return strconv.Itoa(int(b.From.Minutes())) + "m"
	case b.From < 24*time.Hour:
		return strconv.Itoa(int(b.From.Hours())) + "h"
	}
	return strconv.Itoa(int(b.From.Hours()/24)) + "d"
}

// keyOf names the lines of a chart.
func keyOf(lines []line) template.HTML {
	var b strings.Builder
	b.WriteString(`<p class="key">`)
	for i, l := range lines {
		fmt.Fprintf(&b, `<span><svg class="swatch" viewBox="0 0 24 8" width="24" height="8" `+
			`aria-hidden="true"><path class="%s" d="M0 4H24"/></svg> %s</span> `,
			lineClass(i), escaped(l.Name))
	}
	b.WriteString("</p>")
	return template.HTML(b.String())
}

// lineKinds is how many kinds of lines the style sheet has.
const lineKinds = 4

func lineClass(i int) string { return "line line-" + strconv.Itoa(i%lineKinds) }

// pathOf returns the path through values, which are at some place and height.
func pathOf(values []float64, x func(int) float64, y func(float64) float64) string {
	var b strings.Builder
	move := true
	for i, value := range values {
		if math.IsNaN(value) {
			move = true
			continue
		}
		command := "L"
		if move {
			command = "M"
		}
		move = false
		b.WriteString(command + coordinate(x(i)) + " " + coordinate(y(value)))
	}
	return b.String()
}

// ticks returns which of n values have a label: the first, the last, and some between them.
func ticks(n int) []int {
	switch {
	case n <= 0:
		return nil
	case n <= 6:
		all := make([]int, n)
		for i := range all {
			all[i] = i
		}
		return all
	}
	return []int{0, (n - 1) / 4, (n - 1) / 2, 3 * (n - 1) / 4, n - 1}
}

// anchorAt keeps the labels at both ends within the chart.
func anchorAt(i, n int) string {
	switch {
	case n <= 6:
		return "middle"
	case i == 0:
		return "start"
	case i == n-1:
		return "end"
	}
	return "middle"
}

// finite returns a value, or 0 for what is none.
func finite(value float64) float64 {
	if math.IsNaN(value) || math.IsInf(value, 0) {
		return 0
	}
	return value
}

// scaled returns how high a value is in a plot. What is not zero can be seen.
func scaled(value, top float64) float64 {
	value = finite(value)
	if value <= 0 || top <= 0 {
		return 0
	}
	return max(1, plotHeight*value/top)
}

// A drawing is an SVG that is being made.
type drawing struct {
	b             strings.Builder
	label, class  string
	width, height float64
}

func newDrawing(label string, width, height float64) *drawing {
	return &drawing{label: label, class: "chart", width: width, height: height}
}

// axes draws the lines at zero, half and the greatest value.
func (d *drawing) axes(top float64) {
	for _, part := range []float64{0, 0.5, 1} {
		y := chartTop + plotHeight*(1-part)
		fmt.Fprintf(&d.b, `<path class="grid" d="M%s %sH%s"/>`,
			coordinate(chartLeft), coordinate(y), coordinate(chartWidth-chartRight))
		if top > 0 || part == 0 {
			d.text(chartLeft-6, y+4, "end", amount(top*part))
		}
	}
}

func (d *drawing) rect(class string, x, y, width, height float64, title string) {
	fmt.Fprintf(&d.b, `<rect class="%s" x="%s" y="%s" width="%s" height="%s">%s</rect>`, class,
		coordinate(x), coordinate(y), coordinate(width), coordinate(height), titleOf(title))
}

func (d *drawing) path(class, title, path string) {
	fmt.Fprintf(&d.b, `<path class="%s" d="%s">%s</path>`, class, path, titleOf(title))
}

func (d *drawing) text(x, y float64, anchor, text string) {
	fmt.Fprintf(&d.b, `<text x="%s" y="%s" text-anchor="%s">%s</text>`,
		coordinate(x), coordinate(y), anchor, escaped(text))
}

// html returns the drawing. Readers of screens get its label, and the table beside it.
func (d *drawing) html() template.HTML {
	label := escaped(d.label)
	return template.HTML(fmt.Sprintf(
		`<svg class="%s" viewBox="0 0 %s %s" role="img" aria-label="%s"><title>%s</title>%s</svg>`,
		d.class, coordinate(d.width), coordinate(d.height), label, label, d.b.String()))
}

func titleOf(text string) string {
	if text == "" {
		return ""
	}
	return "<title>" + escaped(text) + "</title>"
}

// escaped returns a text as it can stand in HTML and SVG.
func escaped(text string) string {
	return template.HTMLEscapeString(strings.ToValidUTF8(text, "\uFFFD"))
}

// coordinate writes a number with a digit after the point at most.
func coordinate(value float64) string {
	return strconv.FormatFloat(math.Round(finite(value)*10)/10, 'f', -1, 64)
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
