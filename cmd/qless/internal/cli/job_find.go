package cli

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/cmd/qless/internal/text"
	"github.com/qless/qless-go/inspect"
	"github.com/qless/qless-go/internal/jobopts"
)

// findFlags are the criteria of a search.
type findFlags struct {
	filter inspect.Filter
	place  placeFlags
	limit  int
	cursor string
	bytes  int
	unique []string
}

// placeFlags select the lists of jobs.
type placeFlags struct {
	queue, group string
	states       []string
}

const (
	stateFailed    = "failed"
	stateCompleted = "completed"
)

// queueStates are the states of jobs in queues.
var queueStates = namesOf(inspect.JobLists())

func namesOf(lists []inspect.List) (names []string) {
	for _, list := range lists {
		names = append(names, string(list))
	}
	return names
}

var allStates = append(slices.Clone(queueStates),
	string(inspect.Recurring), stateFailed, stateCompleted)

func (a *app) addPlace(command *cobra.Command, f *placeFlags) {
	flags := command.Flags()
	flags.StringVarP(&f.queue, "queue", "q", "", "jobs of this queue")
	flags.StringVarP(&f.group, "group", "g", "", "failed jobs of this group")
	flags.StringSliceVarP(&f.states, "state", "s", nil, alternatives(allStates))
	a.completeFlag(command, "queue", queuesKnown)
	a.completeFlag(command, "group", groupsKnown)
	completeWords(command, "state", allStates...)
}

// addFilter gives a command the flags of a filter.
func (a *app) addFilter(command *cobra.Command, f *inspect.Filter) {
	flags := command.Flags()
	flags.StringVarP(&f.Klass, "klass", "k", "", "jobs of this klass")
	flags.StringVarP(&f.Tag, "tag", "t", "", "jobs with this tag")
	flags.StringVar(&f.JID, "jid", "", "jobs with this in their jids")
	flags.StringVarP(&f.Data, "data", "d", "", "jobs with this in their data")
	a.completeFlag(command, "klass", klassesKnown)
	a.completeFlag(command, "tag", tagsKnown)
}

func (a *app) jobFindCommand() *cobra.Command {
	var flags findFlags
	command := &cobra.Command{
		Use:   "find",
		Short: "Find jobs by klass, tag, jid or data",
		Long: "Find jobs by klass, tag, jid or data: in the queues, or one of them, and among failed\n" +
			"jobs. Completed jobs are searched only with --state completed. Each job is read, unless\n" +
			"there is a --tag and no other flag says where to look.",
		Example: "  qless job find --klass Mail --data ann@example.com\n" +
			"  qless job find -q mail -s waiting,scheduled --tag urgent\n" +
			"  qless job find --group timeout --limit -1 --jids | qless job unfail - --yes\n" +
			"  qless job find --unique invoice --unique 7",
		Args: cobra.NoArgs,
	}
	command.RunE = a.run(func(ctx context.Context, client *qless.Client, _ []string) error {
		if !flags.saysWhich() && !command.Flags().Changed("limit") {
			return usageError{errors.New("which jobs? Name a klass, tag, jid, data, queue, group, state " +
				"or unique key; --limit 25 alone finds any")}
		}
		return a.findJobs(ctx, client, flags)
	})
	a.addPlace(command, &flags.place)
	a.addFilter(command, &flags.filter)
	command.Flags().IntVar(&flags.limit, "limit", 25, "maximum number of jobs to find, -1 for all")
	command.Flags().StringVar(&flags.cursor, "cursor", "", "continue where another call stopped")
	command.Flags().IntVar(&flags.bytes, "bytes", 0, "number of bytes of the data to print")
	command.Flags().StringArrayVar(&flags.unique, "unique", nil,
		"the job that holds a unique key: a `part` of it, as JSON or text; may be repeated")
	return command
}

// saysWhich reports whether there is a criterion.
func (f *findFlags) saysWhich() bool {
	p := &f.place
	return f.filter != (inspect.Filter{}) || p.queue != "" || p.group != "" ||
		len(p.states)+len(f.unique) > 0 || f.cursor != ""
}

func (a *app) findJobs(ctx context.Context, client *qless.Client, flags findFlags) error {
	found, err := a.find(ctx, client, flags)
	if err != nil {
		return err
	}
	if err := a.printSummaries(found, found.Items); err != nil {
		return err
	}
	if !a.json {
		a.footer(len(found.Items), len(found.Items), "job")
		if found.Next != "" {
			a.say("there may be more: --cursor %s", found.Next)
		}
	}
	return nil
}

// A finder is a list of jobs that can be searched.
type finder struct {
	name string
	jobs inspect.Selection
}

// A place is the point at which a search continues.
type place struct {
	List   string         `json:"l"`
	Cursor inspect.Cursor `json:"c"`
}

