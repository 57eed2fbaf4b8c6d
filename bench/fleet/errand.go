package main

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/qless/qless-go"
)

// errands are jobs that are put one at a time, each when the last one was handled.
type errands struct {
	taken chan time.Time
	waits []time.Duration // from put to handler
}

func newErrands() *errands { return &errands{taken: make(chan time.Time, 1)} }

func (e *errands) handle(context.Context, *qless.Job) error {
	e.taken <- time.Now()
	return nil
}

// run puts a job and waits for its handler.
func (e *errands) run(ctx context.Context, queue *qless.Queue) error {
	put := time.Now()
	if _, err := queue.Put(ctx, klass, nil); err != nil {
		return err
	}
	select {
	case at := <-e.taken:
		e.waits = append(e.waits, at.Sub(put))
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(patience):
		return errors.New("a job was not handled")
	}
}

// wait returns how long a part of the jobs waited at most, in milliseconds.
func (e *errands) wait(part float64) float64 {
	sorted := slices.Sorted(slices.Values(e.waits))
	return ms(sorted[min(int(part*float64(len(sorted))), len(sorted)-1)])
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1e3 }

func us(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }
