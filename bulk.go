package qless

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"

	"github.com/qless/qless-go/internal/wire"
)

// An UnfailOption is an option for what puts failed jobs back: [Job.Unfail], [Queue.Unfail],
// [Client.Unfail], [Client.Retry] and [Bulk.Retry]: [Retries] or [TTL]. The TTL counts from the call.
type UnfailOption interface{ applyUnfail(*callOptions) }

func (o Retries) applyUnfail(c *callOptions) { c.retries = (*int)(&o) }
func (o TTL) applyUnfail(c *callOptions)     { o.applyPut(c) }

// unfailArgs returns the pairs of arguments that options are.
func unfailArgs(op string, options []UnfailOption) ([]string, error) {
	var o callOptions
	if err := applyOptions(op, &o, options, UnfailOption.applyUnfail); err != nil {
		return nil, err
	}
	if err := o.check(op); err != nil {
		return nil, err
	}
	var args []string
	if o.retries != nil {
		args = append(args, "retries", strconv.Itoa(*o.retries))
	}
	if isSet(o.ttl) {
		args = append(args, "ttl", wire.FormatSeconds(*o.ttl))
	}
	return args, nil
}

// A BulkResult is what a call has done with many jobs. It is valid even if the call has failed: it
// then says what was done before.
type BulkResult struct {
	// Count is how many jobs the call has changed, or found as they should be.
	Count int

	// Left is how many jobs were left as they were because they could not be changed.
	Left int

	// Errors says why, by jid, for at most 10,000 of those.
	Errors map[string]*Error
}

// maxBulkErrors is how many errors a [BulkResult] has at most.
const maxBulkErrors = 10_000

type bulkJSON struct {
	Count  int                  `json:"count"`
	Left   int                  `json:"left"`
	Errors map[string]bulkError `json:"errors,omitempty"`
}

type bulkError struct {
	Op      string `json:"op"`
	Code    Code   `json:"code"`
	Message string `json:"message"`
}

// MarshalJSON writes each error as an object with its op, code and message.
func (r BulkResult) MarshalJSON() ([]byte, error) {
	written := bulkJSON{Count: r.Count, Left: r.Left, Errors: map[string]bulkError{}}
	for jid, err := range r.Errors {
		written.Errors[jid] = bulkError{err.Op, err.Code, err.Message}
	}
	return json.Marshal(written)
}

// UnmarshalJSON reads what MarshalJSON writes.
func (r *BulkResult) UnmarshalJSON(text []byte) error {
	var read bulkJSON
	if err := json.Unmarshal(text, &read); err != nil {
		return err
	}
	*r = BulkResult{Count: read.Count, Left: read.Left}
	for jid, err := range read.Errors {
		r.leave(&Error{Op: err.Op, Code: err.Code, JID: jid, Message: err.Message})
	}
	r.Left = read.Left
	return nil
}

// leave notes that a job was left as it was.
func (r *BulkResult) leave(err *Error) {
	r.Left++
	if len(r.Errors) >= maxBulkErrors {
		return
	}
	if r.Errors == nil {
		r.Errors = map[string]*Error{}
	}
	r.Errors[err.JID] = err
}

// A bulkReply is the reply of a script that changes many jobs.
type bulkReply struct {
	Count  wire.Number                     `json:"count"`
	Left   wire.List[wire.List[wire.Text]] `json:"left"`
	Looked wire.Number                     `json:"looked"`
	Cursor wire.Text                       `json:"cursor"`
	Skip   wire.Number                     `json:"skip"`
	Total  wire.Number                     `json:"total"`
	Rest   wire.List[wire.Text]            `json:"rest"`
}

// runBulk runs a script that changes many jobs, and adds what it has done.
func (c *Client) runBulk(
	ctx context.Context, sum *BulkResult, op string, args ...any,
) (bulkReply, error) {
	reply, err := c.run(ctx, op, "", args...)
	if err != nil {
		return bulkReply{}, err
	}
	got, err := decode[bulkReply](op, reply)
	if err != nil {
		return got, err
	}
	sum.Count += got.Count.Int()
	for _, left := range got.Left {
		if len(left) != 3 {
			return got, unexpected(op, reply)
		}
		sum.leave(&Error{
			Op: op, Code: Code(left[1]), JID: string(left[0]), Message: string(left[2]),
		})
	}
	return got, nil
}

// A Bulk is a handle to jobs with which the same is to be done. Each method does it in steps of some
// hundred jobs, each of which is atomic, and leaves out the jobs with which it can't be done. If the
// connection breaks or the context ends, the steps before are done; the one that was on its way may
// be. Doing it again goes on from there.
type Bulk struct {
	client *Client
	jids   []string
}

// Bulk returns a handle to the jobs with these jids. To choose jobs by what they are, see
// [Queue.Find].
func (c *Client) Bulk(jids ...string) *Bulk {
	return &Bulk{client: c, jids: unique(jids)}
}

