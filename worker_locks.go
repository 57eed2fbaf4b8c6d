package qless

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/qless/qless-go/internal/hub"
	"github.com/qless/qless-go/internal/queues"
	"github.com/qless/qless-go/internal/redisx"
	"github.com/qless/qless-go/internal/wire"
)

// renewBatch is the maximum number of locks that one script renews.
const renewBatch = 500

// A lockKeeper holds the locks of the running jobs. It renews each after a third of its time,
// whatever the handler does, and drops those that are lost.
type lockKeeper struct {
	client *Client
	log    *workerLog
	lost   func(lost lostLock) // called without the mutex
	due    hub.Signal          // a lock may be due earlier than the keeper knows

	mu      sync.Mutex
	jobs    map[string]*activeJob // by jid
	leaving map[*activeJob]bool   // taken, and their reports are not in the outbox yet
	closed  bool                  // no further jobs are tracked
	next    time.Time             // when the keeper looks again unless signaled
}

// A lock is what a lockKeeper knows about the lock of a job. The keeper's mutex guards it.
type lock struct {
	until   time.Time   // when it ends, by this process's clock
	renewAt time.Time   // when to renew it
	expiry  *time.Timer // fires when it ends
	suspect error       // why it may be lost, according to an event
	doubted time.Time   // when an event last said so, or may have been missed
	expired bool        // it ended before it could be renewed
	cause   error       // why the keeper dropped the job
}

// A lostLock is a lock that was lost, and why. The problem is the server's answer, or empty if the
// lock expired.
type lostLock struct {
	job     *activeJob
	cause   error
	problem string
}

func newLockKeeper(client *Client, log *workerLog, lost func(lostLock)) *lockKeeper {
	return &lockKeeper{
		client: client, log: log, lost: lost, due: hub.NewSignal(),
		jobs: map[string]*activeJob{}, leaving: map[*activeJob]bool{},
	}
}

// extend sets the lock to end a heartbeat after the time at which it was requested.
func (l *lock) extend(asked time.Time, heartbeat time.Duration) {
	l.until = asked.Add(heartbeat)
	l.renewAt = asked.Add(heartbeat / 3)
}

// doubt has the lock renewed at once: an event says that it is lost, or may have been missed.
func (l *lock) doubt() {
	l.doubted, l.renewAt = time.Now(), time.Time{}
}

// renewed sets the lock to what the server answered to a renewal that was requested at the time
// asked. An event that came since then may be about what happened after the renewal.
func (l *lock) renewed(asked time.Time, heartbeat time.Duration) {
	l.extend(asked, heartbeat)
	if asked.After(l.doubted) {
		l.suspect = nil
	} else {
		l.renewAt = time.Time{}
	}
}

// postpone has the lock renewed after a tenth of the time that is left of it: the server refuses to
// renew it, but the handler may have ended the job, and not have the server's answer yet.
func (l *lock) postpone() {
	now := time.Now()
	l.renewAt = now.Add(l.until.Sub(now) / 10)
}

// track begins to keep the lock of a job. It returns an earlier run of the same job if that was
// still tracked: its lock must have ended for the server to hand out the job again. Ok is false if
// the keeper accepts no more jobs.
func (k *lockKeeper) track(a *activeJob) (replaced *activeJob, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		return nil, false
	}
	replaced = k.jobs[a.jid]
	if replaced != nil {
		k.drop(replaced, ErrLockLost)
	}
	a.lock.expiry = time.AfterFunc(time.Until(a.lock.until), func() { k.expire(a) })
	k.jobs[a.jid] = a
	if a.lock.renewAt.Before(k.next) {
		k.due.Notify()
	}
	return replaced, true
}

// drop stops keeping the lock of a job. The mutex is held.
func (k *lockKeeper) drop(a *activeJob, cause error) {
	delete(k.jobs, a.jid)
	a.lock.cause = cause
	a.hold.lost.Store(true)
	a.lock.expiry.Stop()
}

// take removes a job whose handler has returned, and reports whether its lock is still held. If so,
// the job counts as leaving until left is called, so that it is always in the keeper or the outbox.
func (k *lockKeeper) take(a *activeJob) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	a.lock.expiry.Stop()
	if k.jobs[a.jid] != a {
		return false
	}
	delete(k.jobs, a.jid)
	k.leaving[a] = true
	return true
}

// left records that the report of a job that take removed is in the outbox.
func (k *lockKeeper) left(a *activeJob) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.leaving, a)
}

// takeAll removes all jobs, which their handlers lose, and accepts no more.
func (k *lockKeeper) takeAll(cause error) []*activeJob {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.closed = true
	all := slices.Collect(maps.Values(k.jobs))
	for _, a := range all {
		k.drop(a, cause)
		k.leaving[a] = true
	}
	return all
}

// isEmpty reports whether no lock is held.
func (k *lockKeeper) isEmpty() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.jobs)+len(k.leaving) == 0
}

