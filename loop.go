package qless

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"slices"
	"time"

	"github.com/qless/qless-go/internal/redisx"
)

// loop is the one place from which a worker reserves jobs and tells what became of them:
// one exchange with the server at a time, which carries all outcomes that there are by then
// and asks for as many jobs as there is room. Under light load an outcome goes out at once;
// under heavy load whatever came up during one exchange goes out with the next.
func (w *Worker) loop(ctx context.Context) {
	l := looper{w: w, reservation: reservation{patterns: w.cfg.Queues, order: w.cfg.Order}}
	l.alarm = time.NewTimer(0)
	defer l.alarm.Stop()
	for {
		if !redisx.Sleep(ctx, time.Until(l.notBefore)) {
			return
		}
		runtime.Gosched() // handlers that are about to end go along
		todo := w.todo()
		switch {
		case todo.done && l.stranded:
			l.after(ctx, l.recover(ctx))
		case todo.done:
			if todo.leave {
				l.exchange(ctx, todo) // once: the server may be away
			}
			return
		case todo.something():
			l.exchange(ctx, todo)
		case !l.wait(ctx):
			return
		}
	}
}

// todo is what the loop has to do.
type todo struct {
	outcomes []*outcome
	room     int  // how many jobs to ask for
	leave    bool // no more jobs are wanted: the worker is not idle any more
	done     bool // it has stopped, and the server knows all outcomes
}

func (t todo) something() bool { return len(t.outcomes) > 0 || t.room > 0 || t.leave }

// todo takes what there is to do. The outcomes are the caller's then.
func (w *Worker) todo() todo {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.noteQuiet()
	stopping := w.state == workerStopping
	t := todo{outcomes: w.outcomes}
	w.outcomes, w.telling = nil, t.outcomes
	if stopping && w.isQuiet() {
		t.done, t.leave = true, w.idle
		return t
	}
	if stopping || w.paused {
		t.leave = w.idle
	} else if w.hungry {
		t.room = max(0, w.cfg.Concurrency-len(w.working))
	}
	if t.something() {
		w.health.asks(time.Now())
	}
	return t
}

// looper is the state of the loop.
type looper struct {
	w           *Worker
	reservation reservation
	resolvedAt  time.Time
	tooMany     int         // how many queues the patterns matched when that was last logged
	alarm       *time.Timer // when to ask again at the latest
	failures    int         // exchanges that failed in a row
	notBefore   time.Time   // no exchange before, after a failure

	// What was logged of the failures since the last exchange that went well.
	reported map[string]bool
	unheard  int  // reserves in a row that found the worker not listening
	stranded bool // a reserve's answer was lost: it may have locked jobs
}

// wait waits for something to do; false when the context has ended.
func (l *looper) wait(ctx context.Context) bool {
	select {
	case <-l.w.kick:
	case <-l.alarm.C:
		l.w.wakeUp()
	case <-ctx.Done():
		return false
	}
	return true
}

// exchange tells outcomes and asks for jobs, in one round trip.
func (l *looper) exchange(ctx context.Context, t todo) {
	w := l.w
	defer w.hasTold()
	looked := false
	if t.room > 0 {
		var err error
		if looked, err = l.resolve(ctx); err != nil {
			l.tellWithout(ctx, t.outcomes, err)
			return
		}
		w.fed()
	}
	asks := (t.room > 0 || t.leave) && len(l.reservation.queuesFor(t.room)) > 0
	if t.room > 0 && !asks {
		l.alarm.Reset(w.cfg.PollInterval) // there is no queue of these names yet
	}
	if len(t.outcomes) > 0 || asks {
		l.after(ctx, l.send(ctx, t, asks))
	} else {
		l.afterNothing(ctx, looked)
	}
}

// tellWithout tells outcomes though the queues could not be looked up, unless the server is away.
func (l *looper) tellWithout(ctx context.Context, outcomes []*outcome, err error) {
	if redisx.IsAnswer(err) && len(outcomes) > 0 {
		_ = l.send(ctx, todo{outcomes: outcomes}, false)
	} else {
		l.w.putBack(outcomes)
	}
	l.after(ctx, err)
}

