package web

import (
	"context"
	"html/template"
	"slices"
	"time"

	"github.com/qless/qless-go/inspect"
	"github.com/qless/qless-go/internal/together"
	"github.com/qless/qless-go/internal/units"
	"github.com/qless/qless-go/web/internal/charts"
	"github.com/qless/qless-go/web/internal/words"
)

// A failureTimes counts the jobs of a failure group by the time of failure.
type failureTimes struct {
	units.Period
	Step   units.Text `json:"step"`
	Failed []float64  `json:"failed"` // in each step
}

// Limits of the times of a group.
const (
	timesAtMost  = 30 * 24 * time.Hour
	timesAtLeast = 15 * time.Minute // unless the period is given
	timeSteps    = 48
	timesAtOnce  = 8 // reads
)

// newFailureTimes returns the steps of a period, by default from the oldest failure to now.
func newFailureTimes(p units.Period, oldest time.Time) *failureTimes {
	until := time.Now()
	if !p.Until.IsZero() && p.Until.Before(until) {
		until = p.Until
	}
	if p.Since.IsZero() {
		p.Since = until.Add(-max(until.Sub(oldest), timesAtLeast))
	}
	length := min(max(time.Second, until.Sub(p.Since).Round(time.Second)), timesAtMost)
	if earliest := until.Add(-timesAtMost); p.Since.Before(earliest) {
		p.Since = earliest
	}
	step := (length/timeSteps + time.Minute - 1).Truncate(time.Minute)
	return &failureTimes{p, units.Text(step), make([]float64, (length+step-1)/step)}
}

// at returns the step of a time: -1 before the period, and the number of steps after it.
func (t *failureTimes) at(when time.Time) int {
	switch {
	case when.Before(t.Since):
		return -1
	case !t.Has(when):
		return len(t.Failed)
	}
	return min(int(when.Sub(t.Since)/t.Step.Duration()), len(t.Failed)-1)
}

// Chart draws the times.
func (t *failureTimes) Chart() template.HTML {
	return failureBars("", t.Since, t.Step.Duration(), t.Failed)
}

// failureBars draws the failures in each step.
func failureBars(
	note string, from time.Time, step time.Duration, failed []float64,
) template.HTML {
	each := "failed, each " + words.Exact(step)
	return charts.Stack(each, note, from, step, []charts.Line{
		{Name: each, Hue: "failed", Values: failed},
	})
}

// A stretch is a part of the list of a group, with the steps of its first and last job.
type stretch struct{ from, to, first, last int }

// failureTimes counts the jobs of a group, listed latest failure first. A stretch within a single
// step is not read. Any other stretch is cut in half, which takes a read.
func (s *site) failureTimes(
	ctx context.Context, group string, p units.Period, total int, oldest, latest time.Time,
) (*failureTimes, error) {
	t := newFailureTimes(p, oldest)
	parts := []stretch{{0, total - 1, t.at(latest), t.at(oldest)}}
	for {
		parts = slices.DeleteFunc(parts, t.counts)
		if len(parts) == 0 {
			return t, nil
		}
		halves, err := together.AskFew(timesAtOnce, parts, func(one stretch) ([]stretch, error) {
			mid := (one.from + one.to) / 2
			page, err := s.in.Failed(group).List(ctx, inspect.Range{Offset: mid, Limit: 2})
			if err != nil || len(page.Items) < 2 { // the list has become shorter
				return nil, err
			}
			end, begin := t.at(page.Items[0].Since), t.at(page.Items[1].Since)
			return []stretch{{one.from, mid, one.first, end}, {mid + 1, one.to, begin, one.last}}, nil
		})
		if err != nil {
			return nil, err
		}
		parts = slices.Concat(halves...)
	}
}

// counts counts the jobs of a stretch, if their steps are known.
func (t *failureTimes) counts(one stretch) bool {
	jobs := one.to - one.from + 1
	if one.first != one.last && jobs > 2 {
		return false
	}
	for i, at := range []int{one.first, one.last} {
		if at >= 0 && at < len(t.Failed) {
			t.Failed[at] += float64((jobs + 1 - i) / 2)
		}
	}
	return true
}
