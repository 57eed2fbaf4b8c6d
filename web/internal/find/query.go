package find

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
	"github.com/qless/qless-go/internal/terms"
	"github.com/qless/qless-go/internal/units"
)

// A Query matches jobs in one or all lists.
type Query struct {
	Words string `json:"query,omitempty"` // as typed
	terms.Terms
	units.Period
	Large bool `json:"large,omitempty"` // also in large data
	Batch bool `json:"-"`               // only callbacks of batches
}

// NewQuery returns the query of a URL or a form: the words q, and fields omitted from the words.
func NewQuery(value func(field string) string, period units.Period) (Query, error) {
	t, err := terms.Parse(value("q"))
	if err != nil {
		return Query{}, invalid("%v", err)
	}
	t.Fill(value)
	return Query{Words: value("q"), Terms: t, Period: period, Large: value("large") != ""}, nil
}

// States are the searchable states and lists of jobs. The first, "", means any.
var States = slices.Concat([]string{""}, names(inspect.JobLists()), []string{"failed", "complete"})

func names(lists []inspect.List) (names []string) {
	for _, list := range lists {
		names = append(names, string(list))
	}
	return names
}

// ErrHidden is returned for a search in hidden data.
var ErrHidden = invalid("data of jobs is not shown here, and so it can't be searched")

// Check returns an error for an unknown field or state.
func (q *Query) Check(hidesData bool) error {
	switch {
	case q.InData() && hidesData:
		return ErrHidden
	case !slices.Contains(States, q.State):
		return invalid("there is no state %q", q.State)
	}
	return nil
}

// IsAsked reports whether the query has any condition.
func (q *Query) IsAsked() bool { return q.Terms != terms.Terms{} || q.Period != units.Period{} }

// String describes the jobs.
func (q *Query) String() string {
	text := "jobs"
	if q.Words != "" {
		text += " that match " + q.Words
	}
	return text + q.Conditions()
}

// Conditions describes the conditions omitted from the words.
func (q *Query) Conditions() (text string) {
	for _, one := range []struct{ word, what, value string }{
		{"state:", "", q.State}, {"queue:", "of the queue ", q.Queue}, {"klass:", "klass ", q.Klass},
		{"tag:", "tag ", q.Tag}, {"jid:", "jid with ", q.JID}, {"data:", "data with ", q.Data},
	} {
		if one.value != "" && !strings.Contains(q.Words, one.word) {
			text += ", " + one.what + one.value
		}
	}
	return text + InWords(q.Period)
}

// InWords describes a period: ", since 2024-01-02 14:00:00 UTC".
func InWords(p units.Period) (text string) {
	if !p.Since.IsZero() {
		text = ", since " + p.Since.UTC().Format(clock)
	}
	if !p.Until.IsZero() {
		text += ", until " + p.Until.UTC().Format(clock)
	}
	return text
}

const clock = "2006-01-02 15:04:05 UTC"

// StatesOf returns the searchable states of the jobs in a list.
func StatesOf(list string) []qless.State {
	switch inspect.List(list) {
	case inspect.Waiting:
		return []qless.State{qless.StateWaiting, qless.StateTimedOut}
	case inspect.Stalled:
		return []qless.State{qless.StateRunning}
	}
	return []qless.State{qless.State(list)}
}

// Holds reports whether a job still matches.
func (q *Query) Holds(job *qless.Job) bool {
	switch {
	case q.Queue != "" && job.Queue != q.Queue:
		return false
	case q.State == string(inspect.Stalled) && job.Expires.After(time.Now()):
		return false
	case q.State != "" && !slices.Contains(StatesOf(q.State), job.State):
		return false
	}
	return q.HoldsOf(job)
}

// HasText reports whether a text contains a part, ignoring case.
func HasText(text, part string) bool {
	return strings.Contains(strings.ToLower(text), strings.ToLower(part))
}

// place returns the place of a list in a search: tags, queues, failures and completed jobs, in this
// order.
func place(kind byte, name string, number int) string {
	return fmt.Sprintf("%c %q %d", kind, name, number)
}

// The kinds of lists, in order.
const (
	ofTag      = 'a'
	ofQueue    = 'b'
	ofFailed   = 'c'
	ofComplete = 'd'
)

