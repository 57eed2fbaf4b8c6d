package inspect

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/histogram"
	"github.com/qless/qless-go/internal/runs"
	"github.com/qless/qless-go/internal/units"
	"github.com/qless/qless-go/internal/wire"
)

// A RateQuery selects rates. From and To are required and at most 3 days apart.
type RateQuery struct {
	From, To time.Time
	Step     time.Duration // whole minutes; defaults to one
	Queue    string        // if not empty, jobs of this queue only
	Klass    string        // if not empty, jobs of this klass only
}

// maxRates is how long rates are kept.
const maxRates = 3 * 24 * time.Hour

// maxRateMinutes is the number of minutes that a script returns.
const maxRateMinutes = 60

// check returns an error if the query is invalid.
func (q RateQuery) check() error {
	for _, of := range []struct{ what, name string }{{"queue", q.Queue}, {"klass", q.Klass}} {
		if of.name != "" {
			if err := checkName("rates", of.what, of.name); err != nil {
				return err
			}
		}
	}
	switch {
	case q.Step < time.Minute || q.Step%time.Minute != 0:
		return invalid("rates", "the step %v is not a number of minutes", q.Step)
	case q.Step > maxRates:
		return invalid("rates", "the step %v is more than %v", q.Step, maxRates)
	case !q.From.Before(q.To):
		return invalid("rates", "from %v is not before to %v", q.From, q.To)
	case q.To.Sub(q.From) > maxRates:
		return invalid("rates", "from %v to %v is more than %v", q.From, q.To, maxRates)
	case q.From.Unix() < 0:
		return invalid("rates", "from %v is before 1970", q.From)
	}
	return nil
}

// minutes returns the first minute, in seconds since 1970, and the number of minutes, rounded up to
// whole steps.
func (q RateQuery) minutes() (first int64, count int) {
	width := int64(q.Step / time.Second)
	first = q.From.Unix() / width * width
	steps := (q.To.Unix() - first + width - 1) / width
	if q.To.Nanosecond() > 0 && (q.To.Unix()-first)%width == 0 {
		steps++
	}
	return first, int(max(steps, 1) * width / 60)
}

// Rates hold the numbers and durations of the runs that ended within a period. Only runs by a
// [qless.Worker] are counted.
type Rates struct {
	Completed int         `json:"completed"` // completed, or moved to the next queue
	Failed    int         `json:"failed"`    // failed, at once or without retries left
	Retried   int         `json:"retried"`   // runs after which the job was retried
	Wait      Percentiles `json:"wait"`      // until the job was popped, as in [qless.Job.Waited]
	Run       Percentiles `json:"run"`       // of the handler
}

// Add adds the rates of another period or namespace, such as those of another shard.
func (r *Rates) Add(other Rates) {
	r.Completed += other.Completed
	r.Failed += other.Failed
	r.Retried += other.Retried
	r.Wait.add(other.Wait)
	r.Run.add(other.Run)
}

func ratesOf(c *runs.Counts) Rates {
	return Rates{
		Completed: c.Completed, Failed: c.Failed, Retried: c.Retried,
		Wait: percentilesOf(&c.Wait), Run: percentilesOf(&c.Run),
	}
}

// A RatePoint holds the rates of a step.
type RatePoint struct {
	Time time.Time `json:"time"` // the beginning of the step
	Rates
}

// A RateGroup holds the rates of a klass or a queue.
type RateGroup struct {
	Name string `json:"name"` // empty for names beyond the first 500 of a minute
	Rates
}

// Rates returns the rates of a period, one point for each step. The first point begins at the last
// multiple of the step since 1970 (UTC) that is not after From; the last one may end after To.
// Steps in which no job ended are included, with zeros.
//
// Workers of this package report the runs of their jobs by queue and klass every 15 s and when they
// stop, so rates are up to 15 s late, and a run may count for the minute before its end. A killed
// worker loses its unreported runs. The server keeps 3 days, with up to 500 queues and klasses by
// name in each minute. Rates runs a script for each hour.
func (in *Inspector) Rates(ctx context.Context, query RateQuery) ([]RatePoint, error) {
	if query.Step == 0 {
		query.Step = time.Minute
	}
	if err := query.check(); err != nil {
		return nil, err
	}
	width := int64(query.Step / time.Second)
	first, count := query.minutes()
	sums := make([]runs.Counts, int64(count)*60/width)
	err := in.eachRate(ctx, query, func(at int64, _ runs.Key, text string) {
		sums[(at-first)/width].Read(text)
	})
	if err != nil {
		return nil, err
	}
	points := make([]RatePoint, len(sums))
	for i := range sums {
		points[i].Time = time.Unix(first+int64(i)*width, 0)
		points[i].Rates = ratesOf(&sums[i])
	}
	return points, nil
}

// RatesByKlass returns the rates of a period for each klass, sorted by name. The Step is ignored.
func (in *Inspector) RatesByKlass(ctx context.Context, query RateQuery) ([]RateGroup, error) {
	return in.rateGroups(ctx, query, func(k runs.Key) string { return k.Klass })
}

// RatesByQueue returns the rates of a period for each queue, sorted by name. The Step is ignored.
func (in *Inspector) RatesByQueue(ctx context.Context, query RateQuery) ([]RateGroup, error) {
	return in.rateGroups(ctx, query, func(k runs.Key) string { return k.Queue })
}

