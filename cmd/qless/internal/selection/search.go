package selection

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/cmd/qless/internal/out"
	"github.com/qless/qless-go/cmd/qless/internal/place"
	"github.com/qless/qless-go/cmd/qless/internal/text"
	"github.com/qless/qless-go/inspect"
	"github.com/qless/qless-go/internal/jobopts"
	"github.com/qless/qless-go/internal/terms"
	"github.com/qless/qless-go/internal/units"
)

// Flags are the criteria of a search.
type Flags struct {
	filter inspect.Filter
	words  terms.Terms
	Times  TimeFlags
	Lists  ListFlags
	Limit  int
	Cursor string
	Bytes  int
	Unique []string
}

// TimeFlags select a period.
type TimeFlags struct{ since, until string }

// Add gives a command the flags. Their help begins with a word such as "failures".
func (f *TimeFlags) Add(command *cobra.Command, what string) {
	flags := command.Flags()
	flags.StringVar(&f.since, "since", "", what+" since then: 14:00 (UTC), 2h, a date")
	flags.StringVar(&f.until, "until", "", what+" before then")
}

// Period returns the period, or zero without flags.
func (f *TimeFlags) Period() (units.Period, error) {
	period, err := units.ParsePeriod(f.since, f.until, out.Now())
	if err != nil {
		return period, out.Error(err)
	}
	return period, nil
}

// ListFlags select the lists of jobs.
type ListFlags struct {
	Queue, Group string
	States       []string
}

const (
	StateFailed    = "failed"
	StateCompleted = "completed"
)

// QueueStates are the states of jobs in queues.
var QueueStates = out.Strings(inspect.JobLists(),
	func(list inspect.List) string { return string(list) })

var allStates = append(slices.Clone(QueueStates),
	string(inspect.Recurring), StateFailed, StateCompleted)

// Add gives a command the flags.
func (f *ListFlags) Add(p *place.Place, command *cobra.Command) {
	flags := command.Flags()
	flags.StringVarP(&f.Queue, "queue", "q", "", "jobs of this queue")
	flags.StringVarP(&f.Group, "group", "g", "", "failed jobs of this group")
	flags.StringSliceVarP(&f.States, "state", "s", nil, out.Alternatives(allStates))
	p.CompleteFlag(command, "queue", place.QueuesKnown)
	p.CompleteFlag(command, "group", place.GroupsKnown)
	place.CompleteWords(command, "state", allStates...)
}

// AddFilter gives a command the flags of the filter.
func (f *Flags) AddFilter(p *place.Place, command *cobra.Command) {
	flags := command.Flags()
	flags.StringVarP(&f.filter.Klass, "klass", "k", "", "jobs of this klass")
	flags.StringVarP(&f.filter.Tag, "tag", "t", "", "jobs with this tag")
	flags.StringVar(&f.filter.JID, "jid", "", "jobs with this in their jids")
	flags.StringVarP(&f.filter.Data, "data", "d", "", "jobs with this in their data")
	flags.BoolVar(&f.filter.Large, "large", false, "also search data of more than 256 KiB")
	f.Times.Add(command, "jobs that are as they are")
	p.CompleteFlag(command, "klass", place.KlassesKnown)
	p.CompleteFlag(command, "tag", place.TagsKnown)
}

// AddWords adds the terms of a search, such as klass:Send data.user.id=7.
func (f *Flags) AddWords(words []string) error {
	t, err := terms.Parse(strings.Join(words, " "))
	if err != nil {
		return out.Error(err)
	}
	for _, one := range []struct {
		name string
		flag *string
		word string
	}{
		{"klass", &f.filter.Klass, t.Klass}, {"tag", &f.filter.Tag, t.Tag}, {"jid", &f.filter.JID, t.JID},
		{"data", &f.filter.Data, t.Filter().Data}, {"queue", &f.Lists.Queue, t.Queue},
	} {
		if one.word != "" && *one.flag != "" {
			return out.Error(fmt.Errorf("name the %s once, as a word or a flag", one.name))
		}
		*one.flag = cmp.Or(*one.flag, one.word)
	}
	if t.State == string(qless.StateComplete) {
		t.State = StateCompleted
	}
	if f.words = t; t.State != "" {
		f.Lists.States = append(f.Lists.States, t.State)
	}
	if t.Failure != "" && len(f.Lists.States) == 0 {
		f.Lists.States = []string{StateFailed}
	}
	return nil
}

// SaysWhich reports whether any criterion is set.
func (f *Flags) SaysWhich() bool {
	p := &f.Lists
	return f.filter != (inspect.Filter{}) || f.words != (terms.Terms{}) ||
		f.Times != (TimeFlags{}) || p.Queue != "" || p.Group != "" ||
		len(p.States)+len(f.Unique) > 0 || f.Cursor != ""
}

