package qless

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/qless/qless-go/internal/hub"
	"github.com/qless/qless-go/internal/linger"
	"github.com/qless/qless-go/internal/queues"
	"github.com/qless/qless-go/internal/redisx"
	"github.com/qless/qless-go/internal/wire"
)

// A workLoop reserves a worker's jobs and reports their outcomes. It makes one exchange with the
// server at a time, which sends all pending reports and asks for as many jobs as there are free
// slots. Under light load, a report goes out at once; under heavy load, everything that accumulates
// during one exchange goes out with the next.
type workLoop struct {
	w   *Worker
	due hub.Signal // there is something to exchange

	// Used only by the goroutine of run.
	reservation reservation
	weights     []int // of the queues that match each pattern, or nil
	watch       *queues.Watch
	tooMany     int // the number of matching queues when it was last logged
	appetite    appetite
	alarm       *time.Timer     // fires when to ask again at the latest
	failures    int             // consecutive exchanges that failed
	notBefore   time.Time       // after a failure, no exchange before this
	logged      map[string]bool // kinds of failures logged since the last success
	unheard     int             // consecutive reserves that found the worker not listening
	stranded    bool            // a reserve got no reply: it may have locked jobs
	plenty      bool            // of the last reserve, as in reserved
	backlog     bool            // of the last reserve, as in reserved
	linger      linger.Rule
	countedAt   time.Time // when the last reserve that counted relays was sent

	mu     sync.Mutex
	demand demand
	counts bool     // the next reserve must count relays
	idle   bool     // the server counts the worker among the idle ones
	queues []string // the queues to ask, as last matched
	claim  string   // the queue for whose next due job this worker waits
}

// The demand of a loop for jobs:
//
//	          there is room              there are no more
//	wanting ----------------> asking ------------------------> resting
//	   ^                        |                                 |
//	   +------------------------+---------------------------------+
//	     a wake-up, the alarm, an answer with more, or none at all
type demand int

const (
	wanting demand = iota // there may be jobs
	asking                // an exchange asks for jobs
	resting               // the server has no jobs
)

func newWorkLoop(w *Worker) *workLoop {
	l := &workLoop{
		w: w, due: hub.NewSignal(),
		reservation: reservation{order: w.cfg.Order}, weights: w.cfg.weights(),
		linger: linger.New(w.cfg.Linger),
		watch:  queues.NewWatch(queues.NewPatterns(w.cfg.Queues), queueSource{w.client}),
		logged: map[string]bool{},
	}
	l.setAsked()
	return l
}

// run makes exchanges until the worker has stopped and all outcomes are delivered, or the context
// ends.
func (l *workLoop) run(ctx context.Context) {
	l.alarm = time.NewTimer(0)
	defer l.alarm.Stop()
	for {
		if !redisx.Sleep(ctx, time.Until(l.notBefore)) {
			return
		}
		l.linger.Pause(ctx, l.due, l.asks)
		runtime.Gosched() // include handlers that are about to end
		next := l.next()
		switch {
		case next.done && l.stranded:
			l.after(ctx, l.recoverStranded(ctx))
		case next.done:
			if next.leave {
				l.exchange(ctx, next) // once: the server may be unreachable
			}
			return
		case next.hasWork():
			l.exchange(ctx, next)
		case !l.wait(ctx):
			return
		}
	}
}

// An exchange describes the loop's next exchange with the server.
type exchange struct {
	reports  []*report
	progress []*heldProgress
	room     int  // the number of jobs to ask for
	ahead    int  // the number of further jobs, if no idle worker could take them
	leave    bool // no more jobs are wanted: the worker is no longer idle
	done     bool // the worker has stopped, and all outcomes are delivered
}

// wants returns the total number of jobs to ask for.
func (e exchange) wants() int { return e.room + e.ahead }

func (e exchange) hasWork() bool {
	return len(e.reports) > 0 || len(e.progress) > 0 || e.wants() > 0 || e.leave
}

// next returns the next exchange. Its reports belong to the caller until it calls the outbox's
// done.
func (l *workLoop) next() exchange {
	w := l.w
	w.checkQuiet()
	quiet := w.isQuiet()
	load := w.load()
	e := exchange{reports: load.reports, progress: w.progress.take(load.reports)}
	stopping := load.state == workerStopping
	idle, wants := l.standing()
	switch {
	case stopping && quiet && len(e.reports) == 0:
		e.done, e.leave = true, idle
		return e
	case stopping || load.paused:
		e.leave = idle
	case wants:
		e.room = max(0, w.cfg.Concurrency-load.active)
		if e.room > 0 || l.plenty {
			e.ahead = load.ahead
		}
		l.appetite.limit(&e)
	}
	if e.hasWork() {
		w.health.asks()
	}
	return e
}

// wait waits for something to do. It returns false if the context ends first.
func (l *workLoop) wait(ctx context.Context) bool {
	select {
	case <-l.due:
	case <-l.alarm.C:
		l.reservation.polls = true
		l.jobsReady()
	case <-ctx.Done():
		return false
	}
	return true
}

