package lmstfy

import (
	"context"
	"errors"
	"time"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
	"github.com/qless/qless-go/lease"
)

// A store keeps the jobs of a pool in one qless namespace. Its queues are qless queues.
type store struct {
	name   string // name of the pool
	client *qless.Client
	taker  *lease.Taker
	dues   *dues
	swept  func(n int) // called with the number of jobs moved or ended by a sweep
}

func newStore(name string, client *qless.Client) *store {
	return &store{
		name: name, client: client, taker: lease.New(client), dues: newDues(), swept: func(int) {},
	}
}

// A draft is a job to publish.
type draft struct {
	id   string
	body []byte
}

// publish puts jobs into a queue, in order.
func (s *store) publish(
	ctx context.Context, queue string, jobs []draft, p publication, headers map[string]string,
) error {
	if p.delay > 0 {
		s.dues.add(queue, time.Now().Add(seconds(p.delay)))
	}
	q := s.client.Queue(queue)
	if len(jobs) == 1 {
		job := jobs[0]
		_, err := q.Put(ctx, Klass, encodeBody(job.body), p.options(job.id, headers)...)
		return err
	}
	for _, part := range parts(jobs) {
		specs := make([]qless.JobSpec, len(part))
		for i, job := range part {
			specs[i] = qless.JobSpec{
				Klass: Klass, Data: encodeBody(job.body), Options: p.options(job.id, headers),
			}
		}
		if _, err := q.PutMany(ctx, specs); err != nil {
			return err
		}
	}
	return nil
}

// maxPart limits the total size of the bodies of jobs put together, in bytes.
const maxPart = 4 << 20

// parts divides jobs into parts to put together.
func parts(jobs []draft) [][]draft {
	var all [][]draft
	first, size := 0, 0
	for i, job := range jobs {
		if size+len(job.body) > maxPart && i > first {
			all = append(all, jobs[first:i])
			first, size = i, 0
		}
		size += len(job.body)
	}
	return append(all, jobs[first:])
}

// options returns the options for putting a job.
func (p *publication) options(id string, headers map[string]string) []qless.PutOption {
	options := []qless.PutOption{
		qless.JID(id),
		qless.Retries(p.tries - 1),
		qless.OnLostLast,
		qless.KeepFor(0),
		qless.KeepFailedFor(qless.Forever),
	}
	if len(headers) > 0 {
		options = append(options, qless.Headers(headers))
	}
	if p.delay > 0 {
		options = append(options, qless.Delay(seconds(p.delay)))
	}
	switch {
	case p.ttl > 0 && p.ttl == p.delay:
		// The job can still be consumed in the second in which it is due.
		options = append(options, qless.TTL(seconds(p.ttl+1)))
	case p.ttl > 0:
		options = append(options, qless.TTL(seconds(p.ttl)))
	}
	return options
}

// receive locks jobs. If the context ends during a wait, receive returns none.
func (s *store) receive(
	ctx context.Context, queues []string, count int, ttr time.Duration, wait bool,
) ([]*qless.Job, error) {
	jobs, err := s.taker.Take(ctx, lease.Request{
		Queues: queues, Count: count, LockTime: lockTime(ttr), NoWait: !wait,
	})
	for _, job := range jobs {
		s.dues.add(job.Queue, time.Now().Add(ttr))
	}
	if wait && err != nil && ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return nil, nil
	}
	return jobs, err
}

// lockTime returns a time to run accepted by Take.
func lockTime(ttr time.Duration) time.Duration {
	if ttr == 0 {
		return -1
	}
	return min(ttr, maxLock)
}

// release releases undelivered jobs.
func (s *store) release(ctx context.Context, jobs []*qless.Job) error {
	var failed error
	for _, job := range jobs {
		if err := job.Release(ctx, 0); err != nil {
			failed = err
		}
	}
	return failed
}

// find returns a job of a queue, or nil if there is none.
func (s *store) find(ctx context.Context, queue, id string) (*qless.Job, error) {
	job, err := s.client.Job(ctx, id)
	switch {
	case errors.Is(err, qless.ErrNotFound), errors.Is(err, qless.ErrInvalid):
		return nil, nil
	case err != nil:
		return nil, err
	case job.Queue != queue:
		return nil, nil
	}
	return job, nil
}

// get returns a live job of a queue, or nil.
func (s *store) get(ctx context.Context, queue, id string) (*qless.Job, error) {
	job, err := s.find(ctx, queue, id)
	if job == nil || job.Until.IsZero() || time.Until(job.Until) > clockSkew {
		return job, err
	}
	if err := s.sweep(ctx, queue); err != nil { // the job's life may have ended
		return nil, err
	}
	return s.find(ctx, queue, id)
}

// clockSkew is the largest expected difference between the server's clock and ours.
const clockSkew = time.Minute

// remove deletes a job of a queue in any state, and returns it, or nil. A consumed job is
// completed.
//
// Most jobs were consumed here. Such jobs are completed together with others, without being read,
// so only their ids are returned.
func (s *store) remove(ctx context.Context, queue, id string) (*qless.Job, error) {
	if _, is := publishedAt(id); is {
		err := s.taker.Complete(ctx, queue, id)[0]
		switch {
		case err == nil:
			return &qless.Job{JID: id}, nil
		case errors.Is(err, qless.ErrNotFound):
			return nil, nil
		case errors.Is(err, qless.ErrUnavailable), isGone(err):
			return nil, err
		}
	}
	return s.removeAnyhow(ctx, queue, id)
}

