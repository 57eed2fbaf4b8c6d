package web

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/qless/qless-go"
)

const (
	// rateLate is for how long a minute may still change after its end. Workers say every 15
	// seconds what they have counted.
	rateLate = time.Minute

	// rateStep is the time that is asked for first, and maxRateStep what is asked for if that is
	// answered at once, so that no script takes long.
	rateStep    = time.Minute
	maxRateStep = time.Hour

	// rateCalls is how often a look asks at most.
	rateCalls = 16

	// maxTallies is how many tallies are kept.
	maxTallies = 20
)

// rateTime is how long a look may take besides the way to the server and back. Tests change it.
var rateTime = 400 * time.Microsecond

// A ratePart has the rates of some minutes.
type ratePart struct {
	from, to time.Time
	groups   []qless.RateGroup
}

// sum returns the rates of all groups together.
func (p *ratePart) sum() qless.Rates {
	if len(p.groups) == 1 {
		return p.groups[0].Rates
	}
	all := make([]qless.Rates, len(p.groups))
	for i := range p.groups {
		all[i] = p.groups[i].Rates
	}
	return sumOfRates(all)
}

// add adds the rates of minutes before or after those of a part.
func (p *ratePart) add(other ratePart) {
	byName := map[string][]qless.Rates{}
	for _, group := range slices.Concat(p.groups, other.groups) {
		byName[group.Name] = append(byName[group.Name], group.Rates)
	}
	p.groups = make([]qless.RateGroup, 0, len(byName))
	for name, rates := range byName {
		p.groups = append(p.groups, qless.RateGroup{Name: name, Rates: sumOfRates(rates)})
	}
	if other.from.Before(p.from) {
		p.from = other.from
	}
	if other.to.After(p.to) {
		p.to = other.to
	}
}

// A rateReader reads the rates of some minutes, in order.
type rateReader func(ctx context.Context, from, to time.Time) ([]ratePart, error)

// minutesOf reads what a filter selects minute by minute.
func (s *site) minutesOf(filter qless.RateFilter) rateReader {
	return func(ctx context.Context, from, to time.Time) ([]ratePart, error) {
		points, err := s.Client.Rates(ctx, filter, from, to, time.Minute)
		parts := make([]ratePart, len(points))
		for i, p := range points {
			parts[i] = ratePart{p.Time, p.Time.Add(time.Minute), []qless.RateGroup{{Rates: p.Rates}}}
		}
		return parts, err
	}
}

// queueRates reads all rates by queue, minute by minute.
func (s *site) queueRates(ctx context.Context, from, to time.Time) (parts []ratePart, err error) {
	for at := from; at.Before(to); at = at.Add(time.Minute) {
		p := ratePart{from: at, to: at.Add(time.Minute)}
		if p.groups, err = s.Client.QueueRates(ctx, qless.RateFilter{}, p.from, p.to); err != nil {
			return nil, err
		}
		parts = append(parts, p)
	}
	return parts, nil
}

// klassesOf reads what a filter selects by klass.
func (s *site) klassesOf(filter qless.RateFilter) rateReader {
	return func(ctx context.Context, from, to time.Time) ([]ratePart, error) {
		groups, err := s.Client.KlassRates(ctx, filter, from, to)
		return []ratePart{{from, to, groups}}, err
	}
}

// A tally has the rates of a span. They are read from the latest minute backwards: with the first
// look those that may still change, and no others unless that was quick; with each of the next ones
// a few more. Those of minutes that are over are kept.
type tally struct {
	span rateSpan
	read rateReader
	used time.Time

	mu     sync.Mutex
	past   []ratePart    // of minutes that are over, in order; none is in two cells
	recent []ratePart    // of those that may still change
	head   time.Time     // where recent begins
	at     time.Time     // when recent was read
	way    time.Duration // the shortest time that an answer took
}

// A knownTally is what is known after a look.
type knownTally struct {
	begin, to time.Time  // of the span; to is when its end was read
	since     time.Time  // all from then on is known
	parts     []ratePart // in order, from since on
}

