package gearmonkey

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/qless/qless-go/internal/redisx"
)

// A shift is one run of a worker, from start to end.
type shift struct {
	client    *Client
	cfg       WorkerConfig
	log       *slog.Logger
	functions []string
	queues    []string         // the lists, in the order of checking
	routes    map[string]route // by queue
	signedIn  int              // the number of functions counting the worker
}

// route is the function and the handler for the jobs of a queue.
type route struct {
	fn      string
	handler Handler
}

// loadScript loads the script into the server, unless the worker is stopped first.
func (s *shift) loadScript(ctx context.Context) error {
	_, err := await(ctx, func(ctx context.Context) (any, error) {
		return nil, s.client.loadScript(ctx)
	})
	return wrap("work", "", 0, err)
}

// signIn adds the worker to the counts of its functions.
func (s *shift) signIn(ctx context.Context) error {
	ctx, cancel := redisx.Outlive(ctx, departTimeout, ErrStopped)
	defer cancel(nil)
	for _, fn := range s.functions {
		_, err := await(ctx, func(ctx context.Context) (any, error) {
			return nil, s.client.sendOnce(ctx, "INCR", countKey(fn)).Err()
		})
		if err != nil {
			return wrap("work", fn, 0, err)
		}
		s.signedIn++
	}
	return nil
}

// signOut removes the worker from the counts. A count below zero means that the server lost its
// data: the count, which no longer included this worker, is restored.
func (s *shift) signOut(ctx context.Context) error {
	ctx, cancel := redisx.Outlive(ctx, departTimeout, ErrStopped)
	defer cancel(nil)
	var errs []error
	for _, fn := range s.functions[:s.signedIn] {
		left, err := s.decrement(ctx, fn)
		if err == nil && left < 0 {
			_, err = await(ctx, func(ctx context.Context) (any, error) {
				return nil, s.client.sendOnce(ctx, "INCR", countKey(fn)).Err()
			})
		}
		errs = append(errs, wrap("sign out", fn, 0, err))
	}
	return errors.Join(errs...)
}

// decrement removes the worker from a count. It retries only if the command has certainly not run.
func (s *shift) decrement(ctx context.Context, fn string) (left int64, err error) {
	for failures := 1; ; failures++ {
		left, err = await(ctx, func(ctx context.Context) (int64, error) {
			left, err := s.client.sendOnce(ctx, "DECR", countKey(fn)).Int64()
			if redis.IsOOMError(err) {
				left, err = s.client.force(ctx, decrScript, []string{countKey(fn)}).Int64()
			}
			return left, err
		})
		if err == nil || !neverRan(err) || isFinal(err) || !backoff.Wait(ctx, failures) {
			return left, err
		}
	}
}

// loop takes and runs jobs until ctx is done, or the server has a different script under the
// protocol's digest.
func (s *shift) loop(ctx context.Context) error {
	failures, refusals := 0, 0
	for ctx.Err() == nil {
		item, err := s.take(ctx)
		if errors.Is(err, ErrScript) {
			return err
		}
		if err != nil {
			s.failed("gearmonkey: asking for jobs failed; if the reply was lost, so is a job", err, failures)
			failures++
			backoff.Wait(ctx, failures)
			continue
		}
		if failures > 0 {
			failures = 0
			s.log.Info("gearmonkey: the server is available again")
		}
		if len(item) != 2 {
			continue
		}
		if s.work(ctx, item[0], item[1]) {
			refusals = 0
			continue
		}
		refusals++
		backoff.Wait(ctx, refusals)
	}
	return nil
}

// take returns a queue and the id taken from it, or nothing after a second without a job. A pop in
// progress is not canceled, since the server might be returning a job. If the server hangs, the pop
// continues in the background, and a job returned late is put back.
func (s *shift) take(ctx context.Context) ([]string, error) {
	type result struct {
		item []string
		err  error
	}
	taken := make(chan result, 1)
	whole, now := context.WithoutCancel(ctx), s.now()
	go func() {
		item, err := s.ask(whole, now)
		taken <- result{item, err}
	}()
	select {
	case r := <-taken:
		return r.item, r.err
	case <-ctx.Done():
	}
	timer := time.NewTimer(popTimeout + hangTimeout)
	defer timer.Stop()
	select {
	case r := <-taken:
		return r.item, r.err
	case <-timer.C:
	}
	go func() {
		if late := <-taken; len(late.item) == 2 {
			s.putBackLate(whole, late.item[0], late.item[1], now[0])
		}
	}()
	return nil, wrap("work", s.functions[0], 0, ctx.Err())
}

// hangTimeout is how much longer than popTimeout a stopping worker waits for a hanging server.
const hangTimeout = 750 * time.Millisecond

// now returns the current time for each function. The clock is the user's: a panic must happen in
// the goroutine that called Work.
func (s *shift) now() []time.Time {
	now := make([]time.Time, len(s.functions))
	for i := range now {
		now[i] = s.cfg.Clock()
	}
	return now
}

