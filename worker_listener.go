package qless

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/qless/qless-go/internal/redisx"
)

// Channels of this project's own.
const (
	channelWake   = "x:wake:"  // followed by the worker's name: a job is ready
	channelQueues = "x:queues" // the name of a queue that has appeared
	channelListen = "x:listen" // nothing is published: its subscribers are counted
	channelLog    = "log"
	channelMore   = "x:log" // what other clients' scripts do not publish
)

// listenBuffer is how many events may wait for the listener, which is quick.
const listenBuffer = 16

// wakeClock is what is published to wake a worker because the server's clock was moved. A queue of
// that name has schedules look more often than they need to.
const wakeClock = "clock"

// A listener receives the events that are meant for a worker: that a job is ready, that a lock
// was lost, that a queue is new. It also relays, if too few others do.
type listener struct {
	*relay // has the client and the log

	locks     *lockKeeper
	patterns  queuePatterns
	jobsReady func() // asks for jobs
	lookAgain func() // has the schedules look at the clock

	mu     sync.Mutex
	events *Events
	since  time.Time // when events began
	news   queueNews // of queues that the patterns may match
}

func newListener(
	client *Client, log *workerLog, locks *lockKeeper, patterns queuePatterns,
	jobsReady, lookAgain func(),
) *listener {
	return &listener{
		relay: newRelay(client, log), locks: locks, patterns: patterns,
		jobsReady: jobsReady, lookAgain: lookAgain,
	}
}

// run listens until the context ends, and restores its connection when it breaks.
func (l *listener) run(ctx context.Context) {
	var relaying sync.WaitGroup
	relaying.Go(func() { l.relay.run(ctx) })
	defer relaying.Wait()

	worker, prefix := l.client.worker, l.client.prefix
	channels := []string{prefix + "w:" + worker, prefix + channelWake + worker}
	if l.patterns.watch() {
		channels = append(channels, prefix+channelQueues)
	}
	for attempt := 1; ctx.Err() == nil; attempt++ {
		events, err := l.client.subscribe(ctx, channels, listenBuffer)
		if err == nil {
			attempt = 0
			l.subscribed(events)
			l.missedQueues() // or jobs that became ready
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
	l.events, l.since = events, time.Now()
	l.mu.Unlock()
	l.relay.subscribed(events.subscription)
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
			l.missedQueues() // perhaps
			l.lookAgain()
			l.locks.suspectAll()
			if l.isRelaying() {
				l.wakeAll()
			}
		case eventSubscribed:
			l.jobsReady()
			l.listens()
		case EventLockLost:
			if event.channel != channelLog {
				l.locks.suspect(event.JID, ErrLockLost)
			}
		case EventCanceled:
			if event.channel != channelLog {
				l.locks.suspect(event.JID, ErrCanceled)
			}
		case EventPut, EventAdvanced:
			l.heard(event)
		case channelQueues:
			l.queueAppeared(event.JID)
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
	if l.patterns.watch() { // it may have waited for more queues than it asks now
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
	if l.patterns.find(queue) >= 0 {
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
func (l *listener) takeNews() queueNews {
	l.mu.Lock()
	defer l.mu.Unlock()
	news := l.news
	l.news = queueNews{}
	return news
}
