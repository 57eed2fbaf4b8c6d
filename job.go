package qless

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"math"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/qless/qless-go/internal/wire"
)

// A State says where a job is in its life.
type State string

// The states of a job.
const (
	StateComplete  State = "complete"
	StateDepends   State = "depends"   // it waits for other jobs
	StateFailed    State = "failed"    // it is in a failure group
	StateRunning   State = "running"   // a worker has its lock
	StateScheduled State = "scheduled" // its delay is not over
	StateStalled   State = "stalled"   // its worker was timed out
	StateWaiting   State = "waiting"
)

// A Job is what the server knew of a job when it was read. Its methods change the job on
// the server, and the fields that they name here. It is not safe for concurrent use.
//
// Methods that end or renew a lock do so in the name of the client's worker: they fail
// with [ErrLockLost] when the job belongs to another worker by now, with [ErrNotRunning]
// when it belongs to none, and with [ErrNotFound] when it is gone.
//
// A job that a [Worker] gave to a handler belongs to that run alone. Once the worker has dropped
// the run, because the lock was lost, the job was canceled, or the worker was stopped,
// Complete, Fail, Retry, Heartbeat, Move and Timeout fail with [ErrLockLost] and change nothing,
// even when the same worker runs the job again.
type Job struct {
	// Data is the job's data as JSON, byte for byte as it was put. A change made here is
	// saved by Complete, Fail, Heartbeat and Move.
	Data json.RawMessage

	// Dependencies are the jids that the job waits for, in no order.
	Dependencies []string

	// Dependents are the jids of the jobs that wait for this one, in no order.
	Dependents []string

	// Expires is when the lock of a running job ends; zero when it has none.
	Expires time.Time

	// Failure is why the job failed, or was last retried; nil when neither happened since
	// it was last complete.
	Failure *Failure

	// History is what happened to the job, oldest first.
	History []HistoryEntry

	// JID is the job's id.
	JID string

	// Klass names what is to be done.
	Klass string

	// Priority decides who is popped first: the higher.
	Priority int

	// Queue is where the job is; empty when it is complete.
	Queue string

	// Remaining is how many retries are left.
	Remaining int

	// Retries is how many retries the job has in each queue that it goes through.
	Retries int

	// SpawnedFrom is the jid of the recurring job that put this one, if one did.
	SpawnedFrom string

	// State is where the job is in its life.
	State State

	// Tags are the job's tags, in the order in which it got them.
	Tags []string

	// Tracked reports whether the job is being watched.
	Tracked bool

	// Worker is the name of the worker that has the job, or had it when it was timed out.
	Worker string

	client *Client
	since  string // when a worker took it, as the server said; empty when that is not known
	hold   *hold  // shared with the worker that gave the job out; nil when none did
}

// hold is what a worker and the handler of a job know of each other's part in its run.
type hold struct {
	ended   atomic.Bool // the handler has ended it
	outcome Outcome     // how; set before ended is
	lost    atomic.Bool // the worker has let go of it: the job is not this run's any more
}

// Failure is why a job failed.
type Failure struct {
	Group   string
	Message string
	When    time.Time
	Worker  string // empty when no worker failed it
}

// HistoryEntry is something that happened to a job.
type HistoryEntry struct {
	// When it happened, in whole seconds.
	When time.Time

	// What happened: put, popped, done, failed, timed-out, or the text of a log.
	What string

	// Queue is where the job was put.
	Queue string

	// Worker is who popped or failed the job.
	Worker string

	// Group is the failure group.
	Group string

	// Details are the fields that a log added, nil when there are none.
	Details map[string]json.RawMessage
}

// end notes that the handler has ended the job, and how.
func (j *Job) end(outcome Outcome) {
	if j.hold != nil && !j.hold.ended.Load() {
		j.hold.outcome = outcome
		j.hold.ended.Store(true)
	}
}

