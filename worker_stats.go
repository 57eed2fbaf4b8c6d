package qless

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/qless/qless-go/internal/hub"
	"github.com/qless/qless-go/internal/redisx"
	"github.com/qless/qless-go/internal/runs"
	"github.com/qless/qless-go/internal/wire"
)

// WorkerStats describes the current work of a worker and counts its work since the start.
type WorkerStats struct {
	// Completed counts completed jobs.
	Completed int `json:"completed"`

	// Failed counts jobs failed at once.
	Failed int `json:"failed"`

	// Retried counts jobs retried, or failed without retries left.
	Retried int `json:"retried"`

	// Released counts jobs released without using up a retry.
	Released int `json:"released"`

	// Ended counts jobs ended by their own handlers.
	Ended int `json:"ended"`

	// Canceled counts jobs canceled during their run.
	Canceled int `json:"canceled"`

	// Lost counts outcomes that the server did not take, or whose lock was lost before.
	Lost int `json:"lost"`

	// Slots is the maximum number of jobs at once, the worker's Concurrency.
	Slots int `json:"slots"`

	// Prefetched is the number of jobs that the worker holds, but does not run yet.
	Prefetched int `json:"prefetched"`

	// Running are the running jobs, oldest first.
	Running []RunningJob `json:"running"`

	// Queues are the queues that the patterns of the config match now.
	Queues []string `json:"queues"`

	// Schedules are the schedules of the worker, in the order of its config.
	Schedules []ScheduleStatus `json:"schedules"`

	// Paused reports whether the worker is paused.
	Paused bool `json:"paused"`

	// Idle reports whether the worker has nothing to do: no handler runs, all outcomes are delivered,
	// and the server has no job for the worker.
	Idle bool `json:"idle"`

	// LastAnswer is when the server last answered.
	LastAnswer time.Time `json:"last_answer,omitzero"`
}

// A RunningJob is a job running on a worker.
type RunningJob struct {
	JID   string    `json:"jid"`
	Klass string    `json:"klass"`
	Queue string    `json:"queue"`
	Since time.Time `json:"since"`
}

// Stats returns the worker's current state, and its counts since the start.
func (w *Worker) Stats() WorkerStats {
	s := w.counters.read()
	s.Idle, s.Slots = w.isIdle(), w.cfg.Concurrency
	s.Queues, s.LastAnswer = w.loop.asker.Queues(), w.health.lastTurn()
	s.Running, s.Prefetched, s.Paused = w.running()
	for _, schedule := range w.schedules {
		s.Schedules = append(s.Schedules, schedule.status())
	}
	slices.SortFunc(s.Running, func(a, b RunningJob) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.JID, b.JID))
	})
	return s
}

// running returns the held jobs that run, the number of those not started, and any pause.
func (w *Worker) running() (running []RunningJob, ahead int, paused bool) {
	held := w.locks.Holders()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, a := range held {
		if !a.started.IsZero() {
			job := RunningJob{JID: a.jid, Klass: a.klass, Queue: a.queue, Since: a.started}
			running = append(running, job)
		}
	}
	return running, w.ahead.Len() + w.bulk.len(), w.paused
}

// isIdle reports whether there is nothing to do. A job goes from the worker's active jobs to the
// ones being finished, and its report to the outbox, hence the order of the checks.
func (w *Worker) isIdle() bool {
	if !w.loop.asker.IsResting() || w.rates.IsAsked() {
		return false
	}
	return !w.runsHandlers() && w.finishing.Load() == 0 && w.isQuiet()
}

// Healthy returns nil while the worker is working, for use in a readiness probe: it was started and
// not stopped, and the server has answered it within two poll intervals and accepted its last
// command. A worker that is paused or fully busy is healthy.
//
// If the server refuses commands, the error is [ErrServer], or [ErrUnavailable] while the server
// accepts no commands at all.
func (w *Worker) Healthy() error {
	switch w.currentState() {
	case workerNew:
		return &Error{Op: "work", Code: ErrStopped, Message: "the worker was not started"}
	case workerStopping, workerClosed:
		return &Error{Op: "work", Code: ErrStopped, Message: "the worker was stopped"}
	}
	return w.health.check(2 * w.cfg.PollInterval)
}

// counters count the work of a worker.
type counters struct {
	mu    sync.Mutex
	stats WorkerStats // only the counts are used
}

// add increments the counter that a function returns.
func (c *counters) add(count func(*WorkerStats) *int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	*count(&c.stats)++
}

func (c *counters) read() WorkerStats {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stats
}

func countEnded(s *WorkerStats) *int    { return &s.Ended }
func countCanceled(s *WorkerStats) *int { return &s.Canceled }
func countLost(s *WorkerStats) *int     { return &s.Lost }

