package lease

import (
	"context"
	"slices"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/batch"
	"github.com/qless/qless-go/internal/inside"
	"github.com/qless/qless-go/internal/wire"
)

// Complete completes jobs of a queue that the client's worker holds, at a fraction of the cost of
// [qless.Job.Complete]. Their data stays as it is.
//
// It returns an error for each jid, in order: nil if the job is complete, and otherwise an error as
// from Job.Complete. A refused job does not affect the others. Jobs may share a script with jobs of
// other goroutines (see Unbatched in [qless.ClientConfig]). If the connection breaks before the
// reply, its jobs have the error [qless.ErrUnavailable] and may be complete.
func (t *Taker) Complete(ctx context.Context, queue string, jids ...string) []error {
	const op = "complete"
	problem := inside.CheckName(op, "queue name", queue)
	errs := make([]error, len(jids))
	var valid []int // the indices of valid jids
	for i, jid := range jids {
		if errs[i] = inside.CheckJID(op, jid); errs[i] == nil {
			valid = append(valid, i)
		}
	}
	for part := range slices.Chunk(valid, completedAtOnce) {
		answer := completeAnswer{err: problem}
		if problem == nil {
			answer = t.completePart(ctx, queue, jids, part)
		}
		for n, i := range part {
			errs[i] = completed(op, jids[i], answer, n)
		}
		if slices.ContainsFunc(answer.texts, wire.LeavesRest) {
			inside.SettleDeferred(ctx, t.client)
		}
	}
	return errs
}

// completePart completes some of the jobs with one script, perhaps with those of other goroutines.
func (t *Taker) completePart(
	ctx context.Context, queue string, jids []string, part []int,
) completeAnswer {
	args := make([]any, 0, len(part)*completeArgs)
	for _, i := range part {
		args = append(args, string(qless.StateComplete), jids[i], queue, "", "0")
	}
	if t.completes == nil {
		return finish(ctx, t.client, args)
	}
	answer, err := t.completes.Do(ctx, args)
	if err != nil {
		return completeAnswer{err: inside.Wrap("complete", "", err)}
	}
	return answer
}

// completeArgs is the number of arguments of the script finish for a job.
const completeArgs = 5

// completedAtOnce is the maximum number of jobs in one script.
const completedAtOnce = 200

// A completeBatcher completes the jobs of several goroutines with one script. Its requests are
// arguments of the script finish.
type completeBatcher struct {
	client *qless.Client
	batch.Batcher[[]any, completeAnswer]
}

// A waitingComplete is a call with jobs to be completed together with those of others.
type waitingComplete = batch.Call[[]any, completeAnswer]

// A completeAnswer holds the script's reply for each job, or the error of them all.
type completeAnswer struct {
	texts []string
	err   error
}

func newCompleteBatcher(client *qless.Client) *completeBatcher {
	b := &completeBatcher{client: client}
	b.Gather = true // jobs that a gateway takes together often end together
	b.Count, b.Send = countCompletes, b.send
	b.Alone = func(ctx context.Context, args []any) completeAnswer { return finish(ctx, client, args) }
	return b
}

// countCompletes returns the number of calls in the next script.
func countCompletes(waiting []*waitingComplete) int {
	jobs := 0
	for n, w := range waiting {
		if jobs += len(w.Request) / completeArgs; jobs > completedAtOnce {
			return n
		}
	}
	return len(waiting)
}

// send completes the jobs of several calls with one script.
func (b *completeBatcher) send(ctx context.Context, calls []*waitingComplete) {
	var args []any
	for _, w := range calls {
		args = append(args, w.Request...)
	}
	answer := finish(ctx, b.client, args)
	for _, w := range calls {
		own := completeAnswer{err: answer.err}
		if answer.err == nil {
			n := len(w.Request) / completeArgs
			own.texts, answer.texts = answer.texts[:n], answer.texts[n:]
		}
		w.Answer(own)
	}
}

// finish completes jobs with one script. It replies for each.
func finish(ctx context.Context, client *qless.Client, jobs []any) completeAnswer {
	args := append(make([]any, 0, 1+len(jobs)), client.WorkerName())
	reply, err := inside.Run(ctx, client, "finish", "", append(args, jobs...)...)
	if err != nil {
		return completeAnswer{err: err}
	}
	texts, err := wire.DecodeStrings(reply)
	if err != nil || len(texts) != len(jobs)/completeArgs {
		return completeAnswer{err: unexpected("complete", reply)}
	}
	return completeAnswer{texts: texts}
}

// completed returns the error of the nth job of an answer.
func completed(op, jid string, answer completeAnswer, n int) error {
	if answer.err != nil {
		return inside.ErrorOfOne(op, jid, answer.err)
	}
	if problem, refused := wire.RefusedProblem(answer.texts[n]); refused {
		return &qless.Error{
			Op: op, Code: qless.Code(problem.Code), JID: jid, Message: problem.About(jid),
		}
	}
	return nil
}
