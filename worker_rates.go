package qless

import (
	"context"
	"crypto/rand"
	"errors"
	mrand "math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/qless/qless-go/internal/redisx"
	"github.com/qless/qless-go/internal/wire"
)

const (
	// rateInterval is how often a worker sends what it has counted.
	rateInterval = 15 * time.Second

	// maxRateKeys is how many queues and klasses are counted apart in one part.
	maxRateKeys = 500

	// maxRateParts is how many parts may wait to be sent. When there are more, two become one.
	maxRateParts = 20

	// maxRateName is how long the names of a queue and a klass may be together to be counted apart.
	maxRateName = 512
)

// A ratePart is what was counted in some time, to be sent in one script.
type ratePart struct {
	began  time.Time
	number int // its place among all that were sent; 0 if it was not sent yet
	counts map[rateKey]*runCounts
}

// of returns the counts of a queue and a klass.
func (p *ratePart) of(key rateKey) *runCounts {
	if len(key.queue)+len(key.klass) > maxRateName {
		key = rateKey{}
	}
	counts := p.counts[key]
	if counts == nil && len(p.counts) >= maxRateKeys {
		key = rateKey{}
		counts = p.counts[key]
	}
	if counts == nil {
		counts = &runCounts{}
		p.counts[key] = counts
	}
	return counts
}

// merge adds what was counted later.
func (p *ratePart) merge(later *ratePart) {
	for key, counts := range later.counts {
		p.of(key).merge(counts)
	}
}

// A rateKeeper counts the runs of a worker's jobs, and sends the counts to the server.
type rateKeeper struct {
	log   *workerLog
	send  func(ctx context.Context, run string, part *ratePart, age time.Duration) error
	now   func() time.Time
	run   string // tells what this worker sends from what others send
	again signal // send now

	// Used only by the goroutine that sends.
	sent    int  // how many parts were sent
	refused bool // the last call was

	mu      sync.Mutex
	current *ratePart   // nil if nothing was counted
	closed  []*ratePart // oldest first
	asked   bool        // to send now
}

func newRateKeeper(client *Client, log *workerLog) *rateKeeper {
	return &rateKeeper{
		log: log, send: client.sendRates, now: client.now, run: rand.Text(), again: newSignal(),
	}
}

// count counts a run of a job, and how it ended. Releases do not count, as nothing has come of the
// run.
func (k *rateKeeper) count(a *activeJob, action Action) {
	if a == nil || action != ActionComplete && action != ActionFail && action != ActionRetry {
		return
	}
	now := k.now()
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.current != nil && k.isOver(now) {
		k.close()
	}
	if k.current == nil {
		k.current = &ratePart{began: now, counts: map[rateKey]*runCounts{}}
	}
	counts := k.current.of(rateKey{a.queue, a.klass})
	switch action {
	case ActionComplete:
		counts.completed++
	case ActionFail:
		counts.failed++
	case ActionRetry:
		counts.retried++
	}
	counts.run.add(a.ran)
	if a.waited > 0 { // else it is unknown
		counts.wait.add(a.waited)
	}
}

// isOver reports whether the current part is complete. The mutex is held.
func (k *rateKeeper) isOver(now time.Time) bool {
	since := now.Sub(k.current.began)
	return since < 0 || since >= rateInterval
}

// close closes the current part, and limits how many there are: of those that were not sent, each
// second one becomes part of the one before. The mutex is held.
func (k *rateKeeper) close() {
	if k.current == nil {
		return
	}
	k.closed = append(k.closed, k.current)
	k.current = nil
	if len(k.closed) <= maxRateParts {
		return
	}
	kept := k.closed[:1:1] // it may have been sent
	for i := 1; i < len(k.closed); i += 2 {
		part := k.closed[i]
		if i+1 < len(k.closed) {
			part.merge(k.closed[i+1])
		}
		kept = append(kept, part)
	}
	k.closed = kept
}

// ask has the counts sent now.
func (k *rateKeeper) ask() {
	k.mu.Lock()
	k.asked = k.current != nil || len(k.closed) > 0
	k.mu.Unlock()
	k.again.notify()
}

// isAsked reports whether the counts are about to be sent because of ask.
func (k *rateKeeper) isAsked() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.asked
}

// keep sends the counts from time to time until the context ends.
func (k *rateKeeper) keep(ctx context.Context) {
	for wait := rateInterval; ; wait = time.Duration(float64(rateInterval) * (0.9 + mrand.Float64()/10)) {
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-k.again:
		case <-ctx.Done():
			timer.Stop()
			return
		}
		timer.Stop()
		k.flush(ctx)
	}
}

// flush sends what was counted, each part in one script, until the server does not take one.
func (k *rateKeeper) flush(ctx context.Context) {
	k.mu.Lock()
	k.close()
	k.mu.Unlock()
	for part := k.oldest(); part != nil && ctx.Err() == nil; part = k.oldest() {
		if !k.sendPart(ctx, part) {
			break
		}
		k.mu.Lock()
		k.closed = slices.Delete(k.closed, 0, 1)
		k.mu.Unlock()
	}
	k.mu.Lock()
	k.asked = false
	k.mu.Unlock()
}

// oldest returns the part to be sent next, or nil.
func (k *rateKeeper) oldest() *ratePart {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.closed) == 0 {
		return nil
	}
	return k.closed[0]
}

// sendPart sends a part, and reports whether that is settled: the server has it, or refuses this one
// and not others. A part whose answer was lost is sent again with the same number, by which the
// server knows it.
func (k *rateKeeper) sendPart(ctx context.Context, part *ratePart) (settled bool) {
	if part.number == 0 {
		k.sent++
		part.number = k.sent
	}
	err := k.send(ctx, k.run, part, max(k.now().Sub(part.began), 0))
	away := err != nil && !redisx.IsAnswer(err) && !errors.Is(err, ErrServer)
	if err != nil && !away && !k.refused {
		k.log.ratesRefused(err)
	}
	k.refused = err != nil && !away
	return err == nil || !away && !isGeneral(err)
}

// sendRates sends what a worker has counted.
func (c *Client) sendRates(
	ctx context.Context, run string, part *ratePart, age time.Duration,
) error {
	args := []any{run, strconv.Itoa(part.number), wire.FormatSeconds(age)}
	for key, counts := range part.counts {
		args = append(args, key.queue, key.klass, counts.text())
	}
	_, err := c.run(ctx, "rates.add", "", args...)
	return err
}
