// Package usage parses command lines, and explains mistakes in them.
package usage

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/cmd/qless/internal/out"
	"github.com/qless/qless-go/internal/jobopts"
	"github.com/qless/qless-go/internal/settings"
)

// Meant has the intended commands for words of other programs.
var Meant = map[string][]string{
	"queue ls":        {"queues", "stats", "info"},
	"queue resume":    {"unpause", "continue"},
	"queue forget":    {"rm", "remove", "delete", "drop"},
	"queue peek":      {"next", "head"},
	"job put":         {"push", "add", "enqueue", "create"},
	"job show":        {"get", "inspect", "describe"},
	"job find":        {"search", "list"},
	"job cancel":      {"rm", "remove", "delete", "kill", "purge", "clear", "drain"},
	"job unfail":      {"retry", "requeue", "rerun"},
	"failed unfail":   {"retry", "requeue"},
	"job log":         {"logs", "history"},
	"failed ls":       {"failures", "errors", "dead"},
	"worker ls":       {"workers", "ps"},
	"worker forget":   {"deregister", "rm", "remove", "delete"},
	"recur put":       {"cron"},
	"recur cancel":    {"rm", "remove", "delete"},
	"schedule ls":     {"schedules"},
	"limit unset":     {"rm", "remove", "delete"},
	"limit set":       {"put", "create"},
	"tail":            {"events", "watch", "follow", "monitor"},
	"restore":         {"load", "import"},
	"dump":            {"backup", "export"},
	"serve":           {"web", "dashboard", "ui", "server", "start"},
	"context rm":      {"delete", "remove"},
	"config set":      {"put"},
	"config unset":    {"rm", "remove", "delete", "reset"},
	"queue history":   {"days"},
	"schedule forget": {"rm", "remove", "delete"},
}

// mostMeant is the maximum number of commands in a hint.
const mostMeant = 3

// unknownCommand reports an unknown subcommand, and the commands that may be meant.
func unknownCommand(command *cobra.Command, name string) error {
	text := fmt.Sprintf("unknown command %q for %q", name, command.CommandPath())
	near := meantBy(command, name)
	if len(near) == 0 {
		return fmt.Errorf("%s; %s --help lists them", text, command.CommandPath())
	}
	for i := range near {
		near[i] = strconv.Quote(near[i])
	}
	return fmt.Errorf("%s; did you mean %s?", text, strings.Join(near, " or "))
}

// meantBy returns the commands possibly meant by an unknown subcommand: from its group, or else
// from others.
func meantBy(group *cobra.Command, name string) []string {
	var here, elsewhere []string
	for _, command := range runnable(group.Root()) {
		path := strings.TrimPrefix(command.CommandPath(), "qless ")
		if command.Name() != name && !slices.Contains(Meant[path], name) {
			continue
		}
		if command.Parent() == group {
			here = append(here, command.Name())
		} else {
			elsewhere = append(elsewhere, command.CommandPath())
		}
	}
	if len(here) == 0 && (group.HasParent() || len(elsewhere) == 0) {
		group.SuggestionsMinimumDistance = 2
		here = group.SuggestionsFor(name)
	}
	if len(here) == 0 {
		here = elsewhere
	}
	return here[:min(len(here), mostMeant)]
}

// runnable returns the commands below a command, without groups.
func runnable(command *cobra.Command) (all []*cobra.Command) {
	for _, below := range command.Commands() {
		if below.HasSubCommands() {
			all = append(all, runnable(below)...)
		} else {
			all = append(all, below)
		}
	}
	return all
}

// BadArguments names the missing or superfluous argument; cobra's error only counts arguments.
func BadArguments(command *cobra.Command, args []string, err error) error {
	wanted := Arguments(command)
	switch text := err.Error(); {
	case !strings.Contains(text, "arg(s)") && !strings.HasPrefix(text, "unknown command"):
		return err // not an error of cobra
	case len(args) < len(wanted):
		return fmt.Errorf("%s is missing", strings.TrimSuffix(wanted[len(args)], "..."))
	}
	err = fmt.Errorf("unexpected argument %q", args[len(wanted)])
	if command.Flags().Lookup("queue") != nil {
		err = fmt.Errorf("%w; did you mean --queue %s?", err, args[len(wanted)])
	}
	return err
}

// kinds has words for the kinds of flags.
var kinds = map[string]string{
	"bool": "true or false", "duration": "a duration like 1m30s", "float64": "a number",
	"int": "a whole number", "number": "a number", "uint": "a whole number",
	"time": "a time like 2026-11-22T18:00:00Z",
}

// BadFlag describes the problem of a flag in plain words.
func BadFlag(command *cobra.Command, err error) error {
	if unknown := (*pflag.NotExistError)(nil); errors.As(err, &unknown) {
		if near := nearFlag(command, unknown.GetSpecifiedName()); near != "" {
			return fmt.Errorf("%w; did you mean --%s?", err, near)
		}
		return fmt.Errorf("%w; %s --help lists them", err, command.CommandPath())
	}
	var invalid *pflag.InvalidValueError
	if !errors.As(err, &invalid) {
		return err
	}
	flag, value := invalid.GetFlag(), invalid.GetValue()
	if words, known := kinds[flag.Value.Type()]; known {
		return fmt.Errorf("%q for --%s is not %s", value, flag.Name, words)
	}
	return fmt.Errorf("--%s %s: %w", flag.Name, value, invalid.Unwrap())
}

