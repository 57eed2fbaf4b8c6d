package lmstfy

import (
	"context"
	"slices"
	"time"

	"github.com/qless/qless-go"
)

// A pool keeps its jobs in a store. During a migration, the jobs left in the old store are taken
// first.
type pool struct {
	name string
	old  *store // nil unless being migrated
	now  *store
}

// stores returns the stores, beginning with the store being emptied.
func (p *pool) stores() []*store {
	if p.old == nil {
		return []*store{p.now}
	}
	return []*store{p.old, p.now}
}

func (p *pool) publish(
	ctx context.Context, queue string, jobs []draft, n publication, headers map[string]string,
) error {
	return p.now.publish(ctx, queue, jobs, n, headers)
}

// A delivery holds jobs locked for a consumer.
type delivery struct {
	store *store
	jobs  []*qless.Job
}

// A place holds at most maxAsked queues of a store that may have jobs.
type place struct {
	store  *store
	queues []string
}

// maxAsked is the maximum number of queues in one call to qless.
const maxAsked = 1000

// places returns the places of queues, in the order of taking jobs, and the best place to wait at.
func (p *pool) places(queues []string) (all []place, best place) {
	for _, s := range p.stores() {
		best = place{}
		for some := range slices.Chunk(queues, maxAsked) {
			all = append(all, place{s, some})
			if best.store == nil {
				best = place{s, some}
			}
		}
	}
	return all, best
}

// consume locks jobs from queues. If none is ready, consume waits until the context ends.
func (p *pool) consume(
	ctx context.Context, queues []string, c consumption,
) (delivery, error) {
	places, best := p.places(queues)
	got, err := take(ctx, places, c.count, c.ttr)
	if err != nil || len(got.jobs) > 0 || c.timeout == 0 {
		return got, err
	}
	if len(places) == 1 {
		return best.wait(ctx, c.ttr)
	}
	for ctx.Err() == nil {
		short, cancel := context.WithTimeout(ctx, lookInterval)
		got, err = best.wait(short, c.ttr)
		cancel()
		if err == nil && len(got.jobs) == 0 && ctx.Err() == nil {
			got, err = take(ctx, places, 1, c.ttr)
		}
		if err != nil && ctx.Err() == nil || len(got.jobs) > 0 {
			return got, err
		}
	}
	return delivery{}, nil
}

// lookInterval is how often a waiting consumer checks the other places.
const lookInterval = time.Second

// wait waits for a job to lock in a place, or until the context ends.
func (at place) wait(ctx context.Context, ttr time.Duration) (delivery, error) {
	jobs, err := at.store.receive(ctx, at.queues, 1, ttr, true)
	return delivery{at.store, jobs}, err
}

// take locks jobs that are ready, all from the same store.
func take(
	ctx context.Context, places []place, count int, ttr time.Duration,
) (got delivery, err error) {
	for _, at := range places {
		missing := count - len(got.jobs)
		if missing == 0 || len(got.jobs) > 0 && at.store != got.store {
			break
		}
		jobs, err := at.store.receive(ctx, at.queues, missing, ttr, false)
		got = delivery{at.store, append(got.jobs, jobs...)}
		if err != nil && len(got.jobs) == 0 {
			return got, err
		}
		if err != nil {
			break // jobs locked so far are delivered
		}
	}
	return got, nil
}

// remove deletes a job and returns it, or nil if there is none.
func (p *pool) remove(ctx context.Context, queue, id string) (*qless.Job, error) {
	var removed *qless.Job
	for _, s := range p.stores() {
		job, err := s.remove(ctx, queue, id)
		if err != nil {
			return nil, err
		}
		if job != nil {
			removed = job
		}
	}
	return removed, nil
}

func (p *pool) get(ctx context.Context, queue, id string) (*qless.Job, error) {
	return firstJob(p, func(s *store) (*qless.Job, error) { return s.get(ctx, queue, id) })
}

func (p *pool) peek(ctx context.Context, queue string) (*qless.Job, error) {
	return firstJob(p, func(s *store) (*qless.Job, error) { return s.peek(ctx, queue) })
}

func firstJob(p *pool, look func(*store) (*qless.Job, error)) (*qless.Job, error) {
	for _, s := range p.stores() {
		if job, err := look(s); job != nil || err != nil {
			return job, err
		}
	}
	return nil, nil
}

func (p *pool) size(ctx context.Context, queue string) (int, error) {
	sum := 0
	for _, s := range p.stores() {
		size, err := s.size(ctx, queue)
		if err != nil {
			return 0, err
		}
		sum += size
	}
	return sum, nil
}

func (p *pool) destroy(ctx context.Context, queue string) error {
	for _, s := range p.stores() {
		if err := s.destroy(ctx, queue); err != nil {
			return err
		}
	}
	return nil
}

func (p *pool) dead(ctx context.Context, queue string) (sum int, head string, err error) {
	for _, s := range p.stores() {
		size, oldest, err := s.dead(ctx, queue)
		if err != nil {
			return 0, "", err
		}
		if head == "" {
			head = oldest
		}
		sum += size
	}
	return sum, head, nil
}

func (p *pool) respawn(
	ctx context.Context, queue string, limit int64, ttl time.Duration,
) (int, error) {
	return p.upTo(limit, func(s *store, n int64) (int, error) { return s.respawn(ctx, queue, n, ttl) })
}

func (p *pool) bury(ctx context.Context, queue string, limit int64) (int, error) {
	return p.upTo(limit, func(s *store, n int64) (int, error) { return s.bury(ctx, queue, n) })
}

// upTo calls do for the stores in turn, for at most limit jobs in total. It returns their number.
func (p *pool) upTo(limit int64, do func(s *store, n int64) (int, error)) (int, error) {
	sum := 0
	for _, s := range p.stores() {
		if int64(sum) >= limit {
			break
		}
		n, err := do(s, limit-int64(sum))
		sum += n
		if err != nil {
			return sum, err
		}
	}
	return sum, nil
}
