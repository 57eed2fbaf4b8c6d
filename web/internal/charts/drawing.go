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

func execute(name string, data any) template.HTML {
	var b strings.Builder
	if err := templates.ExecuteTemplate(&b, name, data); err != nil {
		panic(err) // the template is wrong
	}
	return template.HTML(strings.ToValidUTF8(b.String(), "\uFFFD"))
}

// finite returns value, or 0 unless value is finite.
func finite(value float64) float64 {
	if math.IsNaN(value) || math.IsInf(value, 0) {
		return 0
	}
	return value
}

// coordinate formats a number with at most one decimal.
func coordinate(value float64) string {
	return strconv.FormatFloat(math.Round(finite(value)*10)/10, 'f', -1, 64)
}

// pathOf returns the path through values, with gaps for missing ones.
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
