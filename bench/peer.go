package main

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"time"
)

// A peer is a queue to measure.
type peer struct {
	name   string
	layout string    // peers with the same layout store jobs in the same way
	waits  bool      // workers wait for jobs when there are none
	apart  bool      // clients run in a separate process
	other  *postgres // keeps the jobs, instead of the bench's Redis
	open   func(ctx context.Context, s *server, l load) (session, error)
}

// load describes the work of a session.
type load struct {
	jobs        int
	concurrency int    // goroutines that put, and jobs run by a worker at once
	workers     int    // the number of such workers
	queues      int    // the number of queues of each worker, if more than one
	apart       bool   // each worker has separate connections
	payload     string // the data of each job: JSON
	raw         bool   // Go programs have the data as JSON, and not as a value

	poll time.Duration // our PollInterval, if not the default
}

// A session is a peer running on an empty server.
type session interface {
	// enqueue puts jobs, and returns when all have been acknowledged.
	enqueue(ctx context.Context, jobs int) error

	// work starts the workers, and returns when they are running. Workers stop when the context ends.
	work(ctx context.Context, to *crew) error

	// done returns the number of done jobs according to the server.
	done(ctx context.Context) (int, error)

	// close stops the workers.
	close() error
}

// crew counts the jobs passed to handlers, and collects the workers' errors.
type crew struct {
	wanted  int64
	started atomic.Int64
	all     chan struct{} // closed when the wanted number of jobs has started
	failed  chan error
	taken   chan time.Time // if not nil, receives the times at which handlers are called
	poll    time.Duration  // how often the server is asked for the number of done jobs
}

func newCrew(wanted int) *crew {
	return &crew{
		wanted: int64(wanted), all: make(chan struct{}), failed: make(chan error, 1),
		poll: time.Millisecond,
	}
}

func (c *crew) handled() {
	if c.taken != nil {
		c.taken <- time.Now()
	}
	if c.started.Add(1) == c.wanted {
		close(c.all)
	}
}

func (c *crew) fail(err error) {
	select {
	case c.failed <- err:
	default: // one is enough
	}
}

// wait waits until every job was handled and the server reports all jobs as done. Anything else is
// an error: a result that counts undone work is worthless.
func (c *crew) wait(ctx context.Context, s session) error {
	timeout := time.After(patience)
	select {
	case <-c.all:
	case err := <-c.failed:
		return err
	case <-ctx.Done():
		return ctx.Err()
	case <-timeout:
		return fmt.Errorf("only %d of %d jobs were handled", c.started.Load(), c.wanted)
	}
	for {
		done, err := s.done(ctx)
		switch {
		case err != nil:
			return err
		case int64(done) == c.wanted && c.started.Load() == c.wanted:
			return nil
		case int64(done) > c.wanted || c.started.Load() > c.wanted:
			return fmt.Errorf("%d jobs were handled %d times; %d are done", c.wanted, c.started.Load(), done)
		}
		select {
		case <-time.After(c.poll):
		case err := <-c.failed:
			return err
		case <-timeout:
			return fmt.Errorf("only %d of %d jobs are done", done, c.wanted)
		}
	}
}

func isBullMQ(name string) bool { return strings.HasPrefix(name, "bullmq") }

func isRiver(name string) bool { return strings.HasPrefix(name, "river") }
