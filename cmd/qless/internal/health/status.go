package health

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/cmd/qless/internal/out"
	"github.com/qless/qless-go/cmd/qless/internal/place"
	"github.com/qless/qless-go/cmd/qless/internal/text"
	"github.com/qless/qless-go/doctor"
	"github.com/qless/qless-go/inspect"
	"github.com/qless/qless-go/internal/units"
)

// Commands returns the commands of this package.
func Commands(p *place.Place) []*cobra.Command {
	a := &app{p}
	return []*cobra.Command{
		a.statusCommand(), a.whyCommand(), a.checkCommand(),
		a.doctorCommand(), a.tailCommand(), a.topCommand(),
	}
}

func (a *app) statusCommand() *cobra.Command {
	var old time.Duration
	var all bool
	command := &cobra.Command{
		Use:   "status",
		Short: "Show the state of the namespace, and what needs attention",
		RunE: a.RunEither(func(ctx context.Context, client *qless.Client, _ []string) error {
			return a.showStatus(ctx, client, old, all)
		}, func(ctx context.Context, clients []*qless.Client) error {
			return a.showSum(ctx, clients, old, all)
		}),
	}
	command.Flags().DurationVar(&old, "old", doctor.Late,
		"age of the oldest job at which a queue is late")
	command.Flags().BoolVar(&all, "all", false,
		"show all problems, not only the first 5")
	return a.Again(command)
}

// The maximum numbers of failure groups and problems shown.
const (
	statusGroups   = 10
	statusProblems = 5
	statusGone     = 3
)

func (a *app) showStatus(
	ctx context.Context, client *qless.Client, old time.Duration, all bool,
) error {
	o, err := doctor.ReadStatus(ctx, client, old)
	if err != nil {
		return err
	}
	if a.JSON {
		return errors.Join(a.Print(o, nil), out.Damage(o.Damaged))
	}
	s := statusScreen{out: a.Out, style: text.StyleOf(a.Out)}
	s.line("%s  namespace %s  %s", s.style.Bold(a.ServerName()), text.Clean(o.Namespace),
		o.Time.UTC().Format("2006-01-02 15:04:05 UTC"))
	others := ""
	if o.Total == 0 {
		others = place.OtherSpaces(ctx, client)
	}
	if others != "" { // the namespace may be misspelt
		s.line("\n%s", s.style.Yellow("no queues here"+others))
	}
	if others == "" || len(o.Attention) > 0 {
		s.attention(o.Attention, all)
	}
	s.remarks(o.Remarks)
	s.workers(o)
	if err := s.queues(o.Queues); err != nil {
		return err
	}
	s.failures(o.Failures)
	s.limits(o.FullLimits)
	s.outboxes(o.Outboxes, o.Time)
	return errors.Join(s.err, out.Damage(o.Damaged))
}

// A statusScreen prints the parts of the status.
type statusScreen struct {
	out   io.Writer
	style text.Style
	err   error
}

func (s *statusScreen) line(format string, args ...any) {
	if s.err == nil {
		_, s.err = fmt.Fprintf(s.out, format+"\n", args...)
	}
}

func (s *statusScreen) attention(problems []doctor.Reason, all bool) {
	s.line("")
	if len(problems) == 0 {
		s.line("%s", s.style.Green("nothing needs attention"))
		return
	}
	s.line("%s", s.style.Bold("NEEDS ATTENTION"))
	for i, p := range problems {
		if i == statusProblems && !all {
			s.line("and %d more: qless status --all", len(problems)-i)
			return
		}
		sign, paint := "-", s.style.Yellow
		if p.Urgent() {
			sign, paint = "!", s.style.Red
		}
		s.line("%s %s", paint(sign), paint(text.Clean(p.Sentence)))
		s.command(p.Command)
	}
}

func (s *statusScreen) remarks(remarks []doctor.Reason) {
	for _, r := range remarks {
		s.line("remark: %s", text.Clean(r.Sentence))
		s.command(r.Command)
	}
}

func (s *statusScreen) command(command string) {
	if command != "" {
		s.line("    %s", s.style.Faint(text.Clean(command)))
	}
}

