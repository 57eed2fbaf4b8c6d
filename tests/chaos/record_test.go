package chaos

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// record is a line printed by a worker process.
type record struct {
	Kind    kind   `json:"k"`
	Worker  string `json:"w"`
	At      int64  `json:"t"`           // the time in nanoseconds since 1970
	Run     int64  `json:"r,omitempty"` // the number of the run in its process
	JID     string `json:"j,omitempty"`
	Attempt int    `json:"a,omitempty"` // the job's, as received by the worker
	Live    bool   `json:"l,omitempty"` // a run returned before its context ended
	Holder  string `json:"h,omitempty"` // the holder of the job according to the server
}

type kind string

const (
	ready    kind = "ready"    // the worker has started
	started  kind = "started"  // a run began
	canceled kind = "canceled" // a run's context ended
	returned kind = "returned" // a run returned
	foreign  kind = "foreign"  // the server named another holder before the run's context ended
)

// as returns a record of a new event of the same run.
func (r record) as(k kind) record {
	r.Kind, r.At = k, time.Now().UnixNano()
	return r
}

// lateness is the longest delay in printing the end of a context, by a separate goroutine. Whether
// a run returned live is known exactly.
const lateness = 500 * time.Millisecond

// life is one run of a handler, as recorded.
type life struct {
	record       // the record of the run's start
	until  int64 // when the run stopped being live
	sure   bool  // the run returned live, so until is exact
}

func (l *life) String() string {
	return fmt.Sprintf("%s run %d, attempt %d, from %d to %d (returned live: %v)",
		l.Worker, l.Run, l.Attempt, l.At, l.until, l.sure)
}

// ends holds the suspension and end times of each worker's process.
type ends map[string][]span

type span struct{ from, to int64 }

// after returns the first time after at when the worker's process stopped being live.
func (e ends) after(worker string, at int64) int64 {
	first := int64(math.MaxInt64)
	for _, end := range e[worker] {
		if end.to >= at {
			first = min(first, max(end.from, at))
		}
	}
	return first
}

// lives returns the runs of each job, by their start.
func lives(records []record, ends ends) map[string][]*life {
	type id struct {
		worker string
		run    int64
	}
	byRun, byJob := map[id]*life{}, map[string][]*life{}
	for _, r := range records {
		switch r.Kind {
		case started:
			l := &life{record: r, until: ends.after(r.Worker, r.At)}
			byRun[id{r.Worker, r.Run}] = l
			byJob[r.JID] = append(byJob[r.JID], l)
		case canceled:
			l := byRun[id{r.Worker, r.Run}]
			l.until = min(l.until, r.At)
		case returned:
			l := byRun[id{r.Worker, r.Run}]
			l.sure = r.Live && r.At < l.until
			l.until = min(l.until, r.At)
		}
	}
	for _, runs := range byJob {
		slices.SortFunc(runs, func(a, b *life) int { return int(a.At - b.At) })
	}
	return byJob
}

// overlaps reports each run that started while another run of its job was live.
func overlaps(byJob map[string][]*life) []string {
	var found []string
	for jid, runs := range byJob {
		for i, later := range runs {
			for _, earlier := range runs[:i] {
				live := earlier.until - later.At
				if live > int64(lateness) || live > 0 && earlier.sure {
					found = append(found, fmt.Sprintf("job %s: %v overlaps %v by %v", jid, earlier, later, time.Duration(live)))
				}
			}
		}
	}
	return found
}

// foreigners reports each run that was live while the server named another holder.
func foreigners(records []record, ends ends) []string {
	start := map[string]int64{}
	var found []string
	for _, r := range records {
		run := fmt.Sprint(r.Worker, " ", r.Run)
		if r.Kind == started {
			start[run] = r.At
		}
		if r.Kind == foreign && r.At < ends.after(r.Worker, start[run]) {
			found = append(found, fmt.Sprintf("job %s: %s run %d, attempt %d is live, but the holder is %s",
				r.JID, r.Worker, r.Run, r.Attempt, r.Holder))
		}
	}
	return found
}
