package qless

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// listener is what a worker hears: that a job is ready for it, that a lock of its is gone,
// that a queue is new. One worker of a namespace also hears of jobs that were put by scripts
// which wake nobody, those of other qless clients, and wakes a worker for them.
type listener struct {
	mu       sync.Mutex
	events   *Events
	since    time.Time // since when there are these events
	relays   bool      // it listens for jobs that wake nobody
	appeared bool      // a queue is new
	queues   []string
	claim    string          // the queue for whose next due job this worker waits
	quiet    map[string]bool // queues whose new jobs woke nobody
	relay    chan struct{}
}

// Channels of this project's own.
const (
	channelWake   = "x:wake:"  // and the worker: a job is ready
	channelQueues = "x:queues" // a queue is new
	channelListen = "x:listen" // nothing is published: its subscribers are counted
	channelLog    = "log"
)

// listen hears until the context ends, whatever becomes of the connection.
func (w *Worker) listen(ctx context.Context) {
	var relay sync.WaitGroup
	relay.Go(func() { w.relayWakes(ctx) })
	defer relay.Wait()

	channels := []string{"w:" + w.client.worker, channelWake + w.client.worker, channelQueues}
	for i := range channels {
		channels[i] = w.client.runner.prefix + channels[i]
	}
	for attempt := 1; ctx.Err() == nil; attempt++ {
		events, err := w.client.subscribe(ctx, channels)
		if err == nil {
			attempt = 0
			w.setEvents(events)
			w.queueAppeared() // or jobs became ready, while nobody listened
			w.hear(ctx, events)
			_ = events.Close()
			continue
		}
		if attempt == 1 && ctx.Err() == nil {
			w.log.Warn("qless: the worker can't listen for events", "error", err)
		}
		if !pause(ctx, attempt) {
			return
		}
	}
}

func (w *Worker) setEvents(events *Events) {
	w.listener.mu.Lock()
	defer w.listener.mu.Unlock()
	w.listener.events, w.listener.since, w.listener.relays = events, time.Now(), false
}

// subscribeAnew is called when the server says that it has no subscription of this worker, though
// there was one before it was asked: on a cluster, that of a master which is one no more.
func (w *Worker) subscribeAnew(asked time.Time) {
	w.listener.mu.Lock()
	defer w.listener.mu.Unlock()
	if w.listener.events != nil && w.listener.since.Before(asked) {
		w.listener.events.cancel()
	}
}

// hear acts on events until there are no more.
func (w *Worker) hear(ctx context.Context, events *Events) {
	for event := range events.C() {
		switch event.Kind {
		case EventGap:
			w.queueAppeared() // perhaps
			w.renewNow()
		case eventSubscribed:
			w.wakeUp()
		case EventLockLost:
			if event.channel != channelLog {
				w.doubt(event.JID, ErrLockLost)
			}
		case EventCanceled:
			if event.channel != channelLog {
				w.doubt(event.JID, ErrCanceled)
			}
		case EventPut, EventAdvanced:
			if !event.wakes {
				w.wakeFor(orDefault(event.To, event.Queue))
			}
		case channelQueues:
			w.queueAppeared()
		default:
			if strings.HasPrefix(event.channel, channelWake) {
				w.wakeUp()
			}
		}
	}
}

// needListeners makes this worker relay wakes when nobody else does.
func (w *Worker) needListeners(there int) {
	l := &w.listener
	l.mu.Lock()
	defer l.mu.Unlock()
	if there > 0 || l.relays || l.events == nil {
		return
	}
	prefix := w.client.runner.prefix
	if err := l.events.pubsub.Subscribe(context.Background(), prefix+channelLog, prefix+channelListen); err != nil {
		w.log.Warn("qless: the worker can't listen for jobs of other clients", "error", err)
		return
	}
	l.relays = true
}

// wakeFor has a worker woken for a job that was put by a script which woke nobody.
func (w *Worker) wakeFor(queue string) {
	w.listener.mu.Lock()
	w.listener.quiet[queue] = true
	w.listener.mu.Unlock()
	poke(w.listener.relay)
}

// relayWakes wakes workers for the queues that wakeFor noted.
func (w *Worker) relayWakes(ctx context.Context) {
	for {
		select {
		case <-w.listener.relay:
		case <-ctx.Done():
			return
		}
		w.listener.mu.Lock()
		queues := slices.Sorted(maps.Keys(w.listener.quiet))
		clear(w.listener.quiet)
		w.listener.mu.Unlock()
		if _, err := w.client.run(ctx, "wake", "", anys(nil, queues...)...); err != nil {
			w.log.Warn("qless: no worker could be woken", "queues", queues, "error", err)
		}
	}
}

func (w *Worker) queueAppeared() {
	w.listener.mu.Lock()
	w.listener.appeared = true
	w.listener.mu.Unlock()
	w.wakeUp()
}

// queuesAppeared reports, once, that a queue is new.
func (w *Worker) queuesAppeared() bool {
	w.listener.mu.Lock()
	defer w.listener.mu.Unlock()
	appeared := w.listener.appeared
	w.listener.appeared = false
	return appeared
}

// relaying reports whether this worker wakes others for other clients' jobs.
func (w *Worker) relaying() bool {
	w.listener.mu.Lock()
	defer w.listener.mu.Unlock()
	return w.listener.relays
}

func (w *Worker) setResolved(queues []string) {
	w.listener.mu.Lock()
	defer w.listener.mu.Unlock()
	w.listener.queues = slices.Clone(queues)
}

func (w *Worker) setClaim(queue string) {
	w.listener.mu.Lock()
	defer w.listener.mu.Unlock()
	w.listener.claim = queue
}

// claimed returns the queue for whose next due job the worker waits; empty when there is none.
func (w *Worker) claimed() string {
	w.listener.mu.Lock()
	defer w.listener.mu.Unlock()
	return w.listener.claim
}

// resolved returns the queues that the worker takes jobs from now.
func (w *Worker) resolved() []string {
	w.listener.mu.Lock()
	defer w.listener.mu.Unlock()
	return w.listener.queues
}
