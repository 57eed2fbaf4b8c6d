package qless

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/qless/qless-go/internal/wire"
)

// Rates are how many jobs workers have ended in some time, and how long that took. Only those that
// a [Worker] has run are counted.
type Rates struct {
	// Completed counts jobs that were completed, for good or into another queue.
	Completed int `json:"completed"`

	// Failed counts jobs that have failed, at once or because they had no retries left.
	Failed int `json:"failed"`

	// Retried counts runs after which the job was retried.
	Retried int `json:"retried"`

	// Wait is how long those jobs waited until they were taken, as [Job.Waited] returns it.
	Wait Percentiles `json:"wait"`

	// Run is how long their handlers ran.
	Run Percentiles `json:"run"`
}

// A RatePoint has the rates of some minutes.
type RatePoint struct {
	Time time.Time `json:"time"` // when they begin
	Rates
}

// A RateGroup has the rates of a klass or a queue.
type RateGroup struct {
	Name string `json:"name"` // empty for what exceeds the limit: see [Client.Rates]
	Rates
}

// A RateFilter selects what to count. The zero value selects everything.
type RateFilter struct {
	Queue string // if not empty, only jobs of this queue
	Klass string // if not empty, only jobs of this klass
}

func (f RateFilter) check() error {
	for what, name := range map[string]string{"queue": f.Queue, "klass": f.Klass} {
		if name != "" {
			if err := checkName("rates", what, name); err != nil {
				return err
			}
		}
	}
	return nil
}

// maxRates is how long rates are kept.
const maxRates = 3 * 24 * time.Hour

// maxRateMinutes is how many minutes a script returns.
const maxRateMinutes = 60

// Rates returns the rates of the last days, a point for each step between two times. The step is a
// number of whole minutes. The first point begins at the last multiple of the step, since 1970 in
// UTC, that is not after from; the last one may go on after to. A point with nothing to count is
// there, with zeros.
//
// Workers count the runs of their jobs by queue and klass, and tell the server every 15 s and when
// they stop. So the rates are up to 15 s late, and a run may count for the minute before its end. A
// worker that is killed loses what it has not told. The server keeps the rates for 3 days, and so
// the two times may be at most 3 days apart. It keeps up to 500 queues and klasses for each minute,
// and the rest together, without names. A filter leaves those out.
//
// Rates runs a script for each hour between the two times.
func (c *Client) Rates(
	ctx context.Context, filter RateFilter, from, to time.Time, step time.Duration,
) ([]RatePoint, error) {
	return ratePoints(ctx, []*Client{c}, filter, from, to, step)
}

// KlassRates returns the rates between two times of each klass that was counted, by name. The times
// are those of minutes: the first is rounded down. See [Client.Rates].
func (c *Client) KlassRates(
	ctx context.Context, filter RateFilter, from, to time.Time,
) ([]RateGroup, error) {
	return rateGroups(ctx, []*Client{c}, filter, from, to, func(k rateKey) string { return k.klass })
}

// QueueRates returns the same as [Client.KlassRates] for each queue.
func (c *Client) QueueRates(
	ctx context.Context, filter RateFilter, from, to time.Time,
) ([]RateGroup, error) {
	return rateGroups(ctx, []*Client{c}, filter, from, to, func(k rateKey) string { return k.queue })
}

// Rates returns the rates of all shards together, as [Client.Rates] does.
func (s *Shards) Rates(
	ctx context.Context, filter RateFilter, from, to time.Time, step time.Duration,
) ([]RatePoint, error) {
	return ratePoints(ctx, s.clients, filter, from, to, step)
}

// KlassRates returns the rates of all shards together, as [Client.KlassRates] does.
func (s *Shards) KlassRates(
	ctx context.Context, filter RateFilter, from, to time.Time,
) ([]RateGroup, error) {
	return rateGroups(ctx, s.clients, filter, from, to, func(k rateKey) string { return k.klass })
}

// QueueRates returns the rates of all shards together, as [Client.QueueRates] does.
func (s *Shards) QueueRates(
	ctx context.Context, filter RateFilter, from, to time.Time,
) ([]RateGroup, error) {
	return rateGroups(ctx, s.clients, filter, from, to, func(k rateKey) string { return k.queue })
}

// A rateKey is what runs are counted by. The zero value is the rest.
type rateKey struct{ queue, klass string }

// parseRateKey reads the field of a minute: the length of the queue's name, the queue, the klass.
func parseRateKey(field string) (key rateKey, ok bool) {
	length, rest, _ := strings.Cut(field, ":")
	n, err := strconv.Atoi(length)
	if err != nil || n < 0 || n >= len(rest) || rest[n] != ':' {
		return rateKey{}, false
	}
	return rateKey{rest[:n], rest[n+1:]}, true
}

// runCounts counts runs.
type runCounts struct {
	completed, failed, retried int
	wait, run                  histogram
}

// merge adds other counts.
func (c *runCounts) merge(other *runCounts) {
	c.completed += other.completed
	c.failed += other.failed
	c.retried += other.retried
	c.wait.merge(&other.wait)
	c.run.merge(&other.run)
}

// text returns what the server keeps.
func (c *runCounts) text() string {
	text := make([]byte, 0, 64)
	text = strconv.AppendInt(text, int64(c.completed), 10)
	text = strconv.AppendInt(append(text, ','), int64(c.failed), 10)
	text = strconv.AppendInt(append(text, ','), int64(c.retried), 10)
	text = c.wait.appendTo(append(text, '|'))
	return string(c.run.appendTo(append(text, '|')))
}

