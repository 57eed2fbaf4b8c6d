package qless

import (
	"cmp"
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/qless/qless-go/internal/redisx"
)

// relays is how many workers of a namespace should relay.
const relays = 2

// Channels of this project's own.
const (
	channelWake   = "x:wake:"  // followed by the worker's name: a job is ready
	channelQueues = "x:queues" // a queue has appeared
	channelListen = "x:listen" // nothing is published: its subscribers are counted
	channelLog    = "log"
)

// wakeClock is what is published to wake a worker because the server's clock was moved. A queue of
// that name has schedules look more often than they need to.
const wakeClock = "clock"

// A listener receives the events that are meant for a worker: that a job is ready, that a lock
// was lost, that a queue is new. Two workers of a namespace also relay: they listen for jobs that
// were put by the scripts of other qless clients, which wake nobody, and wake a worker for them.
// Two, so that one hears what the other misses while its connection is broken.
type listener struct {
	client    *Client
	log       *workerLog
	locks     *lockKeeper
	jobsReady func() // asks for jobs
	lookAgain func() // has the schedules look at the clock
	relay     signal // there is something to relay, or relaying is to begin or end

	mu           sync.Mutex
	events       *Events
	since        time.Time       // when events began
	relaying     bool            // it listens for jobs of other clients
	change       int             // 1: begin relaying; -1: end it
	wakeAny      bool            // it may have missed some
	wakeQueues   map[string]bool // queues whose new jobs woke no worker
	queuesAreNew bool
}

func newListener(
	client *Client, log *workerLog, locks *lockKeeper, jobsReady, lookAgain func(),
) *listener {
	return &listener{
		client: client, log: log, locks: locks, jobsReady: jobsReady, lookAgain: lookAgain,
		relay: newSignal(), wakeQueues: map[string]bool{},
	}
}

// run listens until the context ends, and restores its connection when it breaks.
func (l *listener) run(ctx context.Context) {
	var relay sync.WaitGroup
	relay.Go(func() { l.runRelay(ctx) })
	defer relay.Wait()

	worker, prefix := l.client.worker, l.client.prefix
	channels := []string{prefix + "w:" + worker, prefix + channelWake + worker, prefix + channelQueues}
	for attempt := 1; ctx.Err() == nil; attempt++ {
		events, err := l.client.subscribe(ctx, channels)
		if err == nil {
			attempt = 0
			l.subscribed(events)
			l.queueAppeared() // or jobs became ready, while nobody listened
			l.lookAgain()
			l.receive(events)
			_ = events.Close()
			continue
		}
		if attempt == 1 && ctx.Err() == nil {
			l.log.cantListen(err)
		}
		if !redisx.WhileAway.Wait(ctx, attempt) {
			return
		}
	}
}

// subscribed is called when a subscription has begun. Jobs that were started before it may have
// been canceled or lost unnoticed.
func (l *listener) subscribed(events *Events) {
	l.mu.Lock()
	l.events, l.since, l.relaying, l.change = events, time.Now(), false, 0
	l.mu.Unlock()
	l.locks.suspectAll()
}

// resubscribe is called when the server says that this worker is not subscribed. If the
// subscription is older than the question, it is, on a cluster, one to a former master.
func (l *listener) resubscribe(asked time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.events != nil && l.since.Before(asked) {
		l.events.subscription.Cancel()
	}
}

// receive acts on events until there are no more.
func (l *listener) receive(events *Events) {
	for event := range events.C() {
		switch event.Kind {
		case EventGap:
			l.queueAppeared() // perhaps
			l.lookAgain()
			l.locks.suspectAll()
			if l.isRelaying() {
				l.wakeAll()
			}
		case eventSubscribed:
			l.jobsReady()
			l.wakeAll()
		case EventLockLost:
			if event.channel != channelLog {
				l.locks.suspect(event.JID, ErrLockLost)
			}
		case EventCanceled:
			if event.channel != channelLog {
				l.locks.suspect(event.JID, ErrCanceled)
			}
		case EventPut, EventAdvanced:
			if !event.wakes {
				l.wakeFor(cmp.Or(event.To, event.Queue))
			}
		case channelQueues:
			l.queueAppeared()
		default:
			if strings.HasPrefix(event.channel, channelWake) {
				l.woken(event.JID)
			}
		}
	}
}

