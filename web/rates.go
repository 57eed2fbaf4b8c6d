package web

import (
	"cmp"
	"context"
	"html/template"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/qless/qless-go"
)

// rateHours is the time that the charts of queues show.
var rateHours = rateSpan{
	Length: 3 * time.Hour, Step: time.Minute, cell: time.Minute, keep: 10 * time.Second,
}

// A rateHistory has the rates of the last hours, minute by minute.
type rateHistory struct {
	Since    time.Time    `json:"since"`             // what was before is not read yet
	HasMore  bool         `json:"has_more,omitzero"` // it is read with the next looks
	Minutes  []rateMinute `json:"minutes"`
	LastHour qless.Rates  `json:"last_hour"`
}

// A rateMinute has the counts of a minute.
type rateMinute struct {
	Time      time.Time `json:"time"`
	Completed int       `json:"completed"`
	Failed    int       `json:"failed"`
	Retried   int       `json:"retried"`
}

// rateHistory returns the rates of the last hours of a queue.
func (s *site) rateHistory(ctx context.Context, queue string) (*rateHistory, error) {
	key := "rates " + strconv.Quote(queue)
	return sampled(ctx, &s.samples, key, func(ctx context.Context) (*rateHistory, error) {
		filter := qless.RateFilter{Queue: queue}
		known, err := s.tallies.look(ctx, key, rateHours, s.minutesOf(filter))
		if err != nil {
			return nil, err
		}
		history := &rateHistory{Since: known.since, HasMore: known.since.After(known.begin)}
		hour, last := known.to.Add(-time.Hour), []qless.Rates{}
		for _, p := range known.parts {
			sum := p.sum()
			minute := rateMinute{p.from, sum.Completed, sum.Failed, sum.Retried}
			history.Minutes = append(history.Minutes, minute)
			if p.from.After(hour) {
				last = append(last, sum)
			}
		}
		history.LastHour = sumOfRates(last)
		return history, nil
	})
}

// Chart draws what was completed, failed and retried in each minute.
func (h *rateHistory) Chart() template.HTML {
	if len(h.Minutes) == 0 {
		return ""
	}
	lines := []line{{Name: "Completed"}, {Name: "Failed"}, {Name: "Retried"}}
	from := h.Minutes[len(h.Minutes)-1].Time.Add(time.Minute - rateHours.Length)
	for at := from; at.Before(h.Minutes[0].Time); at = at.Add(time.Minute) {
		for i := range lines {
			lines[i].Values = append(lines[i].Values, math.NaN())
		}
	}
	for _, m := range h.Minutes {
		for i, count := range []int{m.Completed, m.Failed, m.Retried} {
			lines[i].Values = append(lines[i].Values, float64(count))
		}
	}
	return lineChart("Runs a minute in the last 3 hours", from, time.Minute, lines)
}

// Quarters are the same in steps of a quarter of an hour, the latest first, for the table.
func (h *rateHistory) Quarters() []rateMinute {
	var all []rateMinute
	for _, m := range h.Minutes {
		at := m.Time.Truncate(15 * time.Minute)
		if len(all) == 0 || !all[len(all)-1].Time.Equal(at) {
			all = append(all, rateMinute{Time: at})
		}
		last := &all[len(all)-1]
		last.Completed += m.Completed
		last.Failed += m.Failed
		last.Retried += m.Retried
	}
	slices.Reverse(all)
	return all
}

// IsEmpty reports whether no run was counted.
func (h *rateHistory) IsEmpty() bool {
	return !slices.ContainsFunc(h.Minutes, func(m rateMinute) bool {
		return m.Completed+m.Failed+m.Retried > 0
	})
}

// sumOfRates returns several rates together.
func sumOfRates(rates []qless.Rates) (sum qless.Rates) {
	var wait, run []qless.Percentiles
	for i := range rates {
		sum.Completed += rates[i].Completed
		sum.Failed += rates[i].Failed
		sum.Retried += rates[i].Retried
		wait = append(wait, rates[i].Wait)
		run = append(run, rates[i].Run)
	}
	sum.Wait, sum.Run = merged(wait), merged(run)
	return sum
}

// merged returns the percentiles of all durations together.
func merged(parts []qless.Percentiles) qless.Percentiles {
	var all qless.Percentiles
	counts := map[qless.Bucket]int{}
	for i := range parts {
		all.Count += parts[i].Count
		for _, b := range parts[i].Histogram {
			counts[qless.Bucket{From: b.From, To: b.To}] += b.Count
		}
	}
	for b, count := range counts {
		b.Count = count
		all.Histogram = append(all.Histogram, b)
	}
	slices.SortFunc(all.Histogram, func(a, b qless.Bucket) int { return cmp.Compare(a.From, b.From) })
	all.P50, all.P90, all.P99 = all.At(0.5), all.At(0.9), all.At(0.99)
	return all
}
