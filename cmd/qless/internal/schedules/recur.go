package schedules

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/cmd/qless/internal/out"
	"github.com/qless/qless-go/cmd/qless/internal/place"
	"github.com/qless/qless-go/cmd/qless/internal/selection"
	"github.com/qless/qless-go/cmd/qless/internal/text"
	"github.com/qless/qless-go/cmd/qless/internal/usage"
	"github.com/qless/qless-go/inspect"
	"github.com/qless/qless-go/internal/units"
)

// Commands returns the commands of this package.
func Commands(p *place.Place) []*cobra.Command {
	a := &app{p}
	return []*cobra.Command{a.recurCommand(), a.scheduleCommand()}
}

func (a *app) recurCommand() *cobra.Command {
	return usage.Group("recur", "Show and change recurring jobs",
		a.recurListCommand(), a.recurShowCommand(), a.recurPutCommand(), a.recurSetCommand(),
		a.recurRunCommand(), a.recurCancelCommand())
}

func (a *app) recurListCommand() *cobra.Command {
	var flags out.RangeFlags
	command := &cobra.Command{
		Use:   "ls [QUEUE...]",
		Short: "List the recurring jobs of queues, or of all",
		RunE: a.Run(func(ctx context.Context, client *qless.Client, args []string) error {
			return a.listRecurring(ctx, client, args, flags.Limit)
		}),
	}
	flags.AddToWhole(command)
	return command
}

func (a *app) listRecurring(
	ctx context.Context, client *qless.Client, args []string, limit int,
) error {
	names, err := selection.QueueNames(ctx, a.Console, client, args)
	if err != nil {
		return err
	}
	page := inspect.Page[inspect.Row]{Items: []inspect.Row{}}
	for _, name := range names {
		r := inspect.Range{Limit: 1}
		if limit < 0 || limit > len(page.Items) {
			r.Limit = max(limit-len(page.Items), -1)
		}
		found, err := inspect.New(client).Queue(name, inspect.Recurring).List(ctx, r)
		if err != nil {
			return err
		}
		page.Total += found.Total
		page.Items = append(page.Items, found.Items...)
	}
	page.Items = out.Part(page.Items, &out.RangeFlags{Limit: limit})
	return a.PrintPage(page, nil)
}

func (a *app) recurShowCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "show JID...",
		Short: "Show recurring jobs",
		RunE:  a.Run(a.showRecurring),
	}
}

func (a *app) showRecurring(ctx context.Context, client *qless.Client, args []string) error {
	jids, err := a.Names(args)
	if err != nil {
		return err
	}
	jobs := []*qless.RecurringJob{}
	var gone []string
	for _, jid := range jids {
		job, err := client.RecurringJob(ctx, jid)
		switch {
		case errors.Is(err, qless.ErrNotFound):
			gone = append(gone, jid)
		case err != nil:
			return err
		default:
			jobs = append(jobs, job)
		}
	}
	if err := out.PrintEach(a.Console, jobs, len(jids) == 1, a.printRecurring); err != nil {
		return err
	}
	return out.NotFound("recurring job", gone...)
}

func (a *app) printRecurring(job *qless.RecurringJob) error {
	t := &out.Table{}
	t.Add("jid", job.JID)
	t.Add("klass", job.Klass)
	t.Add("queue", job.Queue)
	t.Add("every", units.Duration(job.Interval))
	t.Add("jobs so far", job.Count)
	t.Add("priority", job.Priority)
	t.Add("retries", job.Retries)
	t.Add("tags", out.List(job.Tags))
	t.Add("backlog", backlog(job.Backlog))
	if err := t.Write(a.Out); err != nil {
		return err
	}
	a.Block("data", out.Indented(job.Data))
	return nil
}

func backlog(jobs int) string {
	if jobs == 0 {
		return "all missed jobs"
	}
	return "at most " + text.Count(jobs, "missed job")
}

// recurFlags are the options of recurring jobs.
type recurFlags struct {
	flags                      *pflag.FlagSet
	jid, klass, queue, data    string
	every, offset              time.Duration
	backlog, priority, retries int
	tags, untags               []string
}

// add gives a command the flags common to put and set.
func (f *recurFlags) add(command *cobra.Command) {
	f.flags = command.Flags()
	f.flags.DurationVar(&f.every, "every", 0, "the time from one job to the next")
	f.flags.IntVar(&f.backlog, "backlog", 0, "maximum number of missed jobs to put, 0 for all")
	f.flags.IntVar(&f.priority, "priority", 0, "the priority of its jobs")
	f.flags.IntVar(&f.retries, "retries", 5, "number of retries of its jobs")
	f.flags.StringArrayVarP(&f.tags, "tag", "t", nil, "a `tag` of its jobs; may be repeated")
}

func (a *app) recurPutCommand() *cobra.Command {
	var flags recurFlags
	command := &cobra.Command{
		Use:   "put QUEUE KLASS [DATA]",
		Short: "Put a recurring job into a queue, and print its jid",
		RunE: a.Run(func(ctx context.Context, client *qless.Client, args []string) error {
			return a.putRecurring(ctx, client, &flags, args)
		}),
	}
	flags.add(command)
	command.Flags().StringVar(&flags.jid, "jid", "", "its id (default: a new random one)")
	command.Flags().DurationVar(&flags.offset, "offset", 0, "time until the first job")
	_ = command.MarkFlagRequired("every")
	return command
}

