// Package linger decides when a worker that is asked for one job after the other waits a moment
// before it calls the server again, so that a call is about several jobs.
package linger

import (
	"context"
	"time"
)

// Usual is the pause between exchanges by default. Outcomes alone wait for patience times as long,
// because no job waits for them.
const (
	Usual    = time.Millisecond
	patience = 3
)

// closely is how many exchanges have to follow each other, each less than three pauses after the
// one before, until there is a pause.
const closely = 8

// A Rule is the state of the exchanges of one worker. Its zero value never pauses.
type Rule struct {
	pause  time.Duration
	ended  time.Time // the last exchange
	streak int       // exchanges that have followed each other closely
}

// New returns a rule with a pause. No pause, or a negative one, means never.
func New(pause time.Duration) Rule { return Rule{pause: max(0, pause)} }

// Began notes that an exchange begins.
func (r *Rule) Began(now time.Time) {
	if now.Sub(r.ended) < 3*r.pause {
		r.streak++
	} else {
		r.streak = 0
	}
}

// Ended notes the end of an exchange. When it was full, there is a backlog, and no reason to wait.
func (r *Rule) Ended(now time.Time, full bool) {
	r.ended = now
	if full {
		r.streak = 0
	}
}

// Wait returns how long to wait with the next exchange, which asks for jobs or only reports
// outcomes.
func (r *Rule) Wait(now time.Time, asks bool) time.Duration {
	if r.streak < closely {
		return 0
	}
	pause := r.pause
	if !asks {
		pause *= patience
	}
	return max(0, pause-now.Sub(r.ended))
}

// Pause waits that long before the next exchange, or until the context ends, or the worker is
// stopped. Whenever due receives, there may be a reason to wait for less: next tells whether the
// worker asks for jobs, and whether it runs.
func (r *Rule) Pause(ctx context.Context, due <-chan struct{}, next func() (asks, runs bool)) {
	for {
		asks, runs := next()
		wait := r.Wait(time.Now(), asks)
		if !runs || wait == 0 {
			return
		}
		timer := time.NewTimer(wait)
		select {
		case <-due:
		case <-timer.C:
		case <-ctx.Done():
			return
		}
		timer.Stop()
	}
}
