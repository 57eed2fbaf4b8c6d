package charts

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/web/internal/words"
)

// A timeline is a job's path through its queues, visit by visit.
type timeline struct {
	from, to time.Time
	visits   []Lane

	attempts []qless.Attempt // attempts not yet matched with the history
}

// A Timeline is the visible part of a timeline.
type Timeline struct {
	Lanes          []Lane
	Ticks          []tick
	Zooms          []Zoom
	Earlier, Later string // zooms, or empty at the ends
}

// A Lane is a visit to a queue, from one put of the job to the next.
type Lane struct {
	Queue, Zoom  string
	Waited, Runs time.Duration
	Bars, Marks  []Mark
}

// A Mark is a bar for a time of waiting or running, or a sign for an event. Its place on the page
// is in percent.
type Mark struct {
	Class, Text, Title, X, Width string

	from, to time.Time
	backOff  time.Duration // back-off of a wait; the rest of the wait is another bar
}

// The classes of bars. In an unsure run, the job may also have waited.
const waits, runs, unsure = "wait", "run", "run unsure"

func (m *Mark) isRun() bool { return m.Class != waits }

// ReadTimeline reads a job's path through its queues. The zoom selects the part to show: "1m" is
// the last minute, "1m@1700000000000" is the minute before that millisecond, and "" is everything.
func ReadTimeline(job *qless.Job, now time.Time, zoom string) *Timeline {
	return timelineOf(job, now).show(zoom)
}

// timelineOf reads the history of a job, and its attempts with the ends of runs that did not
// complete the job. With another client's script, a retry is known only by the run that follows.
func timelineOf(job *qless.Job, now time.Time) *timeline {
	t := &timeline{attempts: job.Attempts}
	if len(job.History) == 0 {
		return t
	}
	t.from = job.History[0].When
	for i := range job.History {
		t.add(&job.History[i])
	}
	t.end(job, now)
	return t
}

// maxVisits is the maximum number of visits drawn: the last visits.
const maxVisits = 40

func (t *timeline) add(entry *qless.HistoryEntry) {
	if entry.When.After(t.to) {
		t.to = entry.When
	}
	if entry.What == "put" || len(t.visits) == 0 {
		t.close(entry.When)
		t.visits = append(t.visits, Lane{Queue: entry.Queue})
	}
	switch entry.What {
	case "put":
		t.open(entry.When, waits, "Waits")
	case "popped":
		t.run(entry)
	case "done":
		t.close(entry.When)
		t.mark(entry.When, "✓", "Done")
	case "failed":
		t.close(entry.When)
		t.mark(entry.When, "✕", "Failed: "+entry.Group)
	case "timed-out":
		t.mark(entry.When, "!", "The lock was lost")
		if last := t.last(); last == nil || last.isRun() {
			t.close(entry.When)
			t.open(entry.When, waits, "Waits after a lost lock")
		}
	case "dependency-failed":
		t.mark(entry.When, "✕", "One that it waited for has failed")
	default:
		t.mark(entry.When, "•", "Log: "+words.Short(entry.What, 100))
	}
}

// run draws a run and, if it did not complete the job, what followed.
func (t *timeline) run(entry *qless.HistoryEntry) {
	if last := t.last(); last != nil && last.isRun() {
		last.Title, last.Class = "Ran, and may have waited again", unsure
		t.mark(entry.When, "◆", "Retried")
	}
	attempt := t.attempt(entry)
	if attempt == nil {
		t.close(entry.When)
		t.open(entry.When, runs, "Runs by "+entry.Worker)
		return
	}
	ended := attempt.Began.Add(attempt.Ran)
	t.close(attempt.Began)
	t.open(attempt.Began, runs, "Ran by "+entry.Worker)
	t.close(ended)
	switch attempt.What {
	case "failed": // the history has the mark
	case "lost", "timed_out":
		t.open(ended, waits, "Waits after a lost lock")
	default:
		t.mark(ended, "◆", "The job was "+words.Short(
			strings.Join(strings.Fields(attempt.What+" "+attempt.Group+" "+attempt.Message), " "), 100))
		t.open(ended, waits, "Waits again")
	}
	if last := t.last(); last != nil {
		last.backOff = attempt.Delay
	}
	if ended.After(t.to) {
		t.to = ended
	}
}

// attempt returns the attempt begun by an entry, or nil.
func (t *timeline) attempt(entry *qless.HistoryEntry) *qless.Attempt {
	for i := range t.attempts {
		a := &t.attempts[i]
		if a.Began.Unix() == entry.When.Unix() && a.Worker == entry.Worker {
			t.attempts = t.attempts[i+1:]
			return a
		}
	}
	return nil
}

// end draws the bar that lasts until now.
func (t *timeline) end(job *qless.Job, now time.Time) {
	last := t.last()
	switch job.State {
	case qless.StateComplete, qless.StateFailed:
		t.close(t.to)
		return
	case qless.StateRunning:
	default:
		if last != nil && last.isRun() { // retried or released
			ended := last.from
			if f := job.Failure; f != nil && f.When.After(ended) {
				ended = f.When
			}
			t.close(ended)
			t.mark(ended, "◆", "Retried or released")
			t.open(ended, waits, "Waits again")
		}
	}
	if now.After(t.to) {
		t.to = now
	}
	t.close(t.to)
}

