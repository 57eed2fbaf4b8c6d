package qless

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"

	"github.com/qless/qless-go/internal/wire"
)

// A Result is how a job has ended.
type Result struct {
	// State is [StateComplete] or [StateFailed].
	State State `json:"state"`

	// Data is what the job's worker set with [Job.SetResult], as JSON. It is nil if there is none:
	// the worker set none, or the job was ended by a client of another language.
	Data json.RawMessage `json:"data,omitempty"`

	// Failure is why the job failed, or nil if it is complete.
	Failure *Failure `json:"failure,omitempty"`

	jid       string
	undecoded error // why Data is still in its envelope; nil if it is not
}

// Unmarshal decodes Data into v. A result that does not fit, or that the job does not have, is
// [ErrInvalid].
func (r *Result) Unmarshal(v any) error {
	if r.Data == nil {
		return invalid("unmarshal", r.jid, "the job has no result")
	}
	if r.undecoded != nil {
		return r.undecoded
	}
	return unmarshal(r.jid, r.Data, v)
}

// SetResult sets what [Client.Result] returns once the job has ended, encoded as by [Queue.Put];
// nil is null. Complete, Next, Fail and Retry store it, in the same step that ends the job, and so
// does the worker when the handler returns. A value that can't be JSON is [ErrInvalid].
//
// A job has one result, the last. It is dropped if the job is retried, released or lost by its
// worker. If the job goes on to another queue, the result is kept for its end, unless it gets
// another by then.
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

// withResult appends the job's result, if it has one, to the arguments of a command.
func (j *Job) withResult(args ...any) []any {
	if j.result == "" {
		return args
	}
	return append(args, j.result)
}

// HandleResult returns a handler as [Typed] does. What work returns becomes the job's result
// ([Job.SetResult]) if the job is complete; with an error that makes it anything else, it is
// dropped. A result that can't be JSON fails the job in the group <klass>:result. It panics if
// work is nil.
func HandleResult[T, R any](work func(ctx context.Context, job *Job, data T) (R, error)) Handler {
	if work == nil {
		panic("qless: HandleResult: nil function")
	}
	return Typed(func(ctx context.Context, job *Job, data T) error {
		result, err := work(ctx, job, data)
		if OutcomeOf(err).Action != ActionComplete {
			return err
		}
		if err := job.SetResult(result); err != nil {
			return FailWith(job.Klass+":result", err)
		}
		return err
	})
}

// Result returns how a job has ended. If it is neither complete nor failed, the error is
// [ErrUnfinished]; if there is no such job, or its record is no longer kept, [ErrNotFound].
// [Client.Wait] waits for the end.
//
// The result is that of the job's last end. It is kept as long as the job's record, and a job that
// is put again has none until it has ended again.
func (c *Client) Result(ctx context.Context, jid string) (Result, error) {
	if err := checkJobName("result", jid); err != nil {
		return Result{}, err
	}
	reply, err := c.run(ctx, "result", jid, jid)
	return c.resultOf(jid, reply, err)
}

// Results returns how jobs have ended, as [Client.Result] does, in the order of the jids. If that
// fails for some of them, their results are empty, and the error is that of the first. It takes a
// round trip for every 500 jobs, and reads them one after the other.
func (c *Client) Results(ctx context.Context, jids ...string) ([]Result, error) {
	for _, jid := range jids {
		if err := checkJobName("result", jid); err != nil {
			return nil, err
		}
	}
	results := make([]Result, 0, len(jids))
	var failed error
	for some := range slices.Chunk(jids, resultBatch) {
		p := c.runner.Pipeline()
		for _, jid := range some {
			p.Add("result", jid)
		}
		replies, failures := c.exec(ctx, p)
		for i, jid := range some {
			result, err := c.resultOf(jid, replies[i], wrap("result", jid, failures[i]))
			results = append(results, result)
			failed = cmp.Or(failed, err)
		}
	}
	return results, failed
}

// resultBatch is how many results are read in one round trip.
const resultBatch = 500

// resultOf returns the result that a reply says.
func (c *Client) resultOf(jid string, reply any, err error) (Result, error) {
	if err != nil {
		return Result{}, err
	}
	end, err := decodeEnd("result", jid, reply)
	if err != nil {
		return Result{}, err
	}
	if !end.isFinal() {
		return Result{}, &Error{Op: "result", Code: CodeUnfinished, JID: jid,
			Message: "the job has not ended: it is " + string(end.State)}
	}
	return c.toResult(&end, jid), nil
}

// checkJobName returns an error if no job can have the jid.
func checkJobName(op, jid string) error {
	if err := checkName(op, "jid", jid); err != nil {
		return err
	}
	return checkJID(op, jid, jid)
}

// An endReply is what the server says about the end of a job.
type endReply struct {
	State   wire.Text  `json:"state"`
	Result  *wire.Text `json:"result"`
	Failure wire.Text  `json:"failure"`

	Progress *progressReply `json:"progress"` // of a job that has not ended, if it was asked for
}

// decodeEnd decodes a reply about the end of a job. A reply that there is none is [ErrNotFound].
func decodeEnd(op, jid string, reply any) (endReply, error) {
	if reply == nil {
		return endReply{}, noSuchJob(op, jid)
	}
	return decode[endReply](op, reply)
}

// isFinal reports whether the job is complete or failed.
func (r *endReply) isFinal() bool {
	return State(r.State) == StateComplete || State(r.State) == StateFailed
}

// toResult returns the result of a job that has ended.
func (c *Client) toResult(r *endReply, jid string) Result {
	result := Result{State: State(r.State), jid: jid}
	if r.Result != nil {
		result.Data, result.undecoded = c.decode(jid, "result", string(*r.Result))
		result.Data = shownJSON(result.Data)
	}
	var failure failureReply
	if json.Unmarshal([]byte(r.Failure), &failure) == nil { // a damaged one counts as none
		result.Failure = failure.failure()
	}
	return result
}
