package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/qless/qless-go"
)

// A reportOrder is the data of the report's job.
type reportOrder struct {
	Files   []string `json:"files"` // the jids of the files' jobs
	LeftOut int      `json:"leftOut"`
}

// batch is the number of jobs read at a time.
const batch = 50

// report runs the report's job. It starts when every file's job is complete, and reads the results.
func (p *pipeline) report(ctx context.Context, job *qless.Job, order reportOrder) error {
	files, err := p.results(ctx, order.Files)
	if err != nil {
		return err
	}
	printReport(p.out, files)
	if order.LeftOut > 0 {
		fmt.Fprintf(p.out, "  %d more files were left out: see -max\n", order.LeftOut)
	}
	if gone := len(order.Files) - len(files); gone > 0 {
		fmt.Fprintf(p.out, "  %d results are gone: the server keeps fewer completed jobs\n", gone)
	}
	return nil
}

// results reads the data of the completed jobs of the files.
func (p *pipeline) results(ctx context.Context, jids []string) ([]file, error) {
	var files []file
	for some := range slices.Chunk(jids, batch) {
		jobs, err := p.client.Jobs(ctx, some...)
		if err != nil {
			return nil, err
		}
		for _, job := range jobs {
			f, err := fileKlass.Data(job)
			if err != nil {
				return nil, err
			}
			files = append(files, f)
		}
	}
	return files, nil
}

func printReport(out io.Writer, files []file) {
	var bytes, lines, functions int
	for _, f := range files {
		bytes += f.Bytes
		lines += f.Lines
		functions += f.Functions
	}
	fmt.Fprintf(out, "\n%d files, %d bytes, %d lines, %d functions\n",
		len(files), bytes, lines, functions)
	printLargest(out, files)
	printDuplicates(out, files)
	printProblems(out, files)
}

func printLargest(out io.Writer, files []file) {
	bySize := slices.SortedFunc(slices.Values(files), func(a, b file) int {
		return cmp.Or(cmp.Compare(b.Lines, a.Lines), cmp.Compare(a.Path, b.Path))
	})
	fmt.Fprintln(out, "  the largest:")
	for _, f := range bySize[:min(5, len(bySize))] {
		fmt.Fprintf(out, "    %6d lines  %s\n", f.Lines, f.Path)
	}
}

func printDuplicates(out io.Writer, files []file) {
	paths := map[string][]string{}
	var hashes []string // in the order of the files
	for _, f := range files {
		if f.Hash == "" {
			continue
		}
		if paths[f.Hash] == nil {
			hashes = append(hashes, f.Hash)
		}
		paths[f.Hash] = append(paths[f.Hash], f.Path)
	}
	for _, hash := range hashes {
		if same := paths[hash]; len(same) > 1 {
			fmt.Fprintln(out, "  the same:", strings.Join(same, " = "))
		}
	}
}

func printProblems(out io.Writer, files []file) {
	for _, f := range files {
		if f.Problem != "" {
			fmt.Fprintln(out, "  a problem:", f.Problem)
		}
	}
}

// printStats prints the server's statistics of each queue.
func (p *pipeline) printStats(ctx context.Context) error {
	fmt.Fprintln(p.out, "\nmean times in the queues:")
	table := tabwriter.NewWriter(p.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "  queue\tjobs\twait\trun")
	for _, stage := range stages {
		stats, err := p.queue(stage).Stats(ctx, time.Now())
		if err != nil {
			return err
		}
		fmt.Fprintf(table, "  %s\t%d\t%v\t%v\n", stage, stats.Run.Count,
			stats.Wait.Mean.Round(time.Microsecond), stats.Run.Mean.Round(time.Microsecond))
	}
	return table.Flush()
}
