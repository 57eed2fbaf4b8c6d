package qless

import (
	"context"
	"encoding/json"
	"strconv"
	"time"

	"github.com/qless/qless-go/internal/histogram"
	"github.com/qless/qless-go/internal/units"
	"github.com/qless/qless-go/internal/wire"
)

// Stats holds the statistics of a queue for one day (UTC).
type Stats struct {
	Expired  int     `json:"expired"`  // jobs whose [StartBy] or [TTL] passed before they ended
	Failed   int     `json:"failed"`   // jobs that failed that day and are still failed
	Failures int     `json:"failures"` // all failures of that day
	Retries  int     `json:"retries"`  // locks that workers lost
	Wait     Summary `json:"wait"`     // from put to pop, of the jobs popped that day
	Run      Summary `json:"run"`      // from pop to complete, of the jobs completed that day
}

// A Summary summarizes durations. In JSON, durations are strings such as "1m30s".
type Summary struct {
	Count     int
	Mean      time.Duration
	Std       time.Duration // the standard deviation
	Histogram []Bucket      // shortest first, without empty buckets
}

// A Bucket counts the durations in [From, To).
type Bucket struct {
	From, To time.Duration
	Count    int
}

type summaryJSON struct {
	Count     int                `json:"count"`
	Mean      units.Text         `json:"mean"`
	Std       units.Text         `json:"std"`
	Histogram []histogram.Bucket `json:"histogram"`
}

// MarshalJSON writes the durations as text.
func (s Summary) MarshalJSON() ([]byte, error) {
	written := summaryJSON{s.Count, units.Text(s.Mean), units.Text(s.Std), []histogram.Bucket{}}
	for _, b := range s.Histogram {
		written.Histogram = append(written.Histogram, histogram.Bucket(b))
	}
	return json.Marshal(written)
}

// UnmarshalJSON reads the output of MarshalJSON.
func (s *Summary) UnmarshalJSON(text []byte) error {
	var decoded summaryJSON
	err := json.Unmarshal(text, &decoded)
	*s = Summary{decoded.Count, time.Duration(decoded.Mean), time.Duration(decoded.Std), nil}
	for _, b := range decoded.Histogram {
		s.Histogram = append(s.Histogram, Bucket(b))
	}
	return err
}

// Stats returns the queue's statistics for the day (UTC) of a time. stats-history sets how
// long they are kept, and histogram-history how long their histograms are kept.
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
	d := histogram.DayOf(r.Count, r.Mean, r.Std, r.Histogram)
	s := Summary{Count: d.Count, Mean: d.Mean, Std: d.Std}
	for _, b := range d.Buckets {
		s.Histogram = append(s.Histogram, Bucket(b))
	}
	return s
}
