package web

import (
	"html/template"
	"strconv"
	"strings"
	"time"

	"github.com/qless/qless-go/internal/units"
)

// functions are what templates call.
var functions = template.FuncMap{
	"age":     units.Age,
	"rate":    units.Rate,
	"number":  number,
	"ago":     ago,
	"clock":   clock,
	"iso":     func(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") },
	"plural":  plural,
	"join":    strings.Join,
	"seconds": func(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'g', 4, 64) },
	"row":     row,
	"hidden":  hide,
	"inwords": specInWords,
	"percent": percent,
	"process": process,
	"program": program,
	"took":    took,
	"columns": columnsOf,
	"bucket":  bucketLabel,
	"bars":    histogramOf,
}

// number writes a number with its thousands apart.
func number(n int) string {
	text := strconv.Itoa(n)
	for at := len(text) - 3; at > 0 && text[at-1] != '-'; at -= 3 {
		text = text[:at] + "\u202f" + text[at:]
	}
	return text
}

// ago writes a time from now, such as "7m12s ago" or "in 3s".
func ago(t time.Time) string {
	switch d := time.Since(t); {
	case t.IsZero():
		return "–"
	case d > time.Second:
		return units.Age(d) + " ago"
	case d < -time.Second:
		return "in " + units.Age(-d)
	}
	return "now"
}

// clock writes a time exactly.
func clock(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02 15:04:05.000 UTC")
}

// plural writes how many there are of something: "1 job", "3 jobs".
func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return number(n) + " " + noun + "s"
}

// row passes two values to a template.
func row(frame, item any) map[string]any { return map[string]any{"Frame": frame, "Item": item} }

// took writes how long something took, such as "3.2ms", "1.25s" or "7m12s".
func took(d time.Duration) string {
	switch {
	case d <= 0:
		return "–"
	case d < time.Millisecond:
		return d.Round(time.Microsecond).String()
	case d < time.Second:
		return d.Round(100 * time.Microsecond).String()
	case d < time.Minute:
		return d.Round(10 * time.Millisecond).String()
	}
	return units.Age(d)
}
