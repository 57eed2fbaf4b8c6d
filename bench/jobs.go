package main

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/qless/qless-go"
)

// data is the data of a job: 100 bytes of JSON.
var data = json.RawMessage(`{"x":"` + strings.Repeat("x", 92) + `"}`)

// inBulk is the number of jobs put or taken by a call.
const inBulk = 500

// fill puts jobs in bulk. A function returns the options of a job by its number.
func fill(
	ctx context.Context, queue *qless.Queue, jobs int, options func(i int) []qless.PutOption,
) error {
	return parallel(4, (jobs+inBulk-1)/inBulk, func(batch int) error {
		first := batch * inBulk
		specs := make([]qless.JobSpec, min(inBulk, jobs-first))
		for i := range specs {
			specs[i] = qless.JobSpec{Klass: klass, Data: data}
			if options != nil {
				specs[i].Options = options(first + i)
			}
		}
		_, err := queue.PutMany(ctx, specs)
		return err
	})
}

// errands are jobs put one at a time, each after the previous job was handled.
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

// longestOf returns the quantile part of the times, in milliseconds, or 0 without times.
func longestOf(times []time.Duration, part float64) float64 {
	if len(times) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(times))
	return ms(sorted[min(int(part*float64(len(sorted))), len(sorted)-1)])
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1e3 }

func us(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }
