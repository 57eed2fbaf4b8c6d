package qlessotel

import (
	"context"
	"errors"
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/semconv/v1.43.0/messagingconv"

	"github.com/qless/qless-go"
)

// metrics are the instruments.
type metrics struct {
	jobDuration  metric.Float64Histogram
	jobWait      metric.Float64Histogram
	jobs         metric.Int64Counter
	puts         metric.Int64Counter
	callDuration metric.Float64Histogram

	slots    metric.Int64ObservableUpDownCounter
	busy     metric.Int64ObservableUpDownCounter
	oldest   metric.Float64ObservableGauge
	lastTurn metric.Float64ObservableGauge
	lost     metric.Int64ObservableCounter

	sent              messagingconv.ClientSentMessages
	consumed          messagingconv.ClientConsumedMessages
	operationDuration messagingconv.ClientOperationDuration
	processDuration   messagingconv.ProcessDuration
}

// The labels of the metrics specific to qless. Package qlessprom uses the same names.
const (
	queueLabel   = attribute.Key("queue")
	klassLabel   = attribute.Key("klass")
	outcomeLabel = attribute.Key("outcome")
	commandLabel = attribute.Key("command")
	codeLabel    = attribute.Key("code")
)

var (
	// callBounds are the bounds recommended by the conventions for operations, in seconds.
	callBounds = []float64{.005, .01, .025, .05, .075, .1, .25, .5, .75, 1, 2.5, 5, 7.5, 10}

	// jobBounds are the bounds for jobs, which may take longer.
	jobBounds = []float64{
		.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600, 14400, 86400,
	}
)

func newMetrics(meter metric.Meter) (*metrics, error) {
	m := &metrics{}
	var all [14]error
	m.jobDuration, all[0] = meter.Float64Histogram("qless.worker.job.duration", metric.WithUnit("s"),
		metric.WithDescription("Run time of handlers."),
		metric.WithExplicitBucketBoundaries(jobBounds...))
	m.jobWait, all[1] = meter.Float64Histogram("qless.worker.job.wait", metric.WithUnit("s"),
		metric.WithDescription("Wait of jobs until they were taken."),
		metric.WithExplicitBucketBoundaries(jobBounds...))
	m.jobs, all[2] = meter.Int64Counter("qless.worker.jobs", metric.WithUnit("{job}"),
		metric.WithDescription("Number of runs that have ended."))
	m.puts, all[3] = meter.Int64Counter("qless.client.puts", metric.WithUnit("{job}"),
		metric.WithDescription("Number of jobs that were put."))
	m.callDuration, all[4] = meter.Float64Histogram("qless.client.call.duration", metric.WithUnit("s"),
		metric.WithDescription("Duration of commands."),
		metric.WithExplicitBucketBoundaries(callBounds...))
	m.slots, all[5] = meter.Int64ObservableUpDownCounter("qless.worker.slots",
		metric.WithUnit("{job}"),
		metric.WithDescription("Number of jobs that the workers can run at once."))
	m.busy, all[6] = meter.Int64ObservableUpDownCounter("qless.worker.busy", metric.WithUnit("{job}"),
		metric.WithDescription("Number of jobs that the workers are running."))
	m.oldest, all[7] = meter.Float64ObservableGauge("qless.worker.oldest_running",
		metric.WithUnit("s"),
		metric.WithDescription("Time since the start of the oldest running job."))
	m.lastTurn, all[8] = meter.Float64ObservableGauge("qless.worker.last_turn", metric.WithUnit("s"),
		metric.WithDescription("Time of the server's last answer to the worker that it answered longest "+
			"ago, in seconds since 1970."))
	m.lost, all[9] = meter.Int64ObservableCounter("qless.worker.lost", metric.WithUnit("{job}"),
		metric.WithDescription("Number of outcomes that were discarded because the lock was lost or the "+
			"server refused them."))
	m.sent, all[10] = messagingconv.NewClientSentMessages(meter)
	m.consumed, all[11] = messagingconv.NewClientConsumedMessages(meter)
	m.operationDuration, all[12] = messagingconv.NewClientOperationDuration(meter,
		metric.WithExplicitBucketBoundaries(callBounds...))
	m.processDuration, all[13] = messagingconv.NewProcessDuration(meter,
		metric.WithExplicitBucketBoundaries(jobBounds...))
	return m, errors.Join(all[:]...)
}

// destination returns the attributes of a measurement for a queue and an error.
func destination(queue string, err error) []attribute.KeyValue {
	attributes := failure(err)
	if queue != "" {
		attributes = append(attributes, semconv.MessagingDestinationName(queue))
	}
	return attributes
}

