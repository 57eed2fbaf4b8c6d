package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// A figure is a number in a table, for a case such as a peer or a number of workers.
type figure struct {
	Workload string   `json:"workload"`
	Table    string   `json:"table,omitempty"`
	Case     string   `json:"case,omitempty"`
	What     string   `json:"what"`
	Value    float64  `json:"value"`
	Unit     string   `json:"unit,omitempty"`
	Spread   *spread  `json:"spread,omitempty"`  // the spread over the rounds
	AtMost   *float64 `json:"at_most,omitempty"` // the limit promised by the documentation
}

// name returns the name of a figure with its unit.
func (f figure) name() string {
	if f.Unit == "" {
		return f.What
	}
	return f.What + ", " + f.Unit
}

// text returns the value as printed.
func (f figure) text() string {
	text := format(f.Value)
	if f.Spread != nil {
		text += fmt.Sprintf(" (%s-%s)", format(f.Spread.Min), format(f.Spread.Max))
	}
	if f.AtMost != nil && f.Value > *f.AtMost {
		text += ", above " + format(*f.AtMost)
	}
	return text
}

// format returns a number with at least three significant digits.
func format(value float64) string {
	digits := 0
	if size := math.Abs(value); size > 0 && size < 100 && value != math.Trunc(value) {
		digits = min(4, 2-int(math.Floor(math.Log10(size))))
	}
	return strconv.FormatFloat(value, 'f', digits, 64)
}

// A report collects the figures of a workload.
type report struct {
	workload string
	out      io.Writer
	json     bool
	table    string // the table of the following figures
	inCase   string
	figures  []figure
}

// in starts the figures of a case.
func (r *report) in(format string, args ...any) {
	r.inCase = strings.Trim(fmt.Sprintf(format, args...), ", ")
}

func (r *report) add(what string, value float64, unit string) {
	r.figures = append(r.figures, figure{
		Workload: r.workload, Table: r.table, Case: r.inCase, What: what, Value: value, Unit: unit,
	})
}

// bound adds a figure with a limit promised by the documentation.
func (r *report) bound(what string, value float64, unit string, most float64) {
	r.add(what, value, unit)
	r.figures[len(r.figures)-1].AtMost = &most
}

// write prints the figures, as tables or as JSON with one object per line.
func (r *report) write() error {
	var tables []string
	encoder := json.NewEncoder(r.out)
	for _, f := range r.figures {
		if !r.json {
			tables = including(tables, f.Table)
		} else if err := encoder.Encode(f); err != nil {
			return err
		}
	}
	for _, table := range tables {
		lines := tableOf(slices.DeleteFunc(slices.Clone(r.figures), func(f figure) bool {
			return f.Table != table
		}))
		if _, err := fmt.Fprintf(r.out, "\n%s\n\n%s", joined(r.workload, table), lines); err != nil {
			return err
		}
	}
	return nil
}

// tableOf returns a table in Markdown. Its rows are cases or figures, whichever are more.
func tableOf(figures []figure) string {
	var rows, columns []string
	cells := map[[2]string]string{}
	for _, f := range figures {
		rows, columns = including(rows, f.Case), including(columns, f.name())
		cells[[2]string{f.Case, f.name()}] = f.text()
	}
	at := func(row, column string) string { return cells[[2]string{row, column}] }
	if len(rows) < len(columns) {
		rows, columns = columns, rows
		at = func(row, column string) string { return cells[[2]string{column, row}] }
	}
	lines := [][]string{append([]string{""}, columns...), make([]string, len(columns)+1)}
	for _, row := range rows {
		line := []string{row}
		for _, column := range columns {
			line = append(line, at(row, column))
		}
		lines = append(lines, line)
	}
	widths := make([]int, len(columns)+1)
	for _, line := range lines {
		for i, cell := range line {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell), 3)
		}
	}
	for i, width := range widths {
		lines[1][i] = strings.Repeat("-", width)
	}
	var text strings.Builder
	for _, line := range lines {
		for i, cell := range line {
			fmt.Fprintf(&text, "| %-*s ", widths[i], cell)
		}
		text.WriteString("|\n")
	}
	return text.String()
}

// including returns a list including a text.
func including(all []string, one string) []string {
	if slices.Contains(all, one) {
		return all
	}
	return append(all, one)
}

func joined(a, b string) string { return strings.TrimSpace(a + " " + b) }

// A spread holds the median and the extremes of a figure over the rounds.
type spread struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
}
