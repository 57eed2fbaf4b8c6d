package qless

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/qless/qless-go/internal/batch"
	"github.com/qless/qless-go/internal/guard"
	"github.com/qless/qless-go/internal/redisx"
	"github.com/qless/qless-go/internal/wire"
)

// An End describes how [Client.End] ends a job.
type End struct {
	// State is [StateComplete], the default, or [StateFailed].
	State State

	// Result becomes the job's result, encoded as by [Job.SetResult]. If it is nil, the job has none.
	Result any

	// Group and Message describe a failure. A failed job needs a Group; a complete one has neither.
	// They are cut as those of [Job.Fail].
	Group   string
	Message string

	// TryAgain is the number of calls with a TryAgain after which the job ends, as in "fail this job,
	// but run it up to 3 times". Earlier calls are only counted ([Job].Ends), and drop the Result. If
	// the job is running, its worker loses it without using up a retry, and it can be popped again at
	// once: from the place where it was put if it has an [OnLostInPlace], and otherwise as the first
	// of its priority. A job that is not running stays as it is. With 0, the call ends the job and
	// counts nothing.
	TryAgain int
}

// End completes or fails a job, whichever worker has it, and whether it is waiting, scheduled,
// running, timed out, or waiting for other jobs. The effects are those of [Job.Complete] and
// [Job.Fail]: on dependents, waits, events, unique keys, and how long the record is kept. A worker
// that runs the job is notified that it has lost its lock. A job that did not run counts as one
// that ran for no time.
//
// End returns the job's new state, which is neither complete nor failed if the job is tried again.
// If the job had already ended, nothing changes, and the error is [ErrFinished]. If there is no
// such job, it is [ErrNotFound]. The command is sent once: an ErrFinished after an [ErrUnavailable]
// may mean that the first call ended the job.
//
// A script removes at most 1,000 dependencies of a job that waits for others; then End runs it
// again. If that fails, the job waits for the others forever: end it again, or cancel it.
//
// End is meant for programs in which callers, not workers, decide about a job. A [Codec] encodes
// the result with an empty klass.
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
	text, err := stateIn(op, jid, reply)
	if err != nil {
		return "", err
	}
	if state, before := strings.CutPrefix(string(text), "!"); before {
		return "", inState(op, jid, ErrFinished, State(state))
	}
	state, more := strings.CutSuffix(string(text), "+")
	if more {
		c.settleDeferred(ctx)
	}
	return State(wire.State(state)), nil
}

// runEnd runs an end, perhaps in one round trip with those of other goroutines.
func (c *Client) runEnd(ctx context.Context, jid string, args []any) (any, error) {
	if c.endBatcher == nil || resultSize(args) > batchedEndResult {
		return c.run(ctx, "end", jid, args...)
	}
	return c.endBatcher.end(ctx, jid, args)
}

// resultSize returns the size in bytes of the result in the arguments of an end.
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
	args := []any{
		jid, string(end.State), guard.Group(end.Group), guard.Message(end.Message), end.TryAgain,
	}
	if end.Result == nil {
		return args, nil
	}
	result, err := encodeJSON(op, jid, "result", end.Result, "null")
	if err == nil {
		result, err = c.encode(op, jid, "", "result", result)
	}
	return append(args, result), err
}

// stateIn returns the state of a job in a reply, by the server's name for it.
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

// untilUnlinked runs a command until it does more than remove dependencies of its job.
func untilUnlinked(run func() (any, error)) (any, error) {
	for {
		if reply, err := run(); err != nil || reply != "unlinked" {
			return reply, err
		}
	}
}

// The limits of an exchange: the number of ends, and the size in bytes of a result. Ends with
// larger results would delay the others.
const (
	batchedEnds      = 100
	batchedEndResult = 16 << 10
)

// An endBatcher sends the ends of several goroutines together, in one round trip. It has one
// exchange in flight at a time.
type endBatcher struct {
	client *Client
	batch.Batcher[endRequest, endAnswer]
}

// A waitingEnd is an end to be sent with others.
type waitingEnd = batch.Call[endRequest, endAnswer]

type endRequest struct {
	jid  string
	args []any
}

type endAnswer struct {
	reply any
	err   error
	again bool // it did not run, and may be sent again
}

func newEndBatcher(client *Client) *endBatcher {
	b := &endBatcher{client: client}
	b.Alone, b.Count, b.Send = b.alone, countEnds, b.send
	return b
}

// end ends a job alone when nothing else is in flight, and with the next exchange otherwise.
func (b *endBatcher) end(ctx context.Context, jid string, args []any) (any, error) {
	request := endRequest{jid, args}
	answer, err := b.Do(ctx, request)
	if err != nil {
		return nil, wrap("end", jid, err)
	}
	if answer.again {
		answer = b.alone(ctx, request)
	}
	return answer.reply, answer.err
}

func (b *endBatcher) alone(ctx context.Context, r endRequest) endAnswer {
	reply, err := b.client.run(ctx, "end", r.jid, r.args...)
	return endAnswer{reply: reply, err: err}
}

// countEnds returns the number of ends for the next exchange.
func countEnds(waiting []*waitingEnd) int { return min(len(waiting), batchedEnds) }

