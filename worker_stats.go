package qless

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	mrand "math/rand/v2"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/qless/qless-go/internal/hub"
	"github.com/qless/qless-go/internal/redisx"
	"github.com/qless/qless-go/internal/runs"
	"github.com/qless/qless-go/internal/wire"
)

// WorkerStats describes what a worker is doing and has done since it was started.
type WorkerStats struct {
	// Completed counts jobs that were completed, also ones that moved to another queue.
	Completed int `json:"completed"`

	// Failed counts jobs that were failed at once. A job that ran out of retries counts as retried.
	Failed int `json:"failed"`

	// Retried counts jobs that were retried, or failed because they had no retries left.
	Retried int `json:"retried"`

	// Released counts jobs that were released without using up a retry.
	Released int `json:"released"`

	// Ended counts jobs that were ended by their own handlers.
	Ended int `json:"ended"`

	// Canceled counts jobs that were canceled while they ran.
	Canceled int `json:"canceled"`

	// Lost counts outcomes that were discarded because the lock was lost or the server refused
	// them.
	Lost int `json:"lost"`

	// Slots is how many jobs the worker runs at once, as its Concurrency says.
	Slots int `json:"slots"`

	// Prefetched is how many jobs the worker holds ahead of its free slots. They are locked, but do
	// not run yet.
	Prefetched int `json:"prefetched"`

	// Running are the running jobs, oldest first.
	Running []RunningJob `json:"running"`

	// Queues are the queues that jobs are taken from, as the patterns match now.
	Queues []string `json:"queues"`

	// Schedules are the schedules that the worker follows, in the order of its config.
	Schedules []ScheduleStatus `json:"schedules"`

	// Paused reports whether the worker is paused.
	Paused bool `json:"paused"`

	// Idle reports whether the worker has nothing to do: no handler runs, the server has taken
	// all outcomes, and had no job for the worker when it was asked since something last woke
	// the worker.
	Idle bool `json:"idle"`

	// LastAnswer is when the server last answered.
	LastAnswer time.Time `json:"last_answer,omitzero"`
}

// A RunningJob is a job that a worker is running.
type RunningJob struct {
	JID   string    `json:"jid"`
	Klass string    `json:"klass"`
	Queue string    `json:"queue"`
	Since time.Time `json:"since"`
}

// ScheduleStatus is how a worker follows a schedule.
type ScheduleStatus struct {
	ID string `json:"id"`

	// Checked is when the worker last checked whether the schedule was due, by this machine's
	// clock; zero before it has.
	Checked time.Time `json:"checked,omitzero"`

	// Next is when the schedule is due next, by the server's clock; zero if that is never, or
	// not known yet.
	Next time.Time `json:"next,omitzero"`
}

// Stats returns what the worker does and has done.
func (w *Worker) Stats() WorkerStats {
	s := w.counters.read()
	s.Idle, s.Slots = w.isIdle(), w.cfg.Concurrency
	s.Queues, s.Paused, s.LastAnswer = w.loop.askedQueues(), w.isPaused(), w.health.lastTurn()
	s.Running, s.Prefetched = w.running()
	for _, schedule := range w.schedules {
		s.Schedules = append(s.Schedules, schedule.status())
	}
	slices.SortFunc(s.Running, func(a, b RunningJob) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.JID, b.JID))
	})
	return s
}

// running returns the jobs that run and are held, and how many were taken ahead.
func (w *Worker) running() (running []RunningJob, ahead int) {
	held := w.locks.Holders()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, a := range held {
		if !a.started.IsZero() {
			job := RunningJob{JID: a.jid, Klass: a.klass, Queue: a.queue, Since: a.started}
			running = append(running, job)
		}
	}
	return running, len(w.ahead.jobs)
}

