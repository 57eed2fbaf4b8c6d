package qless

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/qless/qless-go/internal/guard"
	"github.com/qless/qless-go/internal/hub"
	"github.com/qless/qless-go/internal/redisx"
	"github.com/qless/qless-go/internal/wire"
)

// A Result describes how a job has ended.
type Result struct {
	// State is [StateComplete] or [StateFailed].
	State State `json:"state"`

	// Data is the job's result as JSON, set by the worker with [Job.SetResult], or nil if there is
	// none, or a client in another language ended the job.
	Data json.RawMessage `json:"data,omitempty"`

	// Failure describes why the job failed, or is nil for a complete job.
	Failure *Failure `json:"failure,omitempty"`

	jid       string
	undecoded error // why Data is still in an envelope; nil otherwise
}

// Unmarshal decodes Data into v. A result that does not fit, or is missing, is [ErrInvalid].
func (r *Result) Unmarshal(v any) error {
	if r.Data == nil {
		return invalid("unmarshal", r.jid, "the job has no result")
	}
	if r.undecoded != nil {
		return r.undecoded
	}
	return unmarshal(r.jid, r.Data, v)
}

// ResultAs decodes a result into a T, from the return values of [Client.Wait], [Client.Result] and
// [Queue.Call]:
//
//	sum, err := qless.ResultAs[int](client.Wait(ctx, jid))
//
// An error is returned unchanged. A failed job is [ErrFailed], with the group and the message of
// the failure. A job without a result, or with one that does not fit, is [ErrInvalid].
func ResultAs[T any](result Result, err error) (T, error) {
	var value T
	if err != nil {
		return value, err
	}
	if result.State == StateFailed {
		return value, result.failed()
	}
	err = result.Unmarshal(&value)
	return value, err
}

// failed returns the error for a failed job.
func (r *Result) failed() error {
	message := "the job has failed"
	if r.Failure != nil {
		message += " in " + r.Failure.Group + ": " + r.Failure.Message
	}
	return &Error{Op: "result", Code: ErrFailed, JID: r.jid, Message: message}
}

// SetResult sets the result that [Client.Result] returns once the job has ended, encoded as by
// [Queue.Put], but nil as null. Complete, Next, Fail and Retry store the result, and so does the
// worker when the handler returns.
//
// A job has one result, the last one set. A retry, a release or the loss of the lock drops the
// result; a move to another queue does not.
func (j *Job) SetResult(v any) error {
	result, err := encodeJSON("set result", j.JID, "result", v, "null")
	if err == nil && j.client != nil {
		result, err = j.client.encode("set result", j.JID, j.Klass, "result", result)
	}
	if err != nil {
		return err
	}
	j.result = result
	return nil
}

// withResult appends the job's result, if any, to the arguments of a command.
func (j *Job) withResult(args ...any) []any {
	if j.result == "" {
		return args
	}
	return append(args, j.result)
}

// Result returns how a job has ended. The error is [ErrUnfinished] for a job neither complete nor
// failed, and [ErrNotFound] for an unknown job, or one whose record is no longer kept. A job put
// again has no result until the next end.
func (c *Client) Result(ctx context.Context, jid string) (Result, error) {
	if err := checkJobName("result", jid); err != nil {
		return Result{}, err
	}
	reply, err := c.run(ctx, "result", jid, jid)
	return c.resultOf("result", jid, reply, err)
}

// results returns the results of jobs, each with an error as from Result, in the order of the jids.
func (c *Client) results(ctx context.Context, op string, jids []string) ([]Result, []error) {
	results, errs := make([]Result, 0, len(jids)), make([]error, 0, len(jids))
	for some := range slices.Chunk(jids, resultBatch) {
		p := c.runner.Pipeline()
		for _, jid := range some {
			p.Add("result", jid)
		}
		c.exec(ctx, p)
		for i, jid := range some {
			reply, err := p.Reply(i)
			result, err := c.resultOf(op, jid, reply, wrap(op, jid, err))
			results, errs = append(results, result), append(errs, err)
		}
	}
	return results, errs
}

// resultBatch is the maximum number of results of one round trip.
const resultBatch = 500

// resultOf returns the result in a reply.
func (c *Client) resultOf(op, jid string, reply any, err error) (Result, error) {
	if err != nil {
		return Result{}, err
	}
	end, err := decodeEnd(op, jid, reply)
	if err != nil {
		return Result{}, err
	}
	if !end.isFinal() {
		return Result{}, &Error{Op: op, Code: ErrUnfinished, JID: jid,
			Message: "the job has not ended: it is " + string(end.State)}
	}
	return c.toResult(&end, jid), nil
}

