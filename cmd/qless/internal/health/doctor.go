package health

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/cmd/qless/internal/out"
	"github.com/qless/qless-go/cmd/qless/internal/text"
	"github.com/qless/qless-go/doctor"
	"github.com/qless/qless-go/internal/units"
)

// An exam looks for damage and prints the findings.
type exam struct {
	*app
	fix     bool
	pause   time.Duration
	style   text.Style
	live    bool // a person sees the progress
	rdb     redis.UniversalClient
	options doctor.Options
}

// An examResult holds the report and the repaired findings.
type examResult struct {
	*doctor.Report
	Fixed []doctor.Reason
}

// MarshalJSON writes the fields of the report beside the other fields.
func (r examResult) MarshalJSON() ([]byte, error) {
	type report doctor.Report
	return json.Marshal(struct {
		report
		Took  units.Text      `json:"took"`
		Fixed []doctor.Reason `json:"fixed"`
	}{report(*r.Report), units.Text(r.Took), r.Fixed})
}

// shownFindings is the number of findings of each kind printed.
const shownFindings = 10

func (a *app) doctorCommand() *cobra.Command {
	e := &exam{app: a}
	command := &cobra.Command{
		Use:   "doctor",
		Short: "Look for damage in the namespace and dangers of the server, and repair it",
		RunE:  func(command *cobra.Command, _ []string) error { return e.run(command.Context()) },
	}
	command.Flags().BoolVar(&e.fix, "fix", false, "repair what can be repaired, after a question")
	command.Flags().DurationVar(&e.pause, "pause", time.Millisecond,
		"pause after each step")
	return command
}

func (e *exam) run(ctx context.Context) error {
	if e.ManySpaces() && !e.fix {
		return e.runMany(ctx)
	}
	if err := e.connect(ctx, e.Client); err != nil {
		return err
	}
	report, err := e.examine(ctx)
	if err != nil {
		return err
	}
	result := examResult{report, []doctor.Reason{}}
	if !e.JSON {
		e.showFindings(report)
	}
	if e.fix {
		if result.Fixed, err = e.repair(ctx, report); err != nil {
			return err
		}
	}
	if e.JSON {
		if err := e.Print(result, nil); err != nil {
			return err
		}
	}
	if isBroken(&result) {
		return out.ErrBroken
	}
	return nil
}

// connect connects to the server, already checked by the client of the command.
func (e *exam) connect(
	ctx context.Context, connect func(context.Context) (*qless.Client, error),
) error {
	connecting, cancel := context.WithTimeout(ctx, e.Timeout)
	defer cancel()
	client, err := connect(connecting)
	if err != nil {
		return err
	}
	e.rdb = client.Redis()
	e.style = text.StyleOf(e.Out)
	e.live = text.IsTerminal(e.Err)
	if e.pause == 0 {
		e.pause = -1 // none
	}
	e.options = doctor.Options{Namespace: client.Namespace(), Pause: e.pause}
	return nil
}

func (e *exam) examine(ctx context.Context) (*doctor.Report, error) {
	estimate, err := doctor.EstimateExam(ctx, e.rdb, e.options)
	if err != nil {
		return nil, err
	}
	if !e.JSON {
		fmt.Fprintf(e.Err, "%s to look at, which takes about %s\n",
			text.Count(estimate.Keys, "key"), units.Age(max(estimate.Took, time.Second)))
	}
	reports, err := e.examineAll(ctx, e.options.Namespace)
	if err != nil {
		return nil, err
	}
	return reports[0], nil
}

// examineAll examines namespaces, and shows the progress.
func (e *exam) examineAll(ctx context.Context, names ...string) ([]*doctor.Report, error) {
	options := e.options
	if e.live && !e.JSON {
		options.Progress = e.showProgress
		defer fmt.Fprint(e.Err, "\r\x1b[K")
	}
	return doctor.ExamineAll(ctx, e.rdb, options, names...)
}

// runMany is run for several namespaces.
func (e *exam) runMany(ctx context.Context) error {
	if err := e.connect(ctx, e.Dial); err != nil {
		return err
	}
	clients, err := e.Spaces(ctx)
	if err != nil {
		return err
	}
	reports, err := e.examineAll(ctx, out.Strings(clients, (*qless.Client).Namespace)...)
	if err != nil {
		return err
	}
	broken := slices.ContainsFunc(reports, func(r *doctor.Report) bool {
		return len(r.With(doctor.Broken)) > 0
	})
	if e.JSON {
		err = e.Print(reports, nil)
	} else {
		e.showReports(reports)
	}
	if err == nil && broken {
		err = out.ErrBroken
	}
	return err
}

