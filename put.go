package qless

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/google/uuid"

	"github.com/qless/qless-go/internal/batch"
	"github.com/qless/qless-go/internal/jobopts"
	"github.com/qless/qless-go/internal/redisx"
	"github.com/qless/qless-go/internal/script"
)

// A put is a job to be put.
type put struct {
	queue   string
	klass   string
	jid     string
	data    string
	options jobopts.Options
	at      int  // the index in a PutMany
	isNew   bool // the jid is a new random one, remembered so that the put may be sent again
}

// newPut checks and encodes the arguments of a put. A put returned with an error has a jid, but
// can't be sent.
func newPut(queue string, job JobSpec) (*put, error) {
	return newPutOf("", queue, job)
}

// newPutOf does the same for a job whose jid is known, unless an option gives another one.
func newPutOf(jid, queue string, job JobSpec) (*put, error) {
	p := &put{queue: queue, klass: job.Klass, jid: jid}
	err := applyOptions("put", jid, &p.options, job.Options, PutOption.applyPut)
	p.jid = cmp.Or(p.options.JID, jid)
	if p.jid == "" {
		p.jid, p.isNew = newJID(), p.options.Remembered(longestResend)
	}
	if err != nil {
		return p, err
	}
	if err := p.check(); err != nil {
		return p, err
	}
	if jid == "" && p.options.JID == "" && len(p.options.If) > 0 {
		return p, invalid("put", "", "%s needs a JID", jobopts.IfName(p.options.If[0]))
	}
	if p.data, err = encodeData("put", p.jid, job.Data); err != nil {
		return p, err
	}
	return p, asInvalid("put", p.jid, p.options.MakeClaim(p.klass, p.data))
}

// check returns an error if anything but the data is invalid.
func (p *put) check() error {
	for _, name := range []struct{ what, name string }{
		{"queue name", p.queue}, {"klass", p.klass}, {"jid", p.jid},
	} {
		if err := checkName("put", name.what, name.name); err != nil {
			return err
		}
	}
	if err := asInvalid("put", p.jid, jobopts.CheckJID(p.jid)); err != nil {
		return err
	}
	if slices.Contains(p.options.DependsOn, p.jid) {
		return invalid("put", p.jid, "the job depends on itself")
	}
	return checkOptions("put", p.jid, &p.options)
}

// putArgs is the maximum number of arguments of most puts.
const putArgs = 12

// args returns the arguments for the commands put and requeue.
func (p *put) args(worker string) []any {
	var checked any = "checked"
	if p.isNew {
		checked = "new"
	}
	return p.options.PutArgs(append(make([]any, 0, putArgs),
		worker, p.queue, p.jid, p.klass, p.data, p.options.DelayText(), checked, "1"), p.isNew)
}

// newJID returns a random jid of 32 hexadecimal digits, as clients in all languages use.
func newJID() string {
	id := uuid.New()
	return hex.EncodeToString(id[:])
}

// put puts a job alone, or together with jobs of other goroutines, and returns the jid, or that of
// the existing job.
func (c *Client) put(ctx context.Context, p *put) (jid string, err error) {
	ctx, done := c.beginPut(ctx, "put", p)
	defer func() { done(jid, err) }()
	switch err := c.prepare(ctx, p); {
	case err != nil:
		return "", err
	case c.batcher != nil:
		return c.batcher.share(ctx, p)
	}
	return c.sendOne(ctx, p)
}

// prepare adds the client's headers to a job to be put, and encodes the data.
func (c *Client) prepare(ctx context.Context, p *put) error {
	if err := c.addHeaders(ctx, p); err != nil {
		return err
	}
	return c.encodePut(p)
}

// prepareAll does the same for several jobs.
func (c *Client) prepareAll(ctx context.Context, puts []*put) error {
	for _, p := range puts {
		if err := c.prepare(ctx, p); err != nil {
			return p.failure(p.at, err)
		}
	}
	return nil
}

// sendOne puts a prepared job alone, and returns the jid, or that of the existing job.
func (c *Client) sendOne(ctx context.Context, p *put) (string, error) {
	run := c.run
	if p.isNew {
		run = c.runNew
	}
	reply, err := run(ctx, "put", p.jid, p.args(c.worker)...)
	if other, exists := conflictIn(reply); exists {
		return p.found(other).answer(err)
	}
	return p.jid, err
}

// putBatchSize is the maximum total weight of the jobs of a script. That takes the server
// up to about 10 ms.
const putBatchSize = 500

// weight returns the job's share of putBatchSize, as a number of small jobs.
func (p *put) weight() int {
	return 1 + (3*p.options.Extras()+1)/2 + len(p.data)/4096
}

// countTogether returns the number of jobs for one script: as many of the first ones as fit.
func countTogether(puts []*put) int {
	weight := 0
	for n, p := range puts {
		weight += p.weight()
		if n > 0 && weight > putBatchSize {
			return n
		}
	}
	return len(puts)
}

// PutMany puts jobs into the queue as [Queue.Put] does, at a fraction of the cost, and returns
// their jids in order. Each script puts all or none of its jobs.
//
// Jobs refused because of an [If] or [Unique] do not stop the others. The error is then
// [ErrExists], with the Indices of the refused jobs, and the result has the jids of the existing
// jobs in their places.
//
// All jobs are checked before the first is put. No two may have the same jid, and a job that
// depends on another job in the call must come after it. The message of an [ErrInvalid] begins with
// the index of the job, as in "jobs[3]: the klass is empty".
func (q *Queue) PutMany(ctx context.Context, jobs []JobSpec) ([]string, error) {
	puts, err := newPuts(q.name, jobs)
	if err != nil {
		return nil, err
	}
	return q.client.putAll(ctx, puts)
}

// putAll puts any number of jobs, and returns their jids, or those of existing jobs.
func (c *Client) putAll(
	ctx context.Context, puts []*put,
) (jids []string, err error) {
	ctx, done := c.beginPut(ctx, "put.many", puts...)
	defer func() { done("", err) }()
	if err := c.prepareAll(ctx, puts); err != nil {
		return nil, err
	}
	jids, found, err := c.sendAll(ctx, puts)
	return jids, manyError(found, err)
}

// newPuts checks and encodes the jobs of a PutMany.
func newPuts(queue string, jobs []JobSpec) ([]*put, error) {
	if err := checkName("put", "queue name", queue); err != nil {
		return nil, err
	}
	puts := make([]*put, len(jobs))
	places := make(map[string]int, len(jobs)) // by jid
	for i, job := range jobs {
		p, err := newPut(queue, job)
		if err != nil {
			return nil, p.failure(i, err)
		}
		if first, found := places[p.jid]; found {
			return nil, p.failure(i, invalid("put", "", "jobs[%d] has the same jid", first))
		}
		p.at = i
		puts[i], places[p.jid] = p, i
	}
	return puts, checkOrder(puts, places)
}

// checkOrder returns an error if a job depends on a later one, which it would not wait for.
func checkOrder(puts []*put, places map[string]int) error {
	for i, p := range puts {
		for _, jid := range p.options.DependsOn {
			if other := places[jid]; other > i {
				return p.failure(i, invalid("put", "",
					"depends on jobs[%d], which comes after it", other))
			}
		}
	}
	return nil
}

// failure adds the index and the jid of one of many jobs to an error about it.
func (p *put) failure(i int, err error) error {
	var cause *Error
	if !errors.As(err, &cause) {
		return err
	}
	own := *cause
	own.JID = p.jid
	own.Message = fmt.Sprintf("jobs[%d]: %s", i, own.Message)
	return &own
}

func jidsOf(puts []*put) []string {
	jids := make([]string, len(puts))
	for i, p := range puts {
		jids[i] = p.jid
	}
	return jids
}

// sendAll puts prepared jobs with as many scripts as needed. It returns the jids, and the jobs that
// refused a put, by the index in the call of PutMany.
func (c *Client) sendAll(
	ctx context.Context, puts []*put,
) (jids []string, existing []conflict, err error) {
	jids = jidsOf(puts)
	var alone error // the jobs are put, but too few replicas may have them
	for from, n := 0, 0; from < len(puts); from += n {
		n = countTogether(puts[from:])
		found, err := c.sendSome(ctx, "1", puts[from:from+n])
		if errors.Is(err, ErrNotReplicated) {
			alone = err
		} else if err != nil {
			return jids[:from], existing, err
		}
		for _, other := range found {
			i := from + other.at
			jids[i], other.at = other.jid, puts[i].at
			if !other.replaced() {
				existing = append(existing, other)
			}
		}
	}
	return jids, existing, alone
}

// sendSome puts prepared jobs with one script: all or none, except for jobs that an [If] or
// [Unique] refuses. It returns the existing jobs that refused a put or were replaced, by their
// index. checked is 1, or once if the server shall remember the puts.
func (c *Client) sendSome(ctx context.Context, checked string, puts []*put) ([]conflict, error) {
	run := c.run
	allNew := !slices.ContainsFunc(puts, func(p *put) bool { return !p.isNew })
	if allNew {
		checked, run = "new", c.runNew
	}
	args := appendPuts(append(make([]any, 0, 2+len(puts)*putArgs), c.worker, checked), puts, allNew)
	reply, err := run(ctx, "put.many", "", args...)
	found, problem := conflictsIn(reply)
	if err == nil {
		err = problem
	}
	for i, other := range found {
		if other.at < len(puts) {
			found[i] = puts[other.at].found(other)
		}
	}
	return found, err
}

// appendPuts appends the jobs to the arguments of the command put.many. If the jobs differ only in
// their jids and data, all else is sent once.
func appendPuts(args []any, puts []*put, allNew bool) []any {
	forms := make([][]any, len(puts))
	agree := len(puts) > 1
	for i, p := range puts {
		forms[i] = p.form(allNew)
		agree = agree && p.queue == puts[0].queue && slices.Equal(forms[i], forms[0])
	}
	if agree {
		args = append(append(args, "", puts[0].queue), forms[0]...)
	}
	for i, p := range puts {
		if agree {
			args = append(args, p.jid, p.data)
			continue
		}
		args = append(args, p.queue, p.jid, forms[i][0], p.data)
		args = append(args, forms[i][1:]...)
	}
	return args
}