// isIdle reports whether there is nothing to do. A job goes from the worker's active jobs to the
// ones being finished, and its report to the outbox, so they are asked in that order.
func (w *Worker) isIdle() bool {
	if !w.loop.isResting() || w.rates.isAsked() {
		return false
	}
	return !w.runsHandlers() && w.finishing.Load() == 0 && w.isQuiet()
}

// Healthy returns nil while the worker does its work, for a readiness probe: it was started and
// not stopped, and the server has answered it within two poll intervals and accepted its last
// command. A worker that is paused or fully busy asks nothing, and is healthy.
//
// If the server refuses commands, the error has its message. It is [ErrServer], or
// [ErrUnavailable] while the server takes no commands at all.
func (w *Worker) Healthy() error {
	switch w.currentState() {
	case workerNew:
		return &Error{Op: "work", Code: ErrStopped, Message: "the worker was not started"}
	case workerStopping, workerClosed:
		return &Error{Op: "work", Code: ErrStopped, Message: "the worker was stopped"}
	}
	return w.health.check(2 * w.cfg.PollInterval)
}

// counters count what a worker has done.
type counters struct {
	mu    sync.Mutex
	stats WorkerStats // only the counts are used
}

// countActions are the counters of the actions.
var countActions = map[Action]func(*WorkerStats) *int{
	ActionComplete: func(s *WorkerStats) *int { return &s.Completed },
	ActionFail:     func(s *WorkerStats) *int { return &s.Failed },
	ActionRelease:  func(s *WorkerStats) *int { return &s.Released },
	ActionRetry:    func(s *WorkerStats) *int { return &s.Retried },
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
	refused    error     // the server's error, if it refused the last exchange
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

// answered records that the server has answered, before the exchange is over.
func (h *health) answered() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.answeredAt = time.Now()
}

// succeeded records that an exchange succeeded.
func (h *health) succeeded() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.answeredAt, h.askedAt, h.refused = time.Now(), time.Time{}, nil
}

// failed records that an exchange failed.
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

const (
	// rateInterval is how often a worker sends what it has counted.
	rateInterval = 15 * time.Second

	// maxRateKeys is how many queues and klasses are counted apart in one part.
	maxRateKeys = 500

	// maxRateParts is how many parts may wait to be sent. When there are more, two become one.
	maxRateParts = 20

	// maxRateName is how long the names of a queue and a klass may be together to be counted apart.
	maxRateName = 512
)

// A ratePart is what was counted in some time, to be sent in one script.
type ratePart struct {
	began  time.Time
	number int // its place among all that were sent; 0 if it was not sent yet
	counts map[runs.Key]*runs.Counts
}

// of returns the counts of a queue and a klass.
func (p *ratePart) of(key runs.Key) *runs.Counts {
	if len(key.Queue)+len(key.Klass) > maxRateName {
		key = runs.Key{}
	}
	counts := p.counts[key]
	if counts == nil && len(p.counts) >= maxRateKeys {
		key = runs.Key{}
		counts = p.counts[key]
	}
	if counts == nil {
		counts = &runs.Counts{}
		p.counts[key] = counts
	}
	return counts
}

// merge adds what was counted later.
func (p *ratePart) merge(later *ratePart) {
	for key, counts := range later.counts {
		p.of(key).Merge(counts)
	}
}

// A rateKeeper counts the runs of a worker's jobs, and sends the counts to the server.
type rateKeeper struct {
	log   *workerLog
	send  func(ctx context.Context, run string, part *ratePart, age time.Duration) error
	now   func() time.Time
	run   string     // tells what this worker sends from what others send
	again hub.Signal // send now

	// Used only by the goroutine that sends.
	sent    int  // how many parts were sent
	refused bool // the last call was

	mu      sync.Mutex
	current *ratePart   // nil if nothing was counted
	closed  []*ratePart // oldest first
	asked   bool        // to send now
}

func newRateKeeper(client *Client, log *workerLog) *rateKeeper {
	return &rateKeeper{
		log: log, send: client.sendRates, now: client.now, run: rand.Text(), again: hub.NewSignal(),
	}
}

