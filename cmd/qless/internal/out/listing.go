package out

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

// RangeFlags select the part of a list to print.
type RangeFlags struct{ Limit, offset int }

// Add adds the flags of a list read in parts.
func (f *RangeFlags) Add(command *cobra.Command) {
	command.Flags().IntVar(&f.Limit, "limit", 25, "maximum number to print, -1 for all")
	command.Flags().IntVar(&f.offset, "offset", 0, "number to skip")
}

// AddToWhole adds the flags of a list read as a whole.
func (f *RangeFlags) AddToWhole(command *cobra.Command) {
	command.Flags().IntVar(&f.Limit, "limit", -1, "maximum number to print, -1 for all")
}

// Get returns the part of the list.
func (f *RangeFlags) Get() inspect.Range {
	return inspect.Range{Offset: f.offset, Limit: f.Limit}
}

// Part returns the items of a whole list to print.
func Part[T any](items []T, f *RangeFlags) []T {
	if f.Limit >= 0 && f.Limit < len(items) {
		return items[:f.Limit]
	}
	return items
}

// Footer returns a line with the numbers of printed items and of all items.
func (c *Console) Footer(shown, total int, noun string) {
	switch {
	case c.JSON || total == 0:
	case shown < total:
		c.Say("%d of %s", shown, text.Count(total, noun))
	default:
		c.Say("%s", text.Count(total, noun))
	}
}

// PrintPage prints a page of a list of jobs, unless reading the page failed.
func (c *Console) PrintPage(page inspect.Page[inspect.Row], err error) error {
	if err == nil {
		err = c.PrintSummaries(page, page.Items)
	}
	if err != nil {
		return err
	}
	c.Footer(len(page.Items), page.Total, "job")
	return nil
}

// PrintSummaries prints jobs of a list: as the JSON of a value containing the jobs, as jids, or as
// a table.
func (c *Console) PrintSummaries(value any, jobs []inspect.Row) error {
	if c.JIDs {
		return c.PrintJIDs(Strings(jobs, func(job inspect.Row) string { return job.JID }))
	}
	return c.Print(value, func() *Table {
		t := NewTable("JID  KLASS  QUEUE  STATE  PRIORITY  RETRIES  SINCE  REMARKS", "no jobs")
		for _, job := range jobs {
			t.Add(job.JID, Dash(job.Klass), Dash(job.Queue), stateOf(job), job.Priority,
				retriesOf(job), Since(job.Since), remarks(job))
		}
		return t
	})
}

// PrintJIDs prints jids, one a line.
func (c *Console) PrintJIDs(jids []string) error {
	if len(jids) == 0 {
		return nil
	}
	_, err := fmt.Fprintln(c.Out, strings.Join(jids, "\n"))
	return err
}

// PrintFullJobs prints full jobs.
func (c *Console) PrintFullJobs(jobs []*qless.Job) error {
	if c.JIDs {
		return c.PrintJIDs(Strings(jobs, func(job *qless.Job) string { return job.JID }))
	}
	return c.Print(jobs, func() *Table {
		t := NewTable("JID  KLASS  QUEUE  STATE  PRIORITY  RETRIES  TAGS  DATA", "no jobs")
		for _, job := range jobs {
			t.Add(job.JID, job.Klass, Dash(job.Queue), PaintedState(job.State), job.Priority,
				RetriesLeft(job.Remaining, job.Retries), List(job.Tags), string(job.Data))
		}
		return t
	})
}

// RetriesLeft returns the remaining retries, and the number granted.
func RetriesLeft(remaining, retries int) string {
	return strconv.Itoa(max(remaining, 0)) + "/" + strconv.Itoa(retries)
}

func retriesOf(job inspect.Row) string {
	if job.Interval > 0 {
		return strconv.Itoa(job.Retries)
	}
	return RetriesLeft(job.Remaining, job.Retries)
}

// stateOf returns the state of a job in a list. A job without a record has none.
func stateOf(job inspect.Row) any {
	switch {
	case job.State != "":
		return PaintedState(job.State)
	case job.Interval > 0:
		return "recurring"
	}
	return Paint("gone", Dim)
}

// PaintedState returns a state in its colour.
func PaintedState(state qless.State) any {
	return Paint(string(state), ColourOf(state))
}

// ColourOf returns the colour of a state, or "".
func ColourOf(state qless.State) Colour {
	switch state {
	case qless.StateFailed, qless.StateTimedOut:
		return Red
	case qless.StateComplete:
		return Dim
	}
	return ""
}

// remarks returns the relevant facts about a job in its state.
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
		add("due since %s", units.Duration(Now().Sub(job.Due)))
	case !job.Due.IsZero():
		add("due %s", Since(job.Due))
	}
	if job.Worker != "" {
		add("on %s", job.Worker)
	}
	if !job.Expires.IsZero() {
		add("%s %s", LockEnds(job.Expires), Since(job.Expires))
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

// OfJID is the result of a command for one job.
type OfJID struct {
	JID string `json:"jid"`
}

// PrintJID prints the jid of a job, unless the put failed.
func (c *Console) PrintJID(jid string, err error) error {
	switch {
	case err != nil:
		return err
	case c.JSON:
		return c.PrintJSON(OfJID{jid})
	}
	return c.PrintJIDs([]string{jid})
}

// Alarming returns a number, in red unless it is zero.
func Alarming(n int) any {
	if n == 0 {
		return n
	}
	return Paint(Known(n), Red)
}

// OpenOrPaused returns the state of a queue.
func OpenOrPaused(paused bool) any {
	if paused {
		return Paint("paused", Yellow)
	}
	return "open"
}

// Block prints several lines below a name.
func (c *Console) Block(name, lines string) {
	fmt.Fprintf(c.Out, "%s:\n", name)
	for line := range strings.SplitSeq(strings.TrimRight(lines, "\n"), "\n") {
		line = text.Clean(strings.ReplaceAll(line, "\t", "    "))
		fmt.Fprintln(c.Out, strings.TrimRight("  "+line, " "))
	}
}
