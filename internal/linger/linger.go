// Package linger decides when a worker with a quick succession of jobs waits a moment before
// calling the server again, so that a call covers several jobs.
package linger

import (
	"context"
	"time"
)

// Usual is the default pause before an exchange that asks for jobs. Outcomes alone wait patience
// times as long, because no job waits for them: ideally, the next request takes them along.
const (
	Usual    = 500 * time.Microsecond
	patience = 6
)

// closely is the number of exchanges, each within the patience after the previous one, before a
// pause.
const closely = 8

// worthwhile is the average number of jobs that must arrive during a pause: with fewer, a pause
// saves less than it delays.
const worthwhile = 2

// smoothing is the number of exchanges whose averages count.
const smoothing = 16

// A Rule is the state of the exchanges of one worker. The zero value never pauses.
type Rule struct {
	pause  time.Duration
	timer  *time.Timer // of the pauses
	ended  time.Time   // the last exchange
	streak int         // exchanges in close succession
	gap    float64     // the average time between their ends
	jobs   float64     // the average number of jobs in each
}

// New returns a rule with a pause. A pause of 0 or less means none.
func New(pause time.Duration) Rule { return Rule{pause: max(0, pause), timer: time.NewTimer(0)} }

// Began records the beginning of an exchange.
func (r *Rule) Began(now time.Time) {
	if now.Sub(r.ended) < patience*r.pause {
		r.streak++
	} else {
		r.streak, r.gap, r.jobs = 0, 0, 0
	}
}

// Ended records the end of an exchange with a number of jobs. After a backlog, there is no reason
// to wait.
func (r *Rule) Ended(now time.Time, jobs int, backlog bool) {
	if r.streak > 0 {
		r.gap += (float64(now.Sub(r.ended)) - r.gap) / smoothing
		r.jobs += (float64(jobs) - r.jobs) / smoothing
	}
	r.ended = now
	if backlog {
		r.streak = 0
	}
}

// Wait returns how long to delay the next exchange, which asks for jobs or only reports outcomes.
func (r *Rule) Wait(now time.Time, asks bool) time.Duration {
	pause := r.pause
	switch {
	case r.streak < closely:
		return 0
	case !asks:
		pause *= patience
	case r.jobs*float64(r.pause) < worthwhile*r.gap:
		return 0
	}
	return max(0, pause-now.Sub(r.ended))
}

// Pause waits as long as Wait returns, or until the context ends or the worker stops. Whenever due
// receives, a shorter wait may be enough: next reports whether the worker asks for jobs, and
// whether it runs.
func (r *Rule) Pause(ctx context.Context, due <-chan struct{}, next func() (asks, runs bool)) {
	for {
		asks, runs := next()
		wait := r.Wait(time.Now(), asks)
		if !runs || wait == 0 {
			return
		}
		r.timer.Reset(wait)
		select {
		case <-due:
		case <-r.timer.C:
		case <-ctx.Done():
			return
		}
	}
}