// count counts a run of a job, and how it ended. Releases do not count, as nothing has come of the
// run.
func (k *rateKeeper) count(a *activeJob, action Action) {
	if a == nil || action != ActionComplete && action != ActionFail && action != ActionRetry {
		return
	}
	now := k.now()
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.current != nil && k.isOver(now) {
		k.close()
	}
	if k.current == nil {
		k.current = &ratePart{began: now, counts: map[runs.Key]*runs.Counts{}}
	}
	counts := k.current.of(runs.Key{Queue: a.queue, Klass: a.klass})
	switch action {
	case ActionComplete:
		counts.Completed++
	case ActionFail:
		counts.Failed++
	case ActionRetry:
		counts.Retried++
	}
	counts.Run.Add(a.ran)
	if a.waited > 0 { // else it is unknown
		counts.Wait.Add(a.waited)
	}
}

// isOver reports whether the current part is complete. The mutex is held.
func (k *rateKeeper) isOver(now time.Time) bool {
	since := now.Sub(k.current.began)
	return since < 0 || since >= rateInterval
}

// close closes the current part, and limits how many there are: of the unsent ones, each second one
// becomes part of the one before. The mutex is held.
func (k *rateKeeper) close() {
	if k.current == nil {
		return
	}
	k.closed = append(k.closed, k.current)
	k.current = nil
	if len(k.closed) <= maxRateParts {
		return
	}
	kept := k.closed[:1:1] // it may have been sent
	for i := 1; i < len(k.closed); i += 2 {
		part := k.closed[i]
		if i+1 < len(k.closed) {
			part.merge(k.closed[i+1])
		}
		kept = append(kept, part)
	}
	k.closed = kept
}

// ask has the counts sent now.
func (k *rateKeeper) ask() {
	k.mu.Lock()
	k.asked = k.current != nil || len(k.closed) > 0
	k.mu.Unlock()
	k.again.Notify()
}

// isAsked reports whether the counts are about to be sent because of ask.
func (k *rateKeeper) isAsked() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.asked
}

// keep sends the counts from time to time until the context ends.
func (k *rateKeeper) keep(ctx context.Context) {
	for wait := rateInterval; ; wait = time.Duration(float64(rateInterval) * (0.9 + mrand.Float64()/10)) {
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-k.again:
		case <-ctx.Done():
			timer.Stop()
			return
		}
		timer.Stop()
		k.flush(ctx)
	}
}

// flush sends what was counted, each part in one script, until the server does not take one.
func (k *rateKeeper) flush(ctx context.Context) {
	k.mu.Lock()
	k.close()
	k.mu.Unlock()
	for part := k.oldest(); part != nil && ctx.Err() == nil; part = k.oldest() {
		if !k.sendPart(ctx, part) {
			break
		}
		k.mu.Lock()
		k.closed = slices.Delete(k.closed, 0, 1)
		k.mu.Unlock()
	}
	k.mu.Lock()
	k.asked = false
	k.mu.Unlock()
}

// oldest returns the part to be sent next, or nil.
func (k *rateKeeper) oldest() *ratePart {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.closed) == 0 {
		return nil
	}
	return k.closed[0]
}

// sendPart sends a part, and reports whether that is settled: the server has it, or refuses this
// one and not others. A part whose answer was lost is sent again with the same number, by which the
// server knows it.
func (k *rateKeeper) sendPart(ctx context.Context, part *ratePart) (settled bool) {
	if part.number == 0 {
		k.sent++
		part.number = k.sent
	}
	err := k.send(ctx, k.run, part, max(k.now().Sub(part.began), 0))
	away := err != nil && !redisx.IsAnswer(err) && !errors.Is(err, ErrServer)
	if err != nil && !away && !k.refused {
		k.log.ratesRefused(err)
	}
	k.refused = err != nil && !away
	return err == nil || !away && !isServerWide(err)
}

