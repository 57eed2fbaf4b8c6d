package qless

import (
	"context"
	"errors"
	"iter"
	"slices"

	"github.com/qless/qless-go/internal/jobopts"
	"github.com/qless/qless-go/internal/wire"
)

// A Batch is a set of member jobs and a callback job, to run when all members have finished,
// whichever client completes the last one. A Batch is only a handle, safe for concurrent use: all
// state is on the server, so any program can resume a batch by its id.
type Batch struct {
	ID     string // the jid of the callback; it never changes
	client *Client
}

// NewBatch puts the callback of a new batch into a queue. The callback waits until the batch is
// committed and no members are pending, and then runs once. Its jid is the id of the batch.
//
// The options are those of [Queue.Put] except [DependsOn]. With [OnFailureWait], the default, the
// callback runs when all members are complete, perhaps after some were unfailed. With
// [OnFailureRun], the callback runs when all have ended, with the failed members in its
// FailedDependencies. With [OnFailureFail], it fails with the first.
//
// If the error is [ErrNotReplicated], the batch is returned as well.
func (c *Client) NewBatch(ctx context.Context, queue string, callback JobSpec) (*Batch, error) {
	p, err := newPut(queue, callback)
	if err != nil {
		return nil, err
	}
	return c.openBatch(ctx, p)
}

// openBatch puts the callback of a new batch, and returns the batch if the callback was put, even
// to too few replicas.
func (c *Client) openBatch(ctx context.Context, p *put) (*Batch, error) {
	if len(p.options.DependsOn) > 0 {
		return nil, invalid("put", p.jid,
			"DependsOn can't be used with a batch: add members to it")
	}
	p.options.OpensBatch, p.options.Batch = true, &jobopts.Batch{}
	_, err := c.put(ctx, p)
	if err != nil && (!errors.Is(err, ErrNotReplicated) || errors.Is(err, ErrExists)) {
		return nil, err
	}
	return c.Batch(p.jid), err
}

// Batch returns a handle to the batch with this id, with which a handler can add members to the
// batch of its job.
func (c *Client) Batch(id string) *Batch { return &Batch{client: c, ID: id} }

// Add puts jobs into a queue as members of the batch, and returns their jids in order, like
// [Queue.PutMany]. A job that is refused because it exists does not become a member.
//
// Jobs can be added until the batch is committed, and then as long as members are pending, so a
// running member can add more. Otherwise the error is [ErrNotDepending], or [ErrNotFound] if the
// batch was canceled.
func (b *Batch) Add(ctx context.Context, queue string, jobs []JobSpec) ([]string, error) {
	if err := checkJobName("batch", b.ID); err != nil {
		return nil, err
	}
	puts, err := newPuts(queue, jobs)
	if err != nil {
		return nil, err
	}
	return b.add(ctx, puts)
}

// add puts checked jobs as members.
func (b *Batch) add(ctx context.Context, puts []*put) ([]string, error) {
	for i, p := range puts {
		if p.jid == b.ID || slices.Contains(p.options.DependsOn, b.ID) {
			return nil, p.failure(i, invalid("put", p.jid, "the job would wait for its own batch"))
		}
		p.options.MemberOf = b.ID
	}
	jids, err := b.client.putAll(ctx, puts)
	return jids, b.explain(err)
}

// explain adds the id of the batch to an error.
func (b *Batch) explain(err error) error {
	var cause *Error
	if !errors.As(err, &cause) || cause.JID != "" ||
		cause.Code != ErrNotDepending && cause.Code != ErrNotFound {
		return err
	}
	return errorOfOne(cause.Op, b.ID, cause)
}

// Commit closes the batch: from then on, members can be added only while others are pending. If
// none are pending, the callback is released at once. Committing a batch again has no effect.
func (b *Batch) Commit(ctx context.Context) error {
	if err := checkJobName("batch", b.ID); err != nil {
		return err
	}
	_, err := b.client.run(ctx, "batch.commit", b.ID, b.ID)
	return err
}

// A BatchStatus describes the progress of a [Batch].
type BatchStatus struct {
	// Failed are the members that failed, sorted by jid, if the callback was put with [OnFailureRun]
	// or [OnFailureFail]. Otherwise, failed members count as pending.
	Failed []FailedDependency `json:"failed,omitempty"`

	// Open reports whether the batch is not committed yet.
	Open bool `json:"open"`

	// Pending is the number of members the callback waits for.
	Pending int `json:"pending"`

	// State is the state of the callback: [StateDepends] until released.
	State State `json:"state"`

	// Total is the number of added members.
	Total int `json:"total"`
}

// Status returns the progress of the batch. If the batch was canceled, or the callback is no longer
// kept, the error is [ErrNotFound].
func (b *Batch) Status(ctx context.Context) (BatchStatus, error) {
	reply, err := b.read(ctx)
	if err != nil {
		return BatchStatus{}, err
	}
	return BatchStatus{
		Failed: failuresOf(reply.Failed), Open: reply.Open, Pending: reply.Pending.Int(),
		State: State(wire.State(reply.State)), Total: reply.Total.Int(),
	}, nil
}

// Pending iterates over the jids of the members yet to end for the callback, each once, in no
// particular order. A member that ends in the meantime may be missing. An error is the last
// element.
func (b *Batch) Pending(ctx context.Context) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		seen := map[string]bool{}
		for cursor := ""; ; {
			reply, err := b.read(ctx, cursor)
			if err != nil {
				yield("", err)
				return
			}
			for _, jid := range wire.Strings(reply.JIDs) {
				if !seen[jid] && !yield(jid, nil) {
					return
				}
				seen[jid] = true
			}
			if cursor = string(reply.Cursor); cursor == "" {
				return
			}
		}
	}
}

// A batchReply is the reply to batch.status.
type batchReply struct {
	State   wire.Text           `json:"state"`
	Open    bool                `json:"open"`
	Total   wire.Number         `json:"total"`
	Pending wire.Number         `json:"pending"`
	Failed  map[string]string   `json:"failed"`
	JIDs    wire.List[wire.Raw] `json:"jids"`
	Cursor  wire.Text           `json:"cursor"`
}

// read reads the batch, and with a cursor some of its pending members.
func (b *Batch) read(ctx context.Context, cursor ...any) (batchReply, error) {
	const op = "batch.status"
	if err := checkJobName(op, b.ID); err != nil {
		return batchReply{}, err
	}
	reply, err := b.client.run(ctx, op, b.ID, append([]any{b.ID}, cursor...)...)
	if err != nil {
		return batchReply{}, err
	}
	return decode[batchReply](op, reply)
}

// Cancel cancels the callback and the pending members, including running ones, as [Client.Cancel]
// does. A member that a job outside the batch depends on is not canceled, and the error is
// [ErrHasDependents].
func (b *Batch) Cancel(ctx context.Context) error {
	jids := []string{b.ID}
	for jid, err := range b.Pending(ctx) {
		if err != nil {
			return err
		}
		jids = append(jids, jid)
	}
	for some := range slices.Chunk(jids, changeBatchSize) {
		if err := b.client.Cancel(ctx, some...); err != nil {
			return err
		}
	}
	return nil
}
