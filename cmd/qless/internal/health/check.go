package health

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/cmd/qless/internal/out"
	"github.com/qless/qless-go/cmd/qless/internal/text"
	"github.com/qless/qless-go/cmd/qless/internal/usage"
	"github.com/qless/qless-go/internal/units"
)

// The exit statuses of a check, with the meanings used by monitoring systems.
const (
	checkOK = iota
	checkWarning
	checkCritical
	checkUnknown
)

var checkNames = [...]string{"OK", "WARNING", "CRITICAL", "UNKNOWN"}

// A checkResult is the result of a check.
type checkResult struct {
	Check   string   `json:"check"`
	Queue   string   `json:"queue,omitempty"`
	Group   string   `json:"group,omitempty"`
	Status  int      `json:"-"`
	Name    string   `json:"status"`
	Message string   `json:"message"`
	Metrics []metric `json:"metrics"`

	warnAt, critAt map[string]*threshold // by the names of metrics
}

// A metric is a figure of a check with its thresholds.
type metric struct {
	Name  string     `json:"name"`
	Value float64    `json:"value"`
	Unit  string     `json:"unit,omitempty"` // s, B, % or nothing
	Warn  *threshold `json:"warn,omitempty"`
	Crit  *threshold `json:"crit,omitempty"`
}

// misused reports an error in the arguments of a check as UNKNOWN.
func misused(c *cobra.Command, err error) error {
	return out.Checked(checkUnknown, usage.BadFlag(c, err))
}

func checkArgs(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(command *cobra.Command, args []string) error {
		if err := check(command, args); err != nil {
			return misused(command, usage.BadArguments(command, args, err))
		}
		return nil
	}
}

// A checker runs checks and prints their results.
type checker struct {
	*app
	format string
}

func (a *app) checkCommand() *cobra.Command {
	c := &checker{app: a}
	command := usage.Group("check", "Check queues, workers, failures and the server, for a monitor",
		c.queueCommand(), c.workersCommand(), c.failuresCommand(), c.serverCommand())
	command.SetFlagErrorFunc(misused)
	command.PersistentFlags().StringVar(&c.format, "format", "text",
		"text, nagios, json or prometheus")
	return command
}

// check runs a check. Errors are UNKNOWN.
func (c *checker) check(
	command *cobra.Command, args []string, look checkFunc, r *checkResult,
) error {
	if !slices.Contains([]string{"text", "nagios", "json", "prometheus"}, c.format) {
		return misused(command, fmt.Errorf("no format is called %q", c.format))
	}
	if c.JSON {
		c.format = "json"
	}
	return c.report(r, c.Run(func(ctx context.Context, client *qless.Client, args []string) error {
		return look(ctx, client, args, r)
	})(command, args))
}

// report prints a result, and returns the error for its status.
func (c *checker) report(r *checkResult, failed error) error {
	if failed != nil {
		r.Status = checkUnknown
		r.Message = text.Clean(strings.TrimPrefix(failed.Error(), "qless: "))
	}
	r.Name = checkNames[r.Status]
	if err := c.printResult(r); err != nil {
		return out.Checked(checkUnknown, err)
	}
	if r.Status == checkOK {
		return nil
	}
	return out.Checked(r.Status, nil)
}

// judge adds a metric to a result, and raises the status if the metric passes a threshold of its
// name.
func (r *checkResult) judge(name, unit string, value float64) {
	m := metric{Name: name, Unit: unit, Value: value, Warn: r.warnAt[name], Crit: r.critAt[name]}
	r.Metrics = append(r.Metrics, m)
	switch {
	case m.Crit.isPassed(value):
		r.Status = checkCritical
	case m.Warn.isPassed(value):
		r.Status = max(r.Status, checkWarning)
	}
}

// warn raises the status, and adds a reason.
func (r *checkResult) warn(status int, why string) {
	r.Status = max(r.Status, status)
	r.Message += ", " + why
}

