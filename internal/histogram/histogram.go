// Package histogram counts durations in buckets, like workers and the server.
package histogram

import (
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/qless/qless-go/internal/units"
)

// A Bucket counts the durations in [From, To).
type Bucket struct {
	From, To time.Duration
	Count    int
}

type bucketJSON struct {
	From  units.Text `json:"from"`
	To    units.Text `json:"to"`
	Count int        `json:"count"`
}

// MarshalJSON writes the durations as text.
func (b Bucket) MarshalJSON() ([]byte, error) {
	return json.Marshal(bucketJSON{units.Text(b.From), units.Text(b.To), b.Count})
}

// UnmarshalJSON reads the output of MarshalJSON.
func (b *Bucket) UnmarshalJSON(text []byte) error {
	var decoded bucketJSON
	err := json.Unmarshal(text, &decoded)
	*b = Bucket{time.Duration(decoded.From), time.Duration(decoded.To), decoded.Count}
	return err
}

// bounds are the ends of the buckets of a histogram, except for the last bucket, which has no end.
var bounds = func() (bounds [80]time.Duration) {
	for i := range bounds {
		bounds[i] = time.Duration(math.Round(float64(time.Microsecond) * math.Pow(2, float64(i)/2)))
	}
	return bounds
}()

// A Histogram counts durations in each bucket.
type Histogram [len(bounds) + 1]uint64

// Add counts a duration.
func (h *Histogram) Add(d time.Duration) {
	i, exact := slices.BinarySearch(bounds[:], d)
	if exact {
		i++
	}
	h[i]++
}

// Merge adds the counts of another Histogram.
func (h *Histogram) Merge(other *Histogram) {
	for i, count := range other {
		h[i] += count
	}
}

// AppendTo appends the histogram in the stored form.
func (h *Histogram) AppendTo(text []byte) []byte {
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

// Read adds the counts of a text, skipping damaged parts.
func (h *Histogram) Read(text string) {
	for field := range strings.FieldsSeq(text) {
		bucket, count, _ := strings.Cut(field, ":")
		i, err := strconv.Atoi(bucket)
		n, countErr := strconv.ParseUint(count, 10, 32)
		if err == nil && countErr == nil && i >= 0 && i < len(h) {
			h[i] += n
		}
	}
}

// Buckets returns the nonempty buckets, shortest first.
func (h *Histogram) Buckets() []Bucket {
	var buckets []Bucket
	for i, count := range h {
		if count == 0 {
			continue
		}
		b := Bucket{Count: int(count)}
		if i > 0 {
			b.From = bounds[i-1]
		}
		b.To = bounds[min(i, len(bounds)-1)]
		buckets = append(buckets, b)
	}
	return buckets
}
