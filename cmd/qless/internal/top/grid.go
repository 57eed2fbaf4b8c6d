package top

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/qless/qless-go/cmd/qless/internal/text"
	"github.com/qless/qless-go/doctor"
	"github.com/qless/qless-go/inspect"
	"github.com/qless/qless-go/internal/units"
)

// A column has a title. The capital letter in the title is the key for sorting by the column. A
// column of width 0 takes up the remaining width.
type column struct {
	key, title string
	width      int
	isNumber   bool
}

// A row holds the cells for one item.
type row struct {
	id    string
	cells []cell
	alarm bool
}

// A cell is a text, and a number to sort by.
type cell struct {
	text   string
	number float64
}

// A grid is a sortable table.
type grid struct {
	columns []column
	rows    []row
	empty   string
}

func name(key, title string) column         { return column{key: key, title: title} }
func words(key, title string, w int) column { return column{key: key, title: title, width: w} }
func number(key, title string, w int) column {
	return column{key: key, title: title, width: w, isNumber: true}
}

func say(s string) cell            { return cell{text: text.Clean(s)} }
func count(n int) cell             { return cell{fmt.Sprint(n), float64(n)} }
func rate(r float64) cell          { return cell{units.Rate(r), r} }
func age(d time.Duration) cell     { return cell{units.Age(d), d.Seconds()} }
func (m *model) columns() []column { return m.grid().columns }

// grid returns the table of the current place.
func (m *model) grid() grid {
	var g grid
	switch m.at.page {
	case queuesPage:
		g = m.queues()
	case workersPage:
		g = m.workers()
	case failuresPage:
		g = m.failures()
	case queuePage:
		return m.jobs()
	case workerPage:
		return m.held()
	default:
		return m.klasses()
	}
	g.sort(m.sorted[m.at.page])
	return g
}

func (g *grid) sort(by sorting) {
	at := slices.IndexFunc(g.columns, func(c column) bool { return c.key == by.key })
	if at < 0 {
		return
	}
	slices.SortStableFunc(g.rows, func(a, b row) int {
		order := cmp.Or(cmp.Compare(a.cells[at].number, b.cells[at].number),
			strings.Compare(a.cells[at].text, b.cells[at].text))
		if g.columns[at].isNumber {
			order = cmp.Compare(a.cells[at].number, b.cells[at].number)
		}
		if by.reversed {
			order = -order
		}
		return cmp.Or(order, strings.Compare(a.id, b.id))
	})
}

func (m *model) queues() grid {
	g := grid{empty: "no queues", columns: []column{
		name("n", "Name"), number("w", "Wait", 7), number("o", "Oldest", 7), number("r", "Run", 6),
		number("l", "stalL", 5), number("s", "Sched", 6), number("d", "Deps", 5),
		number("e", "Ended/m", 7), number("f", "Fail/m", 6), words("t", "sTate", 6),
	}}
	if m.status == nil {
		return g
	}
	for i := range m.status.Queues {
		q := &m.status.Queues[i]
		run := count(q.Running)
		if q.MaxConcurrency > 0 {
			run.text = fmt.Sprintf("%d/%d", q.Running, q.MaxConcurrency)
		}
		state := "open"
		if q.Paused {
			state = "paused"
		}
		g.rows = append(g.rows, row{
			id: q.Name, alarm: m.isUrgent(q.Name),
			cells: []cell{
				say(q.Name), count(q.Waiting), age(q.Oldest), run, count(q.Stalled), count(q.Scheduled),
				count(q.Depends), rate(q.Rates.Completed), rate(q.Rates.Failed), say(state),
			},
		})
	}
	return g
}

func (m *model) isUrgent(queue string) bool {
	return slices.ContainsFunc(m.status.Attention, func(p doctor.Reason) bool {
		return p.Urgent() && (p.Queue == queue || slices.Contains(p.Queues, queue))
	})
}

