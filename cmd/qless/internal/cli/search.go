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

func (f *placeFlags) add(p *place, command *cobra.Command) {
	flags := command.Flags()
	flags.StringVarP(&f.queue, "queue", "q", "", "jobs of this queue")
	flags.StringVarP(&f.group, "group", "g", "", "failed jobs of this group")
	flags.StringSliceVarP(&f.states, "state", "s", nil, alternatives(allStates))
	p.completeFlag(command, "queue", queuesKnown)
	p.completeFlag(command, "group", groupsKnown)
	completeWords(command, "state", allStates...)
}

// addFilter gives a command the flags of the filter.
func (f *findFlags) addFilter(p *place, command *cobra.Command) {
	flags := command.Flags()
	flags.StringVarP(&f.filter.Klass, "klass", "k", "", "jobs of this klass")
	flags.StringVarP(&f.filter.Tag, "tag", "t", "", "jobs with this tag")
	flags.StringVar(&f.filter.JID, "jid", "", "jobs with this in their jids")
	flags.StringVarP(&f.filter.Data, "data", "d", "", "jobs with this in their data")
	p.completeFlag(command, "klass", klassesKnown)
	p.completeFlag(command, "tag", tagsKnown)
}

// saysWhich reports whether there is a criterion.
func (f *findFlags) saysWhich() bool {
	p := &f.place
	return f.filter != (inspect.Filter{}) || p.queue != "" || p.group != "" ||
		len(p.states)+len(f.unique) > 0 || f.cursor != ""
}

// A finder is a list of jobs that can be searched.
type finder struct {
	name string
	jobs inspect.Selection
}

// A point is the point at which a search continues.
type point struct {
	List   string         `json:"l"`
	Cursor inspect.Cursor `json:"c"`
}

// find searches one list after another.
func (f *findFlags) find(
	ctx context.Context, to *console, client *qless.Client,
) (inspect.Found, error) {
	sum := inspect.Found{Items: []inspect.Row{}}
	finders, err := f.finders(ctx, client)
	if err != nil {
		return sum, err
	}
	begin, err := readPoint(f.cursor)
	if err != nil {
		return sum, err
	}
	if begin.List != "" {
		first := slices.IndexFunc(finders, func(l finder) bool { return l.name == begin.List })
		if first < 0 {
			return sum, usageError{errors.New("the cursor belongs to another search")}
		}
		finders = finders[first:]
	}
	after := begin.Cursor
	for i, l := range finders {
		for more := true; more; more = after != "" {
			to.watch.restart()
			part, err := f.of(l.jobs, len(sum.Items)).Find(ctx, after)
			if err != nil {
				return sum, err
			}
			sum.Examined += part.Examined
			sum.Items = append(sum.Items, inQueue(part.Items, f.place.queue)...)
			after = part.Next
			if f.limit < 0 || len(sum.Items) < f.limit {
				continue
			}
			sum.Next = nextPoint(finders[i:], after)
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

// nextPoint returns the point to continue: in the list that was searched, or in a later one.
func nextPoint(rest []finder, after inspect.Cursor) inspect.Cursor {
	next := point{rest[0].name, after}
	if after == "" {
		if len(rest) == 1 {
			return ""
		}
		next.List = rest[1].name
	}
	raw, _ := json.Marshal(next)
	return inspect.Cursor(base64.RawURLEncoding.EncodeToString(raw))
}

func readPoint(cursor string) (point, error) {
	var p point
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
func (f *findFlags) finders(ctx context.Context, client *qless.Client) ([]finder, error) {
	at, in := f.place, inspect.New(client)
	if err := checkStates(at.states); err != nil {
		return nil, err
	}
	if len(f.unique) > 0 {
		return holderOf(ctx, client, f.unique)
	}
	switch {
	case f.limit == 0:
		return nil, usageError{errors.New("--limit is positive, or -1")}
	case at.group != "":
		return []finder{inGroup(in, at.group)}, nil
	case at.queue == "" && len(at.states) == 0 && f.filter.Tag != "":
		return []finder{{"tag", in.Tagged(f.filter.Tag)}}, nil
	}
	states := at.states
	if len(states) == 0 {
		states = append(slices.Clone(queueStates), stateFailed)
	}
	queues := []string{at.queue}
	if at.queue == "" {
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
