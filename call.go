package qless

import (
	"context"
	"errors"
	"time"
)

// Call puts a job as [Queue.Put] does, waits until it has ended, and returns how, as [Client.Wait]
// does. A job that has failed for good is a [Result] too; see [CallFor] for the value that its
// handler returns.
//
// If ctx ends first, the error is [ErrUnavailable], and wraps the error of ctx. The job is then
// withdrawn if no worker runs it: see [Client.Withdraw]. Otherwise it goes on. The Withdrawn of
// the [Error] says which. That may take a few seconds after ctx has ended if the server does not
// answer.
//
// A put that is refused because of a [ConflictOption] or [Unique] is [ErrExists], and waits for
// nothing. [UniqueOption.Replace] can't be used, because the job would be that of others too. With
// [WithReplicas], a job that too few replicas have is waited for all the same.
func (q *Queue) Call(
	ctx context.Context, klass string, data any, options ...PutOption,
) (Result, error) {
	p, err := newCall(q.name, klass, data, options)
	if err != nil {
		return Result{}, err
	}
	return q.client.putAndWait(ctx, p)
}

// Call puts a job into its shard, as [ShardedQueue.Put] does, and waits for it as [Queue.Call]
// does.
func (q *ShardedQueue) Call(
	ctx context.Context, klass string, data any, options ...PutOption,
) (Result, error) {
	p, err := newCall(q.name, klass, data, options)
	if err != nil {
		return Result{}, err
	}
	shard := q.shardOf(p)
	if err := q.shards.checkDepends(ctx, shard, p); err != nil {
		return Result{}, err
	}
	return shard.putAndWait(ctx, p)
}

// A Caller is a [Queue] or a [ShardedQueue].
type Caller interface {
	Call(ctx context.Context, klass string, data any, options ...PutOption) (Result, error)
}

// CallFor calls a job as [Queue.Call] does, and returns its result, decoded. A job that has failed
// for good is [ErrFailed], with the group and the message of its failure. A job without a result,
// or with one that does not fit, is [ErrInvalid].
func CallFor[T any](
	ctx context.Context, queue Caller, klass string, data any, options ...PutOption,
) (T, error) {
	var value T
	result, err := queue.Call(ctx, klass, data, options...)
	if err != nil {
		return value, err
	}
	if result.State == StateFailed {
		return value, result.failed()
	}
	err = result.Unmarshal(&value)
	return value, err
}

// failed returns the error of a call whose job has failed.
func (r *Result) failed() error {
	message := "the job has failed"
	if r.Failure != nil {
		message += " in " + r.Failure.Group + ": " + r.Failure.Message
	}
	return &Error{Op: "call", Code: CodeFailed, JID: r.jid, Message: message}
}

// newCall checks and encodes the arguments of a call.
func newCall(queue, klass string, data any, options []PutOption) (*put, error) {
	p, err := newPut(queue, klass, data, options)
	if err != nil {
		return nil, err
	}
	if u := p.options.unique; u != nil && u.replaces {
		return nil, invalid("call", p.options.jid, "Unique.Replace can't be used with Call")
	}
	p.options.waited = true
	return p, nil
}

// withdrawTime is how long a call tries to withdraw its job after its context has ended.
const withdrawTime = 5 * time.Second

// putAndWait puts a job and waits for its end.
func (c *Client) putAndWait(ctx context.Context, p *put) (Result, error) {
	jid := p.options.jid
	w := c.waits.join(c.prefix + channelDone + jid)
	defer c.waits.leave(w)
	w.doubted = !p.isNew
	w.listen(ctx, asksAgain.First, nil) // until messages are heard
	if err := c.waiting(ctx, jid); err != nil {
		return Result{}, callError(jid, errors.Unwrap(err), true, "the job was not put")
	}
	if _, err := c.put(ctx, p); err != nil && !errors.Is(err, ErrNotReplicated) {
		if whyOver(ctx) == nil || !errors.Is(err, ErrUnavailable) {
			return Result{}, err
		}
		return Result{}, c.giveUp(ctx, jid, "it is not known whether the job was put")
	}
	result, err := c.wait(ctx, jid, w, true, nil)
	if err == nil || ctx.Err() == nil || !errors.Is(err, ErrUnavailable) {
		return result, err
	}
	return Result{}, c.giveUp(ctx, jid, "the job is gone")
}

// whyOver returns why a context has ended, also if it is about to end because its deadline has
// passed, as the deadline of a connection may be noticed first. It returns nil if it goes on.
func whyOver(ctx context.Context) error {
	deadline, ok := ctx.Deadline()
	if err := ctx.Err(); err != nil || !ok || time.Now().Before(deadline) {
		return err
	}
	return context.DeadlineExceeded
}

// giveUp withdraws the job of a call whose context has ended, and returns the call's error. missing
// says what it means that there is no such job.
func (c *Client) giveUp(over context.Context, jid, missing string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(over), withdrawTime)
	defer cancel()
	err := c.Withdraw(ctx, jid)
	what := "the job could not be withdrawn"
	switch {
	case err == nil:
		what = "the job was withdrawn"
	case errors.Is(err, ErrRunning), errors.Is(err, ErrHasDependents):
		what = "the job goes on"
	case errors.Is(err, ErrFinished):
		what = "the job has ended"
	case errors.Is(err, ErrNotFound):
		what = missing
	}
	return callError(jid, whyOver(over), err == nil, what)
}

// callError returns the error of a call that ended because of err. what says what becomes of its
// job.
func callError(jid string, err error, withdrawn bool, what string) error {
	return &Error{Op: "call", Code: CodeUnavailable, JID: jid, Message: err.Error() + ": " + what,
		Withdrawn: withdrawn, Err: err}
}

// untilUnlinked runs a command again for as long as it only takes dependencies from its job.
func untilUnlinked(run func() (any, error)) (any, error) {
	for {
		if reply, err := run(); err != nil || reply != "unlinked" {
			return reply, err
		}
	}
}

// Withdraw cancels a job, unless a worker runs it or it has ended: then nothing is changed, and
// the error is [ErrRunning] or [ErrFinished]. A job whose lock has ended counts as running until
// another worker gets it. A job that other jobs depend on is [ErrHasDependents], one that does not
// exist [ErrNotFound]. [Client.Cancel] cancels running and failed jobs too.
//
// A script takes at most 1,000 dependencies from a job that waits for others; then Withdraw runs it
// again. If that fails, the job waits for fewer others, and for ever: withdraw or cancel it again.
func (c *Client) Withdraw(ctx context.Context, jid string) error {
	const op = "withdraw"
	if err := checkJobName(op, jid); err != nil {
		return err
	}
	reply, err := untilUnlinked(func() (any, error) { return c.run(ctx, op, jid, jid) })
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
	case StateRunning:
		return &Error{Op: op, Code: CodeRunning, JID: jid, Message: "the job is running"}
	case StateComplete, StateFailed:
		return &Error{Op: op, Code: CodeFinished, JID: jid, Message: "the job is " + state}
	}
	return nil
}
