package qless

import (
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Percentiles summarize durations that were counted in a histogram. In JSON, durations are numbers
// of seconds.
//
// The buckets have fixed bounds, each √2 times the one before: 1 µs, 1.41 µs, 2 µs ... 9 days. A
// percentile is interpolated in its bucket, so it is off by less than the width of that, which is 41
// % of its lower bound.
type Percentiles struct {
	Count         int
	P50, P90, P99 time.Duration // half of the durations are less than P50; 0 if there are none
	Histogram     []Bucket      // shortest first, without empty buckets
}

// At returns another percentile, interpolated from the histogram: At(0.95) is more than 95 % of the
// durations. It returns 0 if there are none.
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

type percentilesJSON struct {
	Count     int      `json:"count"`
	P50       float64  `json:"p50"`
	P90       float64  `json:"p90"`
	P99       float64  `json:"p99"`
	Histogram []Bucket `json:"histogram"`
}

// MarshalJSON writes the durations in seconds.
func (p Percentiles) MarshalJSON() ([]byte, error) {
	return json.Marshal(percentilesJSON{
		p.Count, secondsOf(p.P50), secondsOf(p.P90), secondsOf(p.P99),
		append([]Bucket{}, p.Histogram...),
	})
}

// UnmarshalJSON reads what MarshalJSON writes.
func (p *Percentiles) UnmarshalJSON(text []byte) error {
	var decoded percentilesJSON
	err := json.Unmarshal(text, &decoded)
	*p = Percentiles{
		decoded.Count, durationOf(decoded.P50), durationOf(decoded.P90), durationOf(decoded.P99), nil,
	}
	if len(decoded.Histogram) > 0 {
		p.Histogram = decoded.Histogram
	}
	return err
}

// bounds are where the buckets of a histogram end, except for the last one, which has no end.
var bounds = func() (bounds [80]time.Duration) {
	for i := range bounds {
		bounds[i] = time.Duration(math.Round(float64(time.Microsecond) * math.Pow(2, float64(i)/2)))
	}
	return bounds
}()

// A histogram counts durations in each bucket.
type histogram [len(bounds) + 1]uint64

// add counts a duration.
func (h *histogram) add(d time.Duration) {
	i, exact := slices.BinarySearch(bounds[:], d)
	if exact {
		i++
	}
	h[i]++
}

// merge adds the counts of another histogram.
func (h *histogram) merge(other *histogram) {
	for i, count := range other {
		h[i] += count
	}
}

// appendTo appends the text that the server keeps.
func (h *histogram) appendTo(text []byte) []byte {
	separator := false
	for i, count := range h {
		if count == 0 {
			continue
		}
		if separator {
			text = append(text, ' ')
		}
		separator = true
		text = strconv.AppendInt(text, int64(i), 10)
		text = append(text, ':')
		text = strconv.AppendUint(text, count, 10)
	}
	return text
}

// read adds the counts of a text. It passes over what is damaged.
func (h *histogram) read(text string) {
	for field := range strings.FieldsSeq(text) {
		bucket, count, _ := strings.Cut(field, ":")
		i, err := strconv.Atoi(bucket)
		n, countErr := strconv.ParseUint(count, 10, 32)
		if err == nil && countErr == nil && i >= 0 && i < len(h) {
			h[i] += n
		}
	}
}

// percentiles returns what the histogram says.
func (h *histogram) percentiles() Percentiles {
	var p Percentiles
	for i, count := range h {
		if count == 0 {
			continue
		}
		p.Count += int(count)
		b := Bucket{Count: int(count)}
		if i > 0 {
			b.From = bounds[i-1]
		}
		b.To = bounds[min(i, len(bounds)-1)]
		p.Histogram = append(p.Histogram, b)
	}
	p.P50, p.P90, p.P99 = p.At(0.5), p.At(0.9), p.At(0.99)
	return p
}