// read adds what the server keeps. It passes over what is damaged.
func (c *runCounts) read(text string) {
	parts := strings.Split(text, "|")
	if len(parts) != 3 {
		return
	}
	numbers := strings.Split(parts[0], ",")
	for i, count := range []*int{&c.completed, &c.failed, &c.retried} {
		if i < len(numbers) {
			*count += wire.AsNumber(numbers[i]).Int()
		}
	}
	c.wait.read(parts[1])
	c.run.read(parts[2])
}

func (c *runCounts) rates() Rates {
	return Rates{
		Completed: c.completed, Failed: c.failed, Retried: c.retried,
		Wait: c.wait.percentiles(), Run: c.run.percentiles(),
	}
}

// A rateRange is the minutes between two times.
type rateRange struct {
	first int64 // in seconds since 1970
	count int   // of minutes
}

// rangeOf returns the minutes from a time, rounded down to a step, until another one.
func rangeOf(from, to time.Time, step time.Duration) (rateRange, error) {
	switch {
	case step < time.Minute || step%time.Minute != 0:
		return rateRange{}, invalid("rates", "", "the step %v is not a number of minutes", step)
	case step > maxRates:
		return rateRange{}, invalid("rates", "", "the step %v is more than %v", step, maxRates)
	case !from.Before(to):
		return rateRange{}, invalid("rates", "", "from %v is not before to %v", from, to)
	case to.Sub(from) > maxRates:
		return rateRange{}, invalid("rates", "", "from %v to %v is more than %v", from, to, maxRates)
	case from.Unix() < 0:
		return rateRange{}, invalid("rates", "", "from %v is before 1970", from)
	}
	width := int64(step / time.Second)
	first := from.Unix() / width * width
	steps := (to.Unix() - first + width - 1) / width
	if to.Nanosecond() > 0 && (to.Unix()-first)%width == 0 {
		steps++
	}
	return rateRange{first, int(max(steps, 1) * width / 60)}, nil
}

// ratePoints returns the rates of some namespaces together.
func ratePoints(
	ctx context.Context, clients []*Client, filter RateFilter, from, to time.Time, step time.Duration,
) ([]RatePoint, error) {
	minutes, err := rangeOf(from, to, step)
	if err != nil {
		return nil, err
	}
	width := int64(step / time.Second)
	sums := make([]runCounts, int64(minutes.count)*60/width)
	err = eachRate(ctx, clients, filter, minutes, func(at int64, _ rateKey, text string) {
		sums[(at-minutes.first)/width].read(text)
	})
	if err != nil {
		return nil, err
	}
	points := make([]RatePoint, len(sums))
	for i := range sums {
		points[i].Time = time.Unix(minutes.first+int64(i)*width, 0)
		points[i].Rates = sums[i].rates()
	}
	return points, nil
}

// rateGroups returns the rates of some namespaces together, by a name.
func rateGroups(
	ctx context.Context, clients []*Client, filter RateFilter, from, to time.Time,
	nameOf func(rateKey) string,
) ([]RateGroup, error) {
	minutes, err := rangeOf(from, to, time.Minute)
	if err != nil {
		return nil, err
	}
	sums := map[string]*runCounts{}
	err = eachRate(ctx, clients, filter, minutes, func(_ int64, key rateKey, text string) {
		name := nameOf(key)
		if sums[name] == nil {
			sums[name] = &runCounts{}
		}
		sums[name].read(text)
	})
	if err != nil {
		return nil, err
	}
	groups := make([]RateGroup, 0, len(sums))
	for _, name := range slices.Sorted(maps.Keys(sums)) {
		groups = append(groups, RateGroup{Name: name, Rates: sums[name].rates()})
	}
	return groups, nil
}

// eachRate calls a function for each minute, queue and klass that was counted.
func eachRate(
	ctx context.Context, clients []*Client, filter RateFilter, minutes rateRange,
	add func(at int64, key rateKey, text string),
) error {
	if err := filter.check(); err != nil {
		return err
	}
	for from := 0; from < minutes.count; from += maxRateMinutes {
		part := rateRange{minutes.first + 60*int64(from), min(maxRateMinutes, minutes.count-from)}
		replies, err := ask(clients, func(c *Client) ([]any, error) {
			return c.readRates(ctx, filter, part)
		})
		if err != nil {
			return err
		}
		for _, reply := range replies {
			addRates(reply, part, add)
		}
	}
	return nil
}

// readRates returns what a namespace has of some minutes.
func (c *Client) readRates(ctx context.Context, filter RateFilter, part rateRange) ([]any, error) {
	reply, err := c.run(ctx, "rates", "", strconv.FormatInt(part.first, 10), strconv.Itoa(part.count),
		filter.Queue, filter.Klass)
	if err != nil {
		return nil, err
	}
	items, ok := reply.([]any)
	if !ok {
		return nil, unexpected("rates", reply)
	}
	return items, nil
}

// addRates calls a function for each count in the reply of the script rates.
func addRates(reply []any, part rateRange, add func(at int64, key rateKey, text string)) {
	for i := 0; i+1 < len(reply); i += 2 {
		at, err := strconv.ParseInt(wire.AsString(reply[i]), 10, 64)
		values, ok := reply[i+1].([]any)
		if err != nil || !ok || at < part.first || at >= part.first+60*int64(part.count) {
			continue
		}
		for j := 0; j+1 < len(values); j += 2 {
			if key, ok := parseRateKey(wire.AsString(values[j])); ok {
				add(at, key, wire.AsString(values[j+1]))
			}
		}
	}
}
