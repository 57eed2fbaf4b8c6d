package rates

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"
)

// A tally has the rates of a span. They are read from the latest minute backwards: with the first
// reading the minutes that may still change, and no others unless that was quick; with each of the
// next ones a few more. Those of minutes that are over are kept.
type tally struct {
	span Span
	read Reader
	used time.Time

	mu     sync.Mutex
	past   []Part        // of minutes that are over, in order; none is in two cells
	recent []Part        // of the ones that may still change
	head   time.Time     // where recent begins
	at     time.Time     // when recent was read
	way    time.Duration // the shortest time that an answer took
}

const (
	// rateLate is the time after its end in which a minute may still change. Workers report every
	// 15 seconds.
	rateLate = time.Minute

	// rateStep is the time that is asked for first, and maxRateStep the longest that is asked for if
	// that is answered at once, so that no script takes long.
	rateStep    = time.Minute
	maxRateStep = time.Hour

	// rateCalls is the largest number of calls of a reading.
	rateCalls = 16

	// maxTallies is the number of tallies that are kept.
	maxTallies = 20
)

// ReadTime is the time that a reading may take besides the way to the server and back. Tests
// change it.
var ReadTime = 400 * time.Microsecond

// update reads what has changed, and some of what is not known yet.
func (t *tally) update(ctx context.Context, now time.Time) (Known, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	isFirst := t.at.IsZero()
	if now.Sub(t.at) >= t.span.Keep {
		if err := t.readRecent(ctx, now); err != nil {
			return Known{}, err
		}
	}
	known := Known{Begin: now.Add(t.span.Cell - t.span.Length).Truncate(t.span.Cell), To: t.at}
	t.past = slices.DeleteFunc(t.past, func(p Part) bool { return !p.To.After(known.Begin) })
	if !isFirst || t.way < ReadTime && !t.span.IsLight {
		if err := t.readPast(ctx, known.Begin); err != nil {
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
	if t.span.IsLight && t.at.IsZero() {
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

// readPast reads minutes that are over, the latest first, for as long as a reading may take.
func (t *tally) readPast(ctx context.Context, begin time.Time) error {
	step := rateStep
	var spent time.Duration
	for range rateCalls {
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
		if spent += took - t.way; spent >= ReadTime {
			return nil
		}
		if took-t.way < ReadTime/4 {
			step = min(2*step, maxRateStep)
		}
	}
	return nil
}

// missing returns the end of the latest minutes that are not known, or where the span begins.
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

// from returns from where on to read until a time: a step before that, but nothing that is known or
// in another cell.
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

// keep keeps a part, together with those beside it that are in its cell.
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

// Tallies are the rates that were viewed lately. The zero value is ready.
type Tallies struct {
	mu  sync.Mutex
	all map[string]*tally
}

// Read returns the rates with a key, as far as they are known.
func (a *Tallies) Read(ctx context.Context, key string, span Span, read Reader) (Known, error) {
	now := time.Now()
	return a.get(key, span, read, now).update(ctx, now)
}

func (a *Tallies) get(key string, span Span, read Reader, now time.Time) *tally {
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
		a.all[key] = &tally{span: span, read: read}
	}
	a.all[key].used = now
	return a.all[key]
}
