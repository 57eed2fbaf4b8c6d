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

// listener is what a worker hears: that a job is ready for it, that a lock of its is gone,
// that a queue is new. Two workers of a namespace also hear of jobs that were put by scripts
// which wake nobody, those of other qless clients, and wake a worker for them: they relay. When
// one of them dies, or its connection breaks, the other one hears what it does not.
type listener struct {
	mu       sync.Mutex
	events   *Events
	since    time.Time // since when there are these events
	relays   bool      // it listens for jobs that wake nobody
	change   int       // 1: it is to relay; -1: it is not to
	missed   bool      // it may not have heard of such jobs
	appeared bool      // a queue is new
	queues   []string
	claim    string          // the queue for whose next due job this worker waits
	quiet    map[string]bool // queues whose new jobs woke nobody
	relay    chan struct{}
}

// relays is how many workers of a namespace relay.
const relays = 2

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
		channels[i] = w.client.prefix + channels[i]
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
			w.log.Warn("qless: the worker can't listen for events", withHint(err)...)
		}
		if !redisx.WhileAway.Wait(ctx, attempt) {
			return
		}
	}
}

func (w *Worker) setEvents(events *Events) {
	w.listener.mu.Lock()
	defer w.listener.mu.Unlock()
	w.listener.events, w.listener.since, w.listener.relays = events, time.Now(), false
	w.listener.change = 0
}

// subscribeAnew is called when the server says that it has no subscription of this worker, though
// there was one before it was asked: on a cluster, that of a master which is one no more.
func (w *Worker) subscribeAnew(asked time.Time) {
	w.listener.mu.Lock()
	defer w.listener.mu.Unlock()
	if w.listener.events != nil && w.listener.since.Before(asked) {
		w.listener.events.subscription.Cancel()
	}
}

// hear acts on events until there are no more.
func (w *Worker) hear(ctx context.Context, events *Events) {
	for event := range events.C() {
		switch event.Kind {
		case EventGap:
			w.queueAppeared() // perhaps
			w.renewNow()
			if w.relaying() {
				w.wakeAll()
			}
		case eventSubscribed:
			w.wakeUp()
			w.wakeAll()
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
				w.wakeFor(cmp.Or(event.To, event.Queue))
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

// needListeners has this worker relay when fewer than two do, and cease when more do: by chance, so
// that not all of them cease at once.
func (w *Worker) needListeners(there int) {
	l := &w.listener
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.events == nil:
	case !l.relays && there < relays:
		l.change = 1
	case l.relays && there > relays && rand.IntN(there) < there-relays:
		l.change = -1
	}
	if l.change != 0 {
		poke(l.relay)
	}
}

// wakeFor has a worker woken for a job that was put by a script which woke nobody.
func (w *Worker) wakeFor(queue string) {
	w.listener.mu.Lock()
	w.listener.quiet[queue] = true
	w.listener.mu.Unlock()
	poke(w.listener.relay)
}

// wakeAll has a worker woken for each queue that has jobs: some may have been put while nobody
// listened.
func (w *Worker) wakeAll() {
	w.listener.mu.Lock()
	w.listener.missed = true
	w.listener.mu.Unlock()
	poke(w.listener.relay)
}

// relayWakes does what needListeners, wakeFor and wakeAll noted.
func (w *Worker) relayWakes(ctx context.Context) {
	for failures := 0; ; {
		select {
		case <-w.listener.relay:
		case <-ctx.Done():
			return
		}
		w.changeRelay(ctx)
		queues, missed := w.unrelayed()
		if !missed && len(queues) == 0 {
			continue
		}
		err := w.relayWake(ctx, queues, missed)
		if err == nil {
			failures = 0
			continue
		}
		failures++
		if failures == 1 && ctx.Err() == nil {
			w.log.Warn("qless: no worker could be woken", withHint(err, "queues", queues)...)
		}
		w.wakeAll() // again, whatever became of this
		if !redisx.WhileAway.Wait(ctx, failures) {
			return
		}
	}
}

// unrelayed takes the queues that have jobs for which nobody was woken, and whether there may be
// more of them.
func (w *Worker) unrelayed() (queues []string, missed bool) {
	l := &w.listener
	l.mu.Lock()
	defer l.mu.Unlock()
	queues, missed = slices.Sorted(maps.Keys(l.quiet)), l.missed
	clear(l.quiet)
	l.missed = false
	return queues, missed
}

// relayWake wakes a worker of each of some queues, or of each that has jobs.
func (w *Worker) relayWake(ctx context.Context, queues []string, all bool) error {
	if all {
		queues = nil
	}
	_, err := w.client.run(ctx, "wake", "", anys(nil, queues...)...)
	return err
}

// changeRelay begins to listen for jobs that wake nobody, or ceases to, if need be. If the
// connection is broken, the one that replaces it does.
func (w *Worker) changeRelay(ctx context.Context) {
	l := &w.listener
	l.mu.Lock()
	events, change := l.events, l.change
	l.change = 0
	l.mu.Unlock()
	if change == 0 {
		return
	}
	prefix := w.client.prefix
	begin := change > 0
	act := events.subscription.Remove
	if begin {
		act = events.subscription.Add
	}
	err := act(ctx, prefix+channelLog, prefix+channelListen)
	if err != nil && ctx.Err() == nil {
		w.log.Warn("qless: the worker can't listen for jobs of other clients yet", withHint(err)...)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.events == events {
		l.relays = begin
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
