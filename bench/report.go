package main

import (
	"encoding/json"
	"fmt"
	"html"
	"io"
	"math"
	"os"
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
	AtMost   *float64 `json:"at_most,omitempty"` // the limit that the documentation promises
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
	table    string // the table of the figures that follow
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

// bound adds a figure for which the documentation promises a limit.
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

// including returns a list that includes a text.
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

// A panel of the chart shows one figure for all peers. Lower is better, unless it says otherwise.
type panel struct {
	title                 string
	workload, phase, what string
	table                 string // of several in the workload, or "" for the first one
}

var panels = []panel{
	{"A backlog: server CPU a job, us", "job", "total", "CPU us/job", ""},
	{"A backlog: jobs a second (more is better)", "job", "process", "jobs/s", ""},
	{"One at a time: server CPU a job, us", "pickup", "put to handler", "CPU us/job", ""},
	{"One at a time: put to handler, p50 ms", "pickup", "put to handler", "p50 ms", ""},
	{"1,000 jobs a second: server CPU a job, us", "paced", "put to done", "CPU us/job", "rate=1000"},
	{"1,000 jobs a second: put to handler, p99 ms", "paced", "put to done", "p99 ms", "rate=1000"},
	{"16 idle workers: server CPU a second, us", "rest", "idle", "CPU us/job", ""},
	{"A job that waits, bytes", "memory", "waiting", "B/job", ""},
}

// A bar shows the figure of a peer.
type bar struct {
	peer  string
	value float64
}

// bars returns a panel's bars: its figures from its table, or from the first one that has them.
func (p panel) bars(figures []figure) []bar {
	var all []bar
	table := p.table
	for _, f := range figures {
		peer, of := strings.CutPrefix(f.Case, p.phase+", ")
		switch {
		case f.Workload != p.workload || f.What != p.what || !of:
		case (p.table != "" || len(all) > 0) && f.Table != table:
		case strings.Contains(peer, " "): // a different case
		case slices.ContainsFunc(all, func(b bar) bool { return b.peer == peer }):
		default:
			table = f.Table
			all = append(all, bar{peer, f.Value})
		}
	}
	return all
}

// The dimensions of the chart.
const (
	panelWidth, barHeight, panelGap = 420, 18, 24
	labelWidth, valueWidth          = 110, 70
)

// drawChart writes a chart of figures to a file, as SVG.
func drawChart(path string, figures []figure) error {
	var body strings.Builder
	var tops [2]int // the top of the next panel in each column
	for i, p := range panels {
		bars := p.bars(figures)
		if len(bars) == 0 {
			continue
		}
		column := i % 2
		x, y := column*(panelWidth+panelGap), tops[column]
		fmt.Fprintf(&body, `<text class="t" x="%d" y="%d">%s</text>`+"\n", x, y+14, p.title)
		most := slices.MaxFunc(bars, func(a, b bar) int { return int(a.value*1e3) - int(b.value*1e3) })
		for j, b := range bars {
			top := y + barHeight*(j+1) + 4
			width := over(b.value, most.value) * (panelWidth - labelWidth - valueWidth)
			class := "o"
			if strings.HasPrefix(b.peer, "qless") {
				class = "q"
			}
			fmt.Fprintf(&body, `<text x="%d" y="%d">%s</text>`, x, top+13, html.EscapeString(b.peer))
			fmt.Fprintf(&body, `<rect class="%s" x="%d" y="%d" width="%.1f" height="%d"/>`,
				class, x+labelWidth, top+2, max(1, width), barHeight-4)
			fmt.Fprintf(&body, `<text x="%.1f" y="%d">%s</text>`+"\n",
				float64(x+labelWidth)+width+6, top+13, format(b.value))
		}
		tops[column] += barHeight*(len(bars)+1) + panelGap
	}
	return os.WriteFile(path, fmt.Appendf(nil, chartFrame,
		2*panelWidth+panelGap, max(tops[0], tops[1]), body.String()), 0o644)
}

const chartFrame = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" role="img">
<title>Job queues side by side</title>
<style>
text { font: 12px sans-serif; fill: #57606a } .t { font-weight: bold }
.q { fill: #2f6feb } .o { fill: #afb8c1 }
@media (prefers-color-scheme: dark) { text { fill: #c9d1d9 } .o { fill: #6e7681 } }
</style>
%s</svg>
`
