package hub

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/qless/qless-go/internal/redisx"
	"github.com/qless/qless-go/internal/wire"
)

// A Relay wakes workers for jobs put by classic scripts, which wake no workers, if too few other
// relays do. Two in a namespace are enough: one receives the messages that the other misses while
// its connection is broken. The workers and receivers of a hub share one relay per namespace.
type Relay struct {
	hub    *Hub
	config Config
	due    Signal // a job needs relaying, or relaying must begin or end
	users  int    // guarded by the hub's mutex
	cancel context.CancelFunc
	ended  chan struct{}

	contested int // consecutive attempts while another relay was about to begin; used only by run

	mu         sync.Mutex
	stopped    bool
	relaying   bool            // listening for jobs of other clients
	change     int             // 1: begin relaying; -1: end it
	claimed    time.Time       // when the relay got the lease to begin; zero if it is not beginning
	isCounted  bool            // the server counts the relay, or it does not begin: others may
	wakeAny    bool            // jobs may have been missed
	wakeQueues map[string]bool // queues whose new jobs woke no worker
}

// relays is the number of workers of a namespace that should relay.
const relays = 2

// relayLease is how long a relay that begins or ends keeps others from doing so. By then, the
// server has counted the relay.
const relayLease = 2 * time.Second

// keyRelay is held by a relay that begins or ends.
const keyRelay = "x:relay"

// Channels of relays.
const (
	channelListen = "x:listen" // nothing is published: the server counts the subscribers
	channelLog    = "log"
)

// startRelay makes a relay, which begins when needed.
func startRelay(h *Hub, config Config) *Relay {
	ctx, cancel := context.WithCancel(context.Background())
	r := &Relay{
		hub: h, config: config, due: NewSignal(), cancel: cancel, ended: make(chan struct{}),
		wakeQueues: map[string]bool{},
	}
	go r.run(ctx)
	return r
}

// stop ends the relay, and reports whether another must take over.
func (r *Relay) stop(ctx context.Context) (relayed bool) {
	r.cancel()
	select {
	case <-r.ended:
	case <-ctx.Done():
	}
	r.mu.Lock()
	r.stopped, relayed = true, r.relaying
	r.mu.Unlock()
	r.listen(false)
	return relayed
}

// Adjust makes the relay begin if there are too few, and stop if there are too many.
func (r *Relay) Adjust(there int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case !r.relaying && there < relays:
		r.change = 1
	case r.relaying && there > relays:
		r.change = -1
	default:
		return
	}
	r.due.Notify()
}

// Notify is called with the messages of other clients, and when the server begins to send them.
func (r *Relay) Notify(notice redisx.Notice) {
	switch {
	case notice.Kind == redisx.Gap:
		r.wakeAll()
	case notice.Kind == redisx.Published:
		r.published(notice)
	case notice.Channel == r.config.Prefix+channelListen:
		r.subscribed()
	}
}

// wakingPrefix begins a message about a ready job if the script also wakes a worker. In messages of
// classic scripts, the keys are in another order.
const wakingPrefix = `{"queue":`

// wakes reports whether the script that published a message also wakes a worker.
func wakes(payload string) bool { return strings.HasPrefix(payload, wakingPrefix) }

// putInto returns the queue of a put from a classic script's message. For other messages, it
// returns the empty string.
func putInto(payload string) string {
	if !strings.Contains(payload, "put") && !strings.Contains(payload, "advanced") {
		return "" // most messages are about completed jobs
	}
	message, err := wire.DecodeJSON[struct {
		Event wire.Text `json:"event"`
		Queue wire.Text `json:"queue"`
		To    wire.Text `json:"to"`
	}](payload)
	if err != nil || message.Event != "put" && message.Event != "advanced" {
		return ""
	}
	return string(cmp.Or(message.To, message.Queue))
}

// published requests waking a worker for a job that was put, unless the script did so.
func (r *Relay) published(notice redisx.Notice) {
	if wakes(notice.Payload) {
		return
	}
	queue := putInto(notice.Payload)
	if queue == "" {
		return
	}
	r.mu.Lock()
	r.wakeQueues[queue] = true
	r.mu.Unlock()
	r.due.Notify()
}

// subscribed is called when the server begins to send the messages of other clients.
func (r *Relay) subscribed() {
	r.mu.Lock()
	r.isCounted = true
	r.mu.Unlock()
	r.wakeAll()
}

// wakeAll requests waking a worker for each queue with jobs: some may have been put while no relay
// was subscribed.
func (r *Relay) wakeAll() {
	r.mu.Lock()
	r.wakeAny = true
	r.mu.Unlock()
	r.due.Notify()
}

