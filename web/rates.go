package web

import (
	"cmp"
	"context"
	"html/template"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/qless/qless-go"
)

const (
	// rateWindow is the time that the charts of rates show.
	rateWindow = 3 * time.Hour

	// rateAge is how old rates may be: workers tell theirs every 15 s.
	rateAge = 10 * time.Second

	// rateLate is for how long a minute may still change after its end.
	rateLate = 2 * time.Minute

	// rateStep is the time that is asked for at once, so that no script takes long.
	rateStep = 5 * time.Minute

	// maxKnownRates is how many filters have their rates kept.
	maxKnownRates = 100
)

// A rateHistory has the rates of the last hours, minute by minute.
type rateHistory struct {
	Points   []qless.RatePoint `json:"-"`
	Minutes  []rateMinute      `json:"minutes"`
	LastHour qless.Rates       `json:"last_hour"`
}

// A rateMinute has the counts of a minute.
type rateMinute struct {
	Time      time.Time `json:"time"`
	Completed int       `json:"completed"`
	Failed    int       `json:"failed"`
	Retried   int       `json:"retried"`
}

// rateHistory returns the rates of the last hours of what a filter selects.
func (s *site) rateHistory(ctx context.Context, filter qless.RateFilter) (*rateHistory, error) {
	key := "rates " + strconv.Quote(filter.Queue) + " " + strconv.Quote(filter.Klass)
	return sampledFor(ctx, &s.samples, rateAge, key, func(ctx context.Context) (*rateHistory, error) {
		points, err := s.rates.read(ctx, s.Client, filter, time.Now())
		if err != nil {
			return nil, err
		}
		history := &rateHistory{Points: points, Minutes: make([]rateMinute, len(points))}
		for i, p := range points {
			history.Minutes[i] = rateMinute{p.Time, p.Completed, p.Failed, p.Retried}
		}
		history.LastHour = sumOfRates(points[max(0, len(points)-60):])
		return history, nil
	})
}

// Chart draws what was completed, failed and retried in each minute.
func (h *rateHistory) Chart() template.HTML {
	if len(h.Minutes) == 0 {
		return ""
	}
	lines := []line{{Name: "Completed"}, {Name: "Failed"}, {Name: "Retried"}}
	for _, m := range h.Minutes {
		for i, count := range []int{m.Completed, m.Failed, m.Retried} {
			lines[i].Values = append(lines[i].Values, float64(count))
		}
	}
	return lineChart("Runs a minute in the last 3 hours", h.Minutes[0].Time, time.Minute, lines)
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

// sumOfRates returns the rates of several minutes together.
func sumOfRates(points []qless.RatePoint) (sum qless.Rates) {
	var wait, run []qless.Percentiles
	for i := range points {
		sum.Completed += points[i].Completed
		sum.Failed += points[i].Failed
		sum.Retried += points[i].Retried
		wait = append(wait, points[i].Wait)
		run = append(run, points[i].Run)
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

// knownRates keeps the minutes that have been read, since those that are over do not change.
type knownRates struct {
	mu  sync.Mutex
	all map[qless.RateFilter][]qless.RatePoint
}

// read returns the points of the last hours, and asks for those that are not known.
func (k *knownRates) read(
	ctx context.Context, client *qless.Client, filter qless.RateFilter, now time.Time,
) ([]qless.RatePoint, error) {
	from := now.Truncate(time.Minute).Add(-rateWindow)
	var points []qless.RatePoint
	for _, p := range k.get(filter) {
		if !p.Time.Before(from) && p.Time.Before(now.Add(-rateLate-time.Minute)) {
			points = append(points, p)
		}
	}
	if n := len(points); n > 0 {
		from = points[n-1].Time.Add(time.Minute)
	}
	for ; !from.After(now); from = from.Add(rateStep) {
		to := from.Add(rateStep)
		if to.After(now) {
			to = now.Add(time.Millisecond)
		}
		part, err := client.Rates(ctx, filter, from, to, time.Minute)
		if err != nil {
			return nil, err
		}
		points = append(points, part...)
	}
	k.put(filter, points)
	return points, nil
}

func (k *knownRates) get(filter qless.RateFilter) []qless.RatePoint {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.all[filter]
}

func (k *knownRates) put(filter qless.RateFilter, points []qless.RatePoint) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.all == nil || len(k.all) >= maxKnownRates {
		k.all = map[qless.RateFilter][]qless.RatePoint{}
	}
	k.all[filter] = slices.Clip(points)
}