// removeAnyhow deletes a job not consumed, or consumed elsewhere.
func (s *store) removeAnyhow(ctx context.Context, queue, id string) (*qless.Job, error) {
	for {
		job, err := s.find(ctx, queue, id)
		if job == nil || err != nil {
			return nil, err
		}
		if job.State == qless.StateRunning {
			err = s.taker.End(ctx, id, lease.End{})
		} else {
			err = s.client.Cancel(ctx, id)
		}
		switch {
		case err == nil, errors.Is(err, qless.ErrNotFound):
			return job, nil
		case errors.Is(err, qless.ErrHasDependents) && job.State != qless.StateFailed:
			err = s.taker.End(ctx, id, lease.End{})
			return job, err
		case !errors.Is(err, qless.ErrFinished):
			return nil, err
		}
		// The job has ended meanwhile: delete it in its present state.
	}
}

// peek returns the next job to consume, or nil.
func (s *store) peek(ctx context.Context, queue string) (*qless.Job, error) {
	if err := s.sweep(ctx, queue); err != nil {
		return nil, err
	}
	jobs, err := s.client.Queue(queue).Peek(ctx, 1)
	if err != nil || len(jobs) == 0 {
		return nil, err
	}
	return jobs[0], nil
}

// size returns the number of consumable jobs.
func (s *store) size(ctx context.Context, queue string) (int, error) {
	if err := s.sweep(ctx, queue); err != nil {
		return 0, err
	}
	counts, err := s.client.Queue(queue).Counts(ctx)
	return counts.Waiting, err
}

// destroy deletes the consumable jobs.
func (s *store) destroy(ctx context.Context, queue string) error {
	if err := s.sweep(ctx, queue); err != nil {
		return err
	}
	if _, err := inspect.New(s.client).Queue(queue, inspect.Waiting).Cancel(ctx); err != nil {
		return err
	}
	err := inspect.New(s.client).ForgetQueue(ctx, queue)
	if errors.Is(err, qless.ErrInvalid) { // jobs are left, but not ready
		return nil
	}
	return err
}

// deadGroup returns the failure group of jobs without tries left.
func deadGroup(queue string) string { return "failed-retries-" + queue }

// dead returns the number of dead jobs, and the oldest of them.
func (s *store) dead(ctx context.Context, queue string) (size int, head string, err error) {
	if err := s.sweep(ctx, queue); err != nil {
		return 0, "", err
	}
	group := deadGroup(queue)
	page, err := inspect.New(s.client).Failed(group).JIDs(ctx, inspect.Range{Limit: 1})
	if err != nil || page.Total < 2 {
		return page.Total, first(page.Items), err
	}
	end := inspect.Range{Offset: page.Total - 1, Limit: 1}
	last, err := inspect.New(s.client).Failed(group).JIDs(ctx, end)
	if err == nil && len(last.Items) == 0 { // the number has shrunk meanwhile
		return s.dead(ctx, queue)
	}
	return page.Total, first(last.Items), err
}

func first(items []string) string {
	if len(items) == 0 {
		return ""
	}
	return items[0]
}

// respawn gives dead jobs another try, the oldest first.
func (s *store) respawn(
	ctx context.Context, queue string, limit int64, ttl time.Duration,
) (int, error) {
	if err := s.sweep(ctx, queue); err != nil {
		return 0, err
	}
	options := []qless.UnfailOption{qless.Retries(0)}
	if ttl > 0 {
		options = append(options, qless.TTL(ttl))
	}
	dead := inspect.New(s.client).Failed(deadGroup(queue)).AtMost(int(limit))
	result, err := dead.Unfail(ctx, options...)
	return result.Changed, err
}

// bury deletes dead jobs, the oldest first.
func (s *store) bury(ctx context.Context, queue string, limit int64) (int, error) {
	if err := s.sweep(ctx, queue); err != nil {
		return 0, err
	}
	result, err := inspect.New(s.client).Failed(deadGroup(queue)).AtMost(int(limit)).Cancel(ctx)
	return result.Changed, err
}

// sweep moves due jobs and expired locks of queues to where they belong.
func (s *store) sweep(ctx context.Context, queues ...string) error {
	for {
		n, err := inspect.New(s.client).Sweep(ctx, queues...)
		s.swept(n)
		if err != nil || n < sweptAtOnce {
			return err
		}
	}
}

// sweptAtOnce is the maximum number of jobs moved, and of lives ended, by a sweep: more may be
// left.
const sweptAtOnce = 100

// isGone reports whether an error is due to a context that has ended.
func isGone(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// runSweeps sweeps queues with due jobs until the context ends. It also sweeps all known queues in
// turn, for jobs put by other servers, or by this server before a restart.
func (s *store) runSweeps(ctx context.Context) {
	ticker := time.NewTicker(sweepInterval)
	defer ticker.Stop()
	for tick := 0; ; tick++ {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		s.sweepDue(ctx)
		if tick%int(sweepAllInterval/sweepInterval) == 0 {
			_, _ = inspect.New(s.client).Sweep(ctx, "*")
		}
	}
}

func (s *store) sweepDue(ctx context.Context) {
	due := s.dues.take(time.Now())
	if len(due) == 0 {
		return
	}
	if err := s.sweep(ctx, due...); err != nil {
		for _, queue := range due {
			s.dues.add(queue, time.Now().Add(sweepInterval))
		}
	}
}