// hasTold notes that the outcomes of an exchange have been dealt with.
func (w *Worker) hasTold() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.telling = nil
	w.noteQuiet()
}

// send sends outcomes, and asks for jobs if need be.
func (l *looper) send(ctx context.Context, t todo, asks bool) error {
	w := l.w
	p := w.client.runner.Pipeline()
	// A server that knows reserve knows finish: else a reserve would overtake the outcomes before it,
	// whose script has to be sent again.
	p.Preload("finish", w.client.worker)
	batches := inBatches(t.outcomes)
	for _, batch := range batches {
		args := []any{w.client.worker}
		for _, o := range batch {
			args = o.appendTo(args)
		}
		p.Add("finish", args...)
	}
	if asks {
		p.Add("reserve", l.reservation.args(w.client.worker, t.room, w.cfg.PollInterval)...)
	}
	sent := time.Now()
	replies, failures := p.Exec(ctx)
	done := slices.Contains(failures, nil)
	var failed error
	for i, batch := range batches {
		if err := w.told(batch, replies[i], failures[i], done); err != nil {
			failed = err
		}
	}
	if asks {
		last := len(replies) - 1
		if err := l.take(replies[last], failures[last], sent, t.room); err != nil {
			failed = err
		}
	}
	return failed
}

// after notes how an exchange went, and after a failure keeps the next one waiting.
func (l *looper) after(ctx context.Context, failed error) {
	w := l.w
	if failed != nil {
		l.failed(ctx, failed)
		return
	}
	w.mu.Lock()
	w.health.turned(time.Now())
	back := l.failures > 0 && w.state == workerRunning
	w.mu.Unlock()
	if back {
		w.log.Info("qless: the server is back")
	}
	l.failures = 0
	clear(l.reported)
	if l.stranded {
		_ = l.recover(ctx) // it stays stranded, and tries again after the next exchange
	}
}

// afterNothing is after for an exchange in which nothing was sent, but the queues may have been
// looked up.
func (l *looper) afterNothing(ctx context.Context, looked bool) {
	if looked {
		l.after(ctx, nil)
		return
	}
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	l.w.health.asksNothing()
}

// failed notes that an exchange failed. What the server says, and that it says nothing, is logged
// once until an exchange goes well.
func (l *looper) failed(ctx context.Context, err error) {
	w := l.w
	l.failures++
	l.notBefore = time.Now().Add(redisx.WhileAway.After(l.failures))
	w.mu.Lock()
	w.health.refused = nil
	if redisx.IsAnswer(err) {
		w.health.refused = err
	}
	w.mu.Unlock()
	word := refusalOf(err)
	if ctx.Err() != nil || l.reported[word] {
		return
	}
	if l.reported == nil {
		l.reported = map[string]bool{}
	}
	l.reported[word] = true
	if redisx.IsAnswer(err) {
		w.log.Warn("qless: the server refuses", withHint(err)...)
	} else {
		w.log.Warn("qless: the server does not answer", "error", err)
	}
}

// take starts the jobs that were reserved.
func (l *looper) take(reply any, err error, sent time.Time, asked int) error {
	w := l.w
	if err == nil {
		var got reserved
		if got, err = w.client.decodeReserved(reply); err == nil {
			l.reservation.cursor, l.reservation.claim = got.cursor, got.claim
			w.setClaim(got.claim)
			w.mu.Lock()
			w.idle = asked > 0 && got.wait > 0
			w.health.turnedAt = time.Now() // before a handler asks
			w.mu.Unlock()
			for _, reserved := range got.jobs {
				w.begin(reserved, sent)
			}
			l.rest(got, asked, sent)
			return nil
		}
	}
	l.stranded = !w.named
	w.mu.Lock()
	w.hungry = true
	w.idle = w.idle || asked > 0 // perhaps: if it is to take no more jobs, it has to say so
	w.mu.Unlock()
	return wrap("reserve", "", err)
}

