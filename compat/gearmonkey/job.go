package gearmonkey

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync/atomic"

	"github.com/qless/qless-go/internal/guard"
)

// A Handler runs a job. The returned bytes become the job's output. A returned error ends the job
// with status error and the error's text as the output. A panic counts as an error with the text
// "panic: " followed by the value, and the stack is logged.
//
// If the worker is stopped and its ShutdownTimeout passes, the context is canceled with the cause
// [ErrStopped].
type Handler func(ctx context.Context, job *Job) ([]byte, error)

// A Job is a job being run by a worker.
type Job struct {
	Function string
	ID       int64
	Input    []byte

	client *Client
	ended  atomic.Bool
}

// Update reports the job's progress to clients: dividend out of divisor. It returns [ErrFinished]
// after the handler has returned. Other errors may be ignored, since the next update replaces this
// one. Cost: one command.
func (j *Job) Update(ctx context.Context, dividend, divisor int) error {
	if j.ended.Load() {
		return newError(ErrFinished, "update", j.Function, j.ID, "")
	}
	err := j.client.send(ctx, "HMSET", jobKey(j.Function, j.ID),
		"status:dividend", dividend, "status:divisor", divisor).Err()
	return wrap("update", j.Function, j.ID, err)
}

// work calls a handler in a separate goroutine, to protect the worker's goroutine, and returns the
// status and the output. A panic becomes an error.
func (j *Job) work(
	ctx context.Context, handler Handler, log *slog.Logger,
) (status Status, output []byte) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer j.ended.Store(true)
		defer func() {
			if value := recover(); value != nil {
				log.Error("gearmonkey: handler panicked", "function", j.Function, "id", j.ID,
					"panic", value, "stack", string(debug.Stack()))
				status, output = outcomeOf(nil, fmt.Errorf("panic: %v", value))
			}
		}()
		status, output = outcomeOf(nil, guard.ErrGoexit)
		status, output = outcomeOf(handler(ctx, j))
	}()
	<-done
	return status, output
}
