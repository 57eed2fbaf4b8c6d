package qless

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/qless/qless-go/internal/guard"
	"github.com/qless/qless-go/internal/jobopts"
	"github.com/qless/qless-go/internal/units"
	"github.com/qless/qless-go/internal/wire"
)

// A State is the state of a job.
type State string

// The states of a job.
const (
	StateComplete  State = "complete"
	StateDepends   State = "depends"   // waits for other jobs
	StateFailed    State = "failed"    // is in a failure group
	StateRunning   State = "running"   // locked by a worker
	StateScheduled State = "scheduled" // waits until its delay is over
	StateTimedOut  State = "timed_out" // taken from a worker, and the next to be popped
	StateWaiting   State = "waiting"
)

// A Job is a snapshot of a job on the server, not safe for concurrent use. Methods with a context
// change the job on the server and never the struct, except for [Job.Refresh].
//
// In a handler, History, Dependencies, Dependents and Tracked are empty until [Job.Refresh] is
// called.
//
// Methods that end a run or renew a lock act as the client's worker. They fail with [ErrLockLost]
// if the job now belongs to another worker, with [ErrNotRunning] if to none, and with [ErrNotFound]
// if the job is gone. In a handler, these methods and Move also fail with [ErrLockLost] once the
// worker has dropped the run, even if it runs the job again.
//
// A Job from elsewhere, such as Job{} or one decoded from JSON, has no client: methods with a
// context return [ErrInvalid].
type Job struct {
	// Identity.

	// JID is the job's id.
	JID string `json:"jid"`

	// Klass names the work to do.
	Klass string `json:"klass"`

	// Data is the job's data as JSON, byte for byte as put. A change made here is saved by Complete,
	// Next, Fail, Retry, Release, Heartbeat and Move. Data that is not JSON, such as the NaN of other
	// languages, is a string in the JSON of a Job.
	Data json.RawMessage `json:"data,omitempty"`

	// Headers travel with the job.
	Headers Headers `json:"headers,omitempty"`

	// Tags are the job's tags, oldest first.
	Tags Tags `json:"tags,omitempty"`

	// SpawnedFrom is the jid of the recurring job behind this one, if any.
	SpawnedFrom string `json:"spawned_from_jid,omitempty"`

	// Place.

	// State is the job's state.
	State State `json:"state"`

	// Queue is the job's queue, or empty if the job is complete.
	Queue string `json:"queue,omitempty"`

	// Priority orders the jobs of a queue: higher priorities are popped first. A fraction, which
	// other clients may store, is rounded down.
	Priority int `json:"priority"`

	// Worker is the name of the job's worker, or of the last one if the job was timed out.
	Worker string `json:"worker,omitempty"`

	// Parked is the limit that has no room for the job, or empty. The State of a parked job is
	// [StateScheduled].
	Parked string `json:"parked,omitempty"`

	// Tracked reports whether the job is tracked ([Job.Track]).
	Tracked bool `json:"tracked"`

	// Times.

	// Due is when a scheduled job falls due, or when the delay of a job that waits for others ends.
	// It is zero in a handler, and in lists other than that of [Client.Jobs].
	Due time.Time `json:"due,omitzero"`

	// Expires is when the lock of a running job ends, or zero without a lock.
	Expires time.Time `json:"expires,omitzero"`

	// PoppedAt is when the job was popped, or zero unless the job comes from a pop or a worker.
	PoppedAt time.Time `json:"popped_at,omitzero"`

	// Until is when the job's life ends, by [StartBy], [TTL], [KeepFor] or [KeepFailedFor], or zero if
	// never.
	Until time.Time `json:"until,omitzero"`

	// Waited is the time from the job's put, or the previous pop, to this pop, including the delay, or
	// 0 unless the job comes from a pop or a worker.
	Waited time.Duration `json:"-"`

	// Runs.

	// Retries is the job's number of retries in each queue.
	Retries int `json:"retries"`

	// Remaining is the number of retries left.
	Remaining int `json:"remaining"`

	// Attempt is the number of this attempt to run the job in the queue, from 1.
	Attempt int `json:"attempt"`

	// Failure describes why the job failed or was last retried, or is nil.
	Failure *Failure `json:"failure,omitempty"`

	// Progress is the latest progress of the job ([Job.SetProgress]), or nil.
	Progress *Progress `json:"progress,omitempty"`

	// Attempts are the last 25 runs that did not complete the job, oldest first. A handler, and a list
	// other than that of [Client.Jobs], reads them by [Job.Refresh].
	Attempts []Attempt `json:"attempts,omitempty"`

	// History holds the events of the job, oldest first.
	History []HistoryEntry `json:"history,omitempty"`

	// Other jobs.

	// BatchSize is the number of members of the batch whose callback this job is, or nil.
	BatchSize *int `json:"batch_size,omitempty"`

	// Dependencies are the jids of the jobs to wait for, in no particular order.
	Dependencies []string `json:"dependencies,omitempty"`

	// Dependents are the jids of the jobs that wait for this one, in no particular order. Of
	// thousands, some that change in the meantime may be missing.
	Dependents []string `json:"dependents,omitempty"`

	// FailedDependencies are the failed jobs that a job put with [OnFailureRun] or [OnFailureFail] has
	// waited for, sorted by jid.
	FailedDependencies []FailedDependency `json:"failed_dependencies,omitempty"`

	// Options are the other options of the put.
	Options JobOptions `json:"options,omitzero"`

	client *Client
	since  string // PoppedAt in the server's form; empty if unknown
	ends   int    // ends by other programs that only were counted
	run    jobRun // by a worker of this process; nil otherwise
	result string // set by SetResult, as JSON; empty if none

	undecoded error    // why Data is still in an envelope; nil otherwise
	dataSum   uint64   // the checksum of Data as read
	leftOut   []string // the relations not read yet
}

