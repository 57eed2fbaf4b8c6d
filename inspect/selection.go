package inspect

import (
	"encoding/json"
	"slices"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/wire"
)

// A List is one of the lists of a queue.
type List string

const (
	Waiting   List = "waiting"   // in the order of popping
	Running   List = "running"   // by lock expiry
	Stalled   List = "stalled"   // running with an expired lock, by expiry
	Scheduled List = "scheduled" // by due time
	Depends   List = "depends"   // waiting for other jobs, oldest first
	Recurring List = "recurring" // recurring jobs, by due time; they can be read, but not repaired
)

// JobLists returns the lists of a queue's jobs, in the order that tools show: all but Recurring.
func JobLists() []List { return []List{Waiting, Running, Stalled, Scheduled, Depends} }

// Count returns the number of jobs in the list from the counts of a queue.
func (l List) Count(of *qless.QueueCounts) int {
	switch l {
	case Waiting:
		return of.Waiting
	case Running:
		return of.Running
	case Stalled:
		return of.Stalled
	case Scheduled:
		return of.Scheduled
	case Depends:
		return of.Depends
	case Recurring:
		return of.Recurring
	}
	return 0
}

// The other lists, as named in the commands list, find and repair.
const (
	failedList   List = "failed"
	taggedList   List = "tagged"
	completeList List = "complete"
	trackedList  List = "tracked"
	workerList   List = "worker"
	jidsList     List = "jids"
)

// A Selection describes jobs to read or repair. It is an immutable value that reads nothing by
// itself: each call of a method with a context sees the jobs at that time. The zero value has no
// namespace: its methods return [qless.ErrInvalid]. A Selection is safe for concurrent use.
type Selection struct {
	client  *qless.Client
	list    List
	name    string   // of the queue, group, tag or worker
	jids    []string // of jidsList
	filters []Filter
	atMost  int // 0 means all
	data    int // bytes of data in a Row
	onStep  func(soFar Repair) error
	invalid error // the error of an invalid argument
}

// Queue selects the jobs in one of a queue's lists, in the order of that list.
func (in *Inspector) Queue(name string, list List) Selection {
	s := Selection{client: in.client, list: list, name: name}
	switch list {
	case Waiting, Running, Stalled, Scheduled, Depends, Recurring:
		s.invalid = checkName("list", "queue name", name)
	default:
		s.invalid = invalid("list", "a queue has no list %q", string(list))
	}
	return s
}

// Failed selects the jobs of a failure group, latest failure first. Repairs begin with the oldest.
func (in *Inspector) Failed(group string) Selection {
	return in.named(failedList, "group", group)
}

// Completed selects the completed jobs that are kept, latest first.
func (in *Inspector) Completed() Selection {
	return Selection{client: in.client, list: completeList}
}

// Tagged selects the jobs with a tag, in the order of tagging.
func (in *Inspector) Tagged(tag string) Selection {
	return in.named(taggedList, "tag", tag)
}

// Tracked selects the tracked jobs, in the order of tracking. Some may no longer exist.
func (in *Inspector) Tracked() Selection {
	return Selection{client: in.client, list: trackedList}
}

// HeldBy selects the jobs that a worker holds, by lock expiry: jobs with expired locks come first.
// Jobs that were taken from the worker are not included.
func (in *Inspector) HeldBy(worker string) Selection {
	return in.named(workerList, "worker name", worker)
}

// JIDs selects jobs by jid, in the order given, each once.
func (in *Inspector) JIDs(jids ...string) Selection {
	return Selection{
		client: in.client, list: jidsList, jids: wire.Distinct(jids),
		invalid: checkNames("list", "jid", jids),
	}
}

func (in *Inspector) named(list List, what, name string) Selection {
	return Selection{
		client: in.client, list: list, name: name, invalid: checkName("list", what, name),
	}
}

// A Filter matches the jobs for which all set fields hold.
type Filter struct {
	// Klass is the klass of the jobs.
	Klass string

	// Tag is one of the job's tags.
	Tag string

	// JID is a part of the jid.
	JID string

	// Data is a part of the data, as stored or as read from JSON: é also matches \u00e9. Characters
	// above U+FFFF match only as stored. Data encoded by a codec does not match.
	Data string

	// Large also searches data of more than 256 KiB. Each such job keeps the server busy for a few
	// milliseconds per MB, or tens of milliseconds if the data has many escapes.
	Large bool

	// Batch matches the callbacks of batches only.
	Batch bool
}