// look reads what has changed, and some of what is not known yet.
func (t *tally) look(ctx context.Context, now time.Time) (knownTally, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	isFirst := t.at.IsZero()
	if now.Sub(t.at) >= t.span.keep {
		if err := t.readRecent(ctx, now); err != nil {
			return knownTally{}, err
		}
	}
	known := knownTally{begin: now.Add(t.span.cell - t.span.Length).Truncate(t.span.cell), to: t.at}
	t.past = slices.DeleteFunc(t.past, func(p ratePart) bool { return !p.to.After(known.begin) })
	if !isFirst || t.way < rateTime && !t.span.isLight {
		if err := t.readPast(ctx, known.begin); err != nil {
			return knownTally{}, err
		}
	}
	known.since = t.missing(known.begin)
	for _, p := range slices.Concat(t.past, t.recent) {
		if !p.from.Before(known.since) {
			known.parts = append(known.parts, p)
		}
	}
	return known, nil
}

// readRecent reads the minutes that may still change.
func (t *tally) readRecent(ctx context.Context, now time.Time) error {
	head, to := now.Add(-rateLate).Truncate(time.Minute), now.Add(time.Millisecond)
	if t.span.isLight && t.at.IsZero() {
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

// readPast reads minutes that are over, the latest first, for as long as a look may take.
func (t *tally) readPast(ctx context.Context, begin time.Time) error {
	step := rateStep
	var spent time.Duration
	calls := rateCalls
	if t.span.isLight {
		calls = 1
	}
	for range calls {
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
		if spent += took - t.way; spent >= rateTime {
			return nil
		}
		if took-t.way < rateTime/4 {
			step = min(2*step, maxRateStep)
		}
	}
	return nil
}

// missing returns the end of the latest minutes that are not known, or where the span begins.
func (t *tally) missing(begin time.Time) time.Time {
	to := t.head
	for _, p := range slices.Backward(t.past) {
		if p.to.Before(to) {
			break
		}
		to = p.from
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
	if cell := to.Add(-time.Minute).Truncate(t.span.cell); t.span.cell > time.Minute {
		from = latest(from, cell)
	}
	for _, p := range slices.Backward(t.past) {
		if !p.to.After(to) {
			from = latest(from, p.to)
			break
		}
	}
	return latest(from, begin)
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// keep keeps a part, together with those beside it that are in its cell.
func (t *tally) keep(p ratePart) {
	cell := p.from.Truncate(t.span.cell)
	t.past = slices.DeleteFunc(t.past, func(other ratePart) bool {
		isBeside := other.from.Equal(p.to) || other.to.Equal(p.from)
		if !isBeside || !other.from.Truncate(t.span.cell).Equal(cell) {
			return false
		}
		p.add(other)
		return true
	})
	at, _ := slices.BinarySearchFunc(t.past, p.from, func(other ratePart, from time.Time) int {
		return other.from.Compare(from)
	})
	t.past = slices.Insert(t.past, at, p)
}

// points returns the rates in steps, from the first of which something is known.
func (k *knownTally) points(step time.Duration) []qless.RatePoint {
	points := []qless.RatePoint{}
	var same []qless.Rates
	for i := range k.parts {
		at := k.parts[i].from.Truncate(step)
		if n := len(points); n == 0 || !points[n-1].Time.Equal(at) {
			same = nil
			points = append(points, qless.RatePoint{Time: at})
		}
		same = append(same, k.parts[i].sum())
		points[len(points)-1].Rates = sumOfRates(same)
	}
	return points
}

// tallies are those that somebody has looked at lately.
type tallies struct {
	mu  sync.Mutex
	all map[string]*tally
}

// look looks at the tally with a key.
func (a *tallies) look(
	ctx context.Context, key string, span rateSpan, read rateReader,
) (knownTally, error) {
	now := time.Now()
	return a.get(key, span, read, now).look(ctx, now)
}

func (a *tallies) get(key string, span rateSpan, read rateReader, now time.Time) *tally {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.all == nil {
		a.all = map[string]*tally{}
	}
	if a.all[key] == nil {
		if len(a.all) >= maxTallies {
			delete(a.all, a.oldest())
		}
		a.all[key] = &tally{span: span, read: read}
	}
	a.all[key].used = now
	return a.all[key]
}

// oldest returns the key of the tally that nobody has looked at for the longest time.
func (a *tallies) oldest() string {
	keys := make([]string, 0, len(a.all))
	for key := range a.all {
		keys = append(keys, key)
	}
	return slices.MinFunc(keys, func(one, other string) int {
		return cmp.Compare(a.all[one].used.UnixNano(), a.all[other].used.UnixNano())
	})
}