// woken asks for jobs. The payload is a queue, or says that the clock was moved.
func (l *listener) woken(payload string) {
	if payload == wakeClock {
		l.lookAgain()
	}
	l.jobsReady()
}

// queueAppeared notes that there may be a new queue.
func (l *listener) queueAppeared() {
	l.mu.Lock()
	l.queuesAreNew = true
	l.mu.Unlock()
	l.jobsReady()
}

// takeNewQueues reports whether there may be a new queue, and resets that.
func (l *listener) takeNewQueues() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	appeared := l.queuesAreNew
	l.queuesAreNew = false
	return appeared
}

// isRelaying reports whether this worker wakes others for the jobs of other clients.
func (l *listener) isRelaying() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.relaying
}

// needRelays has this worker begin to relay if too few do, and stop if too many do. It stops at
// random, so that not all of them stop at once.
func (l *listener) needRelays(there int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.events == nil:
	case !l.relaying && there < relays:
		l.change = 1
	case l.relaying && there > relays && rand.IntN(there) < there-relays:
		l.change = -1
	}
	if l.change != 0 {
		l.relay.notify()
	}
}

// wakeFor has a worker woken for a job whose script woke none.
func (l *listener) wakeFor(queue string) {
	l.mu.Lock()
	l.wakeQueues[queue] = true
	l.mu.Unlock()
	l.relay.notify()
}

// wakeAll has a worker woken for each queue that has jobs: some may have been put while no worker
// was listening.
func (l *listener) wakeAll() {
	l.mu.Lock()
	l.wakeAny = true
	l.mu.Unlock()
	l.relay.notify()
}

// runRelay does what needRelays, wakeFor and wakeAll have requested.
func (l *listener) runRelay(ctx context.Context) {
	for failures := 0; ; {
		select {
		case <-l.relay:
		case <-ctx.Done():
			return
		}
		l.changeRelaying(ctx)
		queues, wakeAny := l.takeWakes()
		if !wakeAny && len(queues) == 0 {
			continue
		}
		err := l.wake(ctx, queues, wakeAny)
		if err == nil {
			failures = 0
			continue
		}
		failures++
		if failures == 1 && ctx.Err() == nil {
			l.log.cantWake(queues, err)
		}
		l.wakeAll() // it is not known which were woken
		if !redisx.WhileAway.Wait(ctx, failures) {
			return
		}
	}
}

// takeWakes returns the queues whose jobs woke no worker, and whether there may be others.
func (l *listener) takeWakes() (queues []string, wakeAny bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	queues, wakeAny = slices.Sorted(maps.Keys(l.wakeQueues)), l.wakeAny
	clear(l.wakeQueues)
	l.wakeAny = false
	return queues, wakeAny
}

// wake wakes a worker for each of the queues or, with wakeAny, for each queue that has jobs.
func (l *listener) wake(ctx context.Context, queues []string, wakeAny bool) error {
	if wakeAny {
		queues = nil
	}
	_, err := l.client.run(ctx, "wake", "", anys(nil, queues...)...)
	return err
}

// changeRelaying begins or ends listening for the jobs of other clients. If the connection is
// broken, that takes effect on the one that replaces it.
func (l *listener) changeRelaying(ctx context.Context) {
	l.mu.Lock()
	events, change := l.events, l.change
	l.change = 0
	l.mu.Unlock()
	if change == 0 {
		return
	}
	begin := change > 0
	act := events.subscription.Remove
	if begin {
		act = events.subscription.Add
	}
	err := act(ctx, l.client.prefix+channelLog, l.client.prefix+channelListen)
	if err != nil && ctx.Err() == nil {
		l.log.cantRelay(err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.events == events {
		l.relaying = begin
	}
}