// nearFlag returns the flag of a command with a name nearest to a misspelt name, or "".
func nearFlag(command *cobra.Command, name string) (near string) {
	least := min(3, (len(name)+1)/2)
	command.Flags().VisitAll(func(flag *pflag.Flag) {
		d := settings.Distance(name, flag.Name)
		if strings.HasPrefix(flag.Name, name) && len(name) > 1 {
			d = 1
		}
		if d < least {
			near, least = flag.Name, d
		}
	})
	return near
}

// A secondsValue is a duration or a number of seconds.
type secondsValue struct{ pflag.Value }

// Set sets the duration.
func (v secondsValue) Set(text string) error { return v.Value.Set(Duration(text)) }

// Duration returns the text of a duration or of a number of seconds.
func Duration(text string) string {
	if _, err := strconv.ParseFloat(text, 64); err == nil {
		return text + "s"
	}
	return text
}

// TakeSeconds lets the duration flags of a command and its subcommands accept numbers of seconds.
func TakeSeconds(command *cobra.Command) {
	for _, flags := range []*pflag.FlagSet{command.Flags(), command.PersistentFlags()} {
		flags.VisitAll(func(flag *pflag.Flag) {
			if _, done := flag.Value.(secondsValue); flag.Value.Type() == "duration" && !done {
				flag.Value = secondsValue{flag.Value}
			}
		})
	}
	for _, below := range command.Commands() {
		TakeSeconds(below)
	}
}

// Flags returns a message of package qless with flags in place of the Go names of options. Quoted
// values are unchanged.
func Flags(message string) string {
	parts := strings.Split(message, `"`)
	for i := 0; i < len(parts); i += 2 {
		parts[i] = optionName.ReplaceAllStringFunc(parts[i], func(name string) string {
			return "--" + flagOf[name]
		})
	}
	return calledWith.ReplaceAllString(strings.Join(parts, `"`), "$1 $2")
}

// calledWith matches a flag that has replaced a call, such as TTL(1ms).
var calledWith = regexp.MustCompile(`(--[a-z-]+)\(([^)]*)\)`)

// flagOf has the flags by the names of options in Go.
var flagOf = func() map[string]string {
	flags := map[string]string{}
	for _, row := range jobopts.Table {
		if row.Key == "" || flags[row.Name] != "" {
			continue
		}
		flags[row.Name] = row.FlagName()
		if _, field, found := strings.Cut(row.Name, "."); found {
			flags[field] = row.FlagName()
		}
		for _, word := range row.Words {
			if name := jobopts.IfName(word); row.Key == "if" && name != "" {
				flags[name] = "if " + word
			}
		}
	}
	return flags
}()

// optionName matches the name of an option in Go, the longest first.
var optionName = func() *regexp.Regexp {
	var names []string
	for name := range flagOf {
		names = append(names, regexp.QuoteMeta(name))
	}
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(len(b)-len(a), strings.Compare(a, b))
	})
	return regexp.MustCompile(`\b(?:` + strings.Join(names, "|") + `)\b`)
}()

// Words returns the text of an error in the words of the command line.
func Words(err error) string {
	text := strings.TrimPrefix(err.Error(), "qless: ")
	if own := (*qless.Error)(nil); errors.As(err, &own) && own.Code == qless.ErrInvalid {
		text = strings.Replace(text, own.Message, Flags(own.Message), 1)
	}
	return text
}

// Group returns a command that only has subcommands. Without one, it fails, and prints its help
// where errors are printed.
func Group(use, short string, commands ...*cobra.Command) *cobra.Command {
	command := &cobra.Command{
		Use:   use,
		Short: short,
		Args: func(command *cobra.Command, args []string) error {
			if len(args) > 0 {
				return unknownCommand(command, args[0])
			}
			return nil
		},
		RunE: func(command *cobra.Command, _ []string) error {
			command.SetOut(command.ErrOrStderr())
			return out.Error(errors.Join(errors.New("want a command"), command.Help()))
		},
	}
	command.AddCommand(commands...)
	return command
}

// Arguments returns the words for the arguments of a command, such as QUEUE, [GROUP] or JID...
func Arguments(command *cobra.Command) []string {
	usage, _, _ := strings.Cut(command.Use, "\n")
	return strings.Fields(usage)[1:]
}

// Number returns the check of the number of arguments, which the usage of a command tells.
func Number(command *cobra.Command) cobra.PositionalArgs {
	words := Arguments(command)
	least, most := 0, len(words)
	for _, word := range words {
		if !strings.HasPrefix(word, "[") {
			least++
		}
		if strings.Contains(word, "...") {
			most = math.MaxInt
		}
	}
	return cobra.RangeArgs(least, most)
}

// Check makes wrong arguments of a command and its subcommands usage errors.
func Check(command *cobra.Command) {
	check := command.Args
	if check == nil {
		check = Number(command)
	}
	if command.Runnable() {
		command.Args = func(c *cobra.Command, args []string) error {
			if err := check(c, args); err != nil && c.HasSubCommands() {
				return out.Error(err) // unknown
			} else if err != nil {
				return out.Error(fmt.Errorf("%w\nusage: %s", BadArguments(c, args, err), c.UseLine()))
			}
			return missingFlags(c)
		}
	}
	for _, below := range command.Commands() {
		Check(below)
	}
}

// missingFlags returns an error if flags are missing that a command needs.
func missingFlags(command *cobra.Command) error {
	var missing []string
	command.Flags().VisitAll(func(flag *pflag.Flag) {
		if flag.Annotations[cobra.BashCompOneRequiredFlag] != nil && !flag.Changed {
			missing = append(missing, "--"+flag.Name)
		}
	})
	if missing == nil {
		return nil
	}
	return out.Error(fmt.Errorf("%s is needed\nusage: %s", strings.Join(missing, " and "),
		command.UseLine()))
}
