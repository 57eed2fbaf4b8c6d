// Package guard calls functions written by users. Whatever these do, the callers continue.
package guard

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"runtime/debug"
	"sync/atomic"
	"time"
)

// The errors of a function that did not return.
var (
	ErrGoexit  = errors.New("a function ended its goroutine (runtime.Goexit)")
	ErrBlocked = errors.New("a function has not returned")
)

// A Panic is the error of a function that panicked.
type Panic struct {
	Value any
	Stack []byte
}

// Error returns the value.
func (p *Panic) Error() string { return "a function panicked: " + PanicValue(p.Value) }

// Unwrap returns the value if it is an error.
func (p *Panic) Unwrap() error {
	err, _ := p.Value.(error)
	return err
}

// Call calls f on a goroutine of its own, and waits until f ends. The error is a [*Panic] if f
// panics, [ErrGoexit] if f calls runtime.Goexit, as t.FailNow does, and otherwise nil.
func Call(f func()) error { return <-begin(f) }

// Try is like [Call], but also returns the error of f.
func Try(f func() error) (err error) {
	if unreturned := Call(func() { err = f() }); unreturned != nil {
		return unreturned
	}
	return err
}

// Value calls f by [Call] or [Guard.Call] and returns the result, or the zero value with the error
// of the call.
func Value[T any](call func(func()) error, f func() T) (T, error) {
	result := make(chan T, 1)
	err := call(func() { result <- f() })
	if err != nil {
		var none T
		return none, err
	}
	return <-result, nil
}

// begin calls f on a goroutine of its own, and returns a channel for the error of [Call].
func begin(f func()) <-chan error {
	ended := make(chan error, 1)
	go func() {
		err := ErrGoexit
		defer func() {
			if value := recover(); value != nil {
				err = &Panic{value, debug.Stack()}
			}
			ended <- err
		}()
		f()
		err = nil
	}()
	return ended
}

// Forever is the patience of a guard that waits for every call.
const Forever time.Duration = math.MaxInt64

const (
	patience = time.Second           // how long to wait for a call
	brief    = 10 * time.Millisecond // the same while another call blocks
	mostLeft = 100                   // calls that may block at once
)

// A Guard calls a user's functions of one kind for goroutines that a call must not hold up. It
// waits for a blocking call for only a second. Until that call ends, it waits for other calls for
// only 10 ms. While 100 calls block, no further calls are made.
type Guard struct {
	what     string
	tell     func(message string, args ...any)
	patience time.Duration
	blocked  atomic.Int32
}

// New returns a guard that logs errors, with a name for the functions called.
func New(what string, logger *slog.Logger) *Guard {
	return &Guard{what: what, patience: patience, tell: func(message string, args ...any) {
		logger.Log(context.Background(), slog.LevelError, message, args...)
	}}
}

// Patient returns the guard, set to wait for d instead of a second.
func (g *Guard) Patient(d time.Duration) *Guard {
	g.patience = d
	return g
}

// Call calls f on a goroutine of its own. It returns when f has ended, with the error of the
// function [Call], or with [ErrBlocked] if f blocks. Errors are logged.
func (g *Guard) Call(f func()) error {
	left, wait := g.blocked.Load(), g.patience
	switch {
	case left >= mostLeft:
		return ErrBlocked
	case left > 0:
		wait = brief
	}
	ended := begin(f)
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case err := <-ended:
		g.report(err)
		return err
	case <-timer.C:
	}
	left = g.blocked.Add(1)
	go func() {
		g.report(<-ended)
		g.blocked.Add(-1)
	}()
	g.tell("qless: "+g.what+" has not returned: it is no longer waited for",
		"waited", wait, "blocked", left, "most", mostLeft)
	return ErrBlocked
}

// report logs why a function did not return.
func (g *Guard) report(err error) {
	var panicked *Panic
	switch {
	case err == nil:
	case errors.As(err, &panicked):
		g.tell("qless: "+g.what+" panicked",
			"panic", PanicValue(panicked.Value), "stack", string(panicked.Stack))
	default:
		g.tell("qless: " + g.what + " ended its goroutine")
	}
}
