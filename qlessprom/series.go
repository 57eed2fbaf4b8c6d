package qlessprom

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/qless/qless-go/inspect"
)

// other is the label of values beyond a bound.
const other = "other"

// The metrics of a [Collector].
var (
	serverDescs []*prometheus.Desc

	queueJobs = describe("qless_queue_jobs",
		"Number of jobs in a queue by state. Jobs that have fallen due are waiting.",
		"queue", "state")
	queueOldest = describe("qless_queue_oldest_waiting_seconds",
		"Wait of the oldest job that could be popped.", "queue")
	queuePaused = describe("qless_queue_paused", "Whether the queue is paused.", "queue")
	queueMax    = describe("qless_queue_max_concurrency",
		"Maximum number of jobs of the queue that run at once, if limited.", "queue")
	queueWait = describe("qless_queue_wait_seconds",
		"Wait of the jobs that were popped.", "queue")
	queueRun = describe("qless_queue_run_seconds",
		"Run time of the jobs that were completed.", "queue")
	queueFailures = describe("qless_queue_failures_total",
		"Number of jobs that failed.", "queue")
	queueLostLocks = describe("qless_queue_lost_locks_total",
		"Number of locks that workers lost.", "queue")
	failedJobs = describe("qless_failed_jobs",
		"Number of failed jobs by failure group.", "group")
	workers = describe("qless_workers",
		"Number of workers, in any language, seen within max-worker-age.")
	heldJobs = describe("qless_worker_held_jobs",
		"Number of jobs that workers hold: running, or stalled if their locks have expired.", "state")
	limitUsed = describe("qless_limit_used",
		"Number of slots of a limit's concurrency in use.", "limit")
	limitSize = describe("qless_limit_size",
		"Number of slots of a limit's concurrency.", "limit")
	limitParked = describe("qless_limit_parked",
		"Number of jobs that wait for a limit.", "limit")
	scheduleMissed = describe("qless_schedule_missed_total",
		"Number of runs that a schedule has missed.", "schedule")
	scheduleOverdue = describe("qless_schedule_overdue",
		"Number of times of a schedule that have passed and have no job yet.", "schedule")
	scrapeErrors = describe("qless_scrape_errors_total",
		"Number of failed reads and of damaged keys met.")
)

// inSpaces maps these metrics to the same metrics with a label for the namespace.
var inSpaces = map[*prometheus.Desc]*prometheus.Desc{}

func describe(name, help string, labels ...string) *prometheus.Desc {
	desc := prometheus.NewDesc(name, help, labels, nil)
	serverDescs = append(serverDescs, desc)
	inSpaces[desc] = prometheus.NewDesc(name, help, append(labels, "namespace"), nil)
	return desc
}

// A writer writes the metrics of a scrape.
type writer struct {
	metrics chan<- prometheus.Metric
	options *Options
	space   string // the label of the namespace, or "" for none
}

func (w *writer) gauge(desc *prometheus.Desc, value float64, labels ...string) {
	w.write(desc, prometheus.GaugeValue, value, labels)
}

func (w *writer) counter(desc *prometheus.Desc, value float64, labels ...string) {
	w.write(desc, prometheus.CounterValue, value, labels)
}

func (w *writer) write(
	desc *prometheus.Desc, kind prometheus.ValueType, value float64, labels []string,
) {
	desc, labels = w.inSpace(desc, labels)
	w.metrics <- prometheus.MustNewConstMetric(desc, kind, value, labels...)
}

// inSpace adds the label of the namespace, if any.
func (w *writer) inSpace(desc *prometheus.Desc, labels []string) (*prometheus.Desc, []string) {
	if w.space == "" {
		return desc, labels
	}
	return inSpaces[desc], append(labels, w.space)
}

// gauges writes a gauge for each name, in order.
func (w *writer) gauges(desc *prometheus.Desc, values map[string]float64) {
	for _, name := range slices.Sorted(maps.Keys(values)) {
		w.gauge(desc, values[name], name)
	}
}

func (w *writer) counters(desc *prometheus.Desc, values map[string]float64) {
	for _, name := range slices.Sorted(maps.Keys(values)) {
		w.counter(desc, values[name], name)
	}
}

func (w *writer) writeOverview(f *figures) {
	o := f.overview
	w.writeQueues(o.Queues, f.labels)
	w.writeCounters(f.counters)
	w.gauges(failedJobs, largest(o.FailureGroups, w.options.MaxGroups))
	if o.Workers >= 0 {
		w.gauge(workers, float64(o.Workers))
	}
	w.writeLimits(o.Limits, f.problems.keys)
}

