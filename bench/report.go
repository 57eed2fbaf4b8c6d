package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
)

// A figure is one line of a report.
type figure struct {
	Workload string   `json:"workload"`
	Case     string   `json:"case,omitempty"`
	What     string   `json:"what"`
	Value    float64  `json:"value"`
	Unit     string   `json:"unit,omitempty"`
	AtMost   *float64 `json:"at_most,omitempty"`
}

// A report collects the figures of a workload.
type report struct {
	workload string
	out      io.Writer
	json     bool
	of       string // what the cases have in common, if anything
	inCase   string // of the figures that follow
	figures  []figure
}

// in begins the figures of a case.
func (r *report) in(format string, args ...any) {
	r.inCase = strings.Trim(r.of+", "+fmt.Sprintf(format, args...), ", ")
}

func (r *report) add(what string, value float64, unit string) {
	r.figures = append(r.figures, figure{
		Workload: r.workload, Case: r.inCase, What: what, Value: value, Unit: unit,
	})
}

// bound adds a figure for which the documentation has a bar.
func (r *report) bound(what string, value float64, unit string, most float64) {
	r.add(what, value, unit)
	r.figures[len(r.figures)-1].AtMost = &most
}

// atMost returns what adds figures with the same bar.
func (r *report) atMost(most float64) func(what string, value float64, unit string) {
	return func(what string, value float64, unit string) { r.bound(what, value, unit, most) }
}

// write prints the figures, with the cases in a column of their own if there are any.
func (r *report) write() error {
	if r.json {
		return encodeAll(r.out, r.figures)
	}
	if len(r.figures) == 0 {
		return nil
	}
	fmt.Fprintf(r.out, "\n%s\n", r.workload)
	cases := slices.ContainsFunc(r.figures, func(f figure) bool { return f.Case != "" })
	w := tabwriter.NewWriter(r.out, 0, 0, 2, ' ', 0)
	if cases {
		fmt.Fprint(w, "case\t")
	}
	fmt.Fprintln(w, "what\tfigure\tunit\tbar")
	for i, f := range r.figures {
		if cases && (i == 0 || r.figures[i-1].Case != f.Case) {
			fmt.Fprint(w, f.Case)
		}
		if cases {
			fmt.Fprint(w, "\t")
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", f.What, format(f.Value), f.Unit, f.bar())
	}
	return w.Flush()
}

// bar returns the bar as text, which says whether the figure is above it.
func (f figure) bar() string {
	switch {
	case f.AtMost == nil:
		return ""
	case f.Value > *f.AtMost:
		return format(*f.AtMost) + ", exceeded"
	}
	return format(*f.AtMost)
}

// format returns a number with three digits that count, at least.
func format(value float64) string {
	digits := 0
	if size := math.Abs(value); size > 0 && size < 100 && value != math.Trunc(value) {
		digits = min(4, 2-int(math.Floor(math.Log10(size))))
	}
	return strconv.FormatFloat(value, 'f', digits, 64)
}
