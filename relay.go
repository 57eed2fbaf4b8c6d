package qless

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/qless/qless-go/internal/redisx"
)

// relays is how many workers of a namespace should relay.
const relays = 2

// relayLease is how long a relay that begins or ends keeps others from doing so. By then, the server
// has counted it.
const relayLease = 2 * time.Second

// keyRelay is held by the relay that begins or ends.
const keyRelay = "x:relay"

// A relay wakes workers for jobs that were put by the scripts of other qless clients, which wake
// nobody, if it is told to. Two in a namespace are, so that one hears what the other misses while
// its connection is broken. The workers and receivers of a hub have one for each namespace.
type relay struct {
	hub    *hub
	client *Client
	log    *workerLog
	due    signal // there is something to relay, or relaying is to begin or end
	users  int    // guarded by the hub's mutex
	cancel context.CancelFunc
	ended  <-chan struct{}

	contested int // consecutive times that another one was about to begin; used only by run

	mu         sync.Mutex
	stopped    bool
	relaying   bool            // it listens for jobs of other clients
	change     int             // 1: begin relaying; -1: end it
	claimed    time.Time       // when it got the lease to begin with; zero if it is not beginning
	isCounted  bool            // the server counts it, or it does not begin: others may
	wakeAny    bool            // it may have missed some
	wakeQueues map[string]bool // queues whose new jobs woke no worker
}

// startRelay makes a relay, which begins when that is needed.
func startRelay(h *hub, client *Client) *relay {
	ctx, cancel := context.WithCancel(context.Background())
	r := &relay{
		hub: h, client: client, log: &workerLog{logger: client.logger},
		due: newSignal(), cancel: cancel, wakeQueues: map[string]bool{},
	}
	r.ended = closedAfter(func() { r.run(ctx) })
	return r
}

// stop ends the relay, and reports whether another one has to take its place.
func (r *relay) stop(ctx context.Context) (relayed bool) {
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

// needRelays has it begin to relay if too few do, and stop if too many do.
func (r *relay) needRelays(there int) {
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
	r.due.notify()
}

// hear is called with what other clients publish, and when it begins to hear that.
func (r *relay) hear(notice redisx.Notice) {
	switch {
	case notice.Kind == redisx.Gap:
		r.wakeAll()
	case notice.Kind == redisx.Published:
		r.heard(notice)
	case notice.Channel == r.client.prefix+channelListen:
		r.listens()
	}
}

// heard has a worker woken for a job that was put, unless the script did so.
func (r *relay) heard(notice redisx.Notice) {
	if wakes(notice.Payload) {
		return
	}
	event := r.client.decodeEvent(notice.Channel, notice.Payload)
	if event.Kind != EventPut && event.Kind != EventAdvanced {
		return
	}
	r.mu.Lock()
	r.wakeQueues[cmp.Or(event.To, event.Queue)] = true
	r.mu.Unlock()
	r.due.notify()
}

// listens is called when it hears the jobs of other clients from now on.
func (r *relay) listens() {
	r.mu.Lock()
	r.isCounted = true
	r.mu.Unlock()
	r.wakeAll()
}

// wakeAll has a worker woken for each queue that has jobs: some may have been put while no worker
// was listening.
func (r *relay) wakeAll() {
	r.mu.Lock()
	r.wakeAny = true
	r.mu.Unlock()
	r.due.notify()
}

// run does what needRelays, heard and wakeAll have requested.
func (r *relay) run(ctx context.Context) {
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
			r.log.cantWake(queues, err)
		}
		r.wakeAll() // it is not known which were woken
		if !redisx.WhileAway.Wait(ctx, failures) {
			return
		}
	}
}

// takeWakes returns the queues whose jobs woke no worker, and whether there may be others.
func (r *relay) takeWakes() (queues []string, wakeAny bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	queues, wakeAny = slices.Sorted(maps.Keys(r.wakeQueues)), r.wakeAny
	clear(r.wakeQueues)
	r.wakeAny = false
	return queues, wakeAny
}