// An endReply is a reply about the end of a job.
type endReply struct {
	State   wire.Text  `json:"state"`
	Result  *wire.Text `json:"result"`
	Failure wire.Text  `json:"failure"`

	Progress *progressReply `json:"progress"` // of a job that has not ended, if asked for

	// Why an outbox has not put the job. JID is the holder of the unique key, if that is why.
	Code    Code      `json:"code"`
	JID     wire.Text `json:"jid"`
	Message wire.Text `json:"message"`
}

// decodeEnd decodes a reply about the end of a job. A nil reply is [ErrNotFound].
func decodeEnd(op, jid string, reply any) (endReply, error) {
	if reply == nil {
		return endReply{}, noSuchJob(op, jid)
	}
	end, err := decode[endReply](op, reply)
	return end, cmp.Or(err, end.unput(op, jid))
}

// unput returns the error of a job that an outbox has not put, and nil for others.
func (r *endReply) unput(op, jid string) error {
	if r.Code == "" {
		return nil
	}
	return &Error{Op: op, Code: r.Code, JID: cmp.Or(string(r.JID), jid), Message: string(r.Message)}
}

// isFinal reports whether the job is complete or failed.
func (r *endReply) isFinal() bool {
	return State(r.State) == StateComplete || State(r.State) == StateFailed
}

// toResult returns the result of an ended job.
func (c *Client) toResult(r *endReply, jid string) Result {
	result := Result{State: State(r.State), jid: jid}
	if r.Result != nil {
		result.Data, result.undecoded = c.decode(jid, "result", json.RawMessage(*r.Result))
		result.Data = shownJSON(result.Data)
	}
	var failure failureReply
	if json.Unmarshal([]byte(r.Failure), &failure) == nil { // a damaged one counts as none
		result.Failure = failure.failure()
	}
	return result
}

// Wait returns the result of a job. It waits through retries, further queues and lost locks, until
// one of the following:
//
//   - the job is complete, or has failed: the State of the result shows which, and the error is
//     nil;
//   - the job is canceled, or the record deleted: [ErrCanceled], or [ErrNotFound] if it had ended;
//   - ctx ends: [ErrUnavailable], wrapping the error of ctx.
//
// If there is no such job to begin with, the error is [ErrNotFound], unless there is an [AwaitPut].
// Meanwhile, [OnProgress] is called with the job's progress.
//
// A wait costs the server 3 commands at the beginning, and 2 when the job ends. The client asks
// again after 1, 2, 4 and at most 15 seconds.
//
// A handler that waits keeps its slot in the worker: if all handlers wait, no slot is left to run
// the awaited jobs.
func (c *Client) Wait(ctx context.Context, jid string, options ...WaitOption) (Result, error) {
	if err := checkJobName("wait", jid); err != nil {
		return Result{}, err
	}
	o, err := readWaitOptions(jid, options)
	if err != nil {
		return Result{}, err
	}
	return c.joinAndWait(ctx, jid, false, o)
}

func readWaitOptions(jid string, options []WaitOption) (o waitOptions, err error) {
	err = applyOptions("wait", jid, &o, options, WaitOption.applyWait)
	return o, err
}

// AwaitPut is an option of [Client.Wait]: how long to wait for a job that does not exist yet, for
// instance a job still in an outbox. After that, the error is [ErrNotFound]. Until then, the client
// asks at least once a second.
type AwaitPut time.Duration

func (o AwaitPut) applyWait(given *waitOptions) { given.awaitPut = time.Duration(o) }

// untilPut returns the time to wait before asking for a job again that does not exist yet.
var untilPut = redisx.Backoff{First: 20 * time.Millisecond, Longest: time.Second}

// joinAndWait subscribes to a job and waits until it has ended. known means that the job has
// existed.
func (c *Client) joinAndWait(
	ctx context.Context, jid string, known bool, o waitOptions,
) (Result, error) {
	channels := []string{c.prefix + channelDone + jid}
	if o.progress != nil {
		channels = append(channels, c.prefix+channelProgress+jid)
		o.progress.guard = guard.New("OnProgress", c.logger).Patient(guard.Forever)
	}
	w := c.waits.Join(channels...)
	defer c.waits.Leave(w)
	return c.wait(ctx, jid, w, known, o)
}

