package web

import (
	"cmp"
	"context"
	"html/template"
	"slices"
	"sync"
	"time"

	"github.com/qless/qless-go"
)

const (
	weekDays    = 7   // before today
	weekQueues  = 100 // of how many queues the days are read
	fewQueues   = 50  // with more of them, the first look reads no days
	weekRefresh = 30 * time.Second
)

// days keeps what was counted in the last days, queue by queue.
type days struct {
	mu  sync.Mutex
	all map[queueDay]dayCount
}

// A queueDay is a day of a queue.
type queueDay struct {
	queue string
	day   time.Time
}

// A dayCount is what was counted until some time.
type dayCount struct {
	completed, failed int
	at                time.Time
}

// A weekData is what was completed and what has failed today and on the days before.
type weekData struct {
	Days    []dayData `json:"days"`              // today first
	Queues  int       `json:"queues"`            // of so many queues
	Total   int       `json:"total"`             // of all that there are
	HasMore bool      `json:"has_more,omitzero"` // some of it is not read yet
}

// A dayData is a day.
type dayData struct {
	Date      string `json:"date"`
	Completed int    `json:"completed"`
	Failed    int    `json:"failed"`
	HasMore   bool   `json:"has_more,omitzero"`
}

// week returns what was counted in the last days. It reads a part of what is not known, or of what
// is about today and was read first.
func (s *site) week(ctx context.Context, queues []string, total int) (*weekData, error) {
	slices.Sort(queues)
	queues = part(queues, 0, weekQueues)
	return sampled(ctx, &s.samples, "week", func(ctx context.Context) (*weekData, error) {
		now := time.Now().UTC()
		for _, one := range s.days.old(queues, now, daysAtOnce(total)) {
			stats, err := s.Client.Queue(one.queue).Stats(ctx, one.day)
			if err != nil {
				return nil, err
			}
			s.days.set(one, newDayCount(stats, now))
		}
		week := s.days.week(queues, now)
		week.Total = total
		return week, nil
	})
}

// daysAtOnce is how many days of queues are read with each look, if there are so many queues: the
// more there are, the more else the page costs.
func daysAtOnce(queues int) int { return max(2, 8-queues/25) }

func newDayCount(stats qless.Stats, now time.Time) dayCount {
	return dayCount{stats.Run.Count, stats.Failures, now}
}

// lastDays returns the last days, today first.
func lastDays(now time.Time) []time.Time {
	today := now.Truncate(24 * time.Hour)
	all := make([]time.Time, 1+weekDays)
	for i := range all {
		all[i] = today.AddDate(0, 0, -i)
	}
	return all
}

// old returns what to read next, at most so much: what is not known first, today before the other
// days. A day that is over does not change. The first look at many queues leaves the days to the
// next ones.
func (d *days) old(queues []string, now time.Time, most int) []queueDay {
	d.mu.Lock()
	defer d.mu.Unlock()
	var all []queueDay
	for _, day := range lastDays(now) {
		for _, queue := range queues {
			one := queueDay{queue, day}
			count, isKnown := d.all[one]
			isOver := count.at.After(day.Add(24*time.Hour + time.Minute))
			if !isKnown || !isOver && now.Sub(count.at) >= weekRefresh {
				all = append(all, one)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b queueDay) int {
		return cmp.Compare(d.all[a].at.UnixNano(), d.all[b].at.UnixNano())
	})
	if isFirst := d.all == nil; isFirst {
		d.all = map[queueDay]dayCount{}
		if len(queues) > fewQueues {
			return nil
		}
	}
	return part(all, 0, most)
}

// set keeps a count, and drops those of days that are long over.
func (d *days) set(one queueDay, count dayCount) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.all[one] = count
	if len(d.all) <= 2*weekQueues*(1+weekDays) {
		return
	}
	for other := range d.all {
		if count.at.Sub(d.all[other].at) > weekRefresh {
			delete(d.all, other)
		}
	}
}

// week adds the days up.
func (d *days) week(queues []string, now time.Time) *weekData {
	d.mu.Lock()
	defer d.mu.Unlock()
	week := &weekData{Queues: len(queues)}
	for _, day := range lastDays(now) {
		sum := dayData{Date: day.Format(time.DateOnly)}
		for _, queue := range queues {
			count, isKnown := d.all[queueDay{queue, day}]
			sum.Completed += count.completed
			sum.Failed += count.failed
			sum.HasMore = sum.HasMore || !isKnown
		}
		week.Days = append(week.Days, sum)
		week.HasMore = week.HasMore || sum.HasMore
	}
	return week
}

// Rows are what is counted, each as a row.
func (w *weekData) Rows() []weekRow {
	completed := func(d *dayData) int { return d.Completed }
	failed := func(d *dayData) int { return d.Failed }
	return []weekRow{{"Completed", w, completed}, {"Failed", w, failed}}
}

// Dates are the days as in the rows, today last.
func (w *weekData) Dates() []string {
	var all []string
	for _, day := range slices.Backward(w.Days) {
		all = append(all, day.Date[len("2006-"):])
	}
	return all
}

// A weekRow is one of the figures on all days.
type weekRow struct {
	Name string
	week *weekData
	of   func(*dayData) int
}

// Values are the figures of the days, today last.
func (r weekRow) Values() []int {
	var all []int
	for _, day := range slices.Backward(r.week.Days) {
		all = append(all, r.of(&day))
	}
	return all
}

// Mean is the average of the days before today.
func (r weekRow) Mean() int {
	sum := 0
	for i := range r.week.Days[1:] {
		sum += r.of(&r.week.Days[1+i])
	}
	return (sum + weekDays/2) / weekDays
}

// Spark draws the days.
func (r weekRow) Spark() template.HTML {
	var values []float64
	for _, value := range r.Values() {
		values = append(values, float64(value))
	}
	return sparkline(r.Name+" by day, today last", values)
}