// jobsReady makes the loop ask for jobs and count relays.
func (l *workLoop) jobsReady() {
	l.setCounts(true)
	l.woken()
}

// woken makes the loop ask for jobs.
func (l *workLoop) woken() {
	l.setDemand(wanting)
	l.due.Notify()
}

// countsAgain is the maximum time between two reserves that count relays.
const countsAgain = time.Second

// setCounts sets whether the next reserve must count relays, and returns the previous setting.
func (l *workLoop) setCounts(counts bool) (before bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	before, l.counts = l.counts, counts
	return before
}

func (l *workLoop) setDemand(d demand) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.demand = d
}

// rest records that the server has no more jobs, unless something has woken the worker since the
// request.
func (l *workLoop) rest() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.demand == asking {
		l.demand = resting
	}
}

// isResting reports whether there is nothing to ask the server for.
func (l *workLoop) isResting() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.demand == resting
}

// standing reports whether the server counts the worker among the idle ones, and whether there may
// be jobs.
func (l *workLoop) standing() (idle, wants bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.idle, l.demand == wanting
}

// asks reports whether the worker asks for jobs, and whether it runs.
func (l *workLoop) asks() (asks, runs bool) {
	_, asks = l.standing()
	return asks, l.w.currentState() == workerRunning
}

// askedQueues returns the queues currently asked for jobs.
func (l *workLoop) askedQueues() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.queues
}

// claimed returns the queue of the due job the worker waits for, or the empty string.
func (l *workLoop) claimed() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.claim
}

// exchange reports outcomes and asks for jobs, in one round trip.
func (l *workLoop) exchange(ctx context.Context, e exchange) {
	w := l.w
	defer w.checkQuiet()
	defer w.outbox.done()
	l.linger.Began(time.Now())
	defer func() { l.linger.Ended(time.Now(), l.backlog) }()
	away := l.sendProgress(ctx, e.progress)
	looked := false
	if e.room > 0 {
		l.setDemand(asking) // first: a queue may appear during the look-up
	}
	if e.wants() > 0 {
		var err error
		if looked, err = l.resolve(ctx); err != nil {
			l.reportOnly(ctx, e.reports, err)
			return
		}
	}
	if e.room == 0 && len(l.reservation.queues) == 0 {
		e.ahead, l.plenty = 0, false
	}
	asks := (e.wants() > 0 || e.leave) && len(l.reservation.queuesFor(e.room)) > 0
	if e.room > 0 && !asks {
		l.alarm.Reset(w.cfg.PollInterval) // no queue matches yet
		l.backlog = false
		l.rest()
	}
	switch {
	case len(e.reports) > 0 || asks:
		l.after(ctx, l.send(ctx, e, asks))
	case looked || len(e.progress) > 0:
		l.after(ctx, away)
	default:
		w.health.asksNothing()
	}
}

// reportOnly reports outcomes when the queues could not be looked up, unless the server is
// unreachable.
func (l *workLoop) reportOnly(ctx context.Context, reports []*report, err error) {
	if redisx.IsAnswer(err) && len(reports) > 0 {
		_ = l.send(ctx, exchange{reports: reports}, false)
	} else {
		l.w.outbox.requeue(reports)
	}
	l.after(ctx, err)
}

// send sends reports and, if asks is set, asks for jobs.
func (l *workLoop) send(ctx context.Context, e exchange, asks bool) error {
	w := l.w
	p := w.client.runner.Pipeline()
	setPlaces(e.reports)
	batches := inBatches(e.reports)
	for _, batch := range batches {
		p.Add("finish", finishArgs(w.client.worker, batch)...)
	}
	if asks {
		counts := l.setCounts(false)
		l.reservation.brief = !counts && e.room > 0 && time.Since(l.countedAt) < countsAgain
		p.Add("reserve", l.reservation.args(w.client.worker, e.room, e.ahead, w.cfg.PollInterval)...)
		l.reservation.polls = false // if the reply is lost, the next one must repeat its claim
	}
	sent := time.Now()
	replies, failures := w.client.exec(ctx, p)
	others := slices.Contains(failures, nil)
	var failed error
	for i, batch := range batches {
		if err := w.outbox.answered(batch, replies[i], failures[i], others); err != nil {
			failed = err
		}
	}
	if asks {
		last := len(replies) - 1
		if err := l.reserved(replies[last], failures[last], sent, e); err != nil {
			failed = err
		}
	}
	return failed
}

