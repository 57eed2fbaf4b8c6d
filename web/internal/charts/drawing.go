package charts

import (
	"embed"
	"html/template"
	"math"
	"strconv"
	"strings"
)

//go:embed charts.html
var files embed.FS

var templates = template.Must(template.New("").Funcs(template.FuncMap{
	"n": coordinate,
}).ParseFS(files, "charts.html"))

// A drawing is an SVG that is being made.
type drawing struct {
	Label, Class  string
	Width, Height float64
	Shapes        []shape
}

// A shape is a part of a drawing.
type shape struct {
	Kind                string // rect, path, dot, link, or the anchor of a text: start, middle or end
	Class, Title        string
	X, Y, Width, Height float64
	Text                string // the path, or the target of a link
	Inside              []shape
}

func (d *drawing) add(s shape) { d.Shapes = append(d.Shapes, s) }

func (d *drawing) text(x, y float64, anchor, text string) {
	d.add(shape{Kind: anchor, X: x, Y: y, Text: text})
}

// html returns the drawing, by a template. Screen readers get its label, and the table beside it.
func (d *drawing) html(name string) template.HTML { return execute(name, d) }

func execute(name string, data any) template.HTML {
	var b strings.Builder
	if err := templates.ExecuteTemplate(&b, name, data); err != nil {
		panic(err) // the template has a fault
	}
	return template.HTML(strings.ToValidUTF8(b.String(), "\uFFFD"))
}

// finite returns a value, or 0 for what is none.
func finite(value float64) float64 {
	if math.IsNaN(value) || math.IsInf(value, 0) {
		return 0
	}
	return value
}

// coordinate writes a number with a digit after the point at most.
func coordinate(value float64) string {
	return strconv.FormatFloat(math.Round(finite(value)*10)/10, 'f', -1, 64)
}

// pathOf returns the path through values at some places and heights, with gaps for those missing.
func pathOf(values []float64, x func(int) float64, y func(float64) float64) string {
	var b strings.Builder
	command := "M"
	for i, value := range values {
		if math.IsNaN(value) {
			command = "M"
			continue
		}
		b.WriteString(command + coordinate(x(i)) + " " + coordinate(y(value)))
		command = "L"
	}
	return b.String()
}
