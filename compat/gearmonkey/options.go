package gearmonkey

import "time"

// A RunOption configures a call of [Client.Run].
type RunOption interface{ applyRun(*runOptions) }

// runOptions holds the settings of a run.
type runOptions struct {
	at       *time.Time
	blocking bool
	timeout  time.Duration
	priority Priority
	rollCall bool
}

type runOption func(*runOptions)

func (o runOption) applyRun(r *runOptions) { o(r) }

// At schedules a job for a time, in whole seconds; fractions are rounded up. A due job runs before
// all unscheduled jobs, and so has no [Priority]. Times before 1970 are invalid, because no worker
// would find the job.
//
// The asking worker's clock decides whether a job is due.
func At(t time.Time) RunOption {
	return runOption(func(r *runOptions) { r.at = &t })
}

// Blocking makes Run wait until the job has ended, successfully or not, or until the timeout has
// passed: Run then returns [ErrTimeout], and the job continues. The timeout is in whole seconds,
// rounded up; 0 waits forever. The timeout starts when the job is queued; with [At], it includes
// the time until the job is due.
//
// Each wait uses a separate connection, outside the pool.
func Blocking(timeout time.Duration) RunOption {
	return runOption(func(r *runOptions) { r.blocking, r.timeout = true, timeout })
}

// A Priority selects a job's queue. Workers take jobs from [High] first, then [Normal], then [Low].
// A Priority is an option of [Client.Run]. Defaults to Normal.
type Priority string

// The priorities.
const (
	High   Priority = "high"
	Normal Priority = "normal"
	Low    Priority = "low"
)

func (p Priority) applyRun(r *runOptions) { r.priority = p }

// RollCall makes Run first check whether any worker accepts the function, and otherwise return
// [ErrNoWorkers]. Workers may come and go right after the check, and killed workers still count.
func RollCall() RunOption {
	return runOption(func(r *runOptions) { r.rollCall = true })
}

// longestTimeout is the longest time supported by the clocks of every party.
const longestTimeout = 100 * 365 * 24 * time.Hour

// gather applies the options of a run and checks the result.
func gather(fn string, options []RunOption) (*runOptions, error) {
	r := &runOptions{}
	for _, option := range options {
		option.applyRun(r)
	}
	switch {
	case r.at != nil && r.at.Unix() < 0:
		return nil, invalid("run", fn, "the time %v is before 1970", *r.at)
	case r.at != nil && r.priority != "":
		return nil, invalid("run", fn, "a scheduled job can't have a priority: %q", r.priority)
	case r.timeout < 0:
		return nil, invalid("run", fn, "the timeout %v is negative", r.timeout)
	case r.timeout > longestTimeout:
		return nil, invalid("run", fn, "the timeout %v exceeds %v", r.timeout, longestTimeout)
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

// checkFunction returns an error if the function has no name.
func checkFunction(op, fn string) error {
	if fn == "" {
		return invalid(op, fn, "the function has no name")
	}
	return nil
}

// checkJob returns an error unless the function and the id are valid.
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