// showReports prints the reports with findings, and the number of the others.
func (e *exam) showReports(reports []*doctor.Report) {
	well := 0
	for _, report := range reports {
		if len(report.Findings) == 0 && len(report.Skipped) == 0 {
			well++
			continue
		}
		e.showFindings(report)
		fmt.Fprintln(e.Out)
	}
	switch {
	case well == 1:
		fmt.Fprintln(e.Out, e.style.Green("nothing is wrong in 1 namespace"))
	case well > 0:
		fmt.Fprintln(e.Out, e.style.Green(fmt.Sprintf("nothing is wrong in %d namespaces", well)))
	}
}

func (e *exam) showProgress(p doctor.Progress) {
	fmt.Fprintf(e.Err, "\r\x1b[K%d of %s, %s, %s", p.Keys, text.Count(p.Total, "key"),
		text.Count(p.Jobs, "job"), text.Count(p.Findings, "finding"))
}

// byKind groups findings by kind: broken ones first, then the most numerous.
func byKind(findings []doctor.Reason) [][]doctor.Reason {
	byCode := map[doctor.ReasonCode][]doctor.Reason{}
	for _, f := range findings {
		byCode[f.Code] = append(byCode[f.Code], f)
	}
	return slices.SortedFunc(maps.Values(byCode), func(a, b []doctor.Reason) int {
		return cmp.Or(rank(a[0])-rank(b[0]), len(b)-len(a), cmp.Compare(a[0].Code, b[0].Code))
	})
}

// rank is 0 for a broken finding.
func rank(finding doctor.Reason) int {
	if finding.Gravity == doctor.Broken {
		return 0
	}
	return 1
}

func (e *exam) showFindings(report *doctor.Report) {
	fmt.Fprintf(e.Out, "namespace %s  %s, %s, in %s\n", text.Clean(report.Namespace),
		text.Count(report.Jobs, "job"), text.Count(report.Keys, "key"), units.Age(report.Took))
	for _, group := range byKind(report.Findings) {
		e.showKind(group)
	}
	for _, skipped := range report.Skipped {
		fmt.Fprintf(e.Out, "\nnot checked: %s\n", text.Clean(skipped))
	}
	switch {
	case report.Truncated:
		fmt.Fprintln(e.Out, "\nthere are more findings")
	case len(report.Findings) == 0:
		fmt.Fprintln(e.Out, e.style.Green("nothing is wrong"))
	}
}

func (e *exam) showKind(group []doctor.Reason) {
	first := group[0]
	paint := e.style.Yellow
	if first.Gravity == doctor.Broken {
		paint = e.style.Red
	}
	head := fmt.Sprintf("%d %s, %s", len(group), first.Code, first.Gravity)
	if first.Fixable {
		head += ", can be repaired"
	}
	fmt.Fprintf(e.Out, "\n%s\n", paint(head))
	for i, f := range group {
		if i == shownFindings {
			fmt.Fprintf(e.Out, "  and %d more\n", len(group)-i)
			break
		}
		fmt.Fprintf(e.Out, "  %s\n", text.Clean(f.Sentence))
		if f.Command != "" && !f.Fixable {
			fmt.Fprintf(e.Out, "    %s\n", e.style.Faint(text.Clean(f.Command)))
		}
	}
	if first.Advice != "" && !first.Fixable {
		fmt.Fprintf(e.Out, "  %s\n", text.Clean(first.Advice))
	}
}

// repair repairs the fixable findings, after a question, and prints the result.
func (e *exam) repair(ctx context.Context, report *doctor.Report) ([]doctor.Reason, error) {
	fixable := slices.DeleteFunc(slices.Clone(report.Findings), func(f doctor.Reason) bool {
		return !f.Fixable
	})
	none := []doctor.Reason{}
	if len(fixable) == 0 {
		fmt.Fprintln(e.Err, "there is nothing to repair")
		return none, nil
	}
	what := "repair " + text.Count(len(fixable), "finding")
	if e.DryRun {
		e.Say("would %s", what)
		return none, nil
	}
	if goOn, err := e.Confirm(what); !goOn {
		return none, err
	}
	fixed, err := doctor.Fix(ctx, e.rdb, e.options, fixable...)
	if !e.JSON {
		for _, f := range fixed {
			fmt.Fprintf(e.Out, "repaired: %s\n", text.Clean(f.Sentence))
		}
	}
	fmt.Fprintf(e.Err, "%d of %s repaired\n", len(fixed), text.Count(len(fixable), "finding"))
	return append(none, fixed...), err
}

// isBroken reports whether a broken finding was not repaired.
func isBroken(r *examResult) bool {
	return slices.ContainsFunc(r.Findings, func(f doctor.Reason) bool {
		return f.Gravity == doctor.Broken && !slices.ContainsFunc(r.Fixed, f.Is)
	})
}