// find searches one list after another.
func (a *app) find(
	ctx context.Context, client *qless.Client, flags findFlags,
) (inspect.Found, error) {
	sum := inspect.Found{Items: []inspect.Row{}}
	finders, err := finders(ctx, client, flags)
	if err != nil {
		return sum, err
	}
	begin, err := readPlace(flags.cursor)
	if err != nil {
		return sum, err
	}
	if begin.List != "" {
		first := slices.IndexFunc(finders, func(f finder) bool { return f.name == begin.List })
		if first < 0 {
			return sum, usageError{errors.New("the cursor belongs to another search")}
		}
		finders = finders[first:]
	}
	after := begin.Cursor
	for i, f := range finders {
		for more := true; more; more = after != "" {
			a.watch.restart()
			part, err := flags.of(f.jobs, len(sum.Items)).Find(ctx, after)
			if err != nil {
				return sum, err
			}
			sum.Examined += part.Examined
			sum.Items = append(sum.Items, inQueue(part.Items, flags.place.queue)...)
			after = part.Next
			if flags.limit < 0 || len(sum.Items) < flags.limit {
				continue
			}
			sum.Next = nextPlace(finders[i:], after)
			return sum, nil
		}
	}
	return sum, nil
}

// of returns the jobs of a list that match the flags, given the number already found.
func (f *findFlags) of(jobs inspect.Selection, found int) inspect.Selection {
	if f.filter != (inspect.Filter{}) {
		jobs = jobs.Where(f.filter)
	}
	if f.limit >= 0 {
		jobs = jobs.AtMost(f.limit - found)
	}
	return jobs.WithData(f.bytes)
}

// inQueue returns the jobs of a queue, or all if no queue is named.
func inQueue(jobs []inspect.Row, queue string) []inspect.Row {
	return slices.DeleteFunc(jobs, func(job inspect.Row) bool {
		return queue != "" && job.Queue != "" && job.Queue != queue
	})
}

// nextPlace returns the place to continue: in the list that was searched, or in a later one.
func nextPlace(rest []finder, after inspect.Cursor) inspect.Cursor {
	next := place{rest[0].name, after}
	if after == "" {
		if len(rest) == 1 {
			return ""
		}
		next.List = rest[1].name
	}
	raw, _ := json.Marshal(next)
	return inspect.Cursor(base64.RawURLEncoding.EncodeToString(raw))
}

func readPlace(cursor string) (place, error) {
	var p place
	text, err := base64.RawURLEncoding.DecodeString(cursor)
	if err == nil && cursor != "" {
		err = json.Unmarshal(text, &p)
	}
	if err != nil {
		return p, usageError{errors.New("no search has printed this cursor")}
	}
	return p, nil
}

// finders returns the lists to search.
func finders(ctx context.Context, client *qless.Client, flags findFlags) ([]finder, error) {
	f, in := flags.place, inspect.New(client)
	if err := checkStates(f.states); err != nil {
		return nil, err
	}
	if len(flags.unique) > 0 {
		return holderOf(ctx, client, flags.unique)
	}
	switch {
	case flags.limit == 0:
		return nil, usageError{errors.New("--limit is positive, or -1")}
	case f.group != "":
		return []finder{inGroup(in, f.group)}, nil
	case f.queue == "" && len(f.states) == 0 && flags.filter.Tag != "":
		return []finder{{"tag", in.Tagged(flags.filter.Tag)}}, nil
	}
	states := f.states
	if len(states) == 0 {
		states = append(slices.Clone(queueStates), stateFailed)
	}
	queues := []string{f.queue}
	if f.queue == "" {
		known, err := queuesKnown(ctx, client)
		if err != nil {
			return nil, err
		}
		queues = known
	}
	return findersOf(ctx, in, queues, states)
}

func findersOf(
	ctx context.Context, in *inspect.Inspector, queues, states []string,
) ([]finder, error) {
	var all []finder
	for _, state := range states {
		switch state {
		case stateFailed:
			groups, err := in.FailureGroups(ctx)
			if err != nil {
				return nil, err
			}
			for _, group := range slices.Sorted(maps.Keys(groups)) {
				all = append(all, inGroup(in, group))
			}
		case stateCompleted:
			all = append(all, finder{state, in.Completed()})
		default:
			for _, queue := range queues {
				all = append(all, finder{state + " " + queue, in.Queue(queue, inspect.List(state))})
			}
		}
	}
	return all, nil
}

func checkStates(states []string) error {
	for _, state := range states {
		if !slices.Contains(allStates, state) {
			return usageError{fmt.Errorf("there is no state %q", state)}
		}
	}
	return nil
}

func inGroup(in *inspect.Inspector, group string) finder {
	return finder{"group " + group, in.Failed(group)}
}

// holderOf returns the job that holds a unique key, given the parts of the key.
func holderOf(ctx context.Context, client *qless.Client, parts []string) ([]finder, error) {
	at := slices.IndexFunc(jobopts.Table, func(row *jobopts.Row) bool { return row.Key == "unique" })
	var raw json.RawMessage
	for _, part := range parts {
		var err error
		if raw, err = jobopts.Table[at].JSON(raw, part); err != nil {
			return nil, usageError{err}
		}
	}
	var options jobopts.Options
	if err := options.Set(map[string]json.RawMessage{"unique": raw}); err != nil {
		return nil, usageError{err}
	}
	jid, err := inspect.New(client).Holder(ctx, options.Unique.Parts...)
	if err != nil || jid == "" {
		return nil, err
	}
	if _, err := client.Job(ctx, jid); errors.Is(err, qless.ErrNotFound) {
		return nil, fmt.Errorf("the key is held by %s, which is gone: %w", text.Clean(jid), err)
	}
	return []finder{{"unique", inspect.New(client).JIDs(jid)}}, nil
}
