package qlessprom

import (
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/qless/qless-go"
)

// bounds are the upper bounds of the buckets of wait and run: some of the server's bounds.
var bounds = [...]time.Duration{
	time.Second, 2 * time.Second, 5 * time.Second, 10 * time.Second, 30 * time.Second,
	time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 30 * time.Minute,
	time.Hour, 3 * time.Hour, 12 * time.Hour, 24 * time.Hour,
}

// counts are figures of a queue that only grow.
type counts struct {
	failures, lost int
	wait, run      histogram
}

func countsOf(s *qless.Stats) counts {
	return counts{s.Failures, s.Retries, histogramOf(&s.Wait), histogramOf(&s.Run)}
}

// since returns the difference to earlier counts of the same day. If a count has fallen, the server
// has lost data: the difference is unknown, and since returns zero counts.
func (c counts) since(before counts) counts {
	wait, waitGrew := c.wait.since(before.wait)
	run, runGrew := c.run.since(before.run)
	if c.failures < before.failures || c.lost < before.lost || !waitGrew || !runGrew {
		return counts{}
	}
	return counts{c.failures - before.failures, c.lost - before.lost, wait, run}
}

func (c *counts) add(more counts) {
	c.failures += more.failures
	c.lost += more.lost
	c.wait.add(more.wait)
	c.run.add(more.run)
}

// A histogram counts durations.
type histogram struct {
	count   int
	sum     float64 // in seconds
	buckets [len(bounds)]int
}

func histogramOf(s *qless.Summary) histogram {
	h := histogram{count: s.Count, sum: s.Mean.Seconds() * float64(s.Count)}
	counted := 0
	for _, bucket := range s.Histogram {
		counted += bucket.Count
		fits := func(bound time.Duration) bool { return bucket.To <= bound }
		if i := slices.IndexFunc(bounds[:], fits); i >= 0 {
			h.buckets[i] += bucket.Count
		}
	}
	h.count = max(h.count, counted)
	return h
}

// since returns the difference to an earlier histogram, and whether no count has fallen. The sum
// may fall, because the server keeps a rounded mean.
func (h histogram) since(before histogram) (added histogram, grew bool) {
	grew = h.count >= before.count
	added = histogram{count: h.count - before.count}
	if added.count > 0 {
		added.sum = max(0, h.sum-before.sum)
	}
	for i := range h.buckets {
		added.buckets[i] = h.buckets[i] - before.buckets[i]
		grew = grew && added.buckets[i] >= 0
	}
	return added, grew
}

func (h *histogram) add(more histogram) {
	h.count += more.count
	h.sum += more.sum
	for i := range h.buckets {
		h.buckets[i] += more.buckets[i]
	}
}

func (h *histogram) write(w *writer, desc *prometheus.Desc, label string) {
	below, buckets := 0, make(map[float64]uint64, len(bounds))
	for i, bound := range bounds {
		below += h.buckets[i]
		buckets[bound.Seconds()] = uint64(below)
	}
	desc, labels := w.inSpace(desc, []string{label})
	w.metrics <- prometheus.MustNewConstHistogram(desc, uint64(h.count), h.sum, buckets, labels...)
}
