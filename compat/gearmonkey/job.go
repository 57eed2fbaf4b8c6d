package gearmonkey

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync/atomic"

	"github.com/qless/qless-go/internal/redisx"
)

// A Handler works a job. What it returns is the job's output; an error ends the job with
// that error's text as its output. A panic is an error too: its text is "panic: " and the
// value, and its stack goes to the worker's log.
//
// The context ends, with the cause [ErrStopped], when the worker was stopped and its
// ShutdownTimeout is over.
type Handler func(ctx context.Context, job *Job) ([]byte, error)

// A Job is a job at work.
type Job struct {
	Function string
	ID       int64
	Input    []byte

	client *Client
	ended  atomic.Bool
}

// Update tells clients how much is done (dividend) of how much there is to do (divisor).
// It is [ErrFinished] after the handler has returned. Other errors may be passed over: the
// next update tells more. Cost: one command.
func (j *Job) Update(ctx context.Context, dividend, divisor int) error {
	if j.ended.Load() {
		return newError(ErrFinished, "update", j.Function, j.ID, "")
	}
	err := j.client.send(ctx, "HMSET", jobKey(j.Function, j.ID),
		"status:dividend", dividend, "status:divisor", divisor).Err()
	return wrap("update", j.Function, j.ID, err)
}

// work calls a handler, in a goroutine of its own so that nothing it does can end the
// worker's. A panic is an error.
func (j *Job) work(ctx context.Context, handler Handler, log *slog.Logger) (output []byte, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer j.ended.Store(true)
		defer func() {
			if value := recover(); value != nil {
				log.Error("gearmonkey: a handler panicked", "function", j.Function, "id", j.ID,
					"panic", value, "stack", string(debug.Stack()))
				err = fmt.Errorf("panic: %v", value)
			}
		}()
		err = redisx.ErrGoexit
		output, err = handler(ctx, j)
	}()
	<-done
	return output, err
}
