package qless

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/qless/qless-go/internal/batch"
)

// CompleteMany completes jobs of the queue that the client's worker has taken, by their jids, at a
// fraction of the cost of [Job.Complete]. Their data stays as it is. It is meant for programs that
// learn from others that jobs are done, such as gateways to other protocols.
//
// It returns an error for each jid, in their order, which is nil if the job is complete: a job that
// is refused leaves the others alone. The errors are those of Job.Complete. One script completes up
// to 200 jobs, perhaps with those of calls on other goroutines ([WithoutBatching]), and is sent
// once: if the connection breaks before the answer, each of them has the error [ErrUnavailable], and
// may be complete.
func (q *Queue) CompleteMany(ctx context.Context, jids ...string) []error {
	const op = "complete"
	problem := q.check(op)
	errs := make([]error, len(jids))
	var valid []int // indices of those that can be sent
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
			q.client.settleRest(ctx)
		}
	}
	return errs
}

// completePart completes some of the jobs with one script, perhaps with those of other goroutines.
func (q *Queue) completePart(ctx context.Context, jids []string, part []int) completeAnswer {
	args := make([]any, 0, len(part)*reportArgs)
	for _, i := range part {
		args = append(args, string(ActionComplete), jids[i], q.name, "", "0")
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

// A waitingComplete has jobs that are completed with others.
type waitingComplete = batch.Call[[]any, completeAnswer]

// A completeAnswer is what the script says of each job, or the error of all.
type completeAnswer struct {
	texts []string
	err   error
}

func newCompleteBatcher(client *Client) *completeBatcher {
	b := &completeBatcher{}
	b.Gather = true // what a gateway has given out together often ends together
	b.Alone, b.Count = client.finish, countCompletes
	b.Send = func(calls []*waitingComplete) { completeTogether(client, calls) }
	return b
}

// countCompletes returns how many calls share the next script.
func countCompletes(waiting []*waitingComplete) int {
	jobs := 0
	for n, w := range waiting {
		if jobs += len(w.Request) / reportArgs; jobs > reportBatch {
			return n
		}
	}
	return len(waiting)
}

// completeWithRest is the state of a complete job when jobs that waited for it, or for others, are
// still to be released, or told of a failure: a script does not do so with very many.
const completeWithRest = string(StateComplete) + "+"

// leavesRest reports whether the script finish says so in the answer to one of its jobs.
func leavesRest(answer string) bool {
	return strings.HasSuffix(answer, "+") && !strings.HasPrefix(answer, "!")
}

// settleRest has the server go on with them, as far as ctx allows. Later calls go on with what
// remains.
func (c *Client) settleRest(ctx context.Context) {
	for {
		if n, err := c.Sweep(ctx); err != nil || n < settledTogether {
			return
		}
	}
}

// settledTogether is the least number of such jobs that a sweep deals with if others are left.
const settledTogether = 200

func completeTogether(client *Client, calls []*waitingComplete) {
	var args []any
	for _, w := range calls {
		args = append(args, w.Request...)
	}
	ctx, cancel := contextOf(calls)
	defer cancel()
	answer := client.finish(ctx, args)
	for _, w := range calls {
		own := completeAnswer{err: answer.err}
		if answer.err == nil {
			n := len(w.Request) / reportArgs
			own.texts, answer.texts = answer.texts[:n], answer.texts[n:]
		}
		w.Answer(own)
	}
}

// finish completes jobs with one script, which has an answer for each.
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
	var cause *Error
	if errors.As(answer.err, &cause) {
		own := *cause
		own.Op, own.JID = op, jid
		return &own
	}
	if answer.err != nil {
		return answer.err
	}
	if problem, refused := strings.CutPrefix(answer.texts[n], "!"); refused {
		return &Error{Op: op, Code: codeOf(problem), JID: jid, Message: problem}
	}
	return nil
}