// MarshalJSON writes Data other than JSON as a string.
func (j Job) MarshalJSON() ([]byte, error) {
	j.Data = shownJSON(j.Data)
	return units.Marshal(j)
}

// Failure describes why a job failed.
type Failure struct {
	Group   string    `json:"group"`
	Message string    `json:"message"`
	When    time.Time `json:"when,omitzero"`
	Worker  string    `json:"worker,omitempty"` // empty if there was none
}

// A HistoryEntry is an event in the history of a job.
type HistoryEntry struct {
	// When is the time of the event, in whole seconds.
	When time.Time `json:"when,omitzero"`

	// The kind of entry: put, popped, done, failed, timed-out, dependency-failed, or the message of
	// a log.
	What string `json:"what"`

	// Queue is the queue of the put.
	Queue string `json:"queue,omitempty"`

	// Worker is the worker of a pop or a failure.
	Worker string `json:"worker,omitempty"`

	// Group is the failure group.
	Group string `json:"group,omitempty"`

	// Details are the fields added by a log, or nil.
	Details map[string]json.RawMessage `json:"details,omitempty"`
}

// An Attempt is a run that did not complete the job.
type Attempt struct {
	// The end of the run: retried, failed, released, lost or timed_out.
	What string `json:"what"`

	// Began is when the worker took the job.
	Began time.Time `json:"began,omitzero"`

	// Ran is how long the worker held the job: a lost job, until the lock ended.
	Ran time.Duration `json:"ran"`

	// Delay is how long the job then had to wait before the next run.
	Delay time.Duration `json:"delay,omitempty"`

	Worker string `json:"worker,omitempty"`
	Queue  string `json:"queue,omitempty"`

	// Group and Message describe why the job was retried or failed. Message has only the first line,
	// up to 200 bytes.
	Group   string `json:"group,omitempty"`
	Message string `json:"message,omitempty"`
}

// MarshalJSON writes durations as text.
func (a Attempt) MarshalJSON() ([]byte, error) { return units.Marshal(a) }

// UnmarshalJSON reads the output of MarshalJSON.
func (a *Attempt) UnmarshalJSON(text []byte) error { return units.Unmarshal(text, a) }

