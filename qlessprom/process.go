package qlessprom

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/qless/qless-go"
)

// ProcessOptions configure [ClientMetrics] and [WorkerMetrics].
type ProcessOptions struct {
	// Buckets are the upper bounds of the buckets of all histograms, in seconds.
	//
	// Defaults to 14 buckets from 5 ms to 30 minutes.
	Buckets []float64

	// MaxPairs is the number of pairs of a queue and a klass with separate labels: the first seen. The
	// others are counted together.
	//
	// Defaults to 200. The value -1 means none.
	MaxPairs int
}

func (o ProcessOptions) withDefaults() ProcessOptions {
	o.MaxPairs = labels(o.MaxPairs, 200)
	if len(o.Buckets) == 0 {
		o.Buckets = []float64{
			.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 10, 30, 60, 300, 1800,
		}
	}
	return o
}

// pairs bound the labels queue and klass.
type pairs struct {
	mu    sync.Mutex
	most  int
	known map[[2]string]bool
}

func (p *pairs) labels(queue, klass string) (string, string) {
	pair := [2]string{label(queue), label(klass)}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.known[pair] {
		if len(p.known) >= p.most {
			return other, other
		}
		p.known[pair] = true
	}
	return pair[0], pair[1]
}

// ClientMetrics are the metrics of clients in this process. Use the method Observe as the Observer
// of a [qless.ClientConfig]. ClientMetrics are safe for concurrent use.
type ClientMetrics struct {
	pairs pairs
	puts  *prometheus.CounterVec
	calls *prometheus.HistogramVec
}

// NewClientMetrics returns metrics of clients. The caller must register them.
func NewClientMetrics(options ProcessOptions) *ClientMetrics {
	o := options.withDefaults()
	return &ClientMetrics{
		pairs: pairs{most: o.MaxPairs, known: map[[2]string]bool{}},
		puts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "qless_client_puts_total",
			Help: "Number of jobs that this process has put. Jobs put together that differ have " +
				"the label mixed.",
		}, []string{"queue", "klass"}),
		calls: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "qless_client_call_seconds",
			Help:    "Duration of commands, by the code of their errors, or ok.",
			Buckets: o.Buckets,
		}, []string{"command", "code"}),
	}
}

// mixed is the label of jobs that differ but were put together.
const mixed = "mixed"

// Observe counts a call.
func (m *ClientMetrics) Observe(_ context.Context, call qless.Command) {
	m.calls.WithLabelValues(call.Name, codeOf(call.Err)).Observe(call.Duration.Seconds())
	if call.Err == nil && (call.Name == "put" || call.Name == "put.many") {
		queue, klass := m.pairs.labels(cmp.Or(call.Queue, mixed), cmp.Or(call.Klass, mixed))
		m.puts.WithLabelValues(queue, klass).Add(float64(call.Count))
	}
}

func codeOf(err error) string {
	if err == nil {
		return "ok"
	}
	var own *qless.Error
	var code qless.Code
	switch {
	case errors.As(err, &own):
		return string(own.Code)
	case errors.As(err, &code):
		return string(code)
	}
	return other
}

// Describe implements [prometheus.Collector].
func (m *ClientMetrics) Describe(descs chan<- *prometheus.Desc) {
	m.puts.Describe(descs)
	m.calls.Describe(descs)
}

// Collect implements [prometheus.Collector].
func (m *ClientMetrics) Collect(metrics chan<- prometheus.Metric) {
	m.puts.Collect(metrics)
	m.calls.Collect(metrics)
}

// WorkerMetrics are the metrics of workers in this process. They are safe for concurrent use.
type WorkerMetrics struct {
	pairs    pairs
	duration *prometheus.HistogramVec
	wait     *prometheus.HistogramVec
	jobs     *prometheus.CounterVec
	lost     prometheus.Counter

	mu      sync.Mutex
	workers map[*qless.Worker]bool
}

// NewWorkerMetrics returns metrics of workers. The caller must register them.
func NewWorkerMetrics(options ProcessOptions) *WorkerMetrics {
	o := options.withDefaults()
	return &WorkerMetrics{
		pairs:   pairs{most: o.MaxPairs, known: map[[2]string]bool{}},
		workers: map[*qless.Worker]bool{},
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "qless_worker_job_duration_seconds",
			Help:    "Run time of handlers, by outcome.",
			Buckets: o.Buckets,
		}, []string{"queue", "klass", "outcome"}),
		wait: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "qless_worker_job_wait_seconds",
			Help:    "Wait of jobs until this process popped them.",
			Buckets: o.Buckets,
		}, []string{"queue", "klass"}),
		jobs: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "qless_worker_jobs_total",
			Help: "Number of jobs that ended in this process, by outcome.",
		}, []string{"queue", "klass", "outcome"}),
		lost: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "qless_worker_lost_total",
			Help: "Number of outcomes of jobs that were discarded because the lock was lost " +
				"or the server refused them.",
		}),
	}
}

