package web

import (
	"context"
	"html/template"
	"slices"
	"sync/atomic"
	"time"

	"github.com/qless/qless-go/internal/together"
	"github.com/qless/qless-go/web/internal/charts"
)

// A weekData counts the completed and failed runs of today and the days before.
type weekData struct {
	Days    []dayData `json:"days"`              // today first
	Queues  int       `json:"queues"`            // the number of queues counted
	Total   int       `json:"total"`             // the number of all queues
	HasMore bool      `json:"has_more,omitzero"` // some days have not been read yet
}

// A dayData is a day.
type dayData struct {
	Date      string `json:"date"`
	Completed int    `json:"completed"`
	Failed    int    `json:"failed"`
	HasMore   bool   `json:"has_more,omitzero"`
}

const (
	weekDays     = 7   // before today
	weekQueues   = 100 // the maximum number of queues that are read
	fewQueues    = 50  // with more queues, the first view reads no days
	daysTogether = 8   // days read at once
	weekRefresh  = 30 * time.Second
)

// days caches the counts of the last days, queue by queue.
type days struct {
	counts   gradual[queueDay, dayCount]
	isLooked atomic.Bool
}

// A queueDay is a day of a queue.
type queueDay struct {
	queue string
	day   time.Time
}

// A dayCount holds the counts of a day.
type dayCount struct{ completed, failed int }

// week returns the counts of the last days. It reads some that are missing, or the oldest readings
// of today.
func (s *site) week(ctx context.Context, queues []string, total int) (*weekData, error) {
	slices.Sort(queues)
	queues = part(queues, 0, weekQueues)
	return sampled(ctx, &s.samples, "week", func(ctx context.Context) (*weekData, error) {
		now := time.Now().UTC()
		old := s.days.old(queues, now, daysAtOnce(total))
		counts, err := together.AskFew(daysTogether, old, func(one queueDay) (dayCount, error) {
			stats, err := s.Client.Queue(one.queue).Stats(ctx, one.day)
			return dayCount{stats.Run.Count, stats.Failures}, err
		})
		if err != nil {
			return nil, err
		}
		for i, one := range old {
			s.days.counts.set(one, counts[i], now, 2*weekQueues*(1+weekDays))
		}
		week := s.days.week(queues, now)
		week.Total = total
		return week, nil
	})
}

// daysAtOnce returns the number of days of queues that each view reads: the more queues there are,
// the more the rest of the page costs.
func daysAtOnce(queues int) int { return max(2, 100-queues) }

// lastDays returns the last days, today first.
func lastDays(now time.Time) []time.Time {
	today := now.Truncate(24 * time.Hour)
	all := make([]time.Time, 1+weekDays)
	for i := range all {
		all[i] = today.AddDate(0, 0, -i)
	}
	return all
}

// old returns up to n days to read next: missing ones first, and today before the others. Past days
// do not change. The first view of many queues leaves the days to later views.
func (d *days) old(queues []string, now time.Time, n int) []queueDay {
	if isFirst := !d.isLooked.Swap(true); isFirst && len(queues) > fewQueues {
		return nil
	}
	var all []queueDay
	for _, day := range lastDays(now) {
		for _, queue := range queues {
			all = append(all, queueDay{queue, day})
		}
	}
	return d.counts.due(all, n, func(one queueDay, at time.Time) bool {
		isOver := at.After(one.day.Add(24*time.Hour + time.Minute))
		return !isOver && now.Sub(at) >= weekRefresh
	})
}

// week sums up the days.
func (d *days) week(queues []string, now time.Time) *weekData {
	week := &weekData{Queues: len(queues)}
	for _, day := range lastDays(now) {
		sum := dayData{Date: day.Format(time.DateOnly)}
		for _, queue := range queues {
			count, isKnown := d.counts.get(queueDay{queue, day})
			sum.Completed += count.value.completed
			sum.Failed += count.value.failed
			sum.HasMore = sum.HasMore || !isKnown
		}
		week.Days = append(week.Days, sum)
		week.HasMore = week.HasMore || sum.HasMore
	}
	return week
}

// Dates returns the days in the order of the rows, today last.
func (w *weekData) Dates() []string {
	var all []string
	for _, day := range slices.Backward(w.Days) {
		all = append(all, day.Date[len("2006-"):])
	}
	return all
}

// A weekRow is one of the figures on all days, today last.
type weekRow struct {
	Name   string
	Values []int
}

// Rows returns the figures, each as a row.
func (w *weekData) Rows() []weekRow {
	rows := []weekRow{{Name: "Completed"}, {Name: "Failed"}}
	for _, day := range slices.Backward(w.Days) {
		rows[0].Values = append(rows[0].Values, day.Completed)
		rows[1].Values = append(rows[1].Values, day.Failed)
	}
	return rows
}

// Mean returns the average of the days before today.
func (r weekRow) Mean() int {
	sum := 0
	for _, value := range r.Values[:weekDays] {
		sum += value
	}
	return (sum + weekDays/2) / weekDays
}

// Spark draws the days.
func (r weekRow) Spark() template.HTML {
	var values []float64
	for _, value := range r.Values {
		values = append(values, float64(value))
	}
	return charts.Spark(r.Name+" by day, today last", values)
}
