package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/cmd/qless/internal/out"
	"github.com/qless/qless-go/cmd/qless/internal/place"
	"github.com/qless/qless-go/cmd/qless/internal/usage"
	"github.com/qless/qless-go/inspect"
	"github.com/qless/qless-go/internal/jobopts"
)

func (a *app) jobPutCommand() *cobra.Command {
	flags := putFlags{}
	command := &cobra.Command{
		Use:   "put QUEUE KLASS [DATA]\n  qless job put [QUEUE [KLASS]] --from FILE",
		Short: "Put a job into a queue, and print its jid",
		Args:  cobra.RangeArgs(2, 3),
		RunE: a.Run(func(ctx context.Context, client *qless.Client, args []string) error {
			return a.putJob(ctx, client, flags, args)
		}),
	}
	flags.add(command)
	a.CompleteFlag(command, "depends-on", place.TrackedJIDs)
	a.CompleteFlag(command, "limits", place.LimitsKnown)
	a.CompleteFlag(command, "tag", place.TagsKnown)
	a.addPutFrom(command)
	return command
}

func (a *app) putJob(
	ctx context.Context, client *qless.Client, flags putFlags, args []string,
) error {
	data, err := a.Data(args[2:])
	if err != nil {
		return err
	}
	options, err := flags.options()
	if err != nil {
		return out.Error(err)
	}
	if !a.GoOn("put a job of klass %s into %s", args[1], args[0]) {
		return nil
	}
	jid, err := client.Queue(args[0]).Put(ctx, args[1], data, options...)
	if err == nil {
		a.warnOfLimits(ctx, client, flags)
	}
	return a.PrintJID(jid, err)
}

// warnOfLimits warns of undefined limits, perhaps with misspelt names.
func (a *app) warnOfLimits(ctx context.Context, client *qless.Client, flags putFlags) {
	var names []string
	_ = json.Unmarshal(flags["limits"], &names) // already checked by the put
	for _, name := range names {
		info, err := inspect.New(client).Limit(ctx, name)
		if err == nil && info.Config == (qless.LimitConfig{}) {
			fmt.Fprintf(a.Err, "warning: the limit %q is not set, and limits nothing\n", name)
		}
	}
}

// putFlags are the options of a put, in the form used in files.
type putFlags map[string]json.RawMessage

// add gives a command the flags of all options.
func (f putFlags) add(command *cobra.Command) { f.addSome(command, false) }

// addForMove gives a command the flags of the options shared by moves.
func (f putFlags) addForMove(command *cobra.Command) { f.addSome(command, true) }

func (f putFlags) addSome(command *cobra.Command, moves bool) {
	for _, row := range jobopts.Table {
		if row.Key == "" || moves && !row.Moves {
			continue
		}
		usage := row.Usage
		if row.Words != nil {
			usage += ": " + strings.Join(row.Words, ", ")
		}
		flag := command.Flags().VarPF(&optionFlag{row, f}, row.FlagName(), "", usage)
		switch {
		case row.Key == "tags":
			flag.Shorthand = "t"
		case row.Kind() == jobopts.Bool:
			flag.NoOptDefVal = "true"
		case row.Words != nil:
			place.CompleteWords(command, flag.Name, row.Words...)
		}
	}
}

// options returns the options for the flags that are set.
func (f putFlags) options() ([]qless.PutOption, error) {
	text, err := json.Marshal(f)
	if err != nil {
		return nil, err
	}
	spec, err := readSpec(text)
	return spec.Options, err
}

// readSpec parses a job from JSON. The error is for people.
func readSpec(text []byte) (spec qless.JobSpec, err error) {
	err = spec.UnmarshalJSON(text)
	if own := (*qless.Error)(nil); errors.As(err, &own) {
		err = errors.New(usage.Flags(own.Message))
	}
	return spec, err
}

// An optionFlag is the flag of one option.
type optionFlag struct {
	row    *jobopts.Row
	values putFlags
}

// Set sets the option, or adds to an option with several values.
func (f *optionFlag) Set(text string) error {
	raw, err := f.row.JSON(f.values[f.row.Key], text)
	if err == nil {
		f.values[f.row.Key] = raw
	}
	return err
}

// String returns the value so far.
func (f *optionFlag) String() string { return string(f.values[f.row.Key]) }

// Type returns the form of the value, for the help.
func (f *optionFlag) Type() string { return string(f.row.Kind()) }