// unique returns the texts, each once, in the same order.
func unique(texts []string) []string {
	seen := make(map[string]bool, len(texts))
	return slices.DeleteFunc(slices.Clone(texts), func(text string) bool {
		if seen[text] {
			return true
		}
		seen[text] = true
		return false
	})
}

// How many jobs a script changes: fewer if it may have to look for each in its failure group.
const (
	changedAtOnce     = 250
	searchedForAtOnce = 100
)

// each runs a script for the jobs, in steps.
func (b *Bulk) each(ctx context.Context, step int, op string, first ...string) (BulkResult, error) {
	var sum BulkResult
	if err := checkNames(op, "jid", b.jids); err != nil {
		return sum, err
	}
	for jids := range slices.Chunk(b.jids, step) {
		if err := b.client.runRests(ctx, &sum, op, jids, first...); err != nil {
			return sum, err
		}
	}
	return sum, nil
}

// runRests runs a script that changes many jobs, and again for those that it has left for the next
// call.
func (c *Client) runRests(
	ctx context.Context, sum *BulkResult, op string, jids []string, first ...string,
) error {
	for len(jids) > 0 {
		part, err := c.runBulk(ctx, sum, op, anys(anys(nil, first...), jids...)...)
		if err != nil {
			return err
		}
		jids = wire.Strings(part.Rest)
	}
	return nil
}

// Cancel deletes the jobs, whatever their state. Completed ones are left ([ErrFinished]), and jobs on
// which others depend that are not deleted in the same step ([ErrHasDependents]). The server looks for
// failed jobs in their groups, so steps are smaller if these are long.
func (b *Bulk) Cancel(ctx context.Context) (BulkResult, error) {
	return b.each(ctx, searchedForAtOnce, "change", "cancel", "")
}

// Move puts the jobs into a queue, whatever their state, as [Job.Move] does. Their data stays as it is
// on the server. Options are those of a put, without [JID], [IfAbsent], [Unique] and [DependsOn].
func (b *Bulk) Move(ctx context.Context, queue string, options ...PutOption) (BulkResult, error) {
	const op = "move.many"
	p, err := newPut(queue, "K", nil, append([]PutOption{givenJID("any")}, options...))
	if err != nil {
		return BulkResult{}, err
	}
	o := &p.options
	switch {
	case o.named:
		return BulkResult{}, invalid(op, "", "JID can't be used with Move")
	case o.unique != nil:
		return BulkResult{}, invalid(op, "", "Unique can't be used with Move of many jobs")
	case slices.Contains(o.conditions, conditionAbsent):
		return BulkResult{}, invalid(op, "", "IfAbsent can't be used with Move: the jobs exist")
	case len(o.depends) > 0:
		return BulkResult{}, invalid(op, "", "DependsOn can't be used with Move of many jobs")
	}
	pairs := p.optionArgs(nil)
	first := []string{b.client.worker, queue, o.delayText(), strconv.Itoa(len(pairs))}
	for _, arg := range pairs {
		text, _ := arg.(string)
		first = append(first, text)
	}
	return b.each(ctx, searchedForAtOnce, op, first...)
}

// Promote lets scheduled jobs be popped now, as [Job.Promote] does.
func (b *Bulk) Promote(ctx context.Context) (BulkResult, error) {
	return b.each(ctx, changedAtOnce, "change", "promote", "")
}

// Retry puts failed jobs back into their own queues with fresh retries. Other jobs are left
// ([ErrNotFailed]).
func (b *Bulk) Retry(ctx context.Context, options ...UnfailOption) (BulkResult, error) {
	const op = "unfail.jobs"
	pairs, err := unfailArgs(op, options)
	if err != nil {
		return BulkResult{}, err
	}
	first := append([]string{strconv.Itoa(len(pairs))}, pairs...)
	return b.each(ctx, searchedForAtOnce, op, first...)
}

// SetPriority changes the priorities of the jobs, as [Job.SetPriority] does.
func (b *Bulk) SetPriority(ctx context.Context, priority int) (BulkResult, error) {
	return b.each(ctx, changedAtOnce, "change", "priority", strconv.Itoa(priority))
}

// Tag adds tags to the jobs.
func (b *Bulk) Tag(ctx context.Context, tags ...string) (BulkResult, error) {
	return b.changeTags(ctx, "tag", tags)
}

// Untag removes tags from the jobs.
func (b *Bulk) Untag(ctx context.Context, tags ...string) (BulkResult, error) {
	return b.changeTags(ctx, "untag", tags)
}

func (b *Bulk) changeTags(ctx context.Context, action string, tags []string) (BulkResult, error) {
	if err := checkNames("change", "tag", tags); err != nil {
		return BulkResult{}, err
	}
	return b.each(ctx, changedAtOnce, "change", action, jsonList(tags))
}

// Track starts tracking the jobs.
func (b *Bulk) Track(ctx context.Context) (BulkResult, error) {
	return b.each(ctx, changedAtOnce, "change", "track", "")
}

// Untrack stops tracking the jobs, those that are gone too.
func (b *Bulk) Untrack(ctx context.Context) (BulkResult, error) {
	return b.each(ctx, changedAtOnce, "change", "untrack", "")
}
