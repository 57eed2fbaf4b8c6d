package qless

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/qless/qless-go/internal/ask"
	"github.com/qless/qless-go/internal/linger"
	"github.com/qless/qless-go/internal/queues"
	"github.com/qless/qless-go/internal/redisx"
	"github.com/qless/qless-go/internal/slots"
	"github.com/qless/qless-go/internal/wire"
)

// A workLoop reserves a worker's jobs and reports their outcomes. It makes one exchange with the
// server at a time, which sends all pending reports and asks for as many jobs as there are free
// slots. Under light load, a report goes out at once; under heavy load, everything that accumulates
// during one exchange goes out with the next.
type workLoop struct {
	*exchanger
	w     *Worker
	watch *queues.Watch

	// Used only by the goroutine of run.
	weights  []int // of the queues that match each pattern, or nil
	tooMany  int   // the number of matching queues when last logged
	stranded bool  // a reserve got no reply, but may have locked jobs
	plenty   bool  // of the last answer, as in ask.Answer
	backlog  bool  // of the last answer, as in ask.Answer
	linger   linger.Rule
}

func newWorkLoop(w *Worker) *workLoop {
	l := &workLoop{
		w: w, weights: w.cfg.weights(), linger: linger.New(w.cfg.Linger),
		watch: queues.NewWatch(queues.NewPatterns(w.cfg.Queues), queueSource{w.client}),
	}
	l.exchanger = newExchanger("reserve", w.client, w.log, ask.Config{
		Name: w.Name(), Order: string(w.cfg.Order), Poll: w.cfg.PollInterval,
	}, w.reported)
	l.setAsked()
	return l
}

// run makes exchanges until the worker has stopped and all outcomes are delivered, or the context
// ends.
func (l *workLoop) run(ctx context.Context) {
	for l.asker.Pause(ctx) {
		l.linger.Pause(ctx, l.asker.Due, l.isAsking)
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
		default:
			if l.asker.Wait(ctx) {
				l.asker.Polls = true
			}
		}
	}
}

// isAsking reports whether the worker asks for jobs, and whether it runs.
func (l *workLoop) isAsking() (asks, runs bool) {
	return l.asker.IsWanting(), l.w.currentState() == workerRunning
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
	l.asker.LeaveOut(load.leaveOut)
	switch {
	case stopping && quiet && len(e.reports) == 0:
		e.done, e.leave = true, l.asker.IsIdle()
		return e
	case stopping || load.paused:
		e.leave = l.asker.IsIdle() || l.asker.MustLeave()
	case l.asker.MustLeave():
		e.leave = true
	case l.asker.IsWanting():
		e.room = load.room
		if e.room > 0 || l.plenty {
			e.ahead = load.ahead
		}
	}
	if e.hasWork() {
		w.health.asks()
	}
	return e
}

// exchange reports outcomes and asks for jobs, in one round trip.
func (l *workLoop) exchange(ctx context.Context, e exchange) {
	w := l.w
	defer w.checkQuiet()
	defer l.outbox.done()
	l.linger.Began(time.Now())
	brought := 0
	defer func() { l.linger.Ended(time.Now(), brought, l.backlog) }()
	away := l.sendProgress(ctx, e.progress)
	looked := false
	if e.room > 0 {
		l.asker.Begin() // first: a queue may appear during the look-up
	}
	if e.wants() > 0 {
		var err error
		if looked, err = l.resolve(ctx); err != nil {
			l.reportOnly(ctx, e.reports, err)
			return
		}
	}
	if e.room == 0 && !l.asker.HasQueues(1) {
		e.ahead, l.plenty = 0, false
	}
	asks := l.asks(e)
	if e.room > 0 && !asks {
		l.asker.NoQueues()
		w.bulk.settle(false)
		l.backlog = false
	}
	switch {
	case len(e.reports) > 0 || asks:
		got, failed := l.send(ctx, e)
		if got != nil {
			brought = len(got.jobs)
			l.begin(got)
		} else if asks {
			l.stranded = !w.named
		}
		l.after(ctx, failed)
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
		_, _ = l.send(ctx, exchange{reports: reports})
	} else {
		l.outbox.requeue(reports)
	}
	l.after(ctx, err)
}

// begin starts the jobs of an answer.
func (l *workLoop) begin(got *reserved) {
	l.plenty, l.backlog = got.IsPlenty(), got.IsBacklog()
	l.w.health.answered() // before a handler can ask for the worker's health
	runs := make([]*run, len(got.jobs))
	for i, job := range got.jobs {
		runs[i] = newRun(l.w, job, got.sent)
	}
	l.w.mu.Lock()
	l.w.slots.Answered(func(yield func(slots.Job) bool) {
		for _, r := range runs {
			if !yield(slots.Job{Queue: r.queue, Kind: kindOf(r.route)}) {
				return
			}
		}
	}, got.IsPlenty())
	if got.RefusesAhead() {
		l.w.ahead.Refused()
	}
	l.w.mu.Unlock()
	var keyed []*run
	for _, r := range runs {
		switch {
		case !r.keep():
		case r.route != nil && r.route.hasKeys():
			keyed = append(keyed, r)
		default:
			r.admit()
		}
	}
	l.w.bulk.admit(keyed, got.MayBeMore())
	l.settle(got)
}

