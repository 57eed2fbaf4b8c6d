package gearmonkey

import "time"

// A RunOption changes one [Client.Run].
type RunOption interface{ applyRun(*runOptions) }

// runOptions holds what the options of a run say.
type runOptions struct {
	at       *time.Time
	blocking bool
	timeout  time.Duration
	priority Priority
	rollCall bool
}

type runOption func(*runOptions)

func (o runOption) applyRun(r *runOptions) { o(r) }

// At makes a job wait until a time, in whole seconds: a fraction is rounded up. When it
// has come, the job goes before all that are not scheduled; so it has no [Priority]. Times
// before 1970 can't be used, for no worker would find the job.
//
// The clock that counts is that of the worker that asks.
func At(t time.Time) RunOption {
	return runOption(func(r *runOptions) { r.at = &t })
}

// Blocking makes a run wait until the job has ended, well or with an error, or until the
// timeout is over: the run is then [ErrTimeout], and the job goes on. The timeout is in
// whole seconds, a fraction is rounded up; 0 waits without end. It counts from when the job
// was queued, so for a job of [At] it includes the time until then.
//
// A waiting run has a connection of its own, beside those of the pool.
func Blocking(timeout time.Duration) RunOption {
	return runOption(func(r *runOptions) { r.blocking, r.timeout = true, timeout })
}

// A Priority is the queue that a job goes into. Workers take from [High] first, then from
// [Normal], then from [Low]. It is an option of [Client.Run]. Defaults to Normal.
type Priority string

// The priorities.
const (
	High   Priority = "high"
	Normal Priority = "normal"
	Low    Priority = "low"
)

func (p Priority) applyRun(r *runOptions) { r.priority = p }

// RollCall makes a run look first whether any worker accepts the function: without one the
// run is [ErrNoWorkers]. Workers may come and go right after that look, and those that
// were killed still count.
func RollCall() RunOption {
	return runOption(func(r *runOptions) { r.rollCall = true })
}

// longestTimeout is as long as the clocks of all that take part can count.
const longestTimeout = 100 * 365 * 24 * time.Hour

// gather reads the options of a run of a function and checks them.
func gather(fn string, options []RunOption) (*runOptions, error) {
	r := &runOptions{}
	for _, option := range options {
		option.applyRun(r)
	}
	switch {
	case r.at != nil && r.at.Unix() < 0:
		return nil, invalid("run", fn, "the time %v is before 1970", *r.at)
	case r.at != nil && r.priority != "":
		return nil, invalid("run", fn, "a scheduled job has no priority, such as %q", r.priority)
	case r.timeout < 0:
		return nil, invalid("run", fn, "the timeout %v is negative", r.timeout)
	case r.timeout > longestTimeout:
		return nil, invalid("run", fn, "the timeout %v is above %v", r.timeout, longestTimeout)
	}
	if r.priority == "" {
		r.priority = Normal
	}
	return r, checkPriority("run", fn, r.priority)
}

func checkPriority(op, fn string, p Priority) error {
	switch p {
	case High, Normal, Low:
		return nil
	}
	return invalid(op, fn, "the priority %q is unknown", p)
}

// checkFunction errors unless a function has a name.
func checkFunction(op, fn string) error {
	if fn == "" {
		return invalid(op, fn, "the function has no name")
	}
	return nil
}

// checkJob errors unless a function and an id can be those of a job.
func checkJob(op, fn string, id int64) error {
	if id < 1 {
		return invalid(op, fn, "the id %d is not positive", id)
	}
	return checkFunction(op, fn)
}

// unixUp returns a time in Unix seconds, rounded up.
func unixUp(t time.Time) int64 {
	if t.Nanosecond() > 0 {
		return t.Unix() + 1
	}
	return t.Unix()
}
