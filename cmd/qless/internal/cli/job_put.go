package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/qless/qless-go"
)

func (a *app) jobPutCommand() *cobra.Command {
	var flags putFlags
	command := &cobra.Command{
		Use:   "put QUEUE KLASS [DATA]\n  qless job put [QUEUE [KLASS]] --from FILE",
		Short: "Put a job into a queue, and print its jid",
		Long: "Put a job into a queue, and print its jid. The data is JSON; - stands for that of the\n" +
			"standard input, and none for an empty object.\n\n" + putFromLong,
		Example: "  qless job put mail Welcome '{\"to\": \"ann@example.com\"}'\n" +
			"  qless job put mail Welcome - --delay 10m --tag eu < data.json\n" +
			"  qless job put mail --from jobs.jsonl\n" +
			"  qless job wait $(qless job put reports Monthly --unique report --unique 2026-11)",
		Args: cobra.RangeArgs(2, 3),
		RunE: a.run(func(ctx context.Context, client *qless.Client, args []string) error {
			return a.putJob(ctx, client, &flags, args)
		}),
		ValidArgsFunction: a.completeEach(queuesKnown, klassesKnown),
	}
	flags.add(command)
	a.completeFlag(command, "depends-on", trackedJIDs)
	a.completeFlag(command, "limits", limitsKnown)
	a.completeFlag(command, "tag", tagsKnown)
	a.addPutFrom(command)
	return command
}

func (a *app) putJob(
	ctx context.Context, client *qless.Client, flags *putFlags, args []string,
) error {
	data, err := a.data(args[2:])
	if err != nil {
		return err
	}
	options, err := flags.options()
	if err != nil {
		return usageError{err}
	}
	if !a.goOn("put a job of klass %s into %s", args[1], args[0]) {
		return nil
	}
	jid, err := client.Queue(args[0]).Put(ctx, args[1], data, options...)
	if err != nil {
		return err
	}
	return a.printJID(jid)
}

// printJID prints the jid of a job that was put.
func (a *app) printJID(jid string) error {
	if !a.json {
		return a.printJIDs([]string{jid})
	}
	return a.print(struct {
		JID string `json:"jid"`
	}{jid}, nil)
}

// data returns the JSON that is an argument, or the standard input, or nil if there is none.
func (a *app) data(args []string) (any, error) {
	if len(args) == 0 {
		return nil, nil
	}
	text := []byte(args[0])
	if args[0] == stdin {
		read, err := io.ReadAll(a.in)
		if err != nil {
			return nil, err
		}
		text = read
	}
	if err := checkJSON(text); err != nil {
		return nil, err
	}
	return json.RawMessage(text), nil
}

func checkJSON(text []byte) error {
	var value any
	if err := json.Unmarshal(text, &value); err != nil {
		return usageError{fmt.Errorf("the data is not JSON: %w", err)}
	}
	return nil
}

// putFlags are the options of a put.
type putFlags struct {
	flags *pflag.FlagSet

	jid, fair, onFailure, onLost, at, keepFailedFor string

	priority, retries int
	weight            float64

	delay, lockTime, startBy, ttl, keepFor, runFor, uniqueFor, within time.Duration

	tags, dependsOn, limits, headers, unique []string

	ifAbsent, ifFinished, ifNotRunning               bool
	uniqueData, untilStarted, uniqueReplace, keepDue bool
}

// add gives a command the flags of all options.
func (f *putFlags) add(command *cobra.Command) {
	f.addForMove(command)
	flags := command.Flags()
	flags.StringVar(&f.jid, "jid", "", "its id (default: a new random one)")
	flags.StringSliceVar(&f.dependsOn, "depends-on", nil, "jids of the jobs that it waits for")
	flags.BoolVar(&f.ifAbsent, "if-absent", false, "refuse if there is a job with its jid")
	flags.StringArrayVar(&f.unique, "unique", nil,
		"a part of its unique key, as JSON or text; may be repeated")
	flags.BoolVar(&f.uniqueData, "unique-data", false, "make the unique key of its klass and data")
	flags.DurationVar(&f.uniqueFor, "unique-for", 0, "hold the unique key for this time")
	flags.BoolVar(&f.untilStarted, "unique-until-started", false,
		"hold the unique key until it runs")
	flags.BoolVar(&f.uniqueReplace, "replace", false, "replace the job that holds the unique key")
	flags.BoolVar(&f.keepDue, "keep-due", false, "with --replace: stay due when that one was")
	flags.DurationVar(&f.within, "within", 0,
		"with --replace: fall due at most this long after the first put")
}

