// Package linger decides when a worker that gets jobs in quick succession waits a moment before it
// calls the server again, so that a call covers several jobs.
package linger

import (
	"context"
	"time"
)

// Usual is the default pause between exchanges. Outcomes alone wait patience times as long, because
// no job waits for them.
const (
	Usual    = time.Millisecond
	patience = 3
)

// closely is the number of exchanges that must follow each other, each less than three pauses after
// the one before, before there is a pause.
const closely = 8

// A Rule is the state of the exchanges of one worker. Its zero value never pauses.
type Rule struct {
	pause  time.Duration
	ended  time.Time // the last exchange
	streak int       // exchanges that have followed each other closely
}

// New returns a rule with a pause. A pause of 0 or less means none.
func New(pause time.Duration) Rule { return Rule{pause: max(0, pause)} }

// Began records the beginning of an exchange.
func (r *Rule) Began(now time.Time) {
	if now.Sub(r.ended) < 3*r.pause {
		r.streak++
	} else {
		r.streak = 0
	}
}

// Ended records the end of an exchange. If it left a backlog, there is no reason to wait.
func (r *Rule) Ended(now time.Time, backlog bool) {
	r.ended = now
	if backlog {
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

// Pause waits as long as Wait returns, or until the context ends or the worker is stopped. Whenever
// due receives, there may be a reason for a shorter wait: next reports whether the worker asks for
// jobs, and whether it runs.
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