// held errors when the job was given to a run that has lost it. The server can't tell: it knows
// only the worker, which may be running the job again.
func (j *Job) held(op string) error {
	if j.hold == nil || !j.hold.lost.Load() {
		return nil
	}
	return &Error{Op: op, Code: CodeLockLost, JID: j.JID,
		Message: "the job does not belong to this run any more"}
}

// Unmarshal decodes the job's data. Data that does not fit is [ErrInvalid].
func (j *Job) Unmarshal(v any) error {
	if err := json.Unmarshal(j.Data, v); err != nil {
		return &Error{Op: "unmarshal", Code: CodeInvalid, JID: j.JID, Message: err.Error(), Err: err}
	}
	return nil
}

// SetData replaces the job's data here, to be saved by the next Complete, Fail, Heartbeat
// or Move.
func (j *Job) SetData(data any) error {
	raw, err := encodeData("set data", j.JID, data)
	if err != nil {
		return err
	}
	j.Data = json.RawMessage(raw)
	return nil
}

// data returns the job's data to be saved.
func (j *Job) data(op string) (string, error) {
	return encodeData(op, j.JID, j.Data)
}

// Complete ends the job well and saves its data: for good, or with [NextQueue] on to its
// next queue, after a [Delay] or when other jobs are complete ([DependsOn]). State and
// Queue tell what became of it. Jobs that waited for this one alone can be popped from now
// on.
//
// It is the qless command complete. Completed jobs are kept for a time (jobs-history) and
// a number (jobs-history-count); a call deletes at most 100 that exceed either.
func (j *Job) Complete(ctx context.Context, options ...CompleteOption) error {
	if err := j.held("complete"); err != nil {
		return err
	}
	o := callOptions{jid: j.JID}
	for _, option := range options {
		option.applyComplete(&o)
	}
	if err := o.check("complete"); err != nil {
		return err
	}
	data, err := j.data("complete")
	if err != nil {
		return err
	}
	args := []any{j.JID, j.client.worker, j.Queue, data, "checked", "1"}
	if o.next != "" {
		if err := checkName("complete", "next queue", o.next); err != nil {
			return err
		}
		args = append(args, "next", o.next, "delay", o.delayText())
		if len(o.depends) > 0 {
			args = append(args, "depends", jsonList(o.depends))
		}
	} else if o.delay != nil || len(o.depends) > 0 {
		return invalid("complete", j.JID, "Delay and DependsOn need a NextQueue")
	}
	reply, err := j.client.run(ctx, "complete", j.JID, args...)
	if err != nil {
		return err
	}
	state, ok := reply.(string)
	if !ok {
		return unexpected("complete", reply)
	}
	j.State, j.Queue, j.Worker, j.Expires, j.Failure = State(state), o.next, "", time.Time{}, nil
	j.Remaining = j.Retries
	j.end(Outcome{Action: ActionComplete, Queue: o.next})
	return nil
}

// Fail ends the job badly and saves its data. It is kept in a failure group until it is
// moved, unfailed or canceled. The group is a kind of failure, such as the name of an
// error; the message is about this one. It is the qless command fail.
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
	_, err = j.client.run(ctx, "fail", j.JID, j.JID, j.client.worker, group, validText(message), data)
	if err != nil {
		return err
	}
	j.State, j.Worker, j.Expires = StateFailed, "", time.Time{}
	j.end(Outcome{Action: ActionFail, Group: group, Err: errors.New(message)})
	return nil
}