// held returns the jobs whose locks are held.
func (k *lockKeeper) held() []*activeJob {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Collect(maps.Values(k.jobs))
}

// holds reports whether the lock of a job is held, or its report is about to be added to the
// outbox.
func (k *lockKeeper) holds(jid string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	for a := range k.leaving {
		if a.jid == jid {
			return true
		}
	}
	return k.jobs[jid] != nil
}

// suspect has the lock of a job renewed at once, because an event says that it is lost. The event
// may be about an earlier lock of the same job, so the server has to decide.
func (k *lockKeeper) suspect(jid string, cause error) {
	k.mu.Lock()
	if a, ok := k.jobs[jid]; ok {
		a.lock.suspect = cause
		a.lock.doubt()
	}
	k.mu.Unlock()
	k.due.Notify()
}

// suspectAll has all locks renewed at once, to find out which are still held.
func (k *lockKeeper) suspectAll() {
	k.mu.Lock()
	for _, a := range k.jobs {
		a.lock.doubt()
	}
	k.mu.Unlock()
	k.due.Notify()
}

// run renews locks until the context ends.
func (k *lockKeeper) run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	failures := 0
	for {
		select {
		case <-k.due:
		case <-timer.C:
		case <-ctx.Done():
			return
		}
		due, next := k.dueLocks()
		if len(due) > 0 {
			if k.renew(ctx, due) {
				failures = 0
				if due, next = k.dueLocks(); len(due) > 0 {
					next = 0 // the answer was slow
				}
			} else {
				failures++
				next = redisx.WhileAway.After(failures)
			}
		}
		timer.Reset(next)
	}
}

// dueLocks returns the jobs whose locks are due for renewal, and how long it is until the next one.
// Locks that fall due soon are renewed with them.
func (k *lockKeeper) dueLocks() ([]*activeJob, time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := time.Now()
	next := time.Hour
	var due []*activeJob
	for _, a := range k.jobs {
		left := a.lock.renewAt.Sub(now)
		switch {
		case a.hold.ended.Load():
		case left <= a.lock.until.Sub(a.lock.renewAt)/20:
			due = append(due, a)
		default:
			next = min(next, left)
		}
	}
	k.next = now.Add(next)
	return due, next
}

// renew renews locks, and reports whether all calls succeeded.
func (k *lockKeeper) renew(ctx context.Context, due []*activeJob) bool {
	for batch := range slices.Chunk(due, renewBatch) {
		err := k.renewTogether(ctx, batch)
		if errors.Is(err, ErrServer) && len(batch) > 1 {
			err = k.renewEach(ctx, batch) // the error may be about one of them
		}
		if err != nil {
			k.log.renewalFailed(len(batch), err)
			return false
		}
	}
	return true
}

// renewTogether renews locks with one script.
func (k *lockKeeper) renewTogether(ctx context.Context, batch []*activeJob) error {
	jids := make([]string, len(batch))
	for i, a := range batch {
		jids[i] = a.jid
	}
	asked := time.Now()
	reply, err := k.client.run(ctx, "renew", "", anys([]any{k.client.worker}, jids...)...)
	if err != nil {
		return err
	}
	answers, err := decodeStrings("renew", reply)
	if err == nil && len(answers) != len(batch) {
		err = unexpected("renew", reply)
	}
	if err == nil {
		k.renewed(batch, answers, asked)
	}
	return err
}

// renewEach renews locks one by one, and returns the last error.
func (k *lockKeeper) renewEach(ctx context.Context, batch []*activeJob) (failed error) {
	for _, a := range batch {
		if err := k.renewTogether(ctx, []*activeJob{a}); err != nil {
			failed = err
		}
	}
	return failed
}

// renewed handles the server's answers to renewals that were requested at the time asked.
func (k *lockKeeper) renewed(batch []*activeJob, answers []string, asked time.Time) {
	var all []lostLock
	k.mu.Lock()
	for i, a := range batch {
		if k.jobs[a.jid] != a {
			continue
		}
		problem, refused := strings.CutPrefix(answers[i], "!")
		switch {
		case !refused:
			a.lock.renewed(asked, wire.AsNumber(answers[i]).Duration())
			a.lock.expiry.Reset(time.Until(a.lock.until))
		case a.hold.ending.Load() > 0:
			a.lock.postpone()
		case !a.hold.ended.Load():
			k.drop(a, a.lock.lossOf(problem))
			all = append(all, lostLock{a, a.lock.cause, problem})
		}
	}
	k.mu.Unlock()
	for _, lost := range all {
		k.lost(lost)
	}
}

// lossOf returns why a lock that the server does not renew was lost.
func (l *lock) lossOf(problem string) error {
	if l.suspect != nil {
		return l.suspect
	}
	if codeOf(problem) == ErrNotFound {
		return ErrCanceled
	}
	return ErrLockLost
}

