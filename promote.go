package qless

import (
	"context"
	"errors"
	"time"

	"github.com/qless/qless-go/internal/wire"
)

// Promote lets a scheduled job be popped now. A job that a limit keeps waiting is tried by the next
// pop, and goes on waiting if there is still no room. A job that can be popped already stays as it is.
// If the job is running, the error is [ErrRunning], and in other states [ErrNotScheduled].
func (j *Job) Promote(ctx context.Context) error {
	if err := j.usable("promote"); err != nil {
		return err
	}
	done, err := j.client.Bulk(j.JID).Promote(ctx)
	if err != nil {
		var own *Error
		if errors.As(err, &own) {
			own.JID = j.JID
		}
		return err
	}
	if problem := done.Errors[j.JID]; problem != nil {
		return problem
	}
	return nil
}

// Promote lets scheduled jobs of this queue be popped now, as [Job.Promote] does. Jobs of other queues
// are left ([ErrWrongQueue]).
func (q *Queue) Promote(ctx context.Context, jids ...string) (BulkResult, error) {
	if err := q.check("change"); err != nil {
		return BulkResult{}, err
	}
	return q.client.Bulk(jids...).each(ctx, changedAtOnce, "change", "promote", q.name)
}

// Reschedule makes a waiting or scheduled job due in d from now. Its data, its history and its retries
// stay as they are. With 0 it can be popped at once, after others of its priority. Once the job is
// running, the error is [ErrRunning], and in other states [ErrNotScheduled]. A job whose [StartBy] or
// [TTL] would be over by then is [ErrInvalid].
func (j *Job) Reschedule(ctx context.Context, d time.Duration) error {
	const op = "reschedule"
	if err := j.usable(op); err != nil {
		return err
	}
	if d < 0 {
		return invalid(op, j.JID, "the time %v is negative", d)
	}
	reply, err := j.client.run(ctx, op, j.JID, j.JID, wire.FormatSeconds(d))
	if err != nil {
		return err
	}
	if reply == nil {
		return noSuchJob(op, j.JID)
	}
	state, ok := reply.(string)
	if !ok {
		return unexpected(op, reply)
	}
	code := CodeNotScheduled
	switch State(state) {
	case StateWaiting, StateScheduled:
		return nil
	case StateRunning:
		code = CodeRunning
	}
	return &Error{Op: op, Code: code, JID: j.JID, Message: "the job is " + state}
}
