package find

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
	"github.com/qless/qless-go/internal/units"
)

// A Query matches jobs in all lists.
type Query struct {
	Text  string `json:"query"`
	In    string `json:"in,omitempty"` // the field with the text; empty for klass, tag or jid
	State string `json:"state,omitempty"`
	Queue string `json:"queue,omitempty"`
	units.Period
	Batch bool `json:"-"` // only callbacks of batches
}

// Fields are the fields that can be searched for a text: klass, tag and jid together first, and the
// data last.
var Fields = []string{"", "klass", "tag", "jid", "failure", "data"}

// States are the states and lists in which jobs can be searched: any of them, or one.
var States = slices.Concat([]string{""}, names(inspect.JobLists()), []string{"failed", "complete"})

func names(lists []inspect.List) (names []string) {
	for _, list := range lists {
		names = append(names, string(list))
	}
	return names
}

// ErrHidden is returned for a search in data that is not shown.
var ErrHidden = invalid("data of jobs is not shown here, and so it can't be searched")

// Check returns an error if there is no such field or state.
func (q *Query) Check(hidesData bool) error {
	switch {
	case q.In == "data" && hidesData:
		return ErrHidden
	case !slices.Contains(Fields, q.In):
		return invalid("there is nothing called %q to look in", q.In)
	case !slices.Contains(States, q.State):
		return invalid("there is no state %q", q.State)
	}
	return nil
}

// IsAsked reports whether the query has any condition.
func (q *Query) IsAsked() bool {
	return q.Text != "" || q.State != "" || q.Queue != "" || q.Period != units.Period{}
}

// String describes the jobs.
func (q *Query) String() string {
	text := "jobs"
	if q.Text != "" {
		text += fmt.Sprintf(" with %q as %s", q.Text, cmp.Or(q.In, "klass, tag or jid"))
	}
	if q.State != "" {
		text += ", " + q.State
	}
	if q.Queue != "" {
		text += ", of the queue " + q.Queue
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

// StatesOf returns the states of the jobs in a list that can be searched.
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
	isKlass, hasTag := job.Klass == q.Text, slices.Contains(job.Tags, q.Text)
	isJID := strings.Contains(job.JID, q.Text)
	switch q.In {
	case "klass":
		return isKlass
	case "tag":
		return hasTag
	case "jid":
		return isJID
	case "data":
		return strings.Contains(string(job.Data), q.Text)
	case "failure":
		return job.Failure != nil &&
			(HasText(job.Failure.Group, q.Text) || HasText(job.Failure.Message, q.Text))
	}
	return isKlass || hasTag || isJID
}

// HasText reports whether a text contains another one, ignoring case.
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

// Lists returns the lists that may contain matches, in the order of the search. The overview has
// the existing lists.
func (q *Query) Lists(in *inspect.Inspector, seen *inspect.Overview) []List {
	var lists []List
	if q.Text != "" && (q.In == "" || q.In == "tag") {
		lists = append(lists, List{
			place: place(ofTag, "", 0), Name: "jobs with the tag " + q.Text,
			Jobs: in.Tagged(q.Text), Matches: q.isWanted, Period: q.Period,
		})
	}
	if q.In == "tag" {
		return lists
	}
	if q.In != "failure" {
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
	if isComplete && q.Queue == "" && q.In != "failure" {
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
	isGroup := q.In != "failure" || HasText(group, q.Text)
	if q.Queue != "" || !isGroup {
		list.Matches = func(job *inspect.Row) bool {
			return (q.Queue == "" || job.Queue == q.Queue) &&
				(isGroup || job.Failure != nil && HasText(job.Failure.Message, q.Text))
		}
	}
	return q.passes(list)
}

// passes returns a list once per filter that it has to be searched with.
func (q *Query) passes(list List) []List {
	list.Filter.Batch, list.Period = q.Batch, q.Period
	if q.Text == "" {
		return []List{list}
	}
	switch q.In {
	case "failure":
		return []List{list}
	case "data":
		list.Filter.Data = q.Text
		return []List{list}
	case "jid":
		list.Filter.JID = q.Text
		return []List{list}
	}
	byKlass, byJID := list, list
	byKlass.Filter.Klass, byJID.Filter.JID = q.Text, q.Text
	byJID.place, byJID.isAgain = list.place+" again", true
	if q.In == "klass" {
		return []List{byKlass}
	}
	// The tag was searched before, and no job is found twice.
	isNew := func(job *inspect.Row) bool {
		return !slices.Contains(job.Tags, q.Text) && (list.Matches == nil || list.Matches(job))
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