// after records the result of an exchange.
func (l *workLoop) after(ctx context.Context, failed error) {
	if failed != nil {
		l.w.health.failed(failed)
		l.failed(ctx, failed)
		l.w.bulk.settle(false)
		return
	}
	l.w.health.succeeded()
	if l.asker.Succeeded() && l.w.currentState() == workerRunning {
		l.log.serverBack()
	}
	if l.stranded {
		_ = l.recoverStranded(ctx) // if it fails, it is retried after the next exchange
	}
}

// sendProgress sends reports of the progressKeeper, and returns an error if the server is
// unreachable. Reports that the server refuses are dropped: the job's next report has newer values.
func (l *workLoop) sendProgress(ctx context.Context, reports []*heldProgress) error {
	if len(reports) == 0 {
		return nil
	}
	keeper := l.w.progress
	sent := make([]*progressReport, len(reports))
	for i, r := range reports {
		sent[i] = r.progressReport
	}
	_, err := l.client.sendProgress(ctx, "", sent...)
	switch {
	case err != nil && !redisx.IsAnswer(err) && !errors.Is(err, ErrServer):
		keeper.restore(reports)
		return err
	case keeper.isNews(err):
		l.log.progressRefused(err)
	}
	return nil
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
		if w.locks.Holds(jid) || l.outbox.has(jid) {
			continue
		}
		l.outbox.add(&report{
			Outcome: Outcome{Action: ActionRelease}, jid: jid, queue: "?",
			until: time.Now().Add(unknownLock), quiet: true,
		})
		l.log.releasedStray(jid)
	}
	l.asker.Due.Notify()
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

// resolve looks up the existing queues, if that is due, and reports whether it asked the server. If
// it fails, the loop tries again.
func (l *workLoop) resolve(ctx context.Context) (looked bool, err error) {
	if !l.watch.Choice.Patterns.Watch() {
		return false, nil
	}
	changed, missed := l.watch.Learn()
	if changed { // other workers were notified of the new queue too, and it is enough if one looks
		l.asker.Polls = true
	}
	if looked, err = l.watch.Look(ctx, missed, l.w.cfg.PollInterval/2); err != nil {
		l.w.listener.missedQueues()
	}
	if looked || changed {
		l.setAsked()
	}
	return looked, err
}

// setAsked sets the queues to ask.
func (l *workLoop) setAsked() {
	asked, weights := l.watch.Choice.Asked, []int(nil)
	if l.weights != nil {
		weights = l.watch.Choice.Patterns.Weights(asked, l.weights)
	}
	l.asker.SetQueues(asked, weights)
	l.warnOfTooMany()
}

// warnOfTooMany logs that the patterns match more queues than are asked, once unless their number
// changes a lot.
func (l *workLoop) warnOfTooMany() {
	logged, matched := &l.tooMany, l.watch.Choice.Count()
	switch {
	case matched <= maxReserve:
		*logged = 0
	case *logged == 0 || matched > *logged*3/2 || matched < *logged*2/3:
		*logged = matched
		l.log.tooManyQueues(matched)
	}
}

// A queueSource reads the queues of a client's namespace.
type queueSource struct{ *Client }

// Ready returns the queues with jobs for a worker, now or later.
func (c queueSource) Ready(ctx context.Context, queues []string) ([]string, error) {
	var all []string
	for some := range slices.Chunk(queues, maxReserve) {
		reply, err := c.run(ctx, "queues.ready", "", wire.Anys(nil, some...)...)
		if err != nil {
			return nil, err
		}
		ready, err := decodeStrings("queues.ready", reply)
		if err != nil {
			return nil, err
		}
		all = append(all, ready...)
	}
	return all, nil
}

// Names returns the names of the known queues, in the order of their appearance. Queues that are
// not in the list used by clients in other languages come last.
func (c queueSource) Names(ctx context.Context) ([]string, error) {
	sent := time.Now()
	listed, err := c.rdb.ZRange(ctx, c.prefix+"queues", 0, -1).Result()
	if err == nil {
		var unlisted []string
		unlisted, err = c.rdb.ZRange(ctx, c.prefix+"x:queues", 0, -1).Result()
		listed = append(listed, unlisted...)
	}
	err = wrap("queues", "", err)
	if c.observe != nil {
		c.observed(ctx, "queues", "", nil, nil, sent, err)
	}
	return listed, err
}

// Count returns the number of Names.
func (c queueSource) Count(ctx context.Context) (int, error) {
	sent := time.Now()
	counts, err := c.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		p.ZCard(ctx, c.prefix+"queues")
		p.ZCard(ctx, c.prefix+"x:queues")
		return nil
	})
	err = wrap("queues.count", "", err)
	if c.observe != nil {
		c.observed(ctx, "queues.count", "", nil, nil, sent, err)
	}
	if err != nil {
		return 0, err
	}
	sum := 0
	for _, count := range counts {
		sum += int(count.(*redis.IntCmd).Val())
	}
	return sum, nil
}
