package lmstfy

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// metrics are the server's metrics, with the names from lmstfy's own server.
type metrics struct {
	mu         sync.Mutex
	namespaces map[string]bool // the named ones: see name

	latencies, codes, limited *family

	publish, consumeMulti, poolAdd, poolGet, poolDelete   *family
	timerAdd, timerDue, directPush, queuePop, respawned   *family
	timerFull, redisLatencies, redisCommands              *family
	publishQueue, consumeQueue, jobElapsed, jobAckElapsed *family
}

// Prefixes of the names of metrics.
const (
	httpMetric  = "infra_lmstfy_http_"
	redisMetric = "infra_lmstfy_redis_"
)

func newMetrics() *metrics {
	counter := func(name string, labels ...string) *family {
		return newFamily("counter", redisMetric+name, append(labels, "pool")...)
	}
	elapsedOf := func(name string) *family {
		return newHistogram(redisMetric+name, 15, 3.5, 7, "namespace", "pool", "queue")
	}
	queueCounter := func(name string) *family {
		return newFamily("counter", redisMetric+name, "namespace", "pool", "queue")
	}
	return &metrics{
		namespaces: map[string]bool{},

		latencies: newHistogram(httpMetric+"latency_milliseconds", 15, 2.5, 9,
			"api", "method", "namespace", "pool"),
		codes: newFamily("counter", httpMetric+"http_codes",
			"api", "code", "method", "namespace", "pool"),
		limited: newFamily("counter", httpMetric+"rate_limit", "action", "namespace", "pool"),

		publish: counter("publish_jobs"), consumeMulti: counter("consume_multi_jobs"),
		poolAdd: counter("pool_add_jobs"), poolGet: counter("pool_get_jobs"),
		poolDelete: counter("pool_delete_jobs"), timerAdd: counter("timer_add_jobs"),
		timerDue: counter("timer_due_jobs"), timerFull: counter("timer_full_batches"),
		directPush: counter("queue_direct_push_jobs"), queuePop: counter("queue_pop_jobs"),
		respawned:    counter("deadletter_respawn_jobs"),
		publishQueue: queueCounter("publish_queue_jobs"),
		consumeQueue: queueCounter("consume_queue_jobs"),
		jobElapsed:   elapsedOf("job_elapsed_ms"), jobAckElapsed: elapsedOf("job_ack_elapsed_ms"),

		redisLatencies: newHistogram(redisMetric+"latency", 1, 2, 16, "command", "node", "status"),
		redisCommands:  newFamily("counter", redisMetric+"qps", "command", "node", "status"),
	}
}

// maxSeries is the maximum number of series of a metric: names of queues come from clients. Further
// series are counted together, with empty labels.
const maxSeries = 20_000

// A family is a metric with its series. Families are written in the Prometheus format.
type family struct {
	name   string
	kind   string // "counter", "gauge" or "histogram"
	labels []string
	bounds []float64 // of a histogram

	mu     sync.Mutex
	series map[string]*series
}

// A series is the value, or the histogram, of a family for some values of its labels.
type series struct {
	labels  string // as they are written
	value   float64
	buckets []uint64
}

func newFamily(kind, name string, labels ...string) *family {
	return &family{name: name, kind: kind, labels: labels, series: map[string]*series{}}
}

func newHistogram(name string, first, factor float64, count int, labels ...string) *family {
	f := newFamily("histogram", name, labels...)
	for range count {
		f.bounds = append(f.bounds, first)
		first *= factor
	}
	return f
}

// find returns the series with these values of the labels. The mutex is held.
func (f *family) find(values []string) *series {
	key := strings.Join(values, "\x00")
	if s := f.series[key]; s != nil {
		return s
	}
	if len(f.series) >= maxSeries {
		values = make([]string, len(f.labels))
		key = strings.Join(values, "\x00")
		if s := f.series[key]; s != nil {
			return s
		}
	}
	s := &series{labels: f.written(values), buckets: make([]uint64, len(f.bounds)+1)}
	f.series[key] = s
	return s
}