// health tracks the exchanges of a worker with the server.
type health struct {
	mu         sync.Mutex
	answeredAt time.Time // when the server last answered
	askedAt    time.Time // since when an exchange is due or in progress; zero if none is
	refused    error     // the server's error, if the last exchange was refused
}

// asks records that there is something to exchange with the server.
func (h *health) asks() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.askedAt.IsZero() {
		h.askedAt = time.Now()
	}
}

// asksNothing records that no exchange is due any more.
func (h *health) asksNothing() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.askedAt = time.Time{}
}

// answered records an answer of the server, before the exchange is over.
func (h *health) answered() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.answeredAt = time.Now()
}

// succeeded records a successful exchange.
func (h *health) succeeded() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.answeredAt, h.askedAt, h.refused = time.Now(), time.Time{}, nil
}

// failed records a failed exchange.
func (h *health) failed(err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.refused = nil
	if redisx.IsAnswer(err) {
		h.refused = err
	}
}

func (h *health) lastTurn() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.answeredAt
}

// check returns an error if the server refuses, or has not answered for longer than the limit.
func (h *health) check(limit time.Duration) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	message := ""
	switch silence := time.Since(h.askedAt); {
	case h.refused != nil:
		code := ErrServer
		if errors.Is(h.refused, ErrUnavailable) {
			code = ErrUnavailable
		}
		return &Error{Op: "work", Code: code, Err: h.refused,
			Message: "the server refuses: " + redisx.Answer(h.refused)}
	case h.answeredAt.IsZero():
		message = "the server has not answered yet"
	case !h.askedAt.IsZero() && silence > limit:
		message = "the server has not answered for " + silence.Round(time.Second).String()
	default:
		return nil
	}
	return &Error{Op: "work", Code: ErrUnavailable, Message: message}
}

// newRates returns the reporter that counts the runs of a worker's jobs and sends the counts.
func newRates(client *Client, log *workerLog) *runs.Reporter {
	return runs.NewReporter(runs.ReporterConfig{
		Now: client.now, Send: client.sendRates, Refused: log.ratesRefused,
	})
}

// sendRates sends counts of runs. The counts are settled if the server has them, or refuses only
// these.
func (c *Client) sendRates(ctx context.Context, part *runs.Part) (settled bool, refused error) {
	args := []any{part.Run, strconv.Itoa(part.Number), wire.FormatSeconds(part.Age)}
	for key, counts := range part.Counts {
		args = append(args, key.Queue, key.Klass, counts.Text())
	}
	_, err := c.run(ctx, "rates.add", "", args...)
	switch {
	case err == nil:
		return true, nil
	case !redisx.IsAnswer(err) && !errors.Is(err, ErrServer): // the server is unreachable
		return false, nil
	}
	return !redisx.IsServerWide(err), err
}

// registerInterval is the time between registrations of a worker. The server forgets a worker after
// 150 s.
const registerInterval = time.Minute

// A workerInfo is the description that a worker registers. Package inspect reads it.
type workerInfo struct {
	Queues   []string `json:"queues"`
	Klasses  []string `json:"klasses"`
	Slots    int      `json:"slots"`
	Language string   `json:"language"`
	Version  string   `json:"version,omitempty"`
	Host     string   `json:"host"`
	PID      int      `json:"pid"`
	Paused   bool     `json:"paused,omitempty"`
	Stopping bool     `json:"stopping,omitempty"`

	Unhandled []unhandled `json:"unhandled,omitempty"`
}

// An unhandled klass has no handler, although jobs of it were in the queue.
type unhandled struct {
	Queue string `json:"queue"`
	Klass string `json:"klass"`
}

// A registrar keeps a running worker registered with the server.
type registrar struct {
	log      *workerLog
	describe func() workerInfo
	send     func(ctx context.Context, info workerInfo, age time.Duration) error
	now      func() time.Time
	inStep   func(wait, interval time.Duration) time.Duration
	again    hub.Signal // something may have changed

	// Used only by the goroutine of run.
	started    time.Time
	at         time.Time  // of the last call
	registered workerInfo // as last registered; only Paused and Stopping are used
	failures   int        // consecutive calls that failed
}

func newRegistrar(client *Client, log *workerLog, describe func() workerInfo) *registrar {
	return &registrar{
		log: log, describe: describe, send: client.register, now: client.now,
		inStep: client.hub.InStep, again: hub.NewSignal(),
	}
}

// run registers the worker until the context ends.
func (r *registrar) run(ctx context.Context) {
	r.started = r.now()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-r.again:
			if !r.isNews() {
				continue
			}
		case <-ctx.Done():
			return
		}
		timer.Reset(r.register(ctx))
	}
}

