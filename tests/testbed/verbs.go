package testbed

import (
	"context"

	"github.com/qless/qless-go/inspect"
)

// Sweep sweeps queues.
func (e *Env) Sweep(ctx context.Context, queues ...string) (int, error) {
	return inspect.New(e.Client).Sweep(ctx, queues...)
}

// Holder returns the holder of a unique key.
func (e *Env) Holder(ctx context.Context, parts ...any) (string, error) {
	return inspect.New(e.Client).Holder(ctx, parts...)
}

// ForgetQueue removes a queue from the list of known queues.
func (e *Env) ForgetQueue(ctx context.Context, queue string) error {
	return inspect.New(e.Client).ForgetQueue(ctx, queue)
}

// RunSchedule puts a job of a schedule.
func (e *Env) RunSchedule(ctx context.Context, id string) (string, error) {
	return inspect.New(e.Client).RunSchedule(ctx, id)
}
