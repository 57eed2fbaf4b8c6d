package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"text/tabwriter"
)

// A column is one figure of the table as text, "" where it does not apply.
type column struct {
	title string
	text  func(row) string
}

// columnsOf returns the columns of some rows: all figures, then the ratios to each base.
func columnsOf(rows []row) []column {
	columns := []column{
		{"instr/job", func(r row) string { return formatFigure(r.Instructions, 0) }},
		{"instr/call", func(r row) string { return formatFigure(r.InstructionsPerCall, 0) }},
		{"CPU us/job", func(r row) string { return formatFigure(r.CPU, 1) }},
		{"client us/job", func(r row) string { return formatFigure(r.Client, 1) }},
		{"cmds/job", func(r row) string { return formatFigure(r.Commands, 2) }},
		{"scripts/job", func(r row) string { return formatFigure(r.Scripts, 2) }},
		{"jobs/s", func(r row) string { return formatFigure(r.Speed, 0) }},
		{"p50 ms", func(r row) string { return formatFigure(r.P50, 2) }},
		{"p99 ms", func(r row) string { return formatFigure(r.P99, 2) }},
		{"B/job", func(r row) string { return formatFigure(r.Bytes, 0) }},
	}
	for i, base := range rows[0].Against {
		columns = append(columns,
			column{"instr x " + base.Peer, func(r row) string {
				return formatFigure(r.Against[i].Instructions.Median, 2)
			}},
			column{"CPU x " + base.Peer, func(r row) string { return formatSpread(r.Against[i].CPU) }},
			column{"speed x " + base.Peer, func(r row) string {
				return formatFigure(r.Against[i].Speed.Median, 2)
			}},
			column{"B x " + base.Peer, func(r row) string {
				return formatFigure(r.Against[i].Bytes.Median, 2)
			}},
		)
	}
	return columns
}

// writeTable prints the rows of one group, omitting empty columns.
func writeTable(out io.Writer, g group, rows []row) error {
	fmt.Fprintf(out, "\n%s\n", joined(g.workload, g.label))
	shown := slices.DeleteFunc(columnsOf(rows), func(c column) bool {
		return !slices.ContainsFunc(rows, func(r row) bool { return c.text(r) != "" })
	})
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(w, "phase\tpeer\t")
	for _, c := range shown {
		fmt.Fprint(w, c.title, "\t")
	}
	fmt.Fprintln(w)
	for _, r := range rows {
		fmt.Fprintf(w, "%s\t%s\t", r.Phase, r.name)
		for _, c := range shown {
			fmt.Fprint(w, c.text(r), "\t")
		}
		fmt.Fprintln(w)
	}
	return w.Flush()
}

func formatFigure(value float64, digits int) string {
	if value == 0 {
		return ""
	}
	return strconv.FormatFloat(value, 'f', digits, 64)
}

func formatSpread(s spread) string {
	if s.Median == 0 {
		return ""
	}
	return fmt.Sprintf("%.2f (%.2f-%.2f)", s.Median, s.Min, s.Max)
}

// writeJSON prints the rows as JSON, one object per line.
func writeJSON(out io.Writer, rows []row) error {
	encoder := json.NewEncoder(out)
	for _, r := range rows {
		if err := encoder.Encode(r); err != nil {
			return err
		}
	}
	return nil
}