// addForMove gives a command the flags of the options that moves have, too.
func (f *putFlags) addForMove(command *cobra.Command) {
	flags := command.Flags()
	f.flags = flags
	flags.IntVar(&f.priority, "priority", 0, "higher ones are popped first")
	flags.DurationVar(&f.delay, "delay", 0, "how long until it can be popped")
	flags.StringVar(&f.at, "at", "", "when it can be popped, as in 2026-11-22T18:00:00Z")
	flags.IntVar(&f.retries, "retries", 0, "how often it may be retried (default 5)")
	flags.StringArrayVarP(&f.tags, "tag", "t", nil, "a tag; may be repeated")
	flags.StringVar(&f.onFailure, "on-failure", "",
		"what to do when a job fails that it waits for: wait, run or fail")
	flags.DurationVar(&f.lockTime, "lock-time", 0,
		"how long each lock lasts (default: as its queue)")
	flags.StringVar(&f.onLost, "on-lost", "",
		"where it goes when its lock is lost: first, last or place")
	flags.DurationVar(&f.startBy, "start-by", 0, "when it is gone unless a worker has it")
	flags.DurationVar(&f.ttl, "ttl", 0, "when it is gone, whatever its state")
	flags.DurationVar(&f.keepFor, "keep-for", 0, "how long it is kept once complete")
	flags.StringVar(&f.keepFailedFor, "keep-failed-for", "",
		`how long it is kept once failed, or "forever"`)
	flags.DurationVar(&f.runFor, "run-for", 0, "how long its handler may run")
	flags.StringSliceVar(&f.limits, "limits", nil, "names of the limits that it needs room in")
	flags.StringArrayVar(&f.headers, "header", nil, "a header, as in key=value; may be repeated")
	flags.StringVar(&f.fair, "fair", "", "the tenant whose turn it takes")
	flags.Float64Var(&f.weight, "weight", 1, "how many turns the tenant gets")
	flags.BoolVar(&f.ifFinished, "if-finished", false, "refuse unless a job with its jid has ended")
	flags.BoolVar(&f.ifNotRunning, "if-not-running", false, "refuse if a job with its jid runs")
	completeWords(command, "on-failure", "wait", "run", "fail")
	completeWords(command, "on-lost", "first", "last", "place")
}

// options returns the options of the flags that are set.
func (f *putFlags) options() ([]qless.PutOption, error) {
	var options []qless.PutOption
	set := func(flag string, option qless.PutOption) {
		if f.flags.Changed(flag) {
			options = append(options, option)
		}
	}
	set("jid", qless.JID(f.jid))
	set("priority", qless.Priority(f.priority))
	set("delay", qless.Delay(f.delay))
	set("retries", qless.Retries(f.retries))
	set("tag", qless.Tags(f.tags...))
	set("depends-on", qless.DependsOn(f.dependsOn...))
	set("on-failure", qless.OnFailure(f.onFailure))
	set("lock-time", qless.LockTime(f.lockTime))
	set("on-lost", qless.OnLost(f.onLost))
	set("start-by", qless.StartBy(f.startBy))
	set("ttl", qless.TTL(f.ttl))
	set("keep-for", qless.KeepFor(f.keepFor))
	set("run-for", qless.RunFor(f.runFor))
	set("limits", qless.Limits(f.limits...))
	set("fair", qless.FairWeight(f.fair, f.weight))
	for _, add := range []func([]qless.PutOption) ([]qless.PutOption, error){
		f.addTimes, f.addHeaders, f.addConflict, f.addUnique,
	} {
		var err error
		if options, err = add(options); err != nil {
			return nil, err
		}
	}
	return options, nil
}

func (f *putFlags) addTimes(options []qless.PutOption) ([]qless.PutOption, error) {
	if f.flags.Changed("at") {
		at, err := time.Parse(time.RFC3339, f.at)
		if err != nil {
			return nil, fmt.Errorf("--at %s is not a time such as 2026-11-22T18:00:00Z", f.at)
		}
		options = append(options, qless.At(at))
	}
	switch {
	case !f.flags.Changed("keep-failed-for"):
		return options, nil
	case f.keepFailedFor == "forever":
		return append(options, qless.KeepFailedFor(qless.Forever)), nil
	}
	keep, err := time.ParseDuration(f.keepFailedFor)
	if err != nil {
		return nil, fmt.Errorf(`--keep-failed-for %s is no time, nor "forever"`, f.keepFailedFor)
	}
	return append(options, qless.KeepFailedFor(keep)), nil
}

func (f *putFlags) addHeaders(options []qless.PutOption) ([]qless.PutOption, error) {
	for _, header := range f.headers {
		key, value, ok := strings.Cut(header, "=")
		if !ok {
			return nil, fmt.Errorf("--header %s is not of the form key=value", header)
		}
		options = append(options, qless.Header(key, value))
	}
	return options, nil
}

func (f *putFlags) addConflict(options []qless.PutOption) ([]qless.PutOption, error) {
	for _, conflict := range []struct {
		set    bool
		option qless.ConflictOption
	}{
		{f.ifAbsent, qless.IfAbsent()},
		{f.ifFinished, qless.IfFinished()},
		{f.ifNotRunning, qless.IfNotRunning()},
	} {
		if conflict.set {
			options = append(options, conflict.option)
		}
	}
	return options, nil
}

func (f *putFlags) addUnique(options []qless.PutOption) ([]qless.PutOption, error) {
	if f.uniqueData == (len(f.unique) > 0) {
		if f.uniqueData {
			return nil, errors.New("--unique and --unique-data can't be used together")
		}
		if f.uniqueFor != 0 || f.untilStarted || f.uniqueReplace || f.keepDue || f.within != 0 {
			return nil, errors.New("there is no --unique or --unique-data")
		}
		return options, nil
	}
	parts := make([]any, len(f.unique))
	for i, part := range f.unique {
		parts[i] = part
		if json.Valid([]byte(part)) {
			parts[i] = json.RawMessage(part)
		}
	}
	unique := qless.Unique(parts...)
	if f.uniqueFor != 0 {
		unique = unique.For(f.uniqueFor)
	}
	if f.untilStarted {
		unique = unique.UntilStarted()
	}
	if f.uniqueReplace {
		unique = unique.Replace()
	}
	if f.keepDue {
		unique = unique.KeepDue()
	}
	if f.within != 0 {
		unique = unique.Within(f.within)
	}
	return append(options, unique), nil
}
