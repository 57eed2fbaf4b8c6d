package lease

import (
	"context"
	"strings"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/batch"
	"github.com/qless/qless-go/internal/guard"
	"github.com/qless/qless-go/internal/inside"
	"github.com/qless/qless-go/internal/redisx"
	"github.com/qless/qless-go/internal/wire"
)

// An End describes how [Taker.End] ends a job.
type End struct {
	// Group and Message describe a failure. A failed job needs a Group; a complete one has neither.
	// Both are cut as by [qless.Job.Fail].
	Group   string
	Message string

	// Result becomes the job's result, encoded as by [qless.Job.SetResult]. Nil means no result.
	Result any

	// State is [qless.StateComplete], the default, or [qless.StateFailed].
	State qless.State
}

// End completes or fails a job of any worker, whether the job is waiting, scheduled, running, timed
// out, or depending. The effects are those of [qless.Job.Complete] and [qless.Job.Fail], and a
// worker running the job loses the lock. A job that did not run counts as a run of zero length.
//
// If the job had already ended, nothing changes, and the error is [qless.ErrFinished]. If the job
// does not exist, the error is [qless.ErrNotFound]. The command is sent once: an ErrFinished after
// a [qless.ErrUnavailable] may mean that the first call ended the job.
//
// A script removes at most 1,000 dependencies of a depending job; then End runs another script. If
// that fails, the job waits forever for the remaining dependencies: end the job again, or cancel
// it.
//
// A [qless.Codec] encodes the result with an empty klass.
func (t *Taker) End(ctx context.Context, jid string, end End) error {
	const op = "end"
	args, err := t.endArgs(jid, end)
	if err != nil {
		return err
	}
	for {
		reply, err := t.runEnd(ctx, jid, args)
		if err != nil {
			return err
		}
		state, ok := reply.(string)
		switch {
		case reply == nil:
			return &qless.Error{Op: op, Code: qless.ErrNotFound, JID: jid, Message: "no such job"}
		case !ok:
			return unexpected(op, reply)
		case state == "unlinked": // more dependencies are left
			continue
		case strings.HasPrefix(state, "!"):
			return &qless.Error{
				Op: op, Code: qless.ErrFinished, JID: jid, Message: "the job is " + state[1:],
			}
		case wire.LeavesRest(state):
			inside.SettleDeferred(ctx, t.client)
		}
		return nil
	}
}

// runEnd runs an end, perhaps in one round trip with the ends of other goroutines.
func (t *Taker) runEnd(ctx context.Context, jid string, args []any) (any, error) {
	if t.ends == nil || resultSize(args) > batchedEndResult {
		return inside.Run(ctx, t.client, "end", jid, args...)
	}
	return t.ends.end(ctx, jid, args)
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
func (t *Taker) endArgs(jid string, end End) ([]any, error) {
	const op = "end"
	if err := inside.CheckJID(op, jid); err != nil {
		return nil, err
	}
	switch end.State {
	case "", qless.StateComplete:
		if end.Group != "" || end.Message != "" {
			return nil, invalid(op, jid, "Group and Message need State: StateFailed")
		}
		end.State = qless.StateComplete
	case qless.StateFailed:
		if err := inside.CheckName(op, "group", end.Group); err != nil {
			return nil, err
		}
	default:
		return nil, invalid(op, jid, "State %q is not StateComplete or StateFailed", string(end.State))
	}
	args := []any{jid, string(end.State), guard.Group(end.Group), guard.Message(end.Message), 0}
	if end.Result == nil {
		return args, nil
	}
	result, err := inside.EncodeResult(t.client, op, jid, end.Result)
	return append(args, result), err
}

// The limits of an exchange: the number of ends, and the size in bytes of a result. Ends with
// larger results would delay the others.
const (
	batchedEnds      = 100
	batchedEndResult = 16 << 10
)

// An endBatcher sends the ends of several goroutines together, in one round trip. Only one exchange
// is in flight at a time.
type endBatcher struct {
	client *qless.Client
	batch.Batcher[endRequest, endAnswer]
}

// A waitingEnd is an end to send with others.
type waitingEnd = batch.Call[endRequest, endAnswer]

type endRequest struct {
	jid  string
	args []any
}

type endAnswer struct {
	reply any
	err   error
	again bool // not run, and may be sent again
}

func newEndBatcher(client *qless.Client) *endBatcher {
	b := &endBatcher{client: client}
	b.Alone, b.Count, b.Send = b.alone, countEnds, b.send
	return b
}

// end ends a job alone when nothing else is in flight, and otherwise with the next exchange.
func (b *endBatcher) end(ctx context.Context, jid string, args []any) (any, error) {
	request := endRequest{jid, args}
	answer, err := b.Do(ctx, request)
	if err != nil {
		return nil, inside.Wrap("end", jid, err)
	}
	if answer.again {
		answer = b.alone(ctx, request)
	}
	return answer.reply, answer.err
}

func (b *endBatcher) alone(ctx context.Context, r endRequest) endAnswer {
	reply, err := inside.Run(ctx, b.client, "end", r.jid, r.args...)
	return endAnswer{reply: reply, err: err}
}

// countEnds returns the number of ends for the next exchange.
func countEnds(waiting []*waitingEnd) int { return min(len(waiting), batchedEnds) }

// send ends jobs in one round trip. Each end succeeds or fails by itself.
func (b *endBatcher) send(ctx context.Context, ends []*waitingEnd) {
	calls := make([]inside.Job, len(ends))
	for i, w := range ends {
		calls[i] = inside.Job{Context: w.Context, JID: w.Request.jid, Args: w.Request.args}
	}
	replies, errs := inside.RunEach(ctx, b.client, "end", calls)
	for i, w := range ends {
		if redisx.NeverRan(errs[i]) {
			w.Answer(endAnswer{again: true})
		} else {
			w.Answer(endAnswer{reply: replies[i], err: errs[i]})
		}
	}
}