// written returns labels as written.
func (f *family) written(values []string) string {
	parts := make([]string, len(values))
	for i, value := range values {
		value = strings.ToValidUTF8(value, "\uFFFD")
		parts[i] = f.labels[i] + `="` + labelEscaper.Replace(value) + `"`
	}
	return strings.Join(parts, ",")
}

var labelEscaper = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

// add adds to a counter.
func (f *family) add(n float64, values ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.find(values).value += n
}

// set sets a gauge.
func (f *family) set(n float64, values ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.find(values).value = n
}

// observe adds a value to a histogram.
func (f *family) observe(n float64, values ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.find(values)
	s.value += n
	i, _ := slices.BinarySearch(f.bounds, n)
	s.buckets[i]++
}

// write appends all series.
func (f *family) write(to *bytes.Buffer) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.series) == 0 {
		return
	}
	fmt.Fprintf(to, "# HELP %s %s\n# TYPE %s %s\n", f.name, f.name, f.name, f.kind)
	all := make([]*series, 0, len(f.series))
	for _, s := range f.series {
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b *series) int { return cmp.Compare(a.labels, b.labels) })
	for _, s := range all {
		if f.kind == "histogram" {
			f.writeHistogram(to, s)
			continue
		}
		fmt.Fprintf(to, "%s%s %s\n", f.name, braces(s.labels), decimal(s.value))
	}
}

func (f *family) writeHistogram(to *bytes.Buffer, s *series) {
	separator := ""
	if s.labels != "" {
		separator = ","
	}
	var count uint64
	for i, n := range s.buckets {
		count += n
		bound := math.Inf(1)
		if i < len(f.bounds) {
			bound = f.bounds[i]
		}
		fmt.Fprintf(to, "%s_bucket{%s%sle=%q} %d\n",
			f.name, s.labels, separator, decimal(bound), count)
	}
	fmt.Fprintf(to, "%s_sum%s %s\n", f.name, braces(s.labels), decimal(s.value))
	fmt.Fprintf(to, "%s_count%s %d\n", f.name, braces(s.labels), count)
}

func braces(labels string) string {
	if labels == "" {
		return ""
	}
	return "{" + labels + "}"
}

func decimal(n float64) string {
	if math.IsInf(n, 1) {
		return "+Inf"
	}
	return strconv.FormatFloat(n, 'g', -1, 64)
}

func (m *metrics) families() []*family {
	return []*family{
		m.latencies, m.codes, m.limited, m.consumeMulti, m.consumeQueue, m.respawned, m.jobAckElapsed,
		m.jobElapsed, m.poolAdd, m.poolDelete, m.poolGet, m.publish, m.publishQueue, m.directPush,
		m.queuePop, m.timerAdd, m.timerDue, m.timerFull, m.redisLatencies, m.redisCommands,
	}
}

// swept counts the jobs that a sweep of a pool has moved.
func (m *metrics) swept(pool string, jobs int) {
	m.timerDue.add(float64(jobs), pool)
	if jobs >= sweptAtOnce {
		m.timerFull.add(1, pool)
	}
}

// name makes the requests of a namespace count under its name from now on. The namespace in a
// request's path may be invented, so it is named only once one of its tokens was used or, without
// tokens, it had a job.
func (m *metrics) name(namespace string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.namespaces) < maxSeries {
		m.namespaces[namespace] = true
	}
}

// named returns a namespace, or the empty string if it is not named.
func (m *metrics) named(namespace string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.namespaces[namespace] {
		return namespace
	}
	return ""
}

// methodLabel returns the label for the method of a request.
func methodLabel(method string) string {
	switch method {
	case http.MethodDelete, http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut:
		return method
	}
	return "other"
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// begin sets the counters of a pool to 0, so that they are exported at once.
func (m *metrics) begin(pool string) {
	for _, f := range m.families() {
		if f.kind == "counter" && len(f.labels) == 1 {
			f.add(0, pool)
		}
	}
}
