package rates

import (
	"cmp"
	"context"
	"maps"
	"math"
	"slices"
	"sync"
	"time"
)

// A tally caches the rates of a span. It reads the rates from the latest minute backwards: all at
// first, unless the server is slow or has many, and then a few more with each reading. The rates of
// past minutes are kept.
type tally struct {
	span Span
	read Reader
	used time.Time

	mu     sync.Mutex
	past   []Part        // of past minutes, in order; none spans two cells
	recent []Part        // of minutes that may still change
	head   time.Time     // the beginning of recent
	at     time.Time     // when recent was read
	way    time.Duration // the shortest round trip
}

const (
	// rateLate is how long after its end a minute may still change. Workers report every 15 seconds.
	rateLate = time.Minute

	// rateStep is the span of the first request, and maxRateStep the longest span of a request after
	// quick answers, to keep scripts short.
	rateStep    = time.Minute
	maxRateStep = time.Hour

	// maxReading is the maximum time of a reading, including the round trips to a distant server.
	maxReading = 100 * time.Millisecond

	// maxTallies is the maximum number of tallies kept.
	maxTallies = 20
)

// FirstTime is the maximum time of the first reading without the round trips, and ReadTime of each
// later reading. Tests change both.
var (
	FirstTime = 25 * time.Millisecond
	ReadTime  = 400 * time.Microsecond
)

// update reads the rates that have changed, and some unknown rates.
func (t *tally) update(ctx context.Context, span Span, now time.Time) (Known, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.span = span
	isFirst := t.at.IsZero()
	if now.Sub(t.at) >= t.span.Keep {
		if err := t.readRecent(ctx, now); err != nil {
			return Known{}, err
		}
	}
	known := Known{Begin: now.Add(t.span.Cell - t.span.Length).Truncate(t.span.Cell), To: t.at}
	t.past = slices.DeleteFunc(t.past, func(p Part) bool { return !p.To.After(known.Begin) })
	most, groups := ReadTime, math.MaxInt
	if isFirst {
		most, groups = FirstTime, cmp.Or(t.span.First, groups)-sizeOf(t.recent)
	}
	if !isFirst || t.way < most && groups > 0 {
		if err := t.readPast(ctx, known.Begin, most, groups); err != nil {
			return Known{}, err
		}
	}
	known.Since = t.missing(known.Begin)
	known.HasMore = known.Since.After(known.Begin)
	for _, p := range slices.Concat(t.past, t.recent) {
		if !p.From.Before(known.Since) {
			known.Parts = append(known.Parts, p)
		}
	}
	return known, nil
}

// readRecent reads the minutes that may still change.
func (t *tally) readRecent(ctx context.Context, now time.Time) error {
	head, to := now.Add(-rateLate).Truncate(time.Minute), now.Add(time.Millisecond)
	if t.span.First > 0 && t.at.IsZero() {
		to = now.Truncate(time.Minute)
		now = to
	}
	began := time.Now()
	recent, err := t.read(ctx, head, to)
	if err != nil {
		return err
	}
	t.way = time.Since(began)
	t.recent, t.head, t.at = recent, head, now
	return nil
}

// readPast reads past minutes, the latest first, until its time is over or some groups were read.
func (t *tally) readPast(
	ctx context.Context, begin time.Time, most time.Duration, groups int,
) error {
	step := rateStep
	var spent time.Duration
	for start := time.Now(); time.Since(start) < maxReading; {
		to := t.missing(begin)
		if !to.After(begin) {
			return nil
		}
		began := time.Now()
		parts, err := t.read(ctx, t.from(to, begin, step), to)
		if err != nil {
			return err
		}
		for _, p := range parts {
			t.keep(p)
		}
		took := time.Since(began)
		t.way = min(t.way, took)
		spent += took - t.way
		groups -= sizeOf(parts)
		if spent >= most || groups <= 0 {
			return nil
		}
		if took-t.way < most/8 {
			step = min(2*step, maxRateStep)
		}
	}
	return nil
}

// sizeOf returns the number of groups in parts.
func sizeOf(parts []Part) (n int) {
	for i := range parts {
		n += len(parts[i].Groups)
	}
	return n
}

// missing returns the end of the latest unknown minutes, or the beginning of the span.
func (t *tally) missing(begin time.Time) time.Time {
	to := t.head
	for _, p := range slices.Backward(t.past) {
		if p.To.Before(to) {
			break
		}
		to = p.From
	}
	if to.Before(begin) {
		return begin
	}
	return to
}

// from returns the beginning of a reading that ends at to: a step earlier, but not before the known
// part or the cell.
func (t *tally) from(to, begin time.Time, step time.Duration) time.Time {
	from := to.Add(-step)
	if cell := to.Add(-time.Minute).Truncate(t.span.Cell); t.span.Cell > time.Minute {
		from = latest(from, cell)
	}
	for _, p := range slices.Backward(t.past) {
		if !p.To.After(to) {
			from = latest(from, p.To)
			break
		}
	}
	return latest(from, begin)
}

// keep stores a part, and merges adjacent parts in its cell.
func (t *tally) keep(p Part) {
	cell := p.From.Truncate(t.span.Cell)
	t.past = slices.DeleteFunc(t.past, func(other Part) bool {
		isBeside := other.From.Equal(p.To) || other.To.Equal(p.From)
		if !isBeside || !other.From.Truncate(t.span.Cell).Equal(cell) {
			return false
		}
		p.Add(other)
		return true
	})
	at, _ := slices.BinarySearchFunc(t.past, p.From, func(other Part, from time.Time) int {
		return other.From.Compare(from)
	})
	t.past = slices.Insert(t.past, at, p)
}

// Tallies are the recently viewed rates. The zero value is ready to use.
type Tallies struct {
	mu  sync.Mutex
	all map[string]*tally
}

// Read returns the known rates with a key. The spans of a key differ only in length and end.
func (a *Tallies) Read(ctx context.Context, key string, span Span, read Reader) (Known, error) {
	now := time.Now()
	known := a.get(key, read, now)
	if !span.Until.IsZero() {
		now = span.Until
	}
	return known.update(ctx, span, now)
}

func (a *Tallies) get(key string, read Reader, now time.Time) *tally {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.all == nil {
		a.all = map[string]*tally{}
	}
	if a.all[key] == nil {
		if len(a.all) >= maxTallies {
			delete(a.all, slices.MinFunc(slices.Collect(maps.Keys(a.all)), func(one, other string) int {
				return a.all[one].used.Compare(a.all[other].used)
			}))
		}
		a.all[key] = &tally{read: read}
	}
	a.all[key].used = now
	return a.all[key]
}