// put counts puts, including refused ones.
func (m *metrics) put(ctx context.Context, put qless.Command) {
	attributes := destination(put.Queue, put.Err)
	m.sent.Add(ctx, int64(put.Count), "put", system, attributes...)
	m.operationDuration.Record(ctx, put.Duration.Seconds(), "put", system,
		append(attributes, m.operationDuration.AttrOperationType(messagingconv.OperationTypeSend))...)
	if put.Err == nil {
		m.puts.Add(ctx, int64(put.Count), metric.WithAttributes(
			queueLabel.String(put.Queue), klassLabel.String(put.Klass)))
	}
}

// call measures a command.
func (m *metrics) call(ctx context.Context, call qless.Command) {
	code := ""
	if call.Err != nil {
		code = errorType(call.Err).Value.AsString()
	}
	m.callDuration.Record(ctx, call.Duration.Seconds(), metric.WithAttributes(
		commandLabel.String(call.Name), codeLabel.String(code)))
}

// operation measures a command that takes jobs or ends runs.
func (m *metrics) operation(ctx context.Context, op *operation, call qless.Command) {
	attributes := destination(op.queue, call.Err)
	if op.kind == messagingconv.OperationTypeReceive && call.Name != "reserve" && call.Count > 0 {
		m.consumed.Add(ctx, int64(call.Count), op.name, system, attributes...)
	}
	m.operationDuration.Record(ctx, call.Duration.Seconds(), op.name, system,
		append(attributes, m.operationDuration.AttrOperationType(op.kind))...)
}

// started records the start of a run.
func (m *metrics) started(event qless.JobEvent) {
	ctx := context.Background()
	m.consumed.Add(ctx, 1, "process", system, destination(event.Queue, nil)...)
	if event.Waited > 0 { // otherwise unknown
		m.jobWait.Record(ctx, event.Waited.Seconds(), metric.WithAttributes(
			queueLabel.String(event.Queue), klassLabel.String(event.Klass)))
	}
}

// ended counts a run. The context has its span.
func (m *metrics) ended(ctx context.Context, event qless.JobEvent) {
	labels := metric.WithAttributes(queueLabel.String(event.Queue), klassLabel.String(event.Klass),
		outcomeLabel.String(event.Ending))
	m.jobs.Add(ctx, 1, labels)
	m.jobDuration.Record(ctx, event.Ran.Seconds(), labels)
	m.processDuration.Record(ctx, event.Ran.Seconds(), "process", system,
		destination(event.Queue, problemOf(event))...)
}

// watched are the workers with a measured state.
type watched struct {
	workers []*qless.Worker
	lost    int // losses of closed workers
}

// Watch measures the state of workers, such as the number of busy slots, until they are closed.
func (i *Instrumentation) Watch(workers ...*qless.Worker) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.workers.workers = append(i.workers.workers, workers...)
}

// A sight is the state of all watched workers.
type sight struct {
	slots, busy, lost int
	oldest            time.Duration
	lastTurn          time.Time
}

// look returns the state of the workers.
func (i *Instrumentation) look() sight {
	i.mu.Lock()
	defer i.mu.Unlock()
	var seen sight
	i.workers.workers = slices.DeleteFunc(i.workers.workers, func(w *qless.Worker) bool {
		select {
		case <-w.Closed():
			i.workers.lost += w.Stats().Lost
			return true
		default:
			seen.add(w.Stats())
			return false
		}
	})
	seen.lost += i.workers.lost
	return seen
}

func (s *sight) add(stats qless.WorkerStats) {
	s.slots += stats.Slots
	s.busy += len(stats.Running)
	s.lost += stats.Lost
	if len(stats.Running) > 0 {
		s.oldest = max(s.oldest, time.Since(stats.Running[0].Since))
	}
	if s.lastTurn.IsZero() || !stats.LastAnswer.IsZero() && stats.LastAnswer.Before(s.lastTurn) {
		s.lastTurn = stats.LastAnswer
	}
}

// watch registers the measurements of the state of workers.
func (m *metrics) watch(meter metric.Meter, look func() sight) error {
	_, err := meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		seen := look()
		o.ObserveInt64(m.slots, int64(seen.slots))
		o.ObserveInt64(m.busy, int64(seen.busy))
		o.ObserveInt64(m.lost, int64(seen.lost))
		o.ObserveFloat64(m.oldest, seen.oldest.Seconds())
		if !seen.lastTurn.IsZero() {
			o.ObserveFloat64(m.lastTurn, float64(seen.lastTurn.UnixMilli())/1000)
		}
		return nil
	}, m.slots, m.busy, m.lost, m.oldest, m.lastTurn)
	return err
}
