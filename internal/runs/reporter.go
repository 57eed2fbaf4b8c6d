package runs

import (
	"context"
	"crypto/rand"
	mrand "math/rand/v2"
	"slices"
	"sync"
	"time"
)

// A Reporter counts the runs of a worker's jobs, and sends the counts to the server. If the answer
// to a part is lost, the part is sent again with the same number.
type Reporter struct {
	config ReporterConfig
	run    string
	again  chan struct{} // has an element if the reporter must send now

	// Used only by the sending goroutine.
	sent    int  // the number of parts sent
	refused bool // the last call was refused

	mu      sync.Mutex
	current *Part   // nil without counts
	closed  []*Part // oldest first
	asked   bool    // to send now
}

// A ReporterConfig configures a Reporter.
type ReporterConfig struct {
	Now func() time.Time

	// Send sends a part, and reports whether it is settled. Otherwise the part is sent again. An error
	// is an answer of the server.
	Send func(ctx context.Context, part *Part) (settled bool, refused error)

	// Refused is called with the first refusal after an accepted part.
	Refused func(err error)
}

// NewReporter returns a reporter. [Reporter.Run] sends the counts.
func NewReporter(config ReporterConfig) *Reporter {
	return &Reporter{config: config, run: rand.Text(), again: make(chan struct{}, 1)}
}

// A Part holds the counts of a period, sent together.
type Part struct {
	Run    string        // identifies the reporter
	Number int           // the place among the reporter's parts, from 1
	Age    time.Duration // since the beginning of the part
	Counts map[Key]*Counts

	began time.Time
}

const (
	// interval is the time between two reports.
	interval = 15 * time.Second

	// maxKeys is the number of queues and klasses counted separately in one part.
	maxKeys = 500

	// maxParts is the maximum number of parts waiting to be sent. Beyond that, pairs are merged.
	maxParts = 20

	// maxName is the maximum total length of the names of a queue and a klass to count separately.
	maxName = 512
)

// of returns the counts of a queue and a klass.
func (p *Part) of(key Key) *Counts {
	if len(key.Queue)+len(key.Klass) > maxName {
		key = Key{}
	}
	counts := p.Counts[key]
	if counts == nil && len(p.Counts) >= maxKeys {
		key = Key{}
		counts = p.Counts[key]
	}
	if counts == nil {
		counts = &Counts{}
		p.Counts[key] = counts
	}
	return counts
}

// merge adds later counts.
func (p *Part) merge(later *Part) {
	for key, counts := range later.Counts {
		p.of(key).Merge(counts)
	}
}

// Count counts a run of a job, with the times that it waited and ran, in the counter returned by
// ended. A wait of 0 means unknown.
func (r *Reporter) Count(key Key, ended func(*Counts) *int, waited, ran time.Duration) {
	now := r.config.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.current != nil && r.isOver(now) {
		r.close()
	}
	if r.current == nil {
		r.current = &Part{Run: r.run, began: now, Counts: map[Key]*Counts{}}
	}
	counts := r.current.of(key)
	*ended(counts)++
	counts.Run.Add(ran)
	if waited > 0 {
		counts.Wait.Add(waited)
	}
}

// isOver reports whether the current part is complete. The mutex is held.
func (r *Reporter) isOver(now time.Time) bool {
	since := now.Sub(r.current.began)
	return since < 0 || since >= interval
}

// close closes the current part, and limits the number of parts: every second unsent part is merged
// into the previous one. The mutex is held.
func (r *Reporter) close() {
	if r.current == nil {
		return
	}
	r.closed = append(r.closed, r.current)
	r.current = nil
	if len(r.closed) <= maxParts {
		return
	}
	kept := r.closed[:1:1] // may have been sent
	for i := 1; i < len(r.closed); i += 2 {
		part := r.closed[i]
		if i+1 < len(r.closed) {
			part.merge(r.closed[i+1])
		}
		kept = append(kept, part)
	}
	r.closed = kept
}

// Ask requests sending the counts now.
func (r *Reporter) Ask() {
	r.mu.Lock()
	r.asked = r.current != nil || len(r.closed) > 0
	r.mu.Unlock()
	select {
	case r.again <- struct{}{}:
	default:
	}
}

// IsAsked reports whether the counts are about to be sent because of Ask.
func (r *Reporter) IsAsked() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.asked
}

// Run sends the counts from time to time until the context ends.
func (r *Reporter) Run(ctx context.Context) {
	for wait := interval; ; wait = time.Duration(float64(interval) * (0.9 + mrand.Float64()/10)) {
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-r.again:
		case <-ctx.Done():
			timer.Stop()
			return
		}
		timer.Stop()
		r.Flush(ctx)
	}
}

// Flush sends all counts, each part in one script, until the server does not take a part.
func (r *Reporter) Flush(ctx context.Context) {
	r.mu.Lock()
	r.close()
	r.mu.Unlock()
	for part := r.oldest(); part != nil && ctx.Err() == nil; part = r.oldest() {
		if !r.sendPart(ctx, part) {
			break
		}
		r.mu.Lock()
		r.closed = slices.Delete(r.closed, 0, 1)
		r.mu.Unlock()
	}
	r.mu.Lock()
	r.asked = false
	r.mu.Unlock()
}

// oldest returns the next part to send, or nil.
func (r *Reporter) oldest() *Part {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.closed) == 0 {
		return nil
	}
	return r.closed[0]
}

// sendPart sends a part, and reports whether the part is settled.
func (r *Reporter) sendPart(ctx context.Context, part *Part) (settled bool) {
	if part.Number == 0 {
		r.sent++
		part.Number = r.sent
	}
	part.Age = max(r.config.Now().Sub(part.began), 0)
	settled, refused := r.config.Send(ctx, part)
	if refused != nil && !r.refused {
		r.config.Refused(refused)
	}
	r.refused = refused != nil
	return settled
}