// A jobRun is the run of a job by a worker of this process.
type jobRun interface {
	// end calls a command to end the job, and on success records the outcome.
	end(outcome Outcome, command func() error) error

	// isLost reports whether the worker has lost the job.
	isLost() bool

	// setProgress makes the worker send progress.
	setProgress(r *progressReport)
}

// endBy runs a command of the handler to end the job, and on success records the outcome.
func (j *Job) endBy(outcome Outcome, command func() error) error {
	if j.run == nil {
		return command()
	}
	return j.run.end(outcome, command)
}

// usable returns an error if the job has no client.
func (j *Job) usable(op string) error {
	if j.client == nil {
		return invalid(op, j.JID, "the job has no client: "+
			"it did not come from a server (see qlesstest.Job)")
	}
	return nil
}

// held returns an error if this run has lost the job. The server can't tell, as the worker may be
// running the job again.
func (j *Job) held(op string) error {
	if err := j.usable(op); err != nil {
		return err
	}
	if j.run == nil || !j.run.isLost() {
		return nil
	}
	return &Error{Op: op, Code: ErrLockLost, JID: j.JID,
		Message: "the job does not belong to this run any more"}
}

// Unmarshal decodes the job's data into v. Other data is [ErrInvalid].
func (j *Job) Unmarshal(v any) error {
	if j.undecoded != nil && wire.OpenEnvelope(string(j.Data)) != nil {
		return j.undecoded
	}
	return unmarshal(j.JID, j.Data, v)
}

// SetData replaces Data, encoded as by [Queue.Put], for the next call of Complete, Next, Fail,
// Retry, Release, Heartbeat or Move to save on the server.
func (j *Job) SetData(data any) error {
	raw, err := encodeData("set data", j.JID, data)
	if err != nil {
		return err
	}
	j.Data = json.RawMessage(raw)
	return nil
}

// data returns the data to save, in the server's form.
func (j *Job) data(op string) (string, error) {
	data, err := encodeData(op, j.JID, j.stored())
	if err != nil {
		return "", err
	}
	return j.client.encode(op, j.JID, j.Klass, "data", data)
}

// Complete marks the job complete and saves the data. Jobs waiting only for this one can then be
// popped. If ctx ends before all are released, workers release the others.
//
// Completed jobs are kept for a time (jobs-history, [KeepFor]) and up to a number
// (jobs-history-count).
func (j *Job) Complete(ctx context.Context) error {
	return j.complete(ctx, Outcome{Action: ActionComplete})
}

// Next completes the job, saves the data, and puts the same job into another queue with fresh
// retries. Fields not set by the options stay unchanged.
func (j *Job) Next(ctx context.Context, queue string, options ...NextOption) error {
	if err := j.held("complete"); err != nil {
		return err
	}
	if err := checkName("complete", "next queue", queue); err != nil {
		return err
	}
	var o jobopts.Options
	if err := applyOptions("complete", j.JID, &o, options, NextOption.applyNext); err != nil {
		return err
	}
	if err := checkNext(j.JID, &o); err != nil {
		return err
	}
	j.addNextHeaders(ctx, &o)
	return j.complete(ctx, nextOutcome(queue, &o), o.NextArgs([]any{"next", queue})...)
}

// complete runs the command complete. The pairs of arguments in next give the job's next queue.
func (j *Job) complete(ctx context.Context, outcome Outcome, next ...any) error {
	if err := j.held("complete"); err != nil {
		return err
	}
	data, err := j.data("complete")
	if err != nil {
		return err
	}
	args := append([]any{j.JID, j.client.worker, j.Queue, data, "checked", "1"}, next...)
	if j.result != "" {
		args = append(args, "result", j.result)
	}
	if j.since != "" {
		args = append(args, "since", j.since)
	}
	_, err = j.finish(ctx, "complete", outcome, args)
	return err
}

