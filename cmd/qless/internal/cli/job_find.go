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
)

// findFlags say which jobs are looked for.
type findFlags struct {
	filter qless.Filter
	place  placeFlags
	limit  int
	cursor string
	bytes  int
}

// placeFlags say where jobs are.
type placeFlags struct {
	queue, group string
	states       []string
}

const (
	stateFailed    = "failed"
	stateCompleted = "completed"
)

// queueStates are the states that are lists of queues.
var queueStates = []string{
	string(qless.ListWaiting), string(qless.ListRunning), string(qless.ListStalled),
	string(qless.ListScheduled), string(qless.ListDepends),
}

var allStates = append(slices.Clone(queueStates),
	string(qless.ListRecurring), stateFailed, stateCompleted)

func (a *app) addPlace(command *cobra.Command, f *placeFlags) {
	flags := command.Flags()
	flags.StringVarP(&f.queue, "queue", "q", "", "jobs of this queue")
	flags.StringVarP(&f.group, "group", "g", "", "failed jobs of this group")
	flags.StringSliceVarP(&f.states, "state", "s", nil,
		"waiting, running, stalled, scheduled, depends, recurring, failed or completed")
	a.completeFlag(command, "queue", queuesKnown)
	a.completeFlag(command, "group", groupsKnown)
	completeWords(command, "state", allStates...)
}

// addFilter gives a command the flags of a filter.
func (a *app) addFilter(command *cobra.Command, f *qless.Filter) {
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
		Short: "Look for jobs by klass, tag, jid or data",
		Long: "Look for jobs by klass, tag, jid or data: in the queues, or all of them, and among failed\n" +
			"jobs. Only --state completed looks among completed jobs. Unless there is a --tag and nothing\n" +
			"else says where to look, each job is looked at.",
		Example: "  qless job find --klass Mail --data ann@example.com\n" +
			"  qless job find -q mail -s waiting,scheduled --tag urgent\n" +
			"  qless job find --group timeout --limit -1 --jids | qless job retry - --yes",
		Args: cobra.NoArgs,
		RunE: a.run(func(ctx context.Context, client *qless.Client, _ []string) error {
			return a.findJobs(ctx, client, flags)
		}),
	}
	a.addPlace(command, &flags.place)
	a.addFilter(command, &flags.filter)
	command.Flags().IntVar(&flags.limit, "limit", 25, "how many to find at most, -1 for all")
	command.Flags().StringVar(&flags.cursor, "cursor", "", "go on where another call has stopped")
	command.Flags().IntVar(&flags.bytes, "bytes", 0, "how much of the data to print")
	return command
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
	find search
}

type search = func(
	context.Context, qless.Filter, qless.Cursor, ...qless.ListOption,
) (qless.Finding, error)

// A place is where a search goes on.
type place struct {
	List   string       `json:"l"`
	Cursor qless.Cursor `json:"c"`
}

// find looks through one list after the other.
func (a *app) find(
	ctx context.Context, client *qless.Client, flags findFlags,
) (qless.Finding, error) {
	sum := qless.Finding{Items: []qless.JobSummary{}}
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
			return sum, usageError{errors.New("the cursor is that of another search")}
		}
		finders = finders[first:]
	}
	after := begin.Cursor
	for i, f := range finders {
		for more := true; more; more = after != "" {
			a.watch.restart()
			flags.filter.Limit = 0
			if flags.limit >= 0 {
				flags.filter.Limit = flags.limit - len(sum.Items)
			}
			part, err := f.find(ctx, flags.filter, after, qless.DataBytes(flags.bytes))
			if err != nil {
				return sum, err
			}
			sum.Looked += part.Looked
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

// inQueue returns the jobs of a queue, or all if no queue is named.
func inQueue(jobs []qless.JobSummary, queue string) []qless.JobSummary {
	return slices.DeleteFunc(jobs, func(job qless.JobSummary) bool {
		return queue != "" && job.Queue != "" && job.Queue != queue
	})
}

// nextPlace returns where to go on, of the list that was searched and those that follow.
func nextPlace(rest []finder, after qless.Cursor) qless.Cursor {
	next := place{rest[0].name, after}
	if after == "" {
		if len(rest) == 1 {
			return ""
		}
		next.List = rest[1].name
	}
	text, _ := json.Marshal(next)
	return qless.Cursor(base64.RawURLEncoding.EncodeToString(text))
}

func readPlace(cursor string) (place, error) {
	var p place
	text, err := base64.RawURLEncoding.DecodeString(cursor)
	if err == nil && cursor != "" {
		err = json.Unmarshal(text, &p)
	}
	if err != nil {
		return p, usageError{errors.New("the cursor is none that was printed")}
	}
	return p, nil
}

// finders returns the lists in which to look.
func finders(ctx context.Context, client *qless.Client, flags findFlags) ([]finder, error) {
	f := flags.place
	if err := checkStates(f.states); err != nil {
		return nil, err
	}
	switch {
	case flags.limit == 0:
		return nil, usageError{errors.New("--limit is positive, or -1")}
	case f.group != "":
		return []finder{inGroup(client, f.group)}, nil
	case f.queue == "" && len(f.states) == 0 && flags.filter.Tag != "":
		tag := flags.filter.Tag
		return []finder{{"tag", func(
			ctx context.Context, filter qless.Filter, after qless.Cursor, options ...qless.ListOption,
		) (qless.Finding, error) {
			return client.FindTagged(ctx, tag, filter, after, options...)
		}}}, nil
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
	return findersOf(ctx, client, queues, states)
}

func findersOf(
	ctx context.Context, client *qless.Client, queues, states []string,
) ([]finder, error) {
	var all []finder
	for _, state := range states {
		switch state {
		case stateFailed:
			groups, err := client.FailureGroups(ctx)
			if err != nil {
				return nil, err
			}
			for _, group := range slices.Sorted(maps.Keys(groups)) {
				all = append(all, inGroup(client, group))
			}
		case stateCompleted:
			all = append(all, finder{state, client.FindCompleted})
		default:
			for _, queue := range queues {
				all = append(all, inList(client.Queue(queue), qless.List(state)))
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

func inGroup(client *qless.Client, group string) finder {
	return finder{"group " + group, func(
		ctx context.Context, filter qless.Filter, after qless.Cursor, options ...qless.ListOption,
	) (qless.Finding, error) {
		return client.FindFailed(ctx, group, filter, after, options...)
	}}
}

func inList(queue *qless.Queue, list qless.List) finder {
	return finder{string(list) + " " + queue.Name(), func(
		ctx context.Context, filter qless.Filter, after qless.Cursor, options ...qless.ListOption,
	) (qless.Finding, error) {
		return queue.Find(ctx, list, filter, after, options...)
	}}
}