// wakeBatchSize is for how many queues one script wakes workers.
const wakeBatchSize = 500

// wake wakes a worker for each of the queues or, with wakeAny, for each queue that has jobs.
func (r *relay) wake(ctx context.Context, queues []string, wakeAny bool) error {
	if wakeAny {
		return r.wakeForAll(ctx)
	}
	for some := range slices.Chunk(queues, wakeBatchSize) {
		if _, err := r.client.run(ctx, "wake", "", anys(nil, some...)...); err != nil {
			return err
		}
	}
	return nil
}

// wakeForAll wakes a worker for each queue that has jobs, in steps.
func (r *relay) wakeForAll(ctx context.Context) error {
	for cursor := ""; ; {
		reply, err := r.client.run(ctx, "wake", "", "", cursor)
		if err != nil {
			return err
		}
		next, ok := reply.(string)
		if !ok {
			return unexpected("wake", reply)
		}
		if cursor = next; cursor == "" {
			return nil
		}
	}
}

// changeRelaying begins or ends listening for the jobs of other clients. If the connection is
// broken, that takes effect on the one that replaces it.
func (r *relay) changeRelaying(ctx context.Context) {
	r.mu.Lock()
	change := r.change
	r.change = 0
	r.mu.Unlock()
	if change == 0 {
		return
	}
	claimed, err := r.claim(ctx, change > 0)
	if err != nil && ctx.Err() == nil {
		r.log.cantRelay(err)
	}
	if claimed {
		r.setRelaying(change > 0)
	}
}

// setRelaying begins or ends, unless the relay was stopped meanwhile.
func (r *relay) setRelaying(begin bool) {
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
func (r *relay) listen(begin bool) {
	channels := []string{r.client.prefix + channelLog, r.client.prefix + channelListen}
	if begin {
		r.hub.subscribe(r, channels...)
	} else {
		r.hub.unsubscribe(r, channels...)
	}
}

// claim reports whether it may begin or end: no other relay does, and there are still too few or too
// many. If another one begins, it tries again later.
func (r *relay) claim(ctx context.Context, begin bool) (bool, error) {
	if begin && r.contested > 0 { // others have begun meanwhile
		if there, err := r.client.countRelays(ctx); err == nil && there >= relays {
			r.contested = 0
			return false, nil
		}
	}
	key, now := r.client.prefix+keyRelay, time.Now()
	free, err := r.client.rdb.SetNX(ctx, key, r.client.worker, relayLease).Result()
	if err != nil {
		return false, err
	}
	if !free {
		if begin {
			r.contested++
			time.AfterFunc(redisx.WhileAway.After(r.contested), func() { r.needRelays(0) })
		}
		return false, nil
	}
	r.contested = 0
	there, err := r.client.countRelays(ctx)
	if err == nil && !begin && there > relays {
		return true, nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.claimed, r.isCounted = now, err != nil || !begin || there >= relays
	if r.isCounted {
		r.due.notify()
	}
	return !r.isCounted, err
}

// releaseLease gives up the lease when it is no longer needed.
func (r *relay) releaseLease(ctx context.Context) {
	r.mu.Lock()
	over := r.isCounted && time.Since(r.claimed) < relayLease
	if r.isCounted {
		r.claimed, r.isCounted = time.Time{}, false
	}
	r.mu.Unlock()
	if over {
		_ = r.client.rdb.Del(ctx, r.client.prefix+keyRelay).Err() // else it ends by itself
	}
}

// countRelays returns how many relays there are.
func (c *Client) countRelays(ctx context.Context) (int, error) {
	var on interface {
		PubSubNumSub(ctx context.Context, channels ...string) *redis.MapStringIntCmd
	} = c.rdb
	if cluster, ok := c.rdb.(*redis.ClusterClient); ok {
		master, err := cluster.MasterForKey(ctx, c.prefix)
		if err != nil {
			return 0, err
		}
		on = master
	}
	counts, err := on.PubSubNumSub(ctx, c.prefix+channelListen).Result()
	return int(counts[c.prefix+channelListen]), err
}