// Where returns the jobs of the selection that match a filter. With several filters, jobs must
// match all of them. An empty filter is [qless.ErrInvalid], so that a blank form selects nothing.
func (s Selection) Where(filter Filter) Selection {
	if filter == (Filter{}) || filter == (Filter{Large: true}) {
		return s.with(invalid("find", "the filter is empty"))
	}
	for _, part := range []struct{ what, text string }{
		{"Filter.Klass", filter.Klass}, {"Filter.Tag", filter.Tag}, {"Filter.JID", filter.JID},
		{"Filter.Data", filter.Data},
	} {
		if part.text != "" {
			if err := checkName("find", part.what, part.text); err != nil {
				return s.with(err)
			}
		}
	}
	s.filters = append(slices.Clip(s.filters), filter)
	return s
}

// AtMost returns a selection of at most n jobs. A repair counts the jobs changed. An n of less than
// 1 is [qless.ErrInvalid].
func (s Selection) AtMost(n int) Selection {
	if n < 1 {
		return s.with(invalid("list", "AtMost(%d) is less than 1", n))
	}
	if s.atMost == 0 || n < s.atMost {
		s.atMost = n
	}
	return s
}

// maxData is the largest argument of WithData.
const maxData = 64 << 10

// WithData returns the selection with the first bytes of the data in each [Row], at most 64 KiB.
// Data of more than 256 KiB is not shown.
func (s Selection) WithData(bytes int) Selection {
	if bytes < 0 || bytes > maxData {
		return s.with(invalid("list", "WithData(%d) is not from 0 to %d", bytes, maxData))
	}
	s.data = bytes
	return s
}

// OnStep returns the selection with a function to call after each step of a repair with the result
// so far, which the function must not keep. If the function returns an error or panics, the repair
// ends with that error.
func (s Selection) OnStep(step func(soFar Repair) error) Selection {
	s.onStep = step
	return s
}

// with returns the selection with an error, unless it has one already.
func (s Selection) with(err error) Selection {
	if s.invalid == nil {
		s.invalid = err
	}
	return s
}

// check returns an error if the selection is invalid.
func (s Selection) check() error {
	if s.client == nil {
		return invalid("list", "the selection comes from no Inspector")
	}
	return s.invalid
}

// searchesData reports whether a filter reads the data of jobs.
func (s Selection) searchesData() bool {
	return slices.ContainsFunc(s.filters, func(f Filter) bool { return f.Data != "" })
}

// isSearched reports whether jobs must be examined one by one to find the selected ones.
func (s Selection) isSearched() bool { return len(s.filters) > 0 || s.list == workerList }

// filterArgs returns the filters as arguments.
func (s Selection) filterArgs() []any {
	args := make([]any, 0, 6*len(s.filters))
	for _, f := range s.filters {
		args = append(args, f.Klass, f.Tag, f.JID, f.Data, yes(f.Batch), yes(f.Large))
	}
	return args
}

func yes(is bool) string {
	if is {
		return "1"
	}
	return ""
}

// rest returns the number of jobs still wanted after done ones, at most n unless n is 0. 0 means
// any number.
func (s Selection) rest(done, n int) int {
	if rest := s.atMost - done; s.atMost > 0 && (n == 0 || rest < n) {
		return rest
	}
	return n
}

// cut returns a number of jobs, limited by AtMost.
func (s Selection) cut(n int) int {
	if s.atMost > 0 {
		return min(n, s.atMost)
	}
	return n
}

// jidsJSON returns jids in the form read by the commands find and repair.
func jidsJSON(jids []string) string {
	text, err := json.Marshal(jids)
	if err != nil {
		panic(err) // strings always marshal
	}
	return string(text)
}

// bare returns the selection of other jobs by jid, with the same namespace.
func (s Selection) bare(jids []string) Selection {
	return Selection{client: s.client, list: jidsList, jids: jids}
}

// A Repair is the result of a repair. It is valid even with an error: it then describes the steps
// before the failed one, which may also have been done.
//
// A repair first reads the jids of the list, and then changes each of these jobs once, 100 at a
// time, or 50 for a move, in one script. Jobs that have left the list by then are neither changed
// nor counted, and new jobs are not examined. With [Selection.AtMost], 1000 jids are read at a
// time, as far as necessary. The oldest jobs of a failure group are changed first. Calling the
// repair again continues it.
type Repair struct {
	Changed   int                     `json:"changed"`           // jobs changed, or already as wanted
	Unchanged int                     `json:"unchanged"`         // jobs that could not be changed
	Reasons   map[string]*qless.Error `json:"reasons,omitempty"` // the reasons by jid, at most 10,000
}

// leave records that a job was left unchanged.
func (r *Repair) leave(err *qless.Error) {
	r.Unchanged++
	if len(r.Reasons) >= maxReasons {
		return
	}
	if r.Reasons == nil {
		r.Reasons = map[string]*qless.Error{}
	}
	r.Reasons[err.JID] = err
}

// maxReasons is the maximum number of reasons in a Repair.
const maxReasons = 10_000