// form returns the arguments of a job besides the queue, jid and data: the klass, the delay, and
// the number of the other arguments, which follow.
func (p *put) form(allNew bool) []any {
	form := append(make([]any, 0, putArgs), p.klass, p.options.DelayText(), "")
	form = p.options.PutArgs(form, p.isNew)
	if p.isNew && !allNew {
		form = append(form, "new", "1")
	}
	form[2] = strconv.Itoa(len(form) - 3)
	return form
}

// batchedPuts is the maximum number of puts in a script.
const batchedPuts = 200

// A putBatcher combines the puts of several goroutines in one script, with one call in flight at a
// time.
type putBatcher struct {
	client *Client
	batch.Batcher[*put, putAnswer]
}

// A waitingPut is a put to be sent with others.
type waitingPut = batch.Call[*put, putAnswer]

// A putAnswer is the result of a put.
type putAnswer struct {
	jid string
	err error
}

func newPutBatcher(client *Client) *putBatcher {
	b := &putBatcher{client: client}
	b.Alone, b.Count, b.Send = b.alone, countPuts, b.send
	return b
}

// share puts a job alone when no other call is in flight, and with the next batch otherwise.
func (b *putBatcher) share(ctx context.Context, p *put) (string, error) {
	answer, err := b.Do(ctx, p)
	if err != nil {
		return p.jid, wrap("put", p.jid, err)
	}
	return answer.jid, answer.err
}

func (b *putBatcher) alone(ctx context.Context, p *put) putAnswer {
	jid, err := b.client.sendOne(ctx, p)
	return putAnswer{jid, err}
}

// countPuts returns the number of puts for the next script: as many of the oldest as fit, up to a
// second put of the same job.
func countPuts(waiting []*waitingPut) int {
	weight := 0
	jids := make(map[string]bool, min(len(waiting), batchedPuts))
	for n, w := range waiting {
		weight += w.Request.weight()
		jid := w.Request.jid
		if n == batchedPuts || n > 0 && weight > putBatchSize || jids[jid] {
			return n
		}
		jids[jid] = true
	}
	return len(waiting)
}

// send puts jobs with one script. If one is refused, none is put, and each half is sent.
func (b *putBatcher) send(ctx context.Context, calls []*waitingPut) {
	if len(calls) == 1 {
		jid, err := b.client.sendOne(ctx, calls[0].Request)
		calls[0].Answer(putAnswer{jid, err})
		return
	}
	puts := make([]*put, len(calls))
	for i, w := range calls {
		puts[i] = w.Request
	}
	found, err := b.client.sendSome(ctx, "1", puts)
	if isSinglePut(err) {
		half := len(calls) / 2
		b.send(ctx, calls[:half])
		b.send(ctx, calls[half:])
		return
	}
	if again, rest := split(calls); errors.Is(err, ErrUnavailable) && len(rest) > 0 {
		answerPuts(rest, nil, err)
		if len(again) > 0 {
			b.send(ctx, again)
		}
		return
	}
	answerPuts(calls, found, err)
}

// split splits a batch into the puts that may be sent again, and the others.
func split(calls []*waitingPut) (again, rest []*waitingPut) {
	for _, w := range calls {
		if w.Request.isNew {
			again = append(again, w)
		} else {
			rest = append(rest, w)
		}
	}
	return again, rest
}

// answerPuts ends the puts of a batch: found lists the existing jobs, and err is the error of the
// puts that were not refused.
func answerPuts(calls []*waitingPut, found []conflict, err error) {
	existing := make(map[int]conflict, len(found))
	for _, other := range found {
		existing[other.at] = other
	}
	for i, call := range calls {
		jid := call.Request.jid
		own := errorOfOne("put", jid, err)
		if other, exists := existing[i]; exists {
			jid, own = other.answer(own)
		}
		call.Answer(putAnswer{jid, own})
	}
}

// isSinglePut reports whether a batch was refused because of one of its puts or a damaged key.
func isSinglePut(err error) bool {
	return errors.Is(err, ErrInvalid) || errors.Is(err, ErrNotFound) ||
		errors.Is(err, ErrServer) && !redisx.IsServerWide(err)
}

// runReplicated runs a command with puts, and waits until the replicas have the writes.
func (c *Client) runReplicated(
	ctx context.Context, op, jid string, isNew bool, args []any,
) (any, error) {
	run := c.runner.RunReplicated
	if isNew {
		run = c.runner.RunNewReplicated
	}
	reply, err := run(ctx, *c.replicas, op, args...)
	var missing *script.ReplicasError
	if errors.As(err, &missing) {
		return reply, &Error{
			Op: op, Code: ErrNotReplicated, JID: jid,
			Message: "the job was put, but " + missing.Error(), Err: missing.Err,
		}
	}
	return reply, wrap(op, jid, err)
}
