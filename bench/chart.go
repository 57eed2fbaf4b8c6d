package main

import (
	"fmt"
	"html"
	"os"
	"slices"
	"strings"
)

// A panel of the chart shows one figure for all peers. Lower is better, unless stated otherwise.
type panel struct {
	title                 string
	workload, phase, what string
	table                 string // of several in the workload, or "" for the first table
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

// bars returns a panel's bars: figures from its table, or from the first table with figures.
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
