package qless

import (
	"context"
	"strings"
)

// An End says how [Client.End] ends a job.
type End struct {
	// State is [StateComplete], which is the default, or [StateFailed].
	State State

	// Result becomes the job's result, encoded as by [Job.SetResult]. With nil, it has none.
	Result any

	// Group and Message are those of a failure. A job that fails needs a Group, and one that is
	// complete has neither.
	Group   string
	Message string

	// TryAgain is how many calls with a TryAgain it takes to end the job, as in "fail this job, but
	// run it up to 3 times". Before that, each only counts ([Job].Ends), and drops the Result. If
	// the job is running, its worker loses it, and it can be popped again at once: from the place
	// that it was put at if it has an OnLost([InPlace]), and else as the first of its priority. It
	// uses up no retry. A job that is not running stays as it is. With 0, the call counts nothing,
	// and ends the job.
	TryAgain int
}

// End completes a job, or fails it for good, whichever worker has it, and whether it is waiting,
// scheduled, running, timed out, or waits for other jobs. What follows is as after [Job.Complete]
// and [Job.Fail]: dependents, waits, events, unique keys, and how long the record is kept. A worker
// that runs the job is notified that it has lost its lock. A job that did not run counts as one
// that ran for no time.
//
// End returns the state of the job after it, which is neither complete nor failed if the job is
// tried again. If the job had ended before, nothing is changed, and the error is [ErrFinished]; if
// there is no such job, [ErrNotFound]. It is sent once: after an [ErrUnavailable], an ErrFinished
// may mean that the first call has ended the job.
//
// A script takes at most 1,000 dependencies from a job that waits for others; then End runs it again.
// If that fails, the job waits for fewer others, and for ever: end it again, or cancel it.
//
// It is meant for programs whose callers, not workers, decide about a job. A [WithCodec] encodes
// the result without knowing the job's klass.
func (c *Client) End(ctx context.Context, jid string, end End) (State, error) {
	const op = "end"
	args, err := c.endArgs(jid, &end)
	if err != nil {
		return "", err
	}
	reply, err := untilUnlinked(func() (any, error) { return c.runEnd(ctx, jid, args) })
	if err != nil {
		return "", err
	}
	if reply == nil {
		return "", noSuchJob(op, jid)
	}
	text, ok := reply.(string)
	if !ok {
		return "", unexpected(op, reply)
	}
	if state, before := strings.CutPrefix(text, "!"); before {
		return "", &Error{Op: op, Code: CodeFinished, JID: jid, Message: "the job is " + state}
	}
	state, more := strings.CutSuffix(text, "+")
	if more {
		c.settleRest(ctx)
	}
	return State(state), nil
}

// runEnd runs an end, perhaps in one round trip with those of other goroutines.
func (c *Client) runEnd(ctx context.Context, jid string, args []any) (any, error) {
	if c.endBatcher == nil || resultSize(args) > batchedEndResult {
		return c.run(ctx, "end", jid, args...)
	}
	return c.endBatcher.end(ctx, jid, args)
}

// resultSize returns how many bytes the result has in the arguments of an end.
func resultSize(args []any) int {
	if len(args) < 6 {
		return 0
	}
	text, _ := args[5].(string)
	return len(text)
}

// endArgs checks an end, and returns the arguments for it.
func (c *Client) endArgs(jid string, end *End) ([]any, error) {
	const op = "end"
	if err := checkJobName(op, jid); err != nil {
		return nil, err
	}
	switch end.State {
	case "", StateComplete:
		if end.Group != "" || end.Message != "" {
			return nil, invalid(op, jid, "Group and Message need State: StateFailed")
		}
		end.State = StateComplete
	case StateFailed:
		if err := checkName(op, "group", end.Group); err != nil {
			return nil, err
		}
	default:
		return nil, invalid(op, jid, "State %q is not StateComplete or StateFailed", string(end.State))
	}
	if end.TryAgain < 0 {
		return nil, invalid(op, jid, "TryAgain %d is negative", end.TryAgain)
	}
	args := []any{jid, string(end.State), end.Group, end.Message, end.TryAgain}
	if end.Result == nil {
		return args, nil
	}
	result, err := encodeJSON(op, jid, "result", end.Result, "null")
	if err == nil {
		result, err = c.encode(op, jid, "", "result", result)
	}
	return append(args, result), err
}

// Forget deletes the record of a job that is complete or has failed, with everything that belongs
// to it: its result, history, tags, tracking, and its place in a failure group. Nobody is notified.
//
// A job that has not ended is left as it is: the error is [ErrRunning] or [ErrUnfinished], and
// [Client.Cancel] deletes it. So is a failed job that others depend on, with [ErrHasDependents]. If
// there is no such job, the error is [ErrNotFound], which a caller that wants it gone may ignore.
func (c *Client) Forget(ctx context.Context, jid string) error {
	const op = "forget"
	if err := checkJobName(op, jid); err != nil {
		return err
	}
	reply, err := c.run(ctx, op, jid, jid)
	if err != nil {
		return err
	}
	if reply == nil {
		return noSuchJob(op, jid)
	}
	state, ok := reply.(string)
	if !ok {
		return unexpected(op, reply)
	}
	switch State(state) {
	case StateComplete, StateFailed:
		return nil
	case StateRunning:
		return &Error{Op: op, Code: CodeRunning, JID: jid, Message: "the job is running"}
	}
	return &Error{Op: op, Code: CodeUnfinished, JID: jid, Message: "the job is " + state}
}