func (s *statusScreen) workers(o *doctor.Status) {
	s.workforce(o.Workers)
	s.gone(o)
	s.rates(o.Rates)
}

func (s *statusScreen) workforce(w doctor.Workforce) {
	line := fmt.Sprintf("%s, %d of %s busy", text.Count(w.Registered, "worker"), w.Busy,
		text.Count(w.Slots, "slot"))
	if w.Silent > 0 {
		line += fmt.Sprintf("; %d more that do not register", w.Silent)
	}
	s.line("\n%s  %s", s.style.Bold("WORKERS"), line)
}

func (s *statusScreen) rates(r doctor.Throughput) {
	s.line("%s    %s completed, %s failed, %s retried a minute", s.style.Bold("RATES"),
		units.Rate(r.Completed), units.Rate(r.Failed), units.Rate(r.Retried))
}

// gone names the workers that died last.
func (s *statusScreen) gone(o *doctor.Status) {
	var gone []inspect.WorkerStatus
	for _, w := range o.Listed {
		if w.Gone != nil {
			gone = append(gone, w)
		}
	}
	slices.SortFunc(gone, func(a, b inspect.WorkerStatus) int {
		return b.Gone.Seen.Compare(a.Gone.Seen)
	})
	for i, w := range gone {
		if i == statusGone {
			s.line("         and %d more that have gone: qless worker ls", len(gone)-i)
			return
		}
		s.line("         %s gone for %s, had %s", text.Clean(w.Name), units.Age(o.Time.Sub(w.Gone.Seen)),
			text.Clean(out.List(w.Gone.Queues)))
	}
}

func (s *statusScreen) queues(queues []doctor.QueueStatus) error {
	s.line("")
	if s.err != nil {
		return s.err
	}
	t := out.NewTable("QUEUE  WAITING  OLDEST  RUNNING  STALLED  SCHEDULED  DEPENDS  DONE/M  "+
		"FAIL/M  WORKERS  STATE", "no queues")
	for i := range queues {
		q := &queues[i]
		running := out.Known(q.Running)
		if q.MaxConcurrency > 0 {
			running += fmt.Sprintf("/%d", q.MaxConcurrency)
		}
		state := "open"
		if q.Paused {
			state = "paused"
		}
		oldest := units.Age(q.Oldest)
		if q.Oldest < 0 {
			oldest = "?"
		}
		t.Add(text.Clean(q.Name), out.Known(q.Waiting), oldest, running, out.Known(q.Stalled),
			out.Known(q.Scheduled), out.Known(q.Depends), units.Rate(q.Rates.Completed),
			units.Rate(q.Rates.Failed), q.Workers, state)
	}
	return t.Write(s.out)
}

func (s *statusScreen) failures(groups []doctor.Group) {
	s.line("")
	if len(groups) == 0 {
		s.line("no failed jobs")
		return
	}
	s.line("%s", s.style.Bold("FAILURES"))
	for i, g := range groups {
		if i == statusGroups {
			s.line("  and %s", text.Count(len(groups)-i, "more group"))
			return
		}
		s.line("%7d  %s", g.Jobs, text.Clean(g.Name))
	}
}

func (s *statusScreen) limits(limits []inspect.LimitInfo) {
	if len(limits) == 0 {
		return
	}
	s.line("\n%s", s.style.Bold("FULL LIMITS"))
	for i := range limits {
		s.line("%7d  %s", limits[i].Parked, text.Clean(limits[i].Name))
	}
}

func (s *statusScreen) outboxes(outboxes []doctor.Outbox, now time.Time) {
	if len(outboxes) == 0 {
		return
	}
	s.line("\n%s", s.style.Bold("OUTBOXES"))
	for i := range outboxes {
		o := &outboxes[i]
		line := text.Clean(o.Name) + ": " + text.Count(o.Rows, "row")
		if o.Rows > 0 {
			line += ", the oldest for " + units.Age(o.Oldest)
		}
		if aside := o.Aside(); aside > 0 {
			line += fmt.Sprintf("; %d set aside", aside)
		}
		s.line("%s; reported %s ago", line, units.Age(max(now.Sub(o.Reported), 0)))
	}
}