// Retry gives the job back to its queue, at once or after a [Delay], at the price of one
// retry. Without retries left the job fails instead, in the group of [Because] or in
// failed-retries-<queue>; State tells. Data is not saved. It is the qless command retry.
func (j *Job) Retry(ctx context.Context, options ...RetryOption) error {
	if err := j.held("retry"); err != nil {
		return err
	}
	o := callOptions{jid: j.JID}
	for _, option := range options {
		option.applyRetry(&o)
	}
	if err := o.check("retry"); err != nil {
		return err
	}
	group, message := "", ""
	if o.group != "" || o.message != "" {
		group, message = cmp.Or(o.group, "failed-retries-"+j.Queue), validText(o.message)
		if err := checkName("retry", "group", group); err != nil {
			return err
		}
	}
	reply, err := j.client.run(ctx, "retry", j.JID,
		j.JID, j.Queue, j.client.worker, o.delayText(), group, message, "here", j.since)
	if err != nil {
		return err
	}
	left, err := decodeInt("retry", reply)
	if err != nil {
		return err
	}
	j.Remaining, j.Expires = left, time.Time{}
	switch {
	case left < 0:
		j.State = StateFailed
	case o.delay != nil && *o.delay > 0:
		j.State = StateScheduled
	default:
		j.State = StateWaiting
	}
	j.end(Outcome{Action: ActionRetry, Group: group})
	return nil
}

// Heartbeat renews the job's lock for the queue's heartbeat time, sets Expires, and saves
// the job's data. It is the qless command heartbeat.
func (j *Job) Heartbeat(ctx context.Context) error {
	if err := j.held("heartbeat"); err != nil {
		return err
	}
	data, err := j.data("heartbeat")
	if err != nil {
		return err
	}
	reply, err := j.client.run(ctx, "heartbeat", j.JID, j.JID, j.client.worker, data)
	if err != nil {
		return err
	}
	expires, err := decodeInt("heartbeat", reply)
	if err != nil {
		return err
	}
	j.Expires = time.Unix(int64(expires), 0)
	return nil
}

// Cancel deletes the job, whatever its state; a worker that has it is told. A completed job
// is left alone. A job that others depend on is [ErrHasDependents]: [Client.Cancel] cancels
// several at once.
func (j *Job) Cancel(ctx context.Context) error {
	err := j.client.Cancel(ctx, j.JID)
	if err == nil {
		j.end(Outcome{})
	}
	return err
}

// Move puts the job into a queue, whatever its state, and saves its data: a worker that has
// it loses it, a failed or completed one is run again. What the options do not say stays as
// it was. A job that is gone is [ErrNotFound]. It is the qless command requeue.
func (j *Job) Move(ctx context.Context, queue string, options ...PutOption) error {
	if err := j.held("requeue"); err != nil {
		return err
	}
	p, err := newPut(queue, j.Klass, j.Data, append([]PutOption{JID(j.JID)}, options...))
	if err != nil {
		return err
	}
	if p.options.jid != j.JID {
		return invalid("move", j.JID, "a job can't change its jid")
	}
	if _, err := j.client.run(ctx, "requeue", j.JID, p.args(j.client.worker)...); err != nil {
		return err
	}
	j.Queue, j.Worker, j.Expires = queue, "", time.Time{}
	j.end(Outcome{Queue: queue})
	return nil
}

// Tag gives the job tags; those that it has already stay as they are. Tags is set to all of
// them. It is the qless command tag add.
func (j *Job) Tag(ctx context.Context, tags ...string) error {
	return j.changeTags(ctx, "add", tags)
}

// Untag takes tags from the job. Tags is set to those that are left. It is the qless
// command tag remove.
func (j *Job) Untag(ctx context.Context, tags ...string) error {
	return j.changeTags(ctx, "remove", tags)
}

func (j *Job) changeTags(ctx context.Context, action string, tags []string) error {
	if err := checkNames("tag", "tag", tags); err != nil {
		return err
	}
	reply, err := j.client.run(ctx, "tag", j.JID, anys([]any{action, j.JID}, tags...)...)
	if err != nil {
		return err
	}
	left, err := decode[wire.List[wire.Text]]("tag", reply)
	if err != nil {
		return err
	}
	j.Tags = wire.Strings(left)
	return nil
}

