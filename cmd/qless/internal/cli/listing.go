package cli

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/cmd/qless/internal/text"
	"github.com/qless/qless-go/inspect"
	"github.com/qless/qless-go/internal/units"
)

// rangeFlags select the part of a list to print.
type rangeFlags struct{ limit, offset int }

// add adds the flags of a list that is read in parts.
func (f *rangeFlags) add(command *cobra.Command) {
	command.Flags().IntVar(&f.limit, "limit", 25, "maximum number to print, -1 for all")
	command.Flags().IntVar(&f.offset, "offset", 0, "number to skip")
}

// addToWhole adds the flags of a list that is read as a whole.
func (f *rangeFlags) addToWhole(command *cobra.Command) {
	command.Flags().IntVar(&f.limit, "limit", -1, "maximum number to print, -1 for all")
}

func (f *rangeFlags) get() inspect.Range {
	return inspect.Range{Offset: f.offset, Limit: f.limit}
}

// part returns the items of a whole list to print.
func part[T any](items []T, f *rangeFlags) []T {
	if f.limit >= 0 && f.limit < len(items) {
		return items[:f.limit]
	}
	return items
}

// footer returns a line with the numbers of printed items and of all items.
func (c *console) footer(shown, total int, noun string) {
	switch {
	case c.json || total == 0:
	case shown < total:
		c.say("%d of %s", shown, text.Count(total, noun))
	default:
		c.say("%s", text.Count(total, noun))
	}
}

// printPage prints a page of a list of jobs.
func (c *console) printPage(page inspect.Page[inspect.Row]) error {
	if err := c.printSummaries(page, page.Items); err != nil {
		return err
	}
	c.footer(len(page.Items), page.Total, "job")
	return nil
}

// printSummaries prints jobs of a list: as the JSON of a value that contains them, as jids, or as a
// table.
func (c *console) printSummaries(value any, jobs []inspect.Row) error {
	if c.jids {
		jids := make([]string, len(jobs))
		for i, job := range jobs {
			jids[i] = job.JID
		}
		return c.printJIDs(jids)
	}
	return c.print(value, func() *table {
		t := &table{
			header: []string{
				"JID", "KLASS", "QUEUE", "STATE", "PRIORITY", "RETRIES", "SINCE", "REMARKS",
			},
			empty: "no jobs",
		}
		for _, job := range jobs {
			t.add(job.JID, dash(job.Klass), dash(job.Queue), stateOf(job), job.Priority,
				retriesOf(job), since(job.Since), remarks(job))
		}
		return t
	})
}

func (c *console) printJIDs(jids []string) error {
	if len(jids) == 0 {
		return nil
	}
	_, err := fmt.Fprintln(c.out, strings.Join(jids, "\n"))
	return err
}

// printFullJobs prints jobs that were read in full.
func (c *console) printFullJobs(jobs []*qless.Job) error {
	if c.jids {
		jids := make([]string, len(jobs))
		for i, job := range jobs {
			jids[i] = job.JID
		}
		return c.printJIDs(jids)
	}
	return c.print(jobs, func() *table {
		t := &table{
			header: []string{
				"JID", "KLASS", "QUEUE", "STATE", "PRIORITY", "RETRIES", "TAGS", "DATA",
			},
			empty: "no jobs",
		}
		for _, job := range jobs {
			t.add(job.JID, job.Klass, dash(job.Queue), paintedState(job.State), job.Priority,
				retriesLeft(job.Remaining, job.Retries), list(job.Tags), string(job.Data))
		}
		return t
	})
}

func retriesLeft(remaining, retries int) string {
	return strconv.Itoa(max(remaining, 0)) + "/" + strconv.Itoa(retries)
}

func retriesOf(job inspect.Row) string {
	if job.Interval > 0 {
		return strconv.Itoa(job.Retries)
	}
	return retriesLeft(job.Remaining, job.Retries)
}

// stateOf returns the state of a job in a list. A job without a record has none.
func stateOf(job inspect.Row) any {
	switch {
	case job.State != "":
		return paintedState(job.State)
	case job.Interval > 0:
		return "recurring"
	}
	return painted{"gone", dim}
}

func paintedState(state qless.State) painted {
	return painted{string(state), colourOf(state)}
}

func colourOf(state qless.State) colour {
	switch state {
	case qless.StateFailed, qless.StateTimedOut:
		return red
	case qless.StateComplete:
		return dim
	}
	return ""
}

// remarks returns the facts that matter about a job in its state.
func remarks(job inspect.Row) string {
	var parts []string
	add := func(format string, values ...any) {
		parts = append(parts, fmt.Sprintf(format, values...))
	}
	if job.Interval > 0 {
		add("every %s", units.Duration(job.Interval))
	}
	switch {
	case job.Parked != "":
		add("waits for limit %s", job.Parked)
	case job.IsDue:
		add("due since %s", units.Duration(now().Sub(job.Due)))
	case !job.Due.IsZero():
		add("due %s", since(job.Due))
	}
	if job.Worker != "" {
		add("on %s", job.Worker)
	}
	if !job.Expires.IsZero() {
		add("%s %s", lockEnds(job.Expires), since(job.Expires))
	}
	if job.Failure != nil {
		add("%s: %s", job.Failure.Group, job.Failure.Message)
	}
	for _, tag := range job.Tags {
		add("#%s", tag)
	}
	if job.Data != "" {
		add("%s", job.Data)
	}
	return strings.Join(parts, " ")
}

// ofJID is the result of a command for one job.
type ofJID struct {
	JID string `json:"jid"`
}

// printJID prints the jid of a job that was put.
func (c *console) printJID(jid string) error {
	if !c.json {
		return c.printJIDs([]string{jid})
	}
	return c.printJSON(ofJID{jid})
}

// alarming returns a number, in red unless it is zero.
func alarming(n int) any {
	if n == 0 {
		return n
	}
	return painted{known(n), red}
}

func openOrPaused(paused bool) any {
	if paused {
		return painted{"paused", yellow}
	}
	return "open"
}

// block prints several lines below their name.
func (c *console) block(name, lines string) {
	fmt.Fprintf(c.out, "%s:\n", name)
	for line := range strings.SplitSeq(strings.TrimRight(lines, "\n"), "\n") {
		line = text.Clean(strings.ReplaceAll(line, "\t", "    "))
		fmt.Fprintln(c.out, strings.TrimRight("  "+line, " "))
	}
}