// expire drops a job whose lock has ended because it could not be renewed.
func (k *lockKeeper) expire(a *activeJob) {
	k.mu.Lock()
	expired := k.jobs[a.jid] == a && !a.hold.ended.Load() && !time.Now().Before(a.lock.until)
	if expired {
		a.lock.expired = true
		k.drop(a, ErrLockLost)
	}
	k.mu.Unlock()
	if expired {
		k.lost(lostLock{job: a, cause: ErrLockLost})
	}
}

// Channels of this project's own.
const (
	channelWake   = "x:wake:"  // followed by the worker's name: a job is ready
	channelQueues = "x:queues" // the name of a queue that has appeared
)

// wakeClock is what is published to wake a worker because the server's clock was moved. A queue of
// that name has schedules look more often than they need to.
const wakeClock = "clock"

// A listener hears what is meant for a worker: that a job is ready, that a lock was lost, that a
// queue is new. It shares the client's subscription with others, and keeps nobody waiting.
type listener struct {
	client    *Client
	locks     *lockKeeper
	patterns  queues.Patterns
	jobsReady func()     // asks for jobs
	recheck   func()     // has the schedules look at the clock
	wakes     string     // the channel where the worker is woken
	relay     *hub.Relay // set by begin

	mu   sync.Mutex
	news queueEvents // of queues that the patterns may match
}

func newListener(
	client *Client, locks *lockKeeper, patterns queues.Patterns, jobsReady, recheck func(),
) *listener {
	return &listener{
		client: client, locks: locks, patterns: patterns, jobsReady: jobsReady, recheck: recheck,
		wakes: client.prefix + channelWake + client.worker,
	}
}

// begin begins to listen.
func (l *listener) begin() {
	l.relay = l.client.hub.Join(l.client.hubConfig(), l, l.channels()...)
}

// end ends listening. It returns when the server was told of that, or the context has ended, and
// reports whether another worker has to relay.
func (l *listener) end(ctx context.Context) (relayed bool) {
	return l.client.hub.Leave(ctx, l, l.relay, l.channels()...)
}

// channels returns what the worker listens to. All are heard when the first is, as they are
// subscribed to together.
func (l *listener) channels() []string {
	channels := []string{l.wakes, l.client.prefix + "w:" + l.client.worker}
	if l.patterns.Watch() {
		channels = append(channels, l.client.prefix+channelQueues)
	}
	return channels
}

// resubscribe is called when the server says that this worker is not subscribed. If it has been
// since before the question, it is, on a cluster, at a former master.
func (l *listener) resubscribe(asked time.Time) { l.client.hub.Restart(l.wakes, asked) }

// Notify acts on a message for the worker.
func (l *listener) Notify(notice redisx.Notice) {
	switch {
	case notice.Kind == redisx.Published && notice.Channel == l.wakes:
		l.woken(notice.Payload)
	case notice.Kind == redisx.Published && notice.Channel == l.client.prefix+channelQueues:
		l.queueAppeared(notice.Payload)
	case notice.Kind == redisx.Published:
		l.lost(l.client.decodeEvent(notice.Channel, notice.Payload))
	case notice.Kind == redisx.Gap || notice.Channel == l.wakes:
		l.missed()
	}
}

// missed is called when the worker hears its events again, or for the first time. It may have missed
// that jobs, queues or schedules are due, or that jobs were canceled or lost.
func (l *listener) missed() {
	l.missedQueues()
	l.recheck()
	l.locks.suspectAll()
}

// lost is called with an event of a job that the worker holds, or has held.
func (l *listener) lost(event Event) {
	switch event.Kind {
	case EventLockLost:
		l.locks.suspect(event.JID, ErrLockLost)
	case EventCanceled:
		l.locks.suspect(event.JID, ErrCanceled)
	}
}

// woken asks for jobs. The payload is a queue, or says that the clock was moved.
func (l *listener) woken(payload string) {
	if payload == wakeClock {
		l.recheck()
	}
	if l.patterns.Watch() { // it may have waited for more queues than it asks now
		l.mu.Lock()
		l.note(&l.news.woken, payload)
		l.mu.Unlock()
	}
	l.jobsReady()
}

// queueAppeared notes that there is a new queue, and asks for jobs if it is one of the worker's.
func (l *listener) queueAppeared(queue string) {
	l.mu.Lock()
	l.note(&l.news.appeared, queue)
	l.mu.Unlock()
	if l.patterns.Find(queue) >= 0 {
		l.jobsReady()
	}
}

// note adds a queue to a list of news, which it bounds. The mutex is held.
func (l *listener) note(list *[]string, queue string) {
	if len(*list) == maxReserve {
		*list, l.news.missed = nil, true
	}
	*list = append(*list, queue)
}

// missedQueues notes that there may be new queues, or jobs.
func (l *listener) missedQueues() {
	l.mu.Lock()
	l.news.missed = true
	l.mu.Unlock()
	l.jobsReady()
}

// takeNews returns what was heard of queues, and forgets it.
func (l *listener) takeNews() queueEvents {
	l.mu.Lock()
	defer l.mu.Unlock()
	news := l.news
	l.news = queueEvents{}
	return news
}