// send ends jobs in one round trip. Each succeeds or fails by itself.
func (b *endBatcher) send(ctx context.Context, calls []*waitingEnd) {
	p := b.client.runner.Pipeline()
	for _, w := range calls {
		p.Add("end", w.Request.args...)
	}
	sent := time.Now()
	replies, failures := p.Exec(ctx)
	for i, w := range calls {
		if redisx.NeverRan(failures[i]) {
			w.Answer(endAnswer{again: true})
			continue
		}
		jid, args := w.Request.jid, w.Request.args
		err := wrap("end", jid, failures[i])
		if b.client.observe != nil {
			b.client.observed(w.Context, "end", jid, args, replies[i], sent, err)
		}
		w.Answer(endAnswer{reply: replies[i], err: err})
	}
}

// CompleteMany completes jobs of the queue that the client's worker holds, at a fraction of the
// cost of [Job.Complete]. Their data stays as it is. It is meant for programs that learn from
// others which jobs are done, such as gateways to other protocols.
//
// It returns an error for each jid, in order: nil if the job is complete, and otherwise an error as
// from Job.Complete. A refused job does not affect the others. Each script completes up to 200
// jobs, perhaps with jobs of other goroutines (see Unbatched in [ClientConfig]), and is sent once.
// If the connection breaks before the reply, its jobs have the error [ErrUnavailable] and may be
// complete.
func (q *Queue) CompleteMany(ctx context.Context, jids ...string) []error {
	const op = "complete"
	problem := q.check(op)
	errs := make([]error, len(jids))
	var valid []int // the indices of valid jids
	for i, jid := range jids {
		if errs[i] = checkJobName(op, jid); errs[i] == nil {
			valid = append(valid, i)
		}
	}
	for part := range slices.Chunk(valid, reportBatch) {
		answer := completeAnswer{err: problem}
		if problem == nil {
			answer = q.completePart(ctx, jids, part)
		}
		for n, i := range part {
			errs[i] = completed(op, jids[i], answer, n)
		}
		if slices.ContainsFunc(answer.texts, leavesRest) {
			q.client.settleDeferred(ctx)
		}
	}
	return errs
}

// completePart completes some of the jobs with one script, perhaps with those of other goroutines.
func (q *Queue) completePart(ctx context.Context, jids []string, part []int) completeAnswer {
	args := make([]any, 0, len(part)*reportArgs)
	for _, i := range part {
		args = append(args, string(StateComplete), jids[i], q.name, "", "0")
	}
	b := q.client.completeBatcher
	if b == nil {
		return q.client.finish(ctx, args)
	}
	answer, err := b.Do(ctx, args)
	if err != nil {
		return completeAnswer{err: wrap("complete", "", err)}
	}
	return answer
}

// A completeBatcher completes the jobs of several goroutines with one script. Its requests are
// arguments of the script finish.
type completeBatcher struct {
	batch.Batcher[[]any, completeAnswer]
}

// A waitingComplete is a call with jobs to be completed together with those of others.
type waitingComplete = batch.Call[[]any, completeAnswer]

// A completeAnswer holds the script's reply for each job, or the error of them all.
type completeAnswer struct {
	texts []string
	err   error
}

func newCompleteBatcher(client *Client) *completeBatcher {
	b := &completeBatcher{}
	b.Gather = true // jobs that a gateway takes together often end together
	b.Alone, b.Count = client.finish, countCompletes
	b.Send = client.completeTogether
	return b
}

// countCompletes returns the number of calls in the next script.
func countCompletes(waiting []*waitingComplete) int {
	jobs := 0
	for n, w := range waiting {
		if jobs += len(w.Request) / reportArgs; jobs > reportBatch {
			return n
		}
	}
	return len(waiting)
}

// reportArgs is the number of arguments in the report of a completed job.
const reportArgs = 5

// reportBatch is the maximum number of reports in one script.
const reportBatch = 200

// completeWithRest is the state of a complete job with more dependents than one script releases or
// notifies: sweeps handle the others.
const completeWithRest = string(StateComplete) + "+"

// leavesRest reports whether a reply of the script finish for a job has the mark of deferred
// dependents.
func leavesRest(answer string) bool {
	return strings.HasSuffix(answer, "+") && !strings.HasPrefix(answer, "!")
}

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

func (c *Client) completeTogether(ctx context.Context, calls []*waitingComplete) {
	var args []any
	for _, w := range calls {
		args = append(args, w.Request...)
	}
	answer := c.finish(ctx, args)
	for _, w := range calls {
		own := completeAnswer{err: answer.err}
		if answer.err == nil {
			n := len(w.Request) / reportArgs
			own.texts, answer.texts = answer.texts[:n], answer.texts[n:]
		}
		w.Answer(own)
	}
}

// finish completes jobs with one script. It replies for each.
func (c *Client) finish(ctx context.Context, jobs []any) completeAnswer {
	args := append(make([]any, 0, 1+len(jobs)), c.worker)
	reply, err := c.run(ctx, "finish", "", append(args, jobs...)...)
	if err != nil {
		return completeAnswer{err: err}
	}
	texts, err := decodeStrings("complete", reply)
	if err == nil && len(texts) != len(jobs)/reportArgs {
		err = unexpected("complete", reply)
	}
	return completeAnswer{texts, err}
}

// completed returns the error of the nth job of an answer.
func completed(op, jid string, answer completeAnswer, n int) error {
	if answer.err != nil {
		return errorOfOne(op, jid, answer.err)
	}
	if problem, refused := wire.RefusedProblem(answer.texts[n]); refused {
		return refusal(op, jid, problem, nil)
	}
	return nil
}
