package qless

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	mrand "math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"time"

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
	held := w.locks.held()
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
	if !w.loop.isIdle() || w.rates.isAsked() {
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
	run   string // distinguishes this worker's messages from others
	again signal // send now

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
		log: log, send: client.sendRates, now: client.now, run: rand.Text(), again: newSignal(),
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
	k.again.notify()
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