// rest sets when to ask again: at once when there may be more, else at the time that the
// server told, or when something wakes the worker.
func (l *looper) rest(got reserved, asked int, sent time.Time) {
	if asked == 0 {
		l.alarm.Stop()
		return
	}
	if got.wait == 0 {
		l.alarm.Stop()
		l.w.wakeUp()
		l.w.needListeners(got.listeners) // a busy worker can relay as well
		return
	}
	wait := got.wait
	if got.claim == "" {
		wait = time.Duration(float64(wait) * (0.9 + rand.Float64()/10))
	}
	if got.listeners < 0 {
		l.w.subscribeAnew(sent)
		l.unheard++
		wait = min(wait, 50*time.Millisecond<<min(l.unheard, 16))
	} else {
		l.w.needListeners(got.listeners)
		l.unheard = 0
	}
	l.alarm.Reset(wait)
}

// recover gives back what was locked by a reserve whose answer was lost.
func (l *looper) recover(ctx context.Context) error {
	w := l.w
	held, err := w.client.Worker(ctx, w.client.worker)
	if err != nil {
		return err
	}
	l.stranded = false
	var log notes
	w.mu.Lock()
	for _, jid := range append(held.Jobs, held.Stalled...) {
		if !w.knows(jid) {
			log.add(slog.LevelWarn,
				"qless: a job whose reservation was not heard of is given back", "jid", jid)
			w.outcomes = append(w.outcomes, &outcome{
				Outcome: Outcome{Action: ActionRelease}, jid: jid, queue: "?",
				until: time.Now().Add(unknownLock),
			})
		}
	}
	w.mu.Unlock()
	w.nudge()
	w.report(log)
	return nil
}

// knows reports whether a job runs here, or something is to be told of it. The mutex is held.
func (w *Worker) knows(jid string) bool {
	if w.running[jid] != nil {
		return true
	}
	for o := range w.held {
		if o.jid == jid {
			return true
		}
	}
	return slices.ContainsFunc(w.outcomes, func(o *outcome) bool { return o.jid == jid })
}

// resolve looks up the queues of the patterns when it is time. It reports whether it asked the
// server.
func (l *looper) resolve(ctx context.Context) (looked bool, err error) {
	r := &l.reservation
	if len(r.queues) > 0 && !r.hasPatterns() {
		return false, nil
	}
	if !l.w.queuesAppeared() && time.Since(l.resolvedAt) < l.w.cfg.PollInterval/2 {
		return false, nil
	}
	var known []string
	if r.hasPatterns() {
		looked = true
		if known, err = l.w.client.knownQueues(ctx); err != nil {
			l.w.queueAppeared() // look again
			return looked, err
		}
	}
	r.resolve(known)
	if err = l.limit(ctx); err != nil {
		l.w.queueAppeared()
		return looked, err
	}
	l.resolvedAt = time.Now()
	l.w.setResolved(r.queues)
	return looked, nil
}

// limit chooses the queues that are asked when the patterns match more than that may be.
func (l *looper) limit(ctx context.Context) error {
	r := &l.reservation
	matched := len(r.queues)
	if matched <= maxReserve {
		l.tooMany = 0
		return nil
	}
	ready, err := l.w.client.readyQueues(ctx, r.queues)
	if err != nil {
		return err
	}
	r.limit(ready)
	if l.tooMany == 0 || matched > l.tooMany*3/2 || matched < l.tooMany*2/3 {
		l.tooMany = matched
		l.w.log.Warn("qless: the patterns match more queues than a worker asks; "+
			"those that have jobs are preferred", "queues", matched, "asked", maxReserve)
	}
	return nil
}

// fed notes that jobs are being asked for.
func (w *Worker) fed() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hungry = false
}

// wakeUp makes the loop ask for jobs.
func (w *Worker) wakeUp() {
	w.mu.Lock()
	w.hungry = true
	w.mu.Unlock()
	w.nudge()
}