// run carries out the requests of Adjust, published and wakeAll.
func (r *Relay) run(ctx context.Context) {
	defer close(r.ended)
	for failures := 0; ; {
		select {
		case <-r.due:
		case <-ctx.Done():
			return
		}
		r.releaseLease(ctx)
		r.changeRelaying(ctx)
		queues, wakeAny := r.takeWakes()
		if !wakeAny && len(queues) == 0 {
			continue
		}
		err := r.wake(ctx, queues, wakeAny)
		if err == nil {
			failures = 0
			continue
		}
		failures++
		if failures == 1 && ctx.Err() == nil {
			r.config.Warn("could not wake a worker", err, "queues", queues)
		}
		r.wakeAll() // the script may have woken only some
		if !redisx.WhileAway.Wait(ctx, failures) {
			return
		}
	}
}

// takeWakes returns the queues with jobs that woke no worker, and whether there may be others.
func (r *Relay) takeWakes() (queues []string, wakeAny bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	queues, wakeAny = slices.Sorted(maps.Keys(r.wakeQueues)), r.wakeAny
	clear(r.wakeQueues)
	r.wakeAny = false
	return queues, wakeAny
}

// wakeBatchSize is the number of queues for which one script wakes workers.
const wakeBatchSize = 500

// wake wakes a worker for each of the queues and, with wakeAny, for each known queue with jobs.
func (r *Relay) wake(ctx context.Context, queues []string, wakeAny bool) error {
	for some := range slices.Chunk(queues, wakeBatchSize) {
		args := make([]any, len(some))
		for i, queue := range some {
			args[i] = queue
		}
		if _, err := r.config.Do(ctx, "wake", args...); err != nil {
			return err
		}
	}
	if wakeAny {
		return r.wakeForAll(ctx)
	}
	return nil
}

// wakeForAll wakes a worker for each queue with jobs, in steps.
func (r *Relay) wakeForAll(ctx context.Context) error {
	for cursor := ""; ; {
		reply, err := r.config.Do(ctx, "wake", "", cursor)
		if err != nil {
			return err
		}
		next, ok := reply.(string)
		if !ok {
			return wire.Unexpected(reply)
		}
		if cursor = next; cursor == "" {
			return nil
		}
	}
}

// changeRelaying begins or ends listening for the jobs of other clients. While the connection is
// broken, the change takes effect on the next connection.
func (r *Relay) changeRelaying(ctx context.Context) {
	r.mu.Lock()
	change := r.change
	r.change = 0
	r.mu.Unlock()
	if change == 0 {
		return
	}
	claimed, err := r.claim(ctx, change > 0)
	if err != nil && ctx.Err() == nil {
		r.config.Warn("the worker can't listen for jobs of other clients yet", err)
	}
	if claimed {
		r.setRelaying(change > 0)
	}
}

// setRelaying begins or ends relaying, unless the relay was stopped in the meantime.
func (r *Relay) setRelaying(begin bool) {
	r.listen(begin)
	r.mu.Lock()
	r.relaying = begin
	stopped := r.stopped
	r.mu.Unlock()
	if stopped {
		r.listen(false)
	}
}

// listen begins or ends listening.
func (r *Relay) listen(begin bool) {
	channels := []string{r.config.Prefix + channelLog, r.config.Prefix + channelListen}
	if begin {
		r.hub.Subscribe(r, channels...)
	} else {
		r.hub.Unsubscribe(r, channels...)
	}
}

// claim reports whether the relay may begin or end: no other relay does, and there are still too
// few or too many. If another relay begins, this one tries again later.
func (r *Relay) claim(ctx context.Context, begin bool) (bool, error) {
	if begin && r.contested > 0 { // others have begun in the meantime
		if there, err := r.count(ctx); err == nil && there >= relays {
			r.contested = 0
			return false, nil
		}
	}
	key, now := r.config.Prefix+keyRelay, time.Now()
	free, err := r.config.Redis.SetNX(ctx, key, r.config.Worker, relayLease).Result()
	if err != nil {
		return false, err
	}
	if !free {
		if begin {
			r.contested++
			time.AfterFunc(redisx.WhileAway.After(r.contested), func() { r.Adjust(0) })
		}
		return false, nil
	}
	r.contested = 0
	there, err := r.count(ctx)
	if err == nil && !begin && there > relays {
		return true, nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.claimed, r.isCounted = now, err != nil || !begin || there >= relays
	if r.isCounted {
		r.due.Notify()
	}
	return !r.isCounted, err
}

// releaseLease gives up the lease when no longer needed.
func (r *Relay) releaseLease(ctx context.Context) {
	r.mu.Lock()
	over := r.isCounted && time.Since(r.claimed) < relayLease
	if r.isCounted {
		r.claimed, r.isCounted = time.Time{}, false
	}
	r.mu.Unlock()
	if over {
		_ = r.config.Redis.Del(ctx, r.config.Prefix+keyRelay).Err() // otherwise the lease expires
	}
}

// count returns the number of relays.
func (r *Relay) count(ctx context.Context) (int, error) {
	server, err := redisx.ServerOf(ctx, r.config.Redis, r.config.Prefix)
	if err != nil {
		return 0, err
	}
	channel := r.config.Prefix + channelListen
	counts, err := server.PubSubNumSub(ctx, channel).Result()
	return int(counts[channel]), err
}