// reserved starts the reserved jobs.
func (l *workLoop) reserved(reply any, err error, sent time.Time, e exchange) error {
	var got reserved
	if err == nil {
		got, err = l.w.client.decodeReserved(reply)
	} else {
		l.appetite.failed(e.wants(), err, l.w.log)
	}
	if err != nil {
		l.stranded = !l.w.named
		l.setCounts(true)
		l.mu.Lock()
		l.demand = wanting
		l.idle = l.idle || e.room > 0 // perhaps: if it must take no more jobs, it reports that
		l.mu.Unlock()
		return wrap("reserve", "", err)
	}
	l.reservation.cursor, l.reservation.claim = got.cursor, got.claim
	l.mu.Lock()
	l.claim = got.claim
	l.idle = got.leavesIdle(e)
	if !l.reservation.brief && l.idle {
		l.countedAt = sent
	} else if !l.reservation.brief { // relays are not counted while no worker is idle
		l.counts = true
	}
	l.mu.Unlock()
	l.plenty, l.backlog = got.isPlenty(e), got.isBacklog(e)
	l.appetite.succeeded(len(got.jobs))
	l.w.health.answered() // before a handler can ask for the worker's health
	for _, reserved := range got.jobs {
		newRun(l.w, reserved, sent).begin()
	}
	l.setAlarm(got, e, sent)
	return nil
}

// setAlarm sets when to ask again: at once if there may be more jobs, and otherwise at the time
// that the server gave, or when the worker is woken.
func (l *workLoop) setAlarm(got reserved, e exchange, sent time.Time) {
	if e.wants() == 0 {
		l.alarm.Stop()
		return
	}
	if got.mayBeMore() {
		l.alarm.Stop()
		l.woken()
		l.w.listener.relay.Adjust(got.listeners) // a busy worker can relay too
		return
	}
	wait := got.wait
	if got.claim == "" {
		wait = l.w.client.hub.InStep(wait, l.w.cfg.PollInterval)
	}
	if got.listeners < 0 {
		l.w.listener.resubscribe(sent)
		l.unheard++
		wait = min(wait, 50*time.Millisecond<<min(l.unheard, 16))
	} else {
		l.w.listener.relay.Adjust(got.listeners)
		l.unheard = 0
	}
	l.alarm.Reset(wait)
	l.rest()
}

// after records the result of an exchange.
func (l *workLoop) after(ctx context.Context, failed error) {
	if failed != nil {
		l.failed(ctx, failed)
		return
	}
	l.w.health.succeeded()
	if l.failures > 0 && l.w.currentState() == workerRunning {
		l.w.log.serverBack()
	}
	l.failures = 0
	clear(l.logged)
	if l.stranded {
		_ = l.recoverStranded(ctx) // if it fails, it is retried after the next exchange
	}
}

// failed records a failed exchange and delays the next one. Each kind of failure is logged once
// until an exchange succeeds.
func (l *workLoop) failed(ctx context.Context, err error) {
	l.failures++
	l.notBefore = time.Now().Add(redisx.WhileAway.After(l.failures))
	l.w.health.failed(err)
	kind := redisx.Refusal(err)
	if ctx.Err() != nil || l.logged[kind] {
		return
	}
	l.logged[kind] = true
	if redisx.IsAnswer(err) {
		l.w.log.serverRefuses(err)
	} else {
		l.w.log.serverAway(err)
	}
}

// recoverStranded releases the jobs that were locked by a reserve that got no reply.
func (l *workLoop) recoverStranded(ctx context.Context) error {
	w := l.w
	held, err := w.client.held(ctx)
	if err != nil {
		return err
	}
	l.stranded = false
	for _, jid := range held {
		if w.locks.Holds(jid) || w.outbox.has(jid) {
			continue
		}
		w.outbox.add(&report{
			Outcome: Outcome{Action: ActionRelease}, jid: jid, queue: "?",
			until: time.Now().Add(unknownLock), quiet: true,
		})
		w.log.releasedStray(jid)
	}
	l.due.Notify()
	return nil
}

// heldAtOnce is the number of a worker's jobs read by a script.
const heldAtOnce = "1000"

// held returns the jids of the jobs held by the client's worker.
func (c *Client) held(ctx context.Context) ([]string, error) {
	var all []string
	for cursor := ""; ; {
		reply, err := c.run(ctx, "find", "", "worker", c.worker, cursor, heldAtOnce, "0", "jid")
		if err != nil {
			return nil, err
		}
		found, err := decode[struct {
			Cursor wire.Text           `json:"cursor"`
			Items  wire.List[wire.Raw] `json:"items"`
		}]("find", reply)
		if err != nil {
			return nil, err
		}
		all = append(all, wire.Strings(found.Items)...)
		if cursor = string(found.Cursor); cursor == "" {
			return wire.Distinct(all), nil
		}
	}
}

// leave deregisters the worker, which no longer listens. Others then take over the jobs that it may
// have been woken for, and its relaying.
func (l *workLoop) leave(ctx context.Context, relayed bool) {
	ctx, cancel := context.WithTimeout(ctx, leaveTimeout)
	defer cancel()
	c := l.w.client
	if err := c.depart(ctx, c.worker, l.claimed(), relayed, l.askedQueues()); err != nil {
		l.w.log.cantDeregister(err)
	}
}

// depart deregisters an idle worker by its name, and gives up its claim.
func (c *Client) depart(
	ctx context.Context, name, claim string, relayed bool, queues []string,
) error {
	relays := "0"
	if relayed {
		relays = "1"
	}
	_, err := c.run(ctx, "depart", "", anys([]any{name, claim, relays}, queues...)...)
	return err
}