// sendRates sends what a worker has counted.
func (c *Client) sendRates(
	ctx context.Context, run string, part *ratePart, age time.Duration,
) error {
	args := []any{run, strconv.Itoa(part.number), wire.FormatSeconds(age)}
	for key, counts := range part.counts {
		args = append(args, key.Queue, key.Klass, counts.Text())
	}
	_, err := c.run(ctx, "rates.add", "", args...)
	return err
}

// registerInterval is how often a worker registers. The server forgets one that has not done so for
// 150 s.
const registerInterval = time.Minute

// A workerInfo is what a worker registers. Package inspect reads it.
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
	started  time.Time
	at       time.Time  // of the last call
	told     workerInfo // what the server knows; only whether it is paused or stopping is used
	failures int        // consecutive calls that failed
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
	return info.Paused != r.told.Paused || info.Stopping != r.told.Stopping ||
		since < 0 || since >= registerInterval
}

// register registers the worker once. It returns how long to wait before the next time.
func (r *registrar) register(ctx context.Context) time.Duration {
	info := r.describe()
	r.at = r.now()
	err := r.send(ctx, info, r.at.Sub(r.started))
	if err == nil {
		r.told, r.failures = info, 0
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

// Replies of the script worker.register if there is something to do.
const (
	registeredRest  int64 = 1 // jobs are left to be released
	registeredSweep int64 = 2 // it is this worker's turn to look at the failed jobs
)

// sweptTogether is how many times a worker looks at failed jobs, about 100 each, when it is its
// turn.
const sweptTogether = 20

// register registers the client's worker, with its description and start time. It releases jobs
// that calls which have ended early left over, and notifies the jobs that wait for failed ones if
// other clients failed these.
func (c *Client) register(ctx context.Context, info workerInfo, age time.Duration) error {
	text, err := json.Marshal(info)
	if err != nil {
		return err
	}
	reply, err := c.run(ctx, "worker.register", "", c.worker, wire.FormatSeconds(max(age, 0)), string(text))
	switch reply {
	case registeredRest:
		c.settleDeferred(ctx)
	case registeredSweep:
		c.sweepFailures(ctx)
	}
	return err
}

// sweepFailures looks at failed jobs from where the last sweep stopped on. An error is no news: the
// next worker whose turn it is continues.
func (c *Client) sweepFailures(ctx context.Context) {
	for range sweptTogether {
		reply, err := c.run(ctx, "sweep", "", "")
		if more, wrong := decodeInt("sweep", reply); err != nil || wrong != nil || more == 0 {
			return
		}
	}
}

// now returns the time by which the scripts go, as far as that is known here.
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

// liveWorkers holds the workers that this process runs, by workerKey.
var liveWorkers sync.Map

// A workerKey must be unique among live workers.
type workerKey struct{ server, namespace, name string }

func (w *Worker) key() workerKey {
	return workerKey{serverOf(w.client.rdb), w.client.Namespace(), w.Name()}
}

// claimName claims the name, and reports whether no other worker of this process has it.
func (w *Worker) claimName() bool {
	_, taken := liveWorkers.LoadOrStore(w.key(), w)
	return !taken
}

func (w *Worker) freeName() { liveWorkers.CompareAndDelete(w.key(), w) }

// serverOf identifies the server of a go-redis client, as far as its options allow.
func serverOf(rdb redis.UniversalClient) string {
	switch c := rdb.(type) {
	case *redis.Client:
		if o := c.Options(); o.Addr != "FailoverClient" { // the address of every sentinel client
			return fmt.Sprintf("%s:%s/%d", o.Network, o.Addr, o.DB)
		}
	case *redis.ClusterClient:
		return strings.Join(slices.Sorted(slices.Values(c.Options().Addrs)), ",")
	}
	return fmt.Sprintf("%p", rdb)
}