// Depend makes a job that waits for others wait for more. Those that do not exist or are
// complete are not waited for; a jid that no job can have ([JID]) is [ErrInvalid]. A job in
// another state is [ErrNotDepending]. It is the qless command depends on.
func (j *Job) Depend(ctx context.Context, jids ...string) error {
	return j.changeDependencies(ctx, "on", jids)
}

// Undepend ends dependencies of a job that waits for others; without any left it can be
// popped. A job in another state is [ErrNotDepending]. It is the qless command depends off.
func (j *Job) Undepend(ctx context.Context, jids ...string) error {
	return j.changeDependencies(ctx, "off", jids)
}

// UndependAll ends all dependencies of a job that waits for others, so that it can be
// popped. A job in another state is [ErrNotDepending]. It is the qless command depends off
// all.
func (j *Job) UndependAll(ctx context.Context) error {
	_, err := j.client.run(ctx, "depends", j.JID, j.JID, "off", "all")
	return err
}

func (j *Job) changeDependencies(ctx context.Context, action string, jids []string) error {
	if err := checkNames("depends", "jid of a dependency", jids); err != nil {
		return err
	}
	for _, jid := range jids {
		if jid == j.JID {
			return invalid("depends", j.JID, "the job depends on itself")
		}
		if action == "on" {
			if err := checkJID("depends", j.JID, jid); err != nil {
				return err
			}
		}
	}
	if action == "off" && jids[0] == "all" {
		jids = append([]string{j.JID}, jids...) // the jid, not the word that means every one
	}
	_, err := j.client.run(ctx, "depends", j.JID, anys([]any{j.JID, action}, jids...)...)
	return err
}

// SetPriority changes the job's priority, and its place in the queue when it waits. It is
// the qless command priority.
func (j *Job) SetPriority(ctx context.Context, priority int) error {
	if err := checkNumber("priority", j.JID, "priority", priority, math.MinInt32); err != nil {
		return err
	}
	_, err := j.client.run(ctx, "priority", j.JID, j.JID, strconv.Itoa(priority))
	if err == nil {
		j.Priority = priority
	}
	return err
}

// Track starts watching the job: what happens to it is published, and [Client.Tracked]
// lists it. It is the qless command track.
func (j *Job) Track(ctx context.Context) error { return j.track(ctx, "track") }

// Untrack ends watching the job. It is the qless command untrack.
func (j *Job) Untrack(ctx context.Context) error { return j.track(ctx, "untrack") }

func (j *Job) track(ctx context.Context, action string) error {
	_, err := j.client.run(ctx, "track", j.JID, action, j.JID)
	if err == nil {
		j.Tracked = action == "track"
	}
	return err
}

// Log adds an entry to the job's history: a message, and an object with details or nil. It
// is the qless command log.
func (j *Job) Log(ctx context.Context, message string, details any) error {
	if err := checkName("log", "message", message); err != nil {
		return err
	}
	args := []any{j.JID, message}
	if details != nil {
		raw, err := encodeData("log", j.JID, details)
		if err != nil {
			return err
		}
		args = append(args, raw)
	}
	_, err := j.client.run(ctx, "log", j.JID, args...)
	return err
}

// Timeout takes a running job from its worker at once. It is the next to be popped from its
// queue. It is the qless command timeout.
func (j *Job) Timeout(ctx context.Context) error {
	if err := j.held("timeout"); err != nil {
		return err
	}
	err := j.client.Timeout(ctx, j.JID)
	if err == nil {
		j.State, j.Expires = StateStalled, time.Time{}
		j.end(Outcome{})
	}
	return err
}

// Refresh reads the job anew: [ErrNotFound] when it is gone.
func (j *Job) Refresh(ctx context.Context) error {
	fresh, err := j.client.Job(ctx, j.JID)
	if err != nil {
		return err
	}
	fresh.hold, fresh.since = j.hold, j.since
	*j = *fresh
	return nil
}