// finish runs a command to end the run, and returns the server's answer.
func (j *Job) finish(
	ctx context.Context, op string, outcome Outcome, args []any,
) (reply any, err error) {
	err = j.endBy(outcome, func() (err error) {
		reply, err = j.client.run(ctx, op, j.JID, args...)
		return err
	})
	if reply == completeWithRest {
		j.client.settleDeferred(ctx)
	}
	return reply, err
}

// completeWithRest is the state of a complete job with more dependents than one script releases or
// notifies: sweeps handle the others.
const completeWithRest = string(StateComplete) + "+"

// settleDeferred sweeps until nothing is deferred. After an error, later calls do the remaining
// work.
func (c *Client) settleDeferred(ctx context.Context) {
	for {
		reply, err := c.run(ctx, "sweep", "")
		if n, ok := reply.(int64); err != nil || !ok || n < settleBatchSize {
			return
		}
	}
}

// settleBatchSize is the minimum number of deferred jobs of a sweep if others are left.
const settleBatchSize = 100

// Fail marks the job failed and saves the data. The job is kept in a failure group until moved,
// unfailed or canceled, unless [KeepFailedFor] or jobs-failed-history limits that. The group names
// a kind of failure, such as an error type; the message describes this one. Each is cut to 16 KiB.
func (j *Job) Fail(ctx context.Context, group, message string) error {
	if err := j.held("fail"); err != nil {
		return err
	}
	if err := checkName("fail", "group", group); err != nil {
		return err
	}
	data, err := j.data("fail")
	if err != nil {
		return err
	}
	outcome := Outcome{Action: ActionFail, Group: group, Err: errors.New(message)}
	args := []any{
		j.JID, j.client.worker, guard.Group(group), guard.Message(message), data, j.result, j.since,
	}
	_, err = j.finish(ctx, "fail", outcome, args)
	return err
}

// Retry puts the job back into the queue after a delay, uses up a retry, and saves the data. The
// result is the number of retries left, or -1 if there was none and the job has failed in the
// group, with the message. An empty group means failed-retries-<queue>. A negative delay is
// [ErrInvalid].
func (j *Job) Retry(
	ctx context.Context, delay time.Duration, group, message string,
) (remaining int, err error) {
	if err := j.held("retry"); err != nil {
		return 0, err
	}
	if err := j.checkDelay("retry", delay); err != nil {
		return 0, err
	}
	if group != "" || message != "" {
		group = cmp.Or(group, "failed-retries-"+j.Queue)
		if err := checkName("retry", "group", group); err != nil {
			return 0, err
		}
		group, message = guard.Group(group), guard.Message(message)
	}
	data, err := j.data("retry")
	if err != nil {
		return 0, err
	}
	outcome := Outcome{Action: ActionRetry, Delay: delay, Group: group}
	reply, err := j.finish(ctx, "retry", outcome, j.withResult(
		j.JID, j.Queue, j.client.worker, wire.FormatSeconds(delay), group, message, "here", j.since,
		data))
	if err != nil {
		return 0, err
	}
	left, err := decodeInt("retry", reply)
	return max(left, -1), err
}

// Release puts the job back into the queue without using up a retry, and saves the data, as
// [Snooze] does for handlers. The job can be popped after the delay: with 0 at once, before others
// of its priority. A negative delay is [ErrInvalid].
func (j *Job) Release(ctx context.Context, delay time.Duration) error {
	if err := j.held("release"); err != nil {
		return err
	}
	if err := j.checkDelay("release", delay); err != nil {
		return err
	}
	data, err := j.data("release")
	if err != nil {
		return err
	}
	_, err = j.finish(ctx, "release", Outcome{Action: ActionRelease, Delay: delay},
		[]any{j.JID, j.Queue, j.client.worker, wire.FormatSeconds(delay), data, j.since})
	return err
}

func (j *Job) checkDelay(op string, delay time.Duration) error {
	if delay < 0 {
		return invalid(op, j.JID, "the delay %v is negative", delay)
	}
	return nil
}