func (m *model) workers() grid {
	g := grid{empty: "no workers", columns: []column{
		name("n", "Name"), number("b", "Busy", 5), number("s", "Slots", 5), number("l", "stalL", 5),
		number("a", "Age", 7), words("h", "Host", 12), words("u", "qUeues", 14), words("t", "sTate", 8),
	}}
	if m.status == nil {
		return g
	}
	for i := range m.status.Listed {
		w := &m.status.Listed[i]
		r := row{id: w.Name, alarm: w.Stalled > 0}
		if info := w.Info; info == nil {
			r.cells = []cell{
				say(w.Name), count(w.Jobs), {text: "-"}, count(w.Stalled), age(0), say("-"), say("-"),
				say("silent"),
			}
		} else {
			r.cells = []cell{
				say(w.Name), count(w.Jobs), count(info.Slots), count(w.Stalled),
				age(m.since(info.Started)), say(info.Host), say(strings.Join(info.Queues, ",")),
				say(stateOf(info)),
			}
		}
		g.rows = append(g.rows, r)
	}
	return g
}

func stateOf(info *inspect.WorkerInfo) string {
	switch {
	case info.Stopping:
		return "stopping"
	case info.Paused:
		return "paused"
	}
	return "running"
}

func (m *model) failures() grid {
	g := grid{empty: "no failed jobs", columns: []column{name("g", "Group"), number("c", "Count", 9)}}
	if m.status == nil {
		return g
	}
	for _, f := range m.status.Failures {
		g.rows = append(g.rows, row{id: f.Name, cells: []cell{say(f.Name), count(f.Jobs)}})
	}
	return g
}

// jobs returns the jobs of a list of a queue.
func (m *model) jobs() grid {
	g := grid{empty: "no jobs", columns: []column{
		words("", "Jid", 32), words("", "Klass", 14), number("", "Prio", 5), number("", "Age", 7),
		name("", "What"),
	}}
	if m.detail.jobs == nil {
		return g
	}
	for i := range m.detail.jobs.Page.Items {
		job := &m.detail.jobs.Page.Items[i]
		g.rows = append(g.rows, row{
			id: job.JID, alarm: m.at.list == inspect.Stalled,
			cells: []cell{
				say(job.JID), say(job.Klass), count(job.Priority), age(m.since(job.Since)),
				say(m.whatOf(job)),
			},
		})
	}
	return g
}

// whatOf describes a job in its list.
func (m *model) whatOf(job *inspect.Row) string {
	switch {
	case job.Parked != "":
		return "limit " + job.Parked
	case job.IsDue:
		return "due"
	case !job.Due.IsZero():
		return "due in " + units.Age(job.Due.Sub(m.read))
	case job.Worker != "":
		return "by " + job.Worker
	case job.Remaining < job.Retries:
		return fmt.Sprintf("%d/%d retries left", job.Remaining, job.Retries)
	}
	return strings.Join(job.Tags, ",")
}

// held returns the jobs held by a worker.
func (m *model) held() grid {
	g := grid{empty: "no jobs", columns: []column{
		words("", "Jid", 32), words("", "Klass", 14), words("", "Queue", 12), name("", "Lock"),
	}}
	for _, job := range m.detail.held {
		lock := "ended"
		if left := job.Expires.Sub(m.read); left > 0 {
			lock = "ends in " + units.Age(left)
		}
		g.rows = append(g.rows, row{
			id: job.JID, alarm: lock == "ended",
			cells: []cell{say(job.JID), say(job.Klass), say(job.Queue), say(lock)},
		})
	}
	return g
}

// klasses returns the klasses of a failure group.
func (m *model) klasses() grid {
	g := grid{empty: "no failed jobs", columns: []column{
		words("", "Klass", 16), number("", "Count", 7), number("", "First", 7), number("", "Last", 7),
		name("", "Message of the last one"),
	}}
	if m.detail.failures == nil {
		return g
	}
	for _, k := range m.detail.failures.Klasses {
		g.rows = append(g.rows, row{id: k.Klass, cells: []cell{
			say(k.Klass), count(k.Count), age(m.since(k.First)), age(m.since(k.Last)), say(k.Message),
		}})
	}
	return g
}

// since returns the time from t to the last reading.
func (m *model) since(t time.Time) time.Duration {
	if t.IsZero() {
		return 0
	}
	return max(m.read.Sub(t), time.Millisecond)
}
