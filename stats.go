package qless

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/qless/qless-go/internal/wire"
)

// Stats are the statistics of a queue on one day (UTC).
type Stats struct {
	Expired  int     `json:"expired"`  // jobs whose [StartBy] or [TTL] was over before they had ended
	Failed   int     `json:"failed"`   // jobs that failed that day and are still failed
	Failures int     `json:"failures"` // failures
	Retries  int     `json:"retries"`  // locks that workers lost
	Wait     Summary `json:"wait"`     // from put to pop, of the jobs popped that day
	Run      Summary `json:"run"`      // from pop to complete, of the jobs completed that day
}

// A Summary summarizes durations. In JSON, durations are numbers of seconds.
type Summary struct {
	Count     int
	Mean      time.Duration
	Std       time.Duration // the standard deviation
	Histogram []Bucket      // shortest first, without empty buckets
}

// A Bucket counts the durations in [From, To). In JSON, durations are numbers of seconds.
type Bucket struct {
	From, To time.Duration
	Count    int
}

type summaryJSON struct {
	Count     int      `json:"count"`
	Mean      float64  `json:"mean"`
	Std       float64  `json:"std"`
	Histogram []Bucket `json:"histogram"`
}

// MarshalJSON writes the durations in seconds.
func (s Summary) MarshalJSON() ([]byte, error) {
	buckets := append([]Bucket{}, s.Histogram...)
	return json.Marshal(summaryJSON{s.Count, secondsOf(s.Mean), secondsOf(s.Std), buckets})
}

// UnmarshalJSON reads what MarshalJSON writes.
func (s *Summary) UnmarshalJSON(text []byte) error {
	var decoded summaryJSON
	err := json.Unmarshal(text, &decoded)
	*s = Summary{decoded.Count, durationOf(decoded.Mean), durationOf(decoded.Std), nil}
	if len(decoded.Histogram) > 0 {
		s.Histogram = decoded.Histogram
	}
	return err
}

type bucketJSON struct {
	From  float64 `json:"from"`
	To    float64 `json:"to"`
	Count int     `json:"count"`
}

// MarshalJSON writes the durations in seconds.
func (b Bucket) MarshalJSON() ([]byte, error) {
	return json.Marshal(bucketJSON{secondsOf(b.From), secondsOf(b.To), b.Count})
}

// UnmarshalJSON reads what MarshalJSON writes.
func (b *Bucket) UnmarshalJSON(text []byte) error {
	var decoded bucketJSON
	err := json.Unmarshal(text, &decoded)
	*b = Bucket{durationOf(decoded.From), durationOf(decoded.To), decoded.Count}
	return err
}

func secondsOf(d time.Duration) float64 { return float64(d) / float64(time.Second) }

// durationOf rounds, so that seconds with a fraction survive being written and read.
func durationOf(seconds float64) time.Duration {
	return time.Duration(math.Round(seconds * float64(time.Second)))
}

// String returns the summary on one line.
func (s Summary) String() string {
	return fmt.Sprintf("%d jobs, %v on average (std %v)",
		s.Count, s.Mean.Round(time.Microsecond), s.Std.Round(time.Microsecond))
}

// Stats returns the queue's statistics for the day (UTC) of a time. [ConfigStatsHistory] says how
// long they are kept, and [ConfigHistogramHistory] how long their histograms
// are kept.
func (q *Queue) Stats(ctx context.Context, day time.Time) (Stats, error) {
	if err := q.check("stats"); err != nil {
		return Stats{}, err
	}
	reply, err := q.client.run(ctx, "stats", "", q.name, strconv.FormatInt(day.Unix(), 10))
	if err != nil {
		return Stats{}, err
	}
	r, err := decode[statsReply]("stats", reply)
	return Stats{
		Expired:  r.Expired.Int(),
		Failed:   r.Failed.Int(),
		Failures: r.Failures.Int(),
		Retries:  r.Retries.Int(),
		Wait:     r.Wait.summary(),
		Run:      r.Run.summary(),
	}, err
}

type statsReply struct {
	Expired  wire.Number  `json:"expired"`
	Failed   wire.Number  `json:"failed"`
	Failures wire.Number  `json:"failures"`
	Retries  wire.Number  `json:"retries"`
	Wait     summaryReply `json:"wait"`
	Run      summaryReply `json:"run"`
}

type summaryReply struct {
	Count     wire.Number            `json:"count"`
	Mean      wire.Number            `json:"mean"`
	Std       wire.Number            `json:"std"`
	Histogram wire.List[wire.Number] `json:"histogram"`
}

func (r summaryReply) summary() Summary {
	s := Summary{Count: r.Count.Int(), Mean: r.Mean.Duration(), Std: r.Std.Duration()}
	for i, count := range r.Histogram {
		if count > 0 {
			from, width := bucketAt(i)
			s.Histogram = append(s.Histogram, Bucket{From: from, To: from + width, Count: count.Int()})
		}
	}
	return s
}

// summaryOf reads the fields and values of a summary that is stored: total, mean, vk, which is the
// variance times total - 1, and the counts of buckets, such as s0.
func summaryOf(fields []any) Summary {
	var r summaryReply
	var counts [histogramBuckets]wire.Number
	for i := 0; i+1 < len(fields); i += 2 {
		name, value := wire.AsString(fields[i]), wire.AsNumber(fields[i+1])
		switch name {
		case "total":
			r.Count = value
		case "mean":
			r.Mean = value
		case "vk":
			r.Std = value
		default:
			if at, ok := bucketOf(name); ok {
				counts[at] = value
			}
		}
	}
	r.Std = wire.Number(math.Sqrt(max(0, float64(r.Std)) / max(1, float64(r.Count-1))))
	r.Histogram = counts[:]
	return r.summary()
}

// histogramBuckets is how many buckets a histogram has.
const histogramBuckets = 60 + 59 + 23 + 6

// bucketOf returns the index of a bucket by its stored name: s0 to s59, m1 to m59, h1 to h23, and
// d1 to d6.
func bucketOf(name string) (int, bool) {
	if name == "" {
		return 0, false
	}
	n, err := strconv.Atoi(name[1:])
	switch {
	case err != nil:
	case name[0] == 's' && n >= 0 && n < 60:
		return n, true
	case name[0] == 'm' && n >= 1 && n < 60:
		return 60 + n - 1, true
	case name[0] == 'h' && n >= 1 && n < 24:
		return 60 + 59 + n - 1, true
	case name[0] == 'd' && n >= 1 && n < 7:
		return 60 + 59 + 23 + n - 1, true
	}
	return 0, false
}

// bucketAt returns where a histogram's bucket begins and how wide it is. A histogram has buckets
// for 60 seconds, then 59 minutes, 23 hours, and days.
func bucketAt(i int) (from, width time.Duration) {
	switch {
	case i < 60:
		return time.Duration(i) * time.Second, time.Second
	case i < 60+59:
		return time.Duration(i-59) * time.Minute, time.Minute
	case i < 60+59+23:
		return time.Duration(i-60-59+1) * time.Hour, time.Hour
	}
	const day = 24 * time.Hour
	return time.Duration(i-60-59-23+1) * day, day
}