// last returns the unfinished bar, or nil.
func (t *timeline) last() *Mark {
	if len(t.visits) == 0 {
		return nil
	}
	bars := t.visits[len(t.visits)-1].Bars
	if len(bars) == 0 || !bars[len(bars)-1].to.IsZero() {
		return nil
	}
	return &bars[len(bars)-1]
}

func (t *timeline) open(at time.Time, class, title string) {
	v := &t.visits[len(t.visits)-1]
	v.Bars = append(v.Bars, Mark{Class: class, Title: title, from: at})
}

// close ends the last bar, and splits the bar if its back-off has ended.
func (t *timeline) close(at time.Time) {
	last := t.last()
	if last == nil {
		return
	}
	if due := last.from.Add(last.backOff); last.backOff > 0 {
		last.Title = "Waits for its back-off"
		if at.After(due) {
			last.backOff = 0
			t.close(due)
			t.open(due, waits, "Waits again")
			last = t.last()
		}
	}
	last.to = at
	v, took := &t.visits[len(t.visits)-1], at.Sub(last.from)
	if last.isRun() {
		v.Runs += took
	} else {
		v.Waited += took
	}
	last.Title += " for " + words.Took(took)
	v.Zoom = ZoomOn(v.Bars[0].from, at)
}

// hues are the colors of the signs.
var hues = map[string]string{"✓": "complete", "✕": "failed", "◆": "retried", "!": "stalled"}

func (t *timeline) mark(at time.Time, sign, title string) {
	v := &t.visits[len(t.visits)-1]
	title += " at " + words.Clock(at)
	v.Marks = append(v.Marks, Mark{Class: hues[sign], Text: sign, Title: title, from: at, to: at})
}

// A Zoom is an available part to show.
type Zoom struct {
	Name, Title string
	IsCurrent   bool
}

// zooms are the available widths.
var zooms = []time.Duration{
	7 * 24 * time.Hour, 24 * time.Hour, time.Hour, 10 * time.Minute, time.Minute, 10 * time.Second,
}

// maxZooms is the maximum number of available zooms: the largest below the whole time.
const maxZooms = 4

// ZoomOn returns the zoom on a time, with a margin.
func ZoomOn(from, to time.Time) string {
	room := max(to.Sub(from)/4, 500*time.Millisecond)
	return zoomOf((to.Sub(from) + 2*room).Round(time.Millisecond), to.Add(room))
}

func zoomOf(width time.Duration, until time.Time) string {
	return fmt.Sprintf("%s@%d", words.Exact(width), until.UnixMilli())
}

// window returns the part of the time shown by a zoom.
func (t *timeline) window(zoom string) (from, to time.Time) {
	width, until, _ := strings.Cut(zoom, "@")
	d, err := time.ParseDuration(width)
	if err != nil || d < time.Millisecond || d >= t.to.Sub(t.from) {
		return t.from, t.to
	}
	to = t.to
	if ms, err := strconv.ParseInt(until, 10, 64); err == nil {
		to = time.UnixMilli(min(max(ms, t.from.Add(d).UnixMilli()), t.to.UnixMilli()))
	}
	return to.Add(-d), to
}

func (t *timeline) show(zoom string) *Timeline {
	from, to := t.window(zoom)
	isPart := from.After(t.from) || to.Before(t.to)
	visits := slices.DeleteFunc(slices.Clone(t.visits), func(v Lane) bool {
		return isPart && len(inside(v.Bars, from, to)) == 0
	})
	if cut := len(visits) - maxVisits; cut > 0 {
		visits = visits[cut:]
		if !isPart && len(visits[0].Bars) > 0 {
			from = visits[0].Bars[0].from
		}
	}
	layout, whole := time.TimeOnly, to.Sub(from)
	if whole > 24*time.Hour {
		layout = "Jan 2 15:04"
	} else if whole < 10*time.Second {
		layout += ".000"
	}
	shown := &Timeline{Zooms: []Zoom{{"", "All", !isPart}}}
	for _, v := range visits {
		v.Bars, v.Marks = inside(v.Bars, from, to), inside(v.Marks, from, to)
		shown.Lanes = append(shown.Lanes, v)
	}
	for i := range 5 {
		at := from.Add(whole * time.Duration(i) / 4).UTC()
		shown.Ticks = append(shown.Ticks, tick{float64(25 * i), i%2 == 1, at.Format(layout)})
	}
	for _, d := range zooms {
		if d < t.to.Sub(t.from)*2/3 && len(shown.Zooms) <= maxZooms {
			isCurrent := d == whole && to.Equal(t.to)
			shown.Zooms = append(shown.Zooms, Zoom{words.Exact(d), words.Took(d), isCurrent})
		}
	}
	if isPart && from.After(t.from) {
		shown.Earlier = zoomOf(whole, to.Add(-whole/2))
	}
	if to.Before(t.to) {
		shown.Later = zoomOf(whole, to.Add(whole/2))
	}
	return shown
}

// inside returns the marks within a time, with their places.
func inside(marks []Mark, from, until time.Time) (all []Mark) {
	whole := max(until.Sub(from), time.Millisecond)
	x := func(at time.Time) float64 {
		return 100 * min(1, max(0, at.Sub(from).Seconds()/whole.Seconds()))
	}
	for _, m := range marks {
		if !m.from.After(until) && !m.to.Before(from) {
			m.X, m.Width = coordinate(x(m.from)), coordinate(max(0.2, x(m.to)-x(m.from)))
			all = append(all, m)
		}
	}
	return all
}
