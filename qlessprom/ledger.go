package qlessprom

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/qless/qless-go/inspect"
)

const (
	day         = 24 * time.Hour
	maxGone     = 2000 // remembered queues that are gone
	maxPastDays = 7    // days read to catch up
)

// A ledger turns the server's statistics, which restart each day and belong to queues that come and
// go, into counters that only grow: it adds up the increases between reads. The counters of a queue
// begin at 0 when the queue is first seen.
type ledger struct {
	most   int                 // the number of queues with separate labels
	listed time.Time           // when the queues were last listed
	since  time.Time           // when all queues were last known; zero if unknown
	queues map[string]*account // existing queues, and queues that are gone
	series map[string]*counts  // by label
}

// An owner is a queue or schedule with a separate or shared label.
type owner struct {
	label string
	own   bool
}

// newOwner labels a name, separately for at most most owners, and counts it.
func newOwner(name string, owners *int, most int) owner {
	if *owners >= most {
		return owner{label: other}
	}
	*owners++
	return owner{label(name), true}
}

// An account has the counted statistics of a queue.
type account struct {
	owner
	read    time.Time // zero if never read, or just gone
	begun   bool      // last is set
	day     time.Time // of last
	last    counts
	gone    time.Time // when the queue was first missing; zero if it is there
	settled bool      // read after the queue was gone
}

func newLedger(most int) *ledger {
	return &ledger{most: most, queues: map[string]*account{}, series: map[string]*counts{}}
}

// list updates the ledger by an overview's queues. The counts of a new queue begin at 0 if all
// queues were known before.
func (l *ledger) list(o *inspect.Overview) {
	there := make(map[string]bool, len(o.Queues))
	for i := range o.Queues {
		there[o.Queues[i].Name] = true
	}
	own := 0
	for name, a := range l.queues {
		switch {
		case !there[name] && a.gone.IsZero():
			a.gone, a.read = o.Time, time.Time{}
		case there[name] && a.gone.IsZero() && a.own:
			own++
		}
	}
	for i := range o.Queues {
		name := o.Queues[i].Name
		a := l.queues[name]
		if a != nil && a.gone.IsZero() {
			continue
		}
		if a == nil {
			a = &account{begun: !l.since.IsZero(), day: l.since.UTC().Truncate(day)}
			l.queues[name] = a
		}
		a.comeBack(l.since)
		a.owner = newOwner(name, &own, l.most)
		if l.series[a.label] == nil {
			l.series[a.label] = &counts{}
		}
	}
	l.listed, l.since = o.Time, time.Time{}
	if len(o.Queues) == o.Total {
		l.since = o.Time
	}
	l.forget()
}

// comeBack updates the account of a queue that was gone when all queues were last known.
func (a *account) comeBack(since time.Time) {
	if today := since.UTC().Truncate(day); a.settled && a.day.Before(today) {
		a.day, a.last = today, counts{}
	}
	a.gone, a.settled = time.Time{}, false
}

// forget drops the queues gone for longest, if many are gone.
func (l *ledger) forget() {
	var gone []string
	for name, a := range l.queues {
		if a.settled {
			gone = append(gone, name)
		}
	}
	if len(gone) <= maxGone {
		return
	}
	slices.SortFunc(gone, func(a, b string) int {
		return l.queues[a].gone.Compare(l.queues[b].gone)
	})
	for _, name := range gone[:len(gone)-maxGone] {
		delete(l.queues, name)
	}
	used := map[string]bool{other: true}
	for _, a := range l.queues {
		used[a.label] = true
	}
	maps.DeleteFunc(l.series, func(label string, _ *counts) bool { return !used[label] })
}

// next returns the queues with the oldest statistics. A queue that is gone is read once more.
func (l *ledger) next(count int) []string {
	var names []string
	for name, a := range l.queues {
		if !a.settled {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(l.queues[a].read.Compare(l.queues[b].read), cmp.Compare(a, b))
	})
	return names[:max(0, min(count, len(names)))]
}

// due returns the queues to read at once: new queues with counts of unknown beginning, and queues
// that have just gone.
func (l *ledger) due() []string {
	var names []string
	for name, a := range l.queues {
		if a.read.IsZero() && (!a.begun || !a.gone.IsZero()) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// add adds the counts of a queue on a day.
func (l *ledger) add(a *account, now counts, today time.Time) {
	if a.begun && a.day.Equal(today) {
		l.series[a.label].add(now.since(a.last))
	} else if a.begun {
		l.series[a.label].add(now)
	}
	a.begun, a.day, a.last = true, today, now
}

// labels returns the labels of the queues with separate labels.
func (l *ledger) labels() map[string]string {
	labels := map[string]string{}
	for name, a := range l.queues {
		if a.own && a.gone.IsZero() {
			labels[name] = a.label
		}
	}
	return labels
}

// counters returns the counts of existing queues, and of queues just gone, by label.
func (l *ledger) counters() map[string]counts {
	counters := map[string]counts{}
	for _, a := range l.queues {
		if (a.gone.IsZero() || a.gone.Equal(l.listed)) && a.begun {
			counters[a.label] = *l.series[a.label]
		}
	}
	return counters
}

// misses count the missed runs of schedules, like a ledger.
type misses struct {
	most   int
	begun  bool // all schedules are known
	known  map[string]*miss
	series map[string]int // by label
}

type miss struct {
	owner
	last int
}

// add adds the runs missed by schedules since the last read.
func (m *misses) add(schedules []inspect.ScheduleInfo, areAll bool) {
	there, own := map[string]bool{}, 0
	for i := range schedules {
		there[schedules[i].ID] = true
	}
	maps.DeleteFunc(m.known, func(id string, _ *miss) bool { return !there[id] })
	for _, known := range m.known {
		if known.own {
			own++
		}
	}
	for i := range schedules {
		s := &schedules[i]
		one := m.known[s.ID]
		if one != nil {
			m.series[one.label] += max(0, s.Missed-one.last)
			one.last = s.Missed
			continue
		}
		one = &miss{owner: newOwner(s.ID, &own, m.most)}
		if !m.begun {
			one.last = s.Missed
		}
		m.known[s.ID] = one
	}
	m.begun = areAll
	if len(m.series) > maxGone {
		used := m.counters()
		maps.DeleteFunc(m.series, func(label string, _ int) bool {
			_, is := used[label]
			return !is && label != other
		})
	}
}

// counters returns the missed runs of existing schedules, by label.
func (m *misses) counters() map[string]float64 {
	counters := map[string]float64{}
	for _, one := range m.known {
		counters[one.label] = float64(m.series[one.label])
	}
	return counters
}

// labels returns the labels of the schedules with separate labels.
func (m *misses) labels() map[string]string {
	labels := map[string]string{}
	for id, one := range m.known {
		if one.own {
			labels[id] = one.label
		}
	}
	return labels
}