// The states of the jobs of a queue.
var states = slices.Sorted(slices.Values(append(inspect.JobLists(), inspect.Recurring)))

func (w *writer) writeQueues(queues []inspect.QueueOverview, labels map[string]string) {
	held := map[string]float64{string(inspect.Running): 0, string(inspect.Stalled): 0}
	for _, state := range states {
		counts := map[string]float64{}
		for i := range queues {
			n := state.Count(&queues[i].QueueCounts)
			if n < 0 {
				continue // the key is damaged
			}
			counts[cmp.Or(labels[queues[i].Name], other)] += float64(n)
			if _, is := held[string(state)]; is {
				held[string(state)] += float64(n)
			}
		}
		for _, name := range slices.Sorted(maps.Keys(counts)) {
			w.gauge(queueJobs, counts[name], name, string(state))
		}
	}
	w.gauges(heldJobs, held)
	oldest, paused, limited := map[string]float64{}, map[string]float64{}, map[string]float64{}
	for i := range queues {
		q := &queues[i]
		own, isOwn := labels[q.Name]
		label := cmp.Or(own, other)
		if q.Oldest >= 0 {
			oldest[label] = max(oldest[label], q.Oldest.Seconds())
		}
		if !isOwn {
			continue
		}
		paused[label] = max(paused[label], number(q.Paused))
		if q.MaxConcurrency > 0 {
			limited[label] = float64(q.MaxConcurrency)
		}
	}
	w.gauges(queueOldest, oldest)
	w.gauges(queuePaused, paused)
	w.gauges(queueMax, limited)
}

func number(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// maxLabel is the maximum length of a label in bytes.
const maxLabel = 200

// label turns a name into a valid Prometheus label.
func label(name string) string {
	name = name[:min(len(name), maxLabel)]
	return cmp.Or(strings.ToValidUTF8(name, "\uFFFD"), other)
}

func (w *writer) writeCounters(counters map[string]counts) {
	for _, name := range slices.Sorted(maps.Keys(counters)) {
		c := counters[name]
		w.counter(queueFailures, float64(c.failures), name)
		w.counter(queueLostLocks, float64(c.lost), name)
		c.wait.write(w, queueWait, name)
		c.run.write(w, queueRun, name)
	}
}

// largest returns the largest counts, and the sum of the others under the label other.
func largest(counts map[string]int, most int) map[string]float64 {
	names := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(counts[b]-counts[a], cmp.Compare(a, b))
	})
	found := map[string]float64{}
	for i, name := range names {
		at := other
		if i < most {
			at = label(name)
		}
		found[at] += float64(counts[name])
	}
	return found
}

// writeLimits writes the gauges of defined limits and, after them, of full keys.
func (w *writer) writeLimits(limits, keys []inspect.LimitOverview) {
	used, size, parked := map[string]float64{}, map[string]float64{}, map[string]float64{}
	for i, limit := range slices.Concat(limits, w.undefined(keys, limits)) {
		at := other
		if i < w.options.MaxLimits || i >= len(limits) {
			at = label(limit.Name)
		}
		if limit.Config.Concurrency > 0 && limit.Used >= 0 {
			used[at] += float64(limit.Used)
			size[at] += float64(limit.Config.Concurrency)
		}
		if limit.Parked >= 0 {
			parked[at] += float64(limit.Parked)
		}
	}
	w.gauges(limitUsed, used)
	w.gauges(limitSize, size)
	w.gauges(limitParked, parked)
}

// undefined returns the keys without a defined limit, up to maxSubjects.
func (w *writer) undefined(keys, limits []inspect.LimitOverview) []inspect.LimitOverview {
	if w.options.MaxLimits <= 0 {
		return nil
	}
	keys = slices.DeleteFunc(slices.Clone(keys), func(key inspect.LimitOverview) bool {
		return slices.ContainsFunc(limits, func(one inspect.LimitOverview) bool {
			return one.Name == key.Name
		})
	})
	return keys[:min(maxSubjects, len(keys))]
}

func (w *writer) writeSchedules(f *figures) {
	overdue := map[string]float64{}
	for i := range f.schedules {
		overdue[cmp.Or(f.scheduled[f.schedules[i].ID], other)] += float64(f.schedules[i].Overdue)
	}
	w.counters(scheduleMissed, f.missed)
	w.gauges(scheduleOverdue, overdue)
}
