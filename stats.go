package qless

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/qless/qless-go/internal/wire"
)

// Stats is what happened in a queue on one day (UTC).
type Stats struct {
	Failed   int     // jobs that failed that day and still are
	Failures int     // failures
	Retries  int     // locks that workers lost
	Wait     Summary // from put to pop, of the jobs popped that day
	Run      Summary // from pop to complete, of the jobs completed that day
}

// Summary is how long something took.
type Summary struct {
	Count     int
	Mean      time.Duration
	Std       time.Duration // the standard deviation
	Histogram []Bucket      // shortest first, without empty buckets
}

// Bucket is how many took from one duration to less than another.
type Bucket struct {
	From, To time.Duration
	Count    int
}

// String returns the summary on one line.
func (s Summary) String() string {
	return fmt.Sprintf("%d jobs, %v on average (std %v)",
		s.Count, s.Mean.Round(time.Microsecond), s.Std.Round(time.Microsecond))
}

// Stats returns the queue's statistics of the day (UTC) of a time. They are kept for the
// setting stats-history, their histograms for histogram-history. It is the qless command
// stats.
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
		Failed:   r.Failed.Int(),
		Failures: r.Failures.Int(),
		Retries:  r.Retries.Int(),
		Wait:     r.Wait.summary(),
		Run:      r.Run.summary(),
	}, err
}

type statsReply struct {
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

// bucketAt returns where a histogram's bucket begins and how wide it is. A histogram has 60
// seconds, then 59 minutes, 23 hours, and days.
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