// isNews reports whether the worker was paused, resumed or stopped since it has registered, or the
// clock was moved.
func (r *registrar) isNews() bool {
	info, since := r.describe(), r.now().Sub(r.at)
	return info.Paused != r.registered.Paused || info.Stopping != r.registered.Stopping ||
		since < 0 || since >= registerInterval
}

// register registers the worker once, and returns how long to wait before the next time.
func (r *registrar) register(ctx context.Context) time.Duration {
	info := r.describe()
	r.at = r.now()
	err := r.send(ctx, info, r.at.Sub(r.started))
	if err == nil {
		r.registered, r.failures = info, 0
		return r.inStep(registerInterval, registerInterval)
	}
	r.failures++
	refused := redisx.IsAnswer(err)
	if refused && r.failures == 1 && ctx.Err() == nil {
		r.log.cantRegister(err)
	}
	if refused {
		return registerInterval
	}
	return redisx.WhileAway.After(r.failures)
}

// Bits of the reply of the script worker.register if there is something to do.
const (
	registeredRest   int64 = 1 << iota // jobs are left to be released
	registeredSweep                    // it is this worker's turn to sweep failed jobs
	registeredRecord                   // the figures of this minute are not recorded yet
)

// sweptTogether is the number of sweeps, of about 100 failed jobs each, in a worker's turn.
const sweptTogether = 20

// register registers the client's worker, with its description and start time. It releases the jobs
// left over by interrupted calls, notifies the dependents of jobs failed by other clients, and adds
// to the history of queues.
func (c *Client) register(ctx context.Context, info workerInfo, age time.Duration) error {
	text, err := json.Marshal(info)
	if err != nil {
		return err
	}
	reply, err := c.run(ctx, "worker.register", "",
		c.worker, wire.FormatSeconds(max(age, 0)), string(text))
	todo, _ := reply.(int64)
	switch {
	case todo&registeredRest != 0:
		c.settleDeferred(ctx)
	case todo&registeredSweep != 0:
		c.sweepFailures(ctx)
	}
	if todo&registeredRecord != 0 {
		c.recordQueues(ctx)
	}
	return err
}

// sweepFailures sweeps failed jobs from where the last sweep stopped. Errors are ignored: the next
// worker in turn continues.
func (c *Client) sweepFailures(ctx context.Context) {
	for range sweptTogether {
		reply, err := c.run(ctx, "sweep", "", "")
		if more, wrong := decodeInt("sweep", reply); err != nil || wrong != nil || more == 0 {
			return
		}
	}
}

// recordQueues adds this minute to the history of queues. Errors are ignored: they leave a gap.
func (c *Client) recordQueues(ctx context.Context) {
	for next := []any(nil); ; {
		reply, err := c.run(ctx, "queues.record", "", next...)
		if next, _ = reply.([]any); err != nil || len(next) == 0 {
			return
		}
	}
}

// now returns the time that the scripts use, as far as known here.
func (c *Client) now() time.Time {
	if c.clock != nil {
		return c.clock()
	}
	return time.Now()
}

// describe returns the worker's description of itself.
func (w *Worker) describe() workerInfo {
	w.mu.Lock()
	defer w.mu.Unlock()
	return workerInfo{
		Queues:   w.cfg.Queues,
		Klasses:  w.mux.klasses(),
		Slots:    w.cfg.Concurrency,
		Language: "go",
		Version:  moduleVersion(),
		Host:     hostName(),
		PID:      os.Getpid(),
		Paused:   w.paused,
		Stopping: w.state != workerRunning,

		Unhandled: w.log.unhandled(),
	}
}

// modulePath is the module that this package is in.
const modulePath = "github.com/qless/qless-go"

// moduleVersion returns the version of this package in the program, or the empty string if that
// is not known.
var moduleVersion = sync.OnceValue(func() string {
	build, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, module := range append(build.Deps, &build.Main) {
		if module.Path == modulePath {
			return module.Version
		}
	}
	return ""
})

// liveWorkers holds the workers of this process, by workerKey.
var liveWorkers sync.Map

// A workerKey must be unique among live workers.
type workerKey struct{ server, namespace, name string }

func (c *Client) workerKey() workerKey {
	return workerKey{redisx.IdentityOf(c.rdb), c.Namespace(), c.worker}
}

// claimName claims the name, and reports whether no other worker of this process has the name.
func (w *Worker) claimName() bool {
	_, taken := liveWorkers.LoadOrStore(w.client.workerKey(), w)
	return !taken
}

func (w *Worker) freeName() { liveWorkers.CompareAndDelete(w.client.workerKey(), w) }