// NewWorker returns a worker watched by these metrics until stopped. The worker calls
// [WorkerMetrics.Observe] before the config's Observer.
func (m *WorkerMetrics) NewWorker(
	client *qless.Client, config qless.WorkerConfig,
) (*qless.Worker, error) {
	next := config.Observer
	config.Observer = func(event qless.JobEvent) {
		m.Observe(event)
		if next != nil {
			next(event)
		}
	}
	worker, err := qless.NewWorker(client, config)
	if err != nil {
		return nil, err
	}
	m.Watch(worker)
	return worker, nil
}

// Watch adds a worker to the gauges until it has stopped. It is for workers not made by
// [WorkerMetrics.NewWorker], with an Observer that calls [WorkerMetrics.Observe].
func (m *WorkerMetrics) Watch(worker *qless.Worker) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.workers[worker] = true
}

// Observe counts an event of a job. Use it as the Observer of a [qless.WorkerConfig].
func (m *WorkerMetrics) Observe(event qless.JobEvent) {
	queue, klass := m.pairs.labels(event.Queue, event.Klass)
	switch event.Kind {
	case qless.JobEventStarted:
		m.wait.WithLabelValues(queue, klass).Observe(event.Waited.Seconds())
	case qless.JobEventEnded:
		outcome := outcomeOf(&event)
		m.duration.WithLabelValues(queue, klass, outcome).Observe(event.Ran.Seconds())
		m.jobs.WithLabelValues(queue, klass, outcome).Inc()
		if outcome == "lost" {
			m.lost.Inc()
		}
	}
}

// outcomeOf returns the label of an outcome.
func outcomeOf(event *qless.JobEvent) string {
	switch {
	case errors.Is(event.Err, qless.ErrCanceled):
		return "canceled"
	case event.Err != nil:
		return "lost"
	}
	switch event.Outcome.Action {
	case qless.ActionComplete:
		return "completed"
	case qless.ActionRetry:
		return "retried"
	case qless.ActionFail:
		return "failed"
	case qless.ActionRelease:
		return "released"
	}
	return "ended" // by its handler
}

var (
	workerSlots = prometheus.NewDesc("qless_worker_slots",
		"Maximum number of jobs that the workers of this process run at once.", nil, nil)
	workerBusy = prometheus.NewDesc("qless_worker_busy",
		"Number of jobs running in this process.", nil, nil)
	workerOldest = prometheus.NewDesc("qless_worker_oldest_running_seconds",
		"Time since the start of the oldest running job, or 0.", nil, nil)
	workerTurn = prometheus.NewDesc("qless_worker_last_turn_timestamp_seconds",
		"Time of the server's last answer to the worker that it answered longest ago.",
		nil, nil)
)

// Describe implements [prometheus.Collector].
func (m *WorkerMetrics) Describe(descs chan<- *prometheus.Desc) {
	m.duration.Describe(descs)
	m.wait.Describe(descs)
	m.jobs.Describe(descs)
	m.lost.Describe(descs)
	for _, desc := range []*prometheus.Desc{workerSlots, workerBusy, workerOldest, workerTurn} {
		descs <- desc
	}
}

// Collect implements [prometheus.Collector].
func (m *WorkerMetrics) Collect(metrics chan<- prometheus.Metric) {
	m.duration.Collect(metrics)
	m.wait.Collect(metrics)
	m.jobs.Collect(metrics)
	m.lost.Collect(metrics)
	slots, busy := 0, 0
	var oldest time.Duration
	var turn time.Time
	for _, worker := range m.watched() {
		stats := worker.Stats()
		slots += stats.Slots
		busy += len(stats.Running)
		if len(stats.Running) > 0 {
			oldest = max(oldest, time.Since(stats.Running[0].Since))
		}
		if !stats.LastAnswer.IsZero() && (turn.IsZero() || stats.LastAnswer.Before(turn)) {
			turn = stats.LastAnswer
		}
	}
	w := writer{metrics: metrics}
	w.gauge(workerSlots, float64(slots))
	w.gauge(workerBusy, float64(busy))
	w.gauge(workerOldest, oldest.Seconds())
	if !turn.IsZero() {
		w.gauge(workerTurn, float64(turn.UnixNano())/1e9)
	}
}

// watched returns the workers not yet stopped, and forgets the others.
func (m *WorkerMetrics) watched() []*qless.Worker {
	m.mu.Lock()
	defer m.mu.Unlock()
	var running []*qless.Worker
	for worker := range m.workers {
		select {
		case <-worker.Closed():
			delete(m.workers, worker)
		default:
			running = append(running, worker)
		}
	}
	return running
}