// WaitAll waits for several jobs as [Client.Wait] does, and returns their results in the order of
// the jids. A wait that fails has an empty result, and the error is the first in the order of the
// jids. Without jids, there are no results.
func (c *Client) WaitAll(ctx context.Context, jids ...string) ([]Result, error) {
	if err := checkJobNames("wait", jids); err != nil {
		return nil, err
	}
	results, errs := c.results(ctx, "wait", jids)
	var unfinished sync.WaitGroup
	for i, err := range errs {
		if errors.Is(err, ErrUnfinished) {
			unfinished.Go(func() {
				results[i], errs[i] = c.joinAndWait(ctx, jids[i], true, waitOptions{})
			})
		}
	}
	unfinished.Wait()
	return results, cmp.Or(errs...)
}

// asksAgain returns the time to wait before asking for a job again, as the end may go unnoticed:
// clients in other languages send no message, and a connection may break.
var asksAgain = redisx.Backoff{First: time.Second, Longest: 15 * time.Second}

// wait waits until the job has ended, and reports its progress. known means that the job has
// existed.
func (c *Client) wait(
	ctx context.Context, jid string, w *hub.Waiter, known bool, o waitOptions,
) (Result, error) {
	args := []any{jid}
	if o.progress != nil {
		args = append(args, "progress")
	}
	missing, unput, putBy, last := false, 0, time.Now().Add(o.awaitPut), publishedEnd{}
	for asked := 1; ; asked++ {
		patience := asksAgain.After(asked)
		if !known && unput > 0 {
			patience = min(untilPut.After(unput), time.Until(putBy))
		}
		if message := w.Listen(ctx, patience, o.progress.receive); message != "" {
			if result, err, over := c.endOf(jid, message, &last); over && !o.doubted {
				return result, err
			}
		}
		if err := c.waiting(ctx, jid); err != nil {
			return Result{}, err
		}
		reply, err := c.run(ctx, "await", jid, args...)
		if known && isPassing(err) {
			continue
		} else if err != nil {
			return Result{}, err
		}
		switch end, err := decodeEnd("wait", jid, reply); {
		case reply == nil && !known && time.Now().Before(putBy):
			unput, asked = unput+1, 0
		case errors.Is(err, ErrNotFound) && known && !missing:
			missing, asked = true, 0 // a message may be on its way
		case errors.Is(err, ErrNotFound) && known:
			return Result{}, last.gone(jid)
		case err != nil:
			return Result{}, err
		case end.isFinal():
			return c.toResult(&end, jid), nil
		default:
			known = true
			o.progress.notify(end.Progress)
		}
	}
}

// waiting returns an error if the context or the client has ended.
func (c *Client) waiting(ctx context.Context, jid string) error {
	err := ctx.Err()
	if err == nil && c.waits.IsClosed() {
		err = redis.ErrClosed
	}
	if err == nil {
		return nil
	}
	return &Error{Op: "wait", Code: ErrUnavailable, JID: jid, Message: err.Error(), Err: err}
}

// isPassing reports whether an error is not about the job and may be temporary.
func isPassing(err error) bool {
	passing := errors.Is(err, ErrUnavailable) || redisx.IsServerWide(err)
	return passing && !errors.Is(err, redis.ErrClosed)
}

// endOf reads a message about the end of a job: the result, and whether the wait is over.
func (c *Client) endOf(jid, message string, end *publishedEnd) (_ Result, err error, over bool) {
	*end, err = decode[publishedEnd]("wait", message)
	switch {
	case err != nil:
		return Result{}, nil, false
	case end.isFinal() && !end.More:
		return c.toResult(&end.endReply, jid), nil, true
	case end.Code != "":
		return Result{}, end.unput("wait", jid), true
	}
	return Result{}, end.gone(jid), end.State == "canceled"
}

// A publishedEnd is the message published when a job has ended.
type publishedEnd struct {
	endReply
	Cause string `json:"cause"` // why the job was canceled
	More  bool   `json:"more"`  // the result is too long to be published
}

// gone returns the error of a job whose record is deleted, if this was the last message.
func (e *publishedEnd) gone(jid string) error {
	err := &Error{Op: "wait", Code: ErrCanceled, JID: jid, Message: "the job was canceled"}
	switch {
	case e.isFinal():
		err.Code, err.Message = ErrNotFound, "the job was deleted, once "+string(e.State)
	case e.Cause == "expired":
		err.Message += ": its StartBy or TTL was over"
	}
	return err
}

// Channels of waits.
const (
	channelDone     = "x:done:"     // followed by a jid: the job has ended
	channelProgress = "x:progress:" // followed by a jid: the progress of the job
)

