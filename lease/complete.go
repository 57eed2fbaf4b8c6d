package lease

import (
	"context"
	"slices"
	"strconv"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/batch"
	"github.com/qless/qless-go/internal/inside"
	"github.com/qless/qless-go/internal/wire"
)

// Complete completes jobs of a queue held by the client's worker, at a fraction of the cost of
// [qless.Job.Complete]. The jobs' data is not changed.
//
// It returns an error for each jid, in order: nil if the job is complete, and otherwise an error as
// from Job.Complete. A refused job does not affect the others. Jobs may share a script with jobs of
// other goroutines (see Unbatched in [qless.ClientConfig]). If the connection breaks before the
// reply, the script's jobs have the error [qless.ErrUnavailable] and may be complete.
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

// completePart completes some of the jobs with one script, perhaps shared with other goroutines.
func (t *Taker) completePart(
	ctx context.Context, queue string, jids []string, part []int,
) completeAnswer {
	some := completion{queue: queue, jids: make([]string, len(part))}
	for n, i := range part {
		some.jids[n] = jids[i]
	}
	if t.completes == nil {
		return finish(ctx, t.client, some)
	}
	answer, err := t.completes.Do(ctx, some)
	if err != nil {
		return completeAnswer{err: inside.Wrap("complete", "", err)}
	}
	return answer
}

// completedAtOnce is the maximum number of jobs in one script.
const completedAtOnce = 200

// A completion names jobs of a queue to complete.
type completion struct {
	queue string
	jids  []string
}

// A completeBatcher completes the jobs of several goroutines with one script.
type completeBatcher struct {
	client *qless.Client
	batch.Batcher[completion, completeAnswer]
}

// A waitingComplete is a call with jobs to complete together with others.
type waitingComplete = batch.Call[completion, completeAnswer]

// A completeAnswer holds the script's reply for each job, or a common error.
type completeAnswer struct {
	texts []string
	err   error
}

func newCompleteBatcher(client *qless.Client) *completeBatcher {
	b := &completeBatcher{client: client}
	b.Gather = true // jobs taken together by a gateway often end together
	b.Count, b.Send = countCompletes, b.send
	b.Alone = func(ctx context.Context, some completion) completeAnswer {
		return finish(ctx, client, some)
	}
	return b
}

// countCompletes returns the number of calls in the next script.
func countCompletes(waiting []*waitingComplete) int {
	jobs := 0
	for n, w := range waiting {
		if jobs += len(w.Request.jids); jobs > completedAtOnce {
			return n
		}
	}
	return len(waiting)
}

// send completes the jobs of several calls with one script.
func (b *completeBatcher) send(ctx context.Context, calls []*waitingComplete) {
	all := make([]completion, len(calls))
	for i, w := range calls {
		all[i] = w.Request
	}
	answer := finish(ctx, b.client, all...)
	for _, w := range calls {
		own := completeAnswer{err: answer.err}
		if answer.err == nil {
			n := len(w.Request.jids)
			own.texts, answer.texts = answer.texts[:n], answer.texts[n:]
		}
		w.Answer(own)
	}
}

// finish completes jobs with one script. The answer has a reply for each job.
func finish(ctx context.Context, client *qless.Client, all ...completion) completeAnswer {
	args, jobs := []any{client.WorkerName()}, 0
	for len(all) > 0 {
		queue, head := all[0].queue, len(args)
		args = append(args, "completed", queue, nil)
		for len(all) > 0 && all[0].queue == queue {
			args, all = wire.Anys(args, all[0].jids...), all[1:]
		}
		n := len(args) - head - 3
		args[head+2], jobs = strconv.Itoa(n), jobs+n
	}
	reply, err := inside.Run(ctx, client, "finish", "", args...)
	if err != nil {
		return completeAnswer{err: err}
	}
	texts, err := wire.DecodeStrings(reply)
	if err == nil && len(texts) == 0 { // all are complete
		texts = slices.Repeat([]string{string(qless.StateComplete)}, jobs)
	}
	if err != nil || len(texts) != jobs {
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