// A finder is a searchable list of jobs.
type finder struct {
	name string
	jobs inspect.Selection
}

// A point is where a search continues.
type point struct {
	List   string         `json:"l"`
	Cursor inspect.Cursor `json:"c"`
}

// Find searches one list after another.
func (f *Flags) Find(
	ctx context.Context, to *out.Console, client *qless.Client,
) (inspect.Found, error) {
	sum := inspect.Found{Items: []inspect.Row{}}
	period, err := f.Times.Period()
	if err != nil {
		return sum, err
	}
	finders, err := f.finders(ctx, client)
	if err != nil {
		return sum, err
	}
	begin, err := readPoint(f.Cursor)
	if err != nil {
		return sum, err
	}
	if begin.List != "" {
		first := slices.IndexFunc(finders, func(l finder) bool { return l.name == begin.List })
		if first < 0 {
			return sum, out.Error(errors.New("the cursor belongs to another search"))
		}
		finders = finders[first:]
	}
	after := begin.Cursor
	for i, l := range finders {
		for more := true; more; more = after != "" {
			to.Watch.Restart()
			part, err := f.of(l.jobs, len(sum.Items)).Find(ctx, after)
			if err != nil {
				return sum, err
			}
			sum.Examined += part.Examined
			sum.Items = append(sum.Items, f.wanted(part.Items, period)...)
			after = part.Next
			if f.Limit < 0 || len(sum.Items) < f.Limit {
				continue
			}
			sum.Next = nextPoint(finders[i:], after)
			return sum, nil
		}
	}
	return sum, nil
}

// of returns the jobs of a list that match the flags, given the number already found.
func (f *Flags) of(jobs inspect.Selection, found int) inspect.Selection {
	if f.filter != (inspect.Filter{}) {
		jobs = jobs.Where(f.filter)
	}
	if f.Limit >= 0 {
		jobs = jobs.AtMost(f.Limit - found)
	}
	if f.words.NeedsData() {
		return jobs.WithData(pathBytes)
	}
	return jobs.WithData(f.Bytes)
}

// pathBytes is the size of the largest data in which to look for a path.
const pathBytes = 64 << 10

// wanted returns the jobs of a queue, or of all queues if none is named, that match the words and
// entered their state in a period.
func (f *Flags) wanted(jobs []inspect.Row, period units.Period) []inspect.Row {
	queue := f.Lists.Queue
	jobs = slices.DeleteFunc(jobs, func(job inspect.Row) bool {
		return queue != "" && job.Queue != "" && job.Queue != queue || !period.Has(job.Since) ||
			!f.words.Holds(&job)
	})
	for i := range jobs {
		jobs[i].Data = jobs[i].Data[:min(f.Bytes, len(jobs[i].Data))]
	}
	return jobs
}

// nextPoint returns the point to continue: in the searched list, or in a later one.
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
		return p, out.Error(errors.New("no search has printed this cursor"))
	}
	return p, nil
}

// finders returns the lists to search.
func (f *Flags) finders(ctx context.Context, client *qless.Client) ([]finder, error) {
	at, in := f.Lists, inspect.New(client)
	if err := CheckStates(at.States); err != nil {
		return nil, err
	}
	if len(f.Unique) > 0 {
		return holderOf(ctx, client, f.Unique)
	}
	switch {
	case f.Limit == 0:
		return nil, out.Error(errors.New("--limit is positive, or -1"))
	case at.Group != "":
		return []finder{inGroup(in, at.Group)}, nil
	case at.Queue == "" && len(at.States) == 0 && f.filter.Tag != "":
		return []finder{{"tag", in.Tagged(f.filter.Tag)}}, nil
	}
	states := at.States
	if len(states) == 0 {
		states = append(slices.Clone(QueueStates), StateFailed)
	}
	queues := []string{at.Queue}
	if at.Queue == "" {
		known, err := place.QueuesKnown(ctx, client)
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
		case StateFailed:
			groups, err := in.FailureGroups(ctx)
			if err != nil {
				return nil, err
			}
			for _, group := range slices.Sorted(maps.Keys(groups)) {
				all = append(all, inGroup(in, group))
			}
		case StateCompleted:
			all = append(all, finder{state, in.Completed()})
		default:
			for _, queue := range queues {
				all = append(all, finder{state + " " + queue, in.Queue(queue, inspect.List(state))})
			}
		}
	}
	return all, nil
}

// CheckStates returns an error if a state is unknown.
func CheckStates(states []string) error {
	for _, state := range states {
		if !slices.Contains(allStates, state) {
			return out.Error(fmt.Errorf("there is no state %q", state))
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
			return nil, out.Error(err)
		}
	}
	var options jobopts.Options
	if err := options.Set(map[string]json.RawMessage{"unique": raw}); err != nil {
		return nil, out.Error(err)
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