// ask asks each queue once.
func (s *shift) ask(ctx context.Context, now []time.Time) ([]string, error) {
	for i, fn := range s.functions {
		item, err := s.client.popDue(ctx, fn, now[i])
		if err != nil || item != nil {
			return item, err
		}
	}
	item, err := pop(ctx, s.client.rdb, popTimeout, s.queues...)
	return item, wrap("work", s.functions[0], 0, err)
}

// putBackLate puts back a job that arrived after the worker's stop.
func (s *shift) putBackLate(ctx context.Context, queue, text string, now time.Time) {
	r := s.routes[queue]
	id, ok := parseID(text)
	if !ok {
		return
	}
	if err := s.client.putBack(ctx, queue, r.fn, id, now); err != nil {
		s.log.Error("gearmonkey: a job was not started and is no longer in any queue",
			"function", r.fn, "id", text, "error", err)
	}
}

// work runs a job taken from a queue. It returns false if the server refused to begin the job, and
// the job is back in its queue.
func (s *shift) work(ctx context.Context, queue, text string) bool {
	r := s.routes[queue]
	log := s.log.With("function", r.fn, "id", text)
	id, ok := parseID(text)
	if !ok {
		log.Warn("gearmonkey: a queue held an invalid id")
		return true
	}
	job := &Job{Function: r.fn, ID: id, client: s.client}
	begun, err := s.begin(ctx, queue, job)
	switch {
	case errors.Is(err, ErrFinished):
		log.Info("gearmonkey: passed over a job that has ended")
		return true
	case err != nil:
		log.Error("gearmonkey: a job was not started and is no longer in any queue", "error", err)
		return true
	case !begun:
		return false
	}

	until, cancel := redisx.Outlive(ctx, s.cfg.ShutdownTimeout, ErrStopped)
	defer cancel(nil)
	status, output := job.work(until, r.handler, s.log)
	if err := s.end(ctx, job, status, output); err != nil {
		log.Error("gearmonkey: the outcome of a job could not be stored", "status", status, "error", err)
	}
	return true
}

// begin reads and begins a taken job. It reports false if the server refused that, and the job is
// back in its queue. Without a reply, begin retries until the worker has been stopped for a while.
func (s *shift) begin(ctx context.Context, queue string, job *Job) (begun bool, err error) {
	stopping, cancel := redisx.Outlive(ctx, departTimeout, ErrStopped)
	defer cancel(nil)
	for failures := 1; ; failures++ {
		job.Input, err = await(stopping, func(ctx context.Context) ([]byte, error) {
			input, err := s.client.input(ctx, "work", job.Function, job.ID)
			if err == nil {
				err = s.client.begin(ctx, job.Function, job.ID)
			}
			return input, err
		})
		if err == nil {
			return true, nil
		}
		if isFinal(err) {
			return false, err
		}
		s.failed("gearmonkey: a job could not be started; trying again", err, failures-1)
		if redisx.IsAnswer(err) || stopping.Err() != nil {
			now := s.cfg.Clock()
			_, back := await(stopping, func(context.Context) (any, error) {
				return nil, s.client.putBack(context.WithoutCancel(ctx), queue, job.Function, job.ID, now)
			})
			if back == nil {
				return false, nil
			}
			if !neverRan(back) {
				return false, back // the job may be back in its queue
			}
		}
		if !backoff.Wait(stopping, failures) {
			return false, err
		}
	}
}

// end stores the outcome of a job. It retries until the server accepts the outcome, or the worker
// has been stopped for a while.
func (s *shift) end(
	worker context.Context, job *Job, status Status, output []byte,
) error {
	stopping, cancel := redisx.Outlive(worker, departTimeout, ErrStopped)
	defer cancel(nil)
	for failures := 1; ; failures++ {
		_, err := await(stopping, func(ctx context.Context) (any, error) {
			err := s.client.end(ctx, "work", job.Function, job.ID, status, output)
			if redis.IsOOMError(err) && worker.Err() != nil {
				err = s.client.forceEnd(ctx, job.Function, job.ID, status, output)
			}
			return nil, err
		})
		if err == nil || isFinal(err) {
			return err
		}
		s.failed("gearmonkey: storing the outcome of a job failed; trying again", err, failures-1)
		if !backoff.Wait(stopping, failures) {
			return err
		}
	}
}

// await returns the result of a call, or the context's error if the context ends first: go-redis
// itself waits for the answer.
func await[T any](ctx context.Context, call func(context.Context) (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() {
		value, err := call(ctx)
		done <- result{value, err}
	}()
	select {
	case r := <-done:
		return r.value, r.err
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	}
}

// isFinal reports whether an error is final: the job is gone or ended, or its key has another type.
func isFinal(err error) bool {
	return errors.Is(err, ErrNotFound) || errors.Is(err, ErrFinished) || redisx.IsDamage(err)
}

// neverRan reports whether a command sent once has certainly not run: the server refused the
// command, or was not reached.
func neverRan(err error) bool { return redisx.IsAnswer(err) || redisx.NeverRan(err) }

// failed logs the first of several failures in a row.
func (s *shift) failed(what string, err error, before int) {
	if before == 0 {
		s.log.Warn(what, "error", err)
	}
}

// backoff is the delay between retries while the server is away, at most 3 s.
var backoff = redisx.Backoff{First: 75 * time.Millisecond, Longest: 2400 * time.Millisecond}
