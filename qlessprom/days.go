package qlessprom

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
)

// A day holds the statistics of a queue as last read.
type day struct {
	read      time.Time // zero if they were never read
	stats     qless.Stats
	wait, run total
}

// A total holds the counts of a histogram.
type total struct {
	count int
	sum   float64 // in seconds
}

// grown returns the total of a summary. The server keeps a mean, so a rounding error can make the
// sum less than before, which would look like a reset of the counter.
func (t total) grown(s qless.Summary) total {
	sum := s.Mean.Seconds() * float64(s.Count)
	if s.Count >= t.count {
		sum = max(sum, t.sum)
	}
	return total{s.Count, sum}
}

// days are the statistics of all existing queues, by queue.
type days map[string]day

// next returns the queues whose statistics were read longest ago.
func (d days) next(count int) []string {
	names := slices.SortedFunc(maps.Keys(d), func(a, b string) int {
		return cmp.Or(d[a].read.Compare(d[b].read), cmp.Compare(a, b))
	})
	return names[:max(0, min(count, len(names)))]
}

// add adds the statistics of the queues asked for. Some may be missing.
func (d days) add(asked []string, stats map[string]qless.Stats, at time.Time) {
	for _, name := range asked {
		s, found := stats[name]
		if !found {
			d[name] = day{}
			continue
		}
		before := d[name]
		d[name] = day{at, s, before.wait.grown(s.Wait), before.run.grown(s.Run)}
	}
}

// keep forgets queues that are gone and adds new ones. It reports whether there were none before.
func (d days) keep(queues []inspect.QueueOverview) bool {
	isFirst := len(d) == 0
	there := make(map[string]bool, len(queues))
	for i := range queues {
		name := queues[i].Name
		there[name] = true
		if _, known := d[name]; !known {
			d[name] = day{}
		}
	}
	maps.DeleteFunc(d, func(name string, _ day) bool { return !there[name] })
	return isFirst
}

// copy returns the statistics that were read.
func (d days) copy() map[string]day {
	read := make(map[string]day, len(d))
	for name, one := range d {
		if !one.read.IsZero() {
			read[name] = one
		}
	}
	return read
}
