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
	queues    []string         // the lists, in the order in which they are checked
	routes    map[string]route // by queue
	signedIn  int              // how many of the functions count the worker
}

// route is the function and the handler for the jobs of a queue.
type route struct {
	fn      string
	handler Handler
}

// signIn adds the worker to the counts of its functions.
func (s *shift) signIn(ctx context.Context) error {
	for _, fn := range s.functions {
		if err := s.client.sendOnce(ctx, "INCR", countKey(fn)).Err(); err != nil {
			return wrap("work", fn, 0, err)
		}
		s.signedIn++
	}
	return nil
}

// signOut removes the worker from the counts. A count below zero means that the server lost its
// data: the count is restored, because it no longer included this worker.
func (s *shift) signOut(ctx context.Context) error {
	ctx, cancel := redisx.Outlive(ctx, departTimeout, ErrStopped)
	defer cancel(nil)
	var errs []error
	for _, fn := range s.functions[:s.signedIn] {
		left, err := s.client.sendOnce(ctx, "DECR", countKey(fn)).Int64()
		if err == nil && left < 0 {
			err = s.client.sendOnce(ctx, "INCR", countKey(fn)).Err()
		}
		errs = append(errs, wrap("sign out", fn, 0, err))
	}
	return errors.Join(errs...)
}

// loop takes and runs jobs until ctx is done, or the server has a different script under the
// protocol's digest.
func (s *shift) loop(ctx context.Context) error {
	failures := 0
	for ctx.Err() == nil {
		// A pop in progress is not canceled: the server might hand out a job with it.
		item, err := s.take(context.WithoutCancel(ctx))
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
		if len(item) == 2 {
			s.work(ctx, item[0], item[1])
		}
	}
	return nil
}

// take returns a queue and the id taken from it, or nothing if there was no job for a second.
func (s *shift) take(ctx context.Context) ([]string, error) {
	for _, fn := range s.functions {
		item, err := s.client.popDue(ctx, fn, s.cfg.Clock())
		if err != nil || item != nil {
			return item, err
		}
	}
	item, err := pop(ctx, s.client.rdb, popTimeout, s.queues...)
	return item, wrap("work", s.functions[0], 0, err)
}

// work runs a job that was taken from a queue.
func (s *shift) work(ctx context.Context, queue, text string) {
	r := s.routes[queue]
	log := s.log.With("function", r.fn, "id", text)
	id, ok := parseID(text)
	if !ok {
		log.Warn("gearmonkey: a queue held an invalid id")
		return
	}
	job := &Job{Function: r.fn, ID: id, client: s.client}
	err := s.insist(ctx, func(ctx context.Context) (err error) {
		job.Input, err = s.client.input(ctx, "work", r.fn, id)
		return err
	})
	if err == nil {
		err = s.insist(ctx, func(ctx context.Context) error { return s.client.begin(ctx, r.fn, id) })
	}
	if err != nil {
		log.Error("gearmonkey: a job was not started and is no longer in any queue", "error", err)
		return
	}

	until, cancel := redisx.Outlive(ctx, s.cfg.ShutdownTimeout, ErrStopped)
	defer cancel(nil)
	status, output := outcomeOf(job.work(until, r.handler, s.log))
	err = s.insist(ctx, func(ctx context.Context) error {
		return s.client.end(ctx, "work", r.fn, id, status, output)
	})
	if err != nil {
		log.Error("gearmonkey: the outcome of a job could not be stored", "status", status, "error", err)
	}
}

// insist retries do until the server replies, or the worker was stopped a while ago.
func (s *shift) insist(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := redisx.Outlive(ctx, departTimeout, ErrStopped)
	defer cancel(nil)
	for failures := 0; ; {
		err := do(ctx)
		if !errors.Is(err, ErrUnavailable) && !redis.IsOOMError(err) {
			return err
		}
		s.failed("gearmonkey: updating a job failed; retrying", err, failures)
		failures++
		if !backoff.Wait(ctx, failures) {
			return err
		}
	}
}

// failed logs the first of several failures in a row.
func (s *shift) failed(what string, err error, before int) {
	if before == 0 {
		s.log.Warn(what, "error", err)
	}
}

// backoff is how long to wait between retries while the server is away: 3 s at most.
var backoff = redisx.Backoff{First: 75 * time.Millisecond, Longest: 2400 * time.Millisecond}
