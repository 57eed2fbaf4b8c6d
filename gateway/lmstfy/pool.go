package lmstfy

import (
	"context"
	"time"

	"github.com/qless/qless-go"
)

// A pool has jobs in a store. While it is being migrated, it also has those that are left in the
// old one, which go first.
type pool struct {
	name string
	old  *store // nil unless it is being migrated
	now  *store
}

// stores returns the stores, the one that is emptied first.
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

// A delivery are jobs that were locked for a consumer.
type delivery struct {
	store *store
	jobs  []*qless.Job
}

// consume locks jobs of queues. If there are none, it waits for one until the context ends.
func (p *pool) consume(
	ctx context.Context, queues []string, c consumption,
) (delivery, error) {
	for _, s := range p.stores() {
		jobs, err := s.receive(ctx, queues, c.count, c.ttr, false)
		if err != nil || len(jobs) > 0 {
			return delivery{s, jobs}, err
		}
	}
	if c.timeout == 0 {
		return delivery{}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	if p.old != nil {
		return p.consumeBoth(ctx, queues, c.ttr)
	}
	jobs, err := p.now.receive(ctx, queues, 1, c.ttr, true)
	return delivery{p.now, jobs}, err
}

// lookInterval is how often a consumer that waits looks into a store that is being emptied.
const lookInterval = time.Second

// consumeBoth waits for a job of either store.
func (p *pool) consumeBoth(
	ctx context.Context, queues []string, ttr time.Duration,
) (delivery, error) {
	for ctx.Err() == nil {
		short, cancel := context.WithTimeout(ctx, lookInterval)
		jobs, err := p.now.receive(short, queues, 1, ttr, true)
		cancel()
		if err != nil || len(jobs) > 0 {
			return delivery{p.now, jobs}, err
		}
		if ctx.Err() != nil {
			break
		}
		jobs, err = p.old.receive(ctx, queues, 1, ttr, false)
		if ctx.Err() == nil && err != nil || len(jobs) > 0 {
			return delivery{p.old, jobs}, err
		}
	}
	return delivery{}, nil
}

// remove deletes a job, and returns it, or nil.
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

// upTo does something with at most limit jobs. Returns how many there were.
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