// Heartbeat saves the data, renews the lock for the job's [LockTime] or, without one, the queue's
// heartbeat time, and returns the lock's new end, in whole seconds.
func (j *Job) Heartbeat(ctx context.Context) (expires time.Time, err error) {
	if err := j.held("heartbeat"); err != nil {
		return time.Time{}, err
	}
	data, err := j.data("heartbeat")
	if err != nil {
		return time.Time{}, err
	}
	reply, err := j.client.run(ctx, "heartbeat", j.JID, j.JID, j.client.worker, data, j.since)
	if err != nil {
		return time.Time{}, err
	}
	seconds, err := decodeInt("heartbeat", reply)
	if err != nil {
		return time.Time{}, err
	}
	return time.Unix(int64(seconds), 0), nil
}

// unfailArgs returns options as pairs of arguments.
func unfailArgs(op string, options []UnfailOption) ([]string, error) {
	var o jobopts.Options
	if err := applyOptions(op, "", &o, options, UnfailOption.applyUnfail); err != nil {
		return nil, err
	}
	if err := checkOptions(op, "", &o); err != nil {
		return nil, err
	}
	var args []string
	if o.Retries != nil {
		args = append(args, "retries", strconv.Itoa(*o.Retries))
	}
	if o.TTL != nil {
		args = append(args, "ttl", wire.FormatSeconds(o.TTL.Seconds.Duration()))
	}
	return args, nil
}

// Unfail puts a failed job back into its own queue with fresh retries. A job in another state is
// [ErrNotFailed].
func (j *Job) Unfail(ctx context.Context, options ...UnfailOption) error {
	if err := j.usable("unfail.job"); err != nil {
		return err
	}
	pairs, err := unfailArgs("unfail.job", options)
	if err != nil {
		return err
	}
	_, err = j.client.run(ctx, "unfail.job", j.JID, wire.Anys([]any{j.JID}, pairs...)...)
	return err
}

// Cancel cancels the job like [Client.Cancel]. A job with dependents is [ErrHasDependents].
func (j *Job) Cancel(ctx context.Context) error {
	if err := j.usable("cancel"); err != nil {
		return err
	}
	return j.endBy(Outcome{}, func() error { return j.client.Cancel(ctx, j.JID) })
}

// Move puts the job into a queue, whatever its state, and saves the data. A worker that runs the
// job loses it; a failed or completed job runs again. Fields not set by the options stay unchanged.
// A move refused by [IfFinished] or [IfNotRunning] is [ErrExists].
func (j *Job) Move(ctx context.Context, queue string, options ...PutOption) error {
	if err := j.held("requeue"); err != nil {
		return err
	}
	p, err := newPutOf(j.JID, queue, JobSpec{j.Klass, j.stored(), options})
	if err != nil {
		return err
	}
	if u := p.options.Unique; u != nil && u.Replace {
		return invalid("requeue", j.JID, "Unique.Replace can't be used with Move")
	}
	if p.jid != j.JID {
		return invalid("requeue", j.JID, "a job can't change its jid")
	}
	if slices.Contains(p.options.If, string(IfAbsent)) {
		return invalid("requeue", j.JID, "IfAbsent can't be used with Move: the job exists")
	}
	if err := j.client.encodePut(p); err != nil {
		return err
	}
	return j.endBy(Outcome{Queue: queue}, func() error {
		reply, err := j.client.run(ctx, "requeue", j.JID, p.args(j.client.worker)...)
		if err != nil {
			return err
		}
		if found, refused := conflictIn(reply); refused {
			return p.found(found).exists("requeue")
		}
		return nil
	})
}

// Tag adds tags to the job. Present tags keep their place.
func (j *Job) Tag(ctx context.Context, tags ...string) error {
	return j.changeTags(ctx, "add", tags)
}

// Untag removes tags from the job.
func (j *Job) Untag(ctx context.Context, tags ...string) error {
	return j.changeTags(ctx, "remove", tags)
}

func (j *Job) changeTags(ctx context.Context, action string, tags []string) error {
	if err := j.usable("tag"); err != nil {
		return err
	}
	if err := checkNames("tag", "tag", tags); err != nil {
		return err
	}
	_, err := j.client.run(ctx, "tag", j.JID, wire.Anys([]any{action, j.JID}, tags...)...)
	return err
}

