package charts

import (
	"fmt"
	"html/template"
	"strings"
	"time"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/units"
	"github.com/qless/qless-go/web/internal/words"
)

// A timeline is the way of a job through its queues, one visit after another.
type timeline struct {
	from, to time.Time
	visits   []visit

	attempts []qless.Attempt // the ones after the history that was read
}

// A visit is what happened to a job from a put to the next.
type visit struct {
	queue string
	spans []span
	marks []mark
}

// A span is a time in which a job waited or ran.
type span struct {
	from, to time.Time
	isRun    bool
	title    string
	backOff  time.Duration // of a wait; the rest of it is another one
	isUnsure bool          // the job may also have waited in the run
}

// A mark is something that happened at one time.
type mark struct {
	at          time.Time
	sign, title string
}

// Timeline draws the way of a job through its queues.
func Timeline(job *qless.Job, now time.Time) template.HTML { return timelineOf(job, now).draw() }

// timelineOf reads the history of a job, and its attempts, which have the ends of runs that did not
// complete it. If another script has run it, a retry is known only by the run that follows.
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

// maxVisits is how many visits of queues are drawn: the last ones.
const maxVisits = 40

func (t *timeline) add(entry *qless.HistoryEntry) {
	if entry.When.After(t.to) {
		t.to = entry.When
	}
	if entry.What == "put" || len(t.visits) == 0 {
		t.close(entry.When)
		t.visits = append(t.visits, visit{queue: entry.Queue})
	}
	switch entry.What {
	case "put":
		t.open(entry.When, false, "Waits")
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
		if last := t.last(); last == nil || last.isRun {
			t.close(entry.When)
			t.open(entry.When, false, "Waits after a lost lock")
		}
	case "dependency-failed":
		t.mark(entry.When, "✕", "One that it waited for has failed")
	default:
		t.mark(entry.When, "•", "Log: "+words.Short(entry.What, 100))
	}
}

// run draws a run, and if that did not complete the job, what came after it.
func (t *timeline) run(entry *qless.HistoryEntry) {
	if last := t.last(); last != nil && last.isRun {
		last.title, last.isUnsure = "Ran, and may have waited again", true
		t.mark(entry.When, "↻", "Retried")
	}
	attempt := t.attempt(entry)
	if attempt == nil {
		t.close(entry.When)
		t.open(entry.When, true, "Runs by "+entry.Worker)
		return
	}
	ended := attempt.Began.Add(attempt.Ran)
	t.close(attempt.Began)
	t.open(attempt.Began, true, "Ran by "+entry.Worker)
	t.close(ended)
	switch attempt.What {
	case "failed": // the history has the mark
	case "lost", "timed_out":
		t.open(ended, false, "Waits after a lost lock")
	default:
		t.mark(ended, "↻", "The job was "+words.Short(
			strings.Join(strings.Fields(attempt.What+" "+attempt.Group+" "+attempt.Message), " "), 100))
		t.open(ended, false, "Waits again")
	}
	if last := t.last(); last != nil {
		last.backOff = attempt.Delay
	}
	if ended.After(t.to) {
		t.to = ended
	}
}

// attempt returns the attempt that began with an entry, or nil.
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

// end draws what lasts until now.
func (t *timeline) end(job *qless.Job, now time.Time) {
	last := t.last()
	switch job.State {
	case qless.StateComplete, qless.StateFailed:
		t.close(t.to)
		return
	case qless.StateRunning:
	default:
		if last != nil && last.isRun { // it was retried or released
			ended := last.from
			if f := job.Failure; f != nil && f.When.After(ended) {
				ended = f.When
			}
			t.close(ended)
			t.mark(ended, "↻", "Retried or released")
			t.open(ended, false, "Waits again")
		}
	}
	if now.After(t.to) {
		t.to = now
	}
	t.close(t.to)
}

// last returns the span that has not ended, or nil.
func (t *timeline) last() *span {
	if len(t.visits) == 0 {
		return nil
	}
	spans := t.visits[len(t.visits)-1].spans
	if len(spans) == 0 || !spans[len(spans)-1].to.IsZero() {
		return nil
	}
	return &spans[len(spans)-1]
}

func (t *timeline) open(at time.Time, isRun bool, title string) {
	v := &t.visits[len(t.visits)-1]
	v.spans = append(v.spans, span{from: at, isRun: isRun, title: title})
}

// close ends the last span, and divides one with a back-off that has ended.
func (t *timeline) close(at time.Time) {
	last := t.last()
	if last == nil {
		return
	}
	if due := last.from.Add(last.backOff); last.backOff > 0 {
		last.title = "Waits for its back-off"
		if at.After(due) {
			last.to = due
			t.open(due, false, "Waits again")
			last = t.last()
		}
	}
	last.to = at
}

func (t *timeline) mark(at time.Time, sign, title string) {
	v := &t.visits[len(t.visits)-1]
	v.marks = append(v.marks, mark{at, sign, title})
}

// The sizes of a timeline.
const (
	visitHeight = 26.0
	visitLeft   = 130.0
	chartWidth  = 800.0
	chartRight  = 12.0
	chartBottom = 20.0
	visitWidth  = chartWidth - visitLeft - chartRight
)

func (t *timeline) draw() template.HTML {
	visits := t.visits[max(0, len(t.visits)-maxVisits):]
	if len(visits) == 0 {
		return ""
	}
	from := t.from
	if len(visits) < len(t.visits) && len(visits[0].spans) > 0 {
		from = visits[0].spans[0].from
	}
	whole := max(t.to.Sub(from), time.Second)
	x := func(at time.Time) float64 {
		return visitLeft + visitWidth*min(1, max(0, at.Sub(from).Seconds()/whole.Seconds()))
	}
	d := &drawing{
		Label: fmt.Sprintf("Timeline: %d visits of queues in %s", len(visits), units.Age(whole)),
		Class: "chart", Width: chartWidth, Height: visitHeight*float64(len(visits)) + chartBottom,
	}
	for i, v := range visits {
		d.visit(&v, visitHeight*float64(i), x)
	}
	d.text(visitLeft, d.Height-5, "start", from.UTC().Format(time.DateTime))
	d.text(chartWidth-chartRight, d.Height-5, "end", from.Add(whole).UTC().Format(time.DateTime))
	return d.html("chart")
}

// visit draws a visit: low bars where the job waited, high ones where it ran, and marks above them.
func (d *drawing) visit(v *visit, top float64, x func(time.Time) float64) {
	d.text(visitLeft-8, top+17, "end", words.Short(v.queue, 18))
	for _, s := range v.spans {
		bar := shape{
			Kind: "rect", Class: "wait", X: x(s.from), Y: top + 11, Height: 6,
			Title: fmt.Sprintf("%s for %s", s.title, units.Age(s.to.Sub(s.from))),
		}
		if s.isRun {
			bar.Class, bar.Y, bar.Height = "run", top+7, 14
		}
		if s.isUnsure {
			bar.Class = "run unsure"
		}
		bar.Width = max(1.5, x(s.to)-bar.X)
		d.add(bar)
	}
	for _, m := range v.marks {
		d.add(shape{
			Kind: "middle", Class: "mark", X: x(m.at), Y: top + 9, Text: m.sign,
			Title: m.title + " at " + words.Clock(m.at),
		})
	}
}