func (in *Inspector) rateGroups(
	ctx context.Context, query RateQuery, nameOf func(runs.Key) string,
) ([]RateGroup, error) {
	query.Step = time.Minute
	if err := query.check(); err != nil {
		return nil, err
	}
	sums := map[string]*runs.Counts{}
	err := in.eachRate(ctx, query, func(_ int64, key runs.Key, text string) {
		name := nameOf(key)
		if sums[name] == nil {
			sums[name] = &runs.Counts{}
		}
		sums[name].Read(text)
	})
	if err != nil {
		return nil, err
	}
	groups := make([]RateGroup, 0, len(sums))
	for _, name := range slices.Sorted(maps.Keys(sums)) {
		groups = append(groups, RateGroup{Name: name, Rates: ratesOf(sums[name])})
	}
	return groups, nil
}

// eachRate calls a function for each counted minute, queue and klass.
func (in *Inspector) eachRate(
	ctx context.Context, query RateQuery, add func(at int64, key runs.Key, text string),
) error {
	first, count := query.minutes()
	for from := 0; from < count; from += maxRateMinutes {
		begin, minutes := first+60*int64(from), min(maxRateMinutes, count-from)
		reply, err := in.client.Do(ctx, "rates", begin, minutes, query.Queue, query.Klass)
		if err != nil {
			return err
		}
		list, ok := reply.([]any)
		if !ok {
			return unexpected("rates", reply)
		}
		for minute := range slices.Chunk(list, 2) {
			at, err := strconv.ParseInt(wire.AsString(minute[0]), 10, 64)
			if err == nil && len(minute) == 2 && at >= begin && at < begin+60*int64(minutes) {
				addRates(at, items(minute[1]), add)
			}
		}
	}
	return nil
}

// addRates calls a function for each count of a minute.
func addRates(at int64, values []any, add func(at int64, key runs.Key, text string)) {
	for i := 0; i+1 < len(values); i += 2 {
		if key, ok := runs.ParseKey(wire.AsString(values[i])); ok {
			add(at, key, wire.AsString(values[i+1]))
		}
	}
}

// Percentiles summarize durations counted in buckets, each √2 times as wide as the previous one: 1
// µs, 1.41 µs, 2 µs and so on, up to 9 days. A percentile is interpolated in its bucket, and is off
// by less than 41 %.
type Percentiles struct {
	Count         int
	P50, P90, P99 time.Duration  // half of the durations are shorter than P50; 0 without durations
	Histogram     []qless.Bucket // shortest first, without empty buckets
}

// At returns another percentile: At(0.95) is longer than 95 % of the durations. Without durations,
// At returns 0.
func (p Percentiles) At(part float64) time.Duration {
	rank := part * float64(p.Count)
	for _, b := range p.Histogram {
		if rank <= float64(b.Count) {
			inside := max(rank, 0) / float64(b.Count)
			return b.From + time.Duration(inside*float64(b.To-b.From))
		}
		rank -= float64(b.Count)
	}
	if n := len(p.Histogram); n > 0 {
		return p.Histogram[n-1].To
	}
	return 0
}

// percentilesOf returns the percentiles of counted durations.
func percentilesOf(h *histogram.Histogram) Percentiles {
	var p Percentiles
	for _, b := range h.Buckets() {
		p.Count += b.Count
		p.Histogram = append(p.Histogram, qless.Bucket(b))
	}
	return p.measured()
}

// measured sets the percentiles from the histogram.
func (p Percentiles) measured() Percentiles {
	p.P50, p.P90, p.P99 = p.At(0.5), p.At(0.9), p.At(0.99)
	return p
}

type percentilesJSON struct {
	Count     int                `json:"count"`
	P50       units.Text         `json:"p50"`
	P90       units.Text         `json:"p90"`
	P99       units.Text         `json:"p99"`
	Histogram []histogram.Bucket `json:"histogram"`
}

// MarshalJSON writes durations as text.
func (p Percentiles) MarshalJSON() ([]byte, error) {
	written := percentilesJSON{
		p.Count, units.Text(p.P50), units.Text(p.P90), units.Text(p.P99), []histogram.Bucket{},
	}
	for _, b := range p.Histogram {
		written.Histogram = append(written.Histogram, histogram.Bucket(b))
	}
	return json.Marshal(written)
}

// UnmarshalJSON reads the output of MarshalJSON.
func (p *Percentiles) UnmarshalJSON(text []byte) error {
	var decoded percentilesJSON
	err := json.Unmarshal(text, &decoded)
	*p = Percentiles{
		decoded.Count, time.Duration(decoded.P50), time.Duration(decoded.P90),
		time.Duration(decoded.P99), nil,
	}
	for _, b := range decoded.Histogram {
		p.Histogram = append(p.Histogram, qless.Bucket(b))
	}
	return err
}

// add adds other durations.
func (p *Percentiles) add(other Percentiles) {
	p.Count += other.Count
	buckets := slices.Clone(p.Histogram)
	for _, b := range other.Histogram {
		i, found := slices.BinarySearchFunc(buckets, b, func(a, b qless.Bucket) int {
			return cmp.Or(cmp.Compare(a.To, b.To), cmp.Compare(a.From, b.From))
		})
		if found {
			buckets[i].Count += b.Count
		} else {
			buckets = slices.Insert(buckets, i, b)
		}
	}
	p.Histogram = buckets
	*p = p.measured()
}