// Lists returns the lists that may contain matches, in the order of the search. The overview
// contains the existing lists.
func (q *Query) Lists(in *inspect.Inspector, seen *inspect.Overview) []List {
	var lists []List
	if tag := cmp.Or(q.Tag, q.Text); tag != "" {
		lists = append(lists, q.In(List{
			place: place(ofTag, "", 0), Name: "jobs with the tag " + tag, Jobs: in.Tagged(tag),
		}))
	}
	if q.Tag != "" {
		return lists
	}
	if q.Failure == "" {
		for i := range seen.Queues {
			lists = append(lists, q.queueLists(in, &seen.Queues[i])...)
		}
	}
	if q.State == "" || q.State == string(qless.StateFailed) {
		for name, count := range seen.FailureGroups {
			lists = append(lists, q.failedLists(in, name, count)...)
		}
	}
	isComplete := q.State == "" || q.State == string(qless.StateComplete)
	if isComplete && q.Queue == "" && q.Failure == "" {
		lists = append(lists, q.passes(List{
			place: place(ofComplete, "", 0), Name: "completed", Jobs: in.Completed(), IsLatestFirst: true,
		})...)
	}
	slices.SortStableFunc(lists, func(a, b List) int { return strings.Compare(a.place, b.place) })
	return lists
}

// isWanted reports whether a job is in the state and the queue of the query.
func (q *Query) isWanted(job *inspect.Row) bool {
	if q.Queue != "" && job.Queue != q.Queue {
		return false
	}
	hasEnded := !job.Expires.IsZero() && job.Expires.Before(time.Now())
	switch q.State {
	case "":
		return true
	case "waiting":
		return job.State == qless.StateWaiting || job.State == qless.StateTimedOut
	case "stalled":
		return job.State == qless.StateRunning && hasEnded
	case "running":
		return job.State == qless.StateRunning && !hasEnded
	}
	return string(job.State) == q.State
}

func (q *Query) queueLists(in *inspect.Inspector, queue *inspect.QueueOverview) (lists []List) {
	if q.Queue != "" && q.Queue != queue.Name {
		return nil
	}
	for number, list := range inspect.JobLists() {
		count := list.Count(&queue.QueueCounts)
		// Scheduled jobs that have fallen due are counted as waiting.
		isEmpty := count == 0 && (list != inspect.Scheduled || queue.Waiting == 0)
		if isEmpty || q.State != "" && q.State != string(list) {
			continue
		}
		lists = append(lists, q.passes(List{
			place: place(ofQueue, queue.Name, number),
			Name:  string(list) + " in " + queue.Name, Total: count,
			Jobs: in.Queue(queue.Name, list),
		})...)
	}
	return lists
}

func (q *Query) failedLists(in *inspect.Inspector, group string, count int) []List {
	list := List{
		place: place(ofFailed, group, 0),
		Name:  "failed in " + group, Total: count, Jobs: in.Failed(group),
		IsLatestFirst: true,
	}
	if q.Queue != "" {
		list.Matches = func(job *inspect.Row) bool { return job.Queue == q.Queue }
	}
	return q.passes(list)
}

// In returns a list with all conditions of the query.
func (q *Query) In(list List) List {
	if list = q.plain(list); q.State+q.Queue+q.Failure+q.Path+q.Text != "" {
		list.Matches = func(job *inspect.Row) bool { return q.isWanted(job) && q.Terms.Holds(job) }
	}
	return list
}

// plain returns a list with the conditions checked by the server, and the period.
func (q *Query) plain(list List) List {
	list.Filter, list.Period = q.Filter(), q.Period
	list.Filter.Batch = q.Batch
	list.Filter.Large = q.Large && list.Filter.Data != ""
	if q.Path != "" {
		list.Jobs = list.Jobs.WithData(searchedData)
	}
	return list
}

// searchedData is the size of the largest data in which to look for a path.
const searchedData = 64 << 10

// passes returns a list once per required filter.
func (q *Query) passes(list List) []List {
	list = q.plain(list)
	inList := list.Matches
	holds := func(job *inspect.Row) bool {
		return (inList == nil || inList(job)) && q.Terms.Holds(job)
	}
	if q.Failure != "" || q.Path != "" || q.Text != "" {
		list.Matches = holds
	}
	if q.Text == "" || q.Klass != "" || q.JID != "" {
		return []List{list}
	}
	byKlass, byJID := list, list
	byKlass.Filter.Klass, byJID.Filter.JID = q.Text, q.Text
	byJID.place, byJID.isAgain = list.place+" again", true
	// The tag was searched before, and no job is found twice.
	isNew := func(job *inspect.Row) bool {
		return !slices.Contains(job.Tags, q.Text) && holds(job)
	}
	byKlass.Matches = isNew
	byJID.Matches = func(job *inspect.Row) bool { return job.Klass != q.Text && isNew(job) }
	return []List{byKlass, byJID}
}

// Total returns the number of jobs in lists, each counted once.
func Total(lists []List) (n int, hasCompleted bool) {
	for i := range lists {
		if !lists[i].isAgain {
			n += lists[i].Total
		}
		hasCompleted = hasCompleted || lists[i].place[0] == ofComplete
	}
	return n, hasCompleted
}