// Call puts a job as [Queue.Put] does, and waits for the result as [Client.Wait] does. A failed job
// is a [Result] too; [ResultAs] decodes the value that the handler returned.
//
// If ctx ends first, the error is [ErrUnavailable], wrapping the error of ctx. The job is then
// canceled, unless a worker runs it; the Withdrawn field of the [Error] reports which. That may
// take a few seconds if the server does not answer.
//
// If the put is refused because of an [If] or [Unique], the error is [ErrExists].
// [UniqueOption.Replace] can't be used.
func (q *Queue) Call(
	ctx context.Context, klass string, data any, options ...PutOption,
) (Result, error) {
	p, err := newPut(q.name, JobSpec{klass, data, options})
	if err != nil {
		return Result{}, err
	}
	if err := p.makeCall(); err != nil {
		return Result{}, err
	}
	return q.client.putAndWait(ctx, p)
}

// makeCall makes a checked job that of a call.
func (p *put) makeCall() error {
	if u := p.options.Unique; u != nil && u.Replace {
		return invalid("call", p.jid, "Unique.Replace can't be used with Call")
	}
	p.options.Waited = true
	return nil
}

// withdrawTime is how long a call tries to withdraw the job after the context has ended.
const withdrawTime = 5 * time.Second

// putAndWait puts a job and waits for the end.
func (c *Client) putAndWait(ctx context.Context, p *put) (Result, error) {
	w := c.waits.Join(c.prefix + channelDone + p.jid)
	defer c.waits.Leave(w)
	w.Listen(ctx, asksAgain.First, nil) // until messages are received
	if err := c.waiting(ctx, p.jid); err != nil {
		return Result{}, callError(p.jid, errors.Unwrap(err), true, "the job was not put")
	}
	if _, err := c.put(ctx, p); err != nil && !errors.Is(err, ErrNotReplicated) {
		if whyOver(ctx) == nil || !errors.Is(err, ErrUnavailable) {
			return Result{}, err
		}
		return Result{}, c.giveUp(ctx, p.jid, "it is not known whether the job was put")
	}
	result, err := c.wait(ctx, p.jid, w, true, waitOptions{doubted: !p.isNew})
	if err == nil || ctx.Err() == nil || !errors.Is(err, ErrUnavailable) {
		return result, err
	}
	return Result{}, c.giveUp(ctx, p.jid, "the job is gone")
}

// whyOver returns the context's error, or nil. Once the deadline has passed, it is DeadlineExceeded
// even if the context has not ended yet: the deadline of a connection may be noticed first.
func whyOver(ctx context.Context) error {
	deadline, ok := ctx.Deadline()
	if err := ctx.Err(); err != nil || !ok || time.Now().Before(deadline) {
		return err
	}
	return context.DeadlineExceeded
}

// giveUp withdraws the job of a call whose context has ended, and returns the call's error. missing
// is the explanation if the job does not exist.
func (c *Client) giveUp(over context.Context, jid, missing string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(over), withdrawTime)
	defer cancel()
	err := c.withdraw(ctx, jid)
	what := "the job could not be withdrawn"
	switch {
	case err == nil:
		what = "the job was withdrawn"
	case errors.Is(err, ErrRunning), errors.Is(err, ErrHasDependents):
		what = "the job continues"
	case errors.Is(err, ErrFinished):
		what = "the job has ended"
	case errors.Is(err, ErrNotFound):
		what = missing
	}
	return callError(jid, whyOver(over), err == nil, what)
}

// callError returns the error of a call that ended because of err. what describes the fate of the
// job.
func callError(jid string, err error, withdrawn bool, what string) error {
	return &Error{Op: "call", Code: ErrUnavailable, JID: jid, Message: err.Error() + ": " + what,
		Withdrawn: withdrawn, Err: err}
}

// withdraw cancels a job, unless it runs or has ended.
func (c *Client) withdraw(ctx context.Context, jid string) error {
	const op = "withdraw"
	if err := checkJobName(op, jid); err != nil {
		return err
	}
	var reply any = "unlinked" // while more dependencies are left
	for reply == "unlinked" {
		var err error
		if reply, err = c.run(ctx, op, jid, jid); err != nil {
			return err
		}
	}
	state, err := stateIn(op, jid, reply)
	switch state {
	case StateRunning:
		return inState(op, jid, ErrRunning, state)
	case StateComplete, StateFailed:
		return inState(op, jid, ErrFinished, state)
	}
	return err
}

// stateIn returns the state of a job in a reply.
func stateIn(op, jid string, reply any) (State, error) {
	state, ok := reply.(string)
	switch {
	case reply == nil:
		return "", noSuchJob(op, jid)
	case !ok:
		return "", unexpected(op, reply)
	}
	return State(state), nil
}