func (a *app) putRecurring(
	ctx context.Context, client *qless.Client, f *recurFlags, args []string,
) error {
	data, err := a.Data(args[2:])
	if err != nil {
		return err
	}
	options := []qless.RecurOption{
		qless.Backlog(f.backlog), qless.Offset(f.offset), qless.Priority(f.priority),
		qless.Retries(f.retries), qless.Tags(f.tags),
	}
	if f.jid != "" {
		options = append(options, qless.JID(f.jid))
	}
	if !a.GoOn("put a job of klass %s into %s every %s", args[1], args[0], units.Duration(f.every)) {
		return nil
	}
	return a.PrintJID(client.Queue(args[0]).Recur(ctx, args[1], data, f.every, options...))
}

func (a *app) recurSetCommand() *cobra.Command {
	var flags recurFlags
	command := &cobra.Command{
		Use:   "set JID",
		Short: "Change a recurring job; jobs that it has put stay as they are",
		RunE: a.Run(func(ctx context.Context, client *qless.Client, args []string) error {
			return a.setRecurring(ctx, client, &flags, args[0])
		}),
	}
	flags.add(command)
	command.Flags().StringVar(&flags.klass, "klass", "", "the klass of its jobs")
	command.Flags().StringVarP(&flags.queue, "queue", "q", "", "the queue of its jobs")
	command.Flags().StringVarP(&flags.data, "data", "d", "",
		"the data of its jobs, as JSON; - for stdin")
	command.Flags().StringArrayVar(&flags.untags, "untag", nil, "a `tag` to remove; may be repeated")
	a.CompleteFlag(command, "queue", place.QueuesKnown)
	return command
}

func (a *app) setRecurring(
	ctx context.Context, client *qless.Client, f *recurFlags, jid string,
) error {
	var data json.RawMessage
	if f.flags.Changed("data") {
		read, err := a.Data([]string{f.data})
		if err != nil {
			return err
		}
		data = read.(json.RawMessage)
	}
	job, err := client.RecurringJob(ctx, jid)
	if err != nil {
		return err
	}
	if !f.change(job, data) {
		return out.Error(errors.New("no flag says what to change"))
	}
	if !a.GoOn("change %s", text.Clean(jid)) {
		return nil
	}
	if err := job.Update(ctx); err != nil {
		return err
	}
	a.Say("changed %s", text.Clean(jid))
	return a.PrintJSON(job)
}

// change sets the fields given as flags, and reports whether any were given.
func (f *recurFlags) change(job *qless.RecurringJob, data json.RawMessage) (changed bool) {
	for _, c := range []struct {
		flag string
		set  func()
	}{
		{"every", func() { job.Interval = f.every }},
		{"backlog", func() { job.Backlog = f.backlog }},
		{"priority", func() { job.Priority = f.priority }},
		{"retries", func() { job.Retries = f.retries }},
		{"klass", func() { job.Klass = f.klass }},
		{"data", func() { job.Data = data }},
		{"tag", func() { job.Tags = withTags(job.Tags, f.tags) }},
		{"untag", func() { job.Tags = withoutTags(job.Tags, f.untags) }},
		{"queue", func() { job.Queue = f.queue }},
	} {
		if f.flags.Changed(c.flag) {
			c.set()
			changed = true
		}
	}
	return changed
}

// withTags returns tags, followed by the additional tags of more.
func withTags(tags, more []string) []string {
	for _, tag := range more {
		if !slices.Contains(tags, tag) {
			tags = append(tags, tag)
		}
	}
	return tags
}

// withoutTags returns the tags not among others.
func withoutTags(tags, others []string) []string {
	return slices.DeleteFunc(tags, func(tag string) bool { return slices.Contains(others, tag) })
}

func (a *app) recurRunCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "run JID",
		Short: "Put a job of a recurring job now",
		RunE:  a.Run(a.runRecurring),
	}
}

func (a *app) runRecurring(ctx context.Context, client *qless.Client, args []string) error {
	job, err := client.RecurringJob(ctx, args[0])
	if err != nil {
		return err
	}
	if !a.GoOn("put a job of klass %s into %s", job.Klass, job.Queue) {
		return nil
	}
	return a.PrintJID(client.Queue(job.Queue).Put(ctx, job.Klass, slices.Clone(job.Data),
		qless.Priority(job.Priority), qless.Retries(job.Retries), qless.Tags(job.Tags)))
}

func (a *app) recurCancelCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "cancel JID...",
		Short: "Delete recurring jobs; jobs that they have put are kept",
		RunE: a.Run(selection.Each(a.Console, "cancel", "canceled", "recurring job", true,
			func(ctx context.Context, client *qless.Client, jid string) error {
				job, err := client.RecurringJob(ctx, jid)
				if err != nil {
					return err
				}
				return job.Cancel(ctx)
			})),
	}
}