func (c *checker) printResult(r *checkResult) error {
	var err error
	switch c.format {
	case "json":
		c.JSON = true
		return c.Print(r, nil)
	case "nagios":
		_, err = fmt.Fprintln(c.Out, r.nagios())
	case "prometheus":
		_, err = fmt.Fprint(c.Out, r.prometheus())
	default:
		_, err = fmt.Fprint(c.Out, r.text(text.StyleOf(c.Out)))
	}
	return err
}

// text returns the result for people.
func (r *checkResult) text(style text.Style) string {
	paint := [...]func(string) string{style.Green, style.Yellow, style.Red, style.Yellow}[r.Status]
	var lines strings.Builder
	fmt.Fprintf(&lines, "%s  %s\n", paint(r.Name), r.Message)
	width := 0
	for _, m := range r.Metrics {
		width = max(width, len(m.Name))
	}
	for _, m := range r.Metrics {
		fmt.Fprintf(&lines, "  %s  %s", text.Pad(m.Name, width), figure(m.Value, m.Unit))
		if m.Warn != nil {
			fmt.Fprintf(&lines, "  warn %s", m.Warn)
		}
		if m.Crit != nil {
			fmt.Fprintf(&lines, "  crit %s", m.Crit)
		}
		lines.WriteString("\n")
	}
	return lines.String()
}

// figure formats a value for people.
func figure(value float64, unit string) string {
	switch unit {
	case "s":
		return units.Duration(time.Duration(value * float64(time.Second)))
	case "B":
		return units.Bytes(value)
	}
	return formatNumber(value) + unit
}

// nagios returns the output of a plug-in: the status, and performance data after a bar.
func (r *checkResult) nagios() string {
	line := fmt.Sprintf("QLESS %s %s - %s", strings.ToUpper(r.Check), r.Name,
		strings.ReplaceAll(r.Message, "|", "/"))
	data := make([]string, len(r.Metrics))
	for i, m := range r.Metrics {
		data[i] = fmt.Sprintf("%s=%s%s;%s;%s", m.Name, formatNumber(m.Value), m.Unit,
			m.Warn.nagios(), m.Crit.nagios())
		data[i] = strings.TrimRight(data[i], ";")
	}
	if len(data) == 0 {
		return line
	}
	return line + " | " + strings.Join(data, " ")
}

// prometheus returns the metrics in the text format, with the status as another metric.
func (r *checkResult) prometheus() string {
	var labels [][2]string
	if r.Queue != "" {
		labels = append(labels, [2]string{"queue", r.Queue})
	}
	if r.Group != "" {
		labels = append(labels, [2]string{"group", r.Group})
	}
	var lines strings.Builder
	write := func(name, help string, labels [][2]string, value float64) {
		fmt.Fprintf(&lines, "# HELP %s %s\n# TYPE %s gauge\n%s%s %s\n",
			name, help, name, name, labelText(labels), formatNumber(value))
	}
	write("qless_check_status", "0 OK, 1 warning, 2 critical, 3 unknown.",
		append([][2]string{{"check", r.Check}}, labels...), float64(r.Status))
	for _, m := range r.Metrics {
		name := "qless_check_" + r.Check + "_" + m.Name + suffixes[m.Unit]
		write(name, "As of the last check.", labels, m.Value)
	}
	return lines.String()
}

// suffixes are the suffixes of metric names by unit.
var suffixes = map[string]string{"": "", "s": "_seconds", "B": "_bytes", "%": "_percent"}

func labelText(labels [][2]string) string {
	if len(labels) == 0 {
		return ""
	}
	escape := strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)
	pairs := make([]string, len(labels))
	for i, l := range labels {
		pairs[i] = l[0] + `="` + escape.Replace(strings.ToValidUTF8(l[1], "\uFFFD")) + `"`
	}
	return "{" + strings.Join(pairs, ",") + "}"
}