// Depend adds dependencies, like [DependsOn], to a job in the state [StateDepends]. If the job is
// in another state, the error is [ErrNotDepending].
func (j *Job) Depend(ctx context.Context, jids ...string) error {
	return j.changeDependencies(ctx, "upon", jids)
}

// Undepend removes dependencies of a job in the state [StateDepends]. Once none is left, the job
// can be popped. The errors are those of Depend.
func (j *Job) Undepend(ctx context.Context, jids ...string) error {
	return j.changeDependencies(ctx, "off", jids)
}

// UndependAll removes all dependencies like Undepend, so that the job can be popped.
func (j *Job) UndependAll(ctx context.Context) error {
	if err := j.usable("depends"); err != nil {
		return err
	}
	for left := 1; left > 0; {
		reply, err := j.client.run(ctx, "depends", j.JID, j.JID, "fewer")
		if err != nil {
			return err
		}
		if left, err = decodeInt("depends", reply); err != nil {
			return err
		}
	}
	return nil
}

func (j *Job) changeDependencies(ctx context.Context, action string, jids []string) error {
	if err := j.usable("depends"); err != nil {
		return err
	}
	if err := checkNames("depends", "jid of a dependency", jids); err != nil {
		return err
	}
	for _, jid := range jids {
		if jid == j.JID {
			return invalid("depends", j.JID, "the job depends on itself")
		}
		if action == "upon" {
			if err := asInvalid("depends", j.JID, jobopts.CheckJID(jid)); err != nil {
				return err
			}
		}
	}
	if action == "off" && jids[0] == "all" {
		jids = append([]string{j.JID}, jids...) // otherwise a first jid "all" would mean all of them
	}
	_, err := j.client.run(ctx, "depends", j.JID, wire.Anys([]any{j.JID, action}, jids...)...)
	return err
}

// SetPriority changes the job's priority, and a waiting job's place in the queue.
func (j *Job) SetPriority(ctx context.Context, priority int) error {
	if err := j.usable("priority"); err != nil {
		return err
	}
	if err := checkNumber("priority", j.JID, "priority", priority, math.MinInt32); err != nil {
		return err
	}
	_, err := j.client.run(ctx, "priority", j.JID, j.JID, strconv.Itoa(priority))
	return err
}

// Track starts tracking the job: its events are published, and package inspect lists it.
func (j *Job) Track(ctx context.Context) error { return j.track(ctx, "track") }

// Untrack stops tracking the job, even a deleted one.
func (j *Job) Untrack(ctx context.Context) error { return j.track(ctx, "untrack") }

func (j *Job) track(ctx context.Context, action string) error {
	if err := j.usable("track"); err != nil {
		return err
	}
	_, err := j.client.run(ctx, "track", j.JID, action, j.JID, "tidy")
	return err
}

// Log adds an entry to the job's history: a message, and details that encode to a JSON object, or
// nil.
func (j *Job) Log(ctx context.Context, message string, details any) error {
	if err := j.usable("log"); err != nil {
		return err
	}
	if err := checkName("log", "message", message); err != nil {
		return err
	}
	args := []any{j.JID, guard.Message(message)}
	if details != nil {
		raw, err := encodeData("log", j.JID, details)
		if err == nil {
			err = j.client.checkSize("log", j.JID, "entry", raw)
		}
		if err != nil {
			return err
		}
		args = append(args, raw)
	}
	_, err := j.client.run(ctx, "log", j.JID, args...)
	return err
}

// Refresh reads the job again, with all fields. A deleted job is [ErrNotFound].
func (j *Job) Refresh(ctx context.Context) error {
	if err := j.usable("get"); err != nil {
		return err
	}
	fresh, err := j.client.Job(ctx, j.JID)
	if err != nil {
		return err
	}
	fresh.run, fresh.result = j.run, j.result
	fresh.since, fresh.PoppedAt, fresh.Waited = j.since, j.PoppedAt, j.Waited
	*j = *fresh
	return nil
}
