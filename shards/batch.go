package shards

import (
	"context"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/inside"
)

// A Batch is a batch in one of the shards, together with its members.
type Batch struct {
	*qless.Batch

	shards *Shards
	at     *qless.Client
}

// NewBatch makes a batch like [qless.Client.NewBatch], in the shard of its callback, which can't
// have [qless.Unique]. All members must be in the same shard: see [Batch.Add].
func (s *Shards) NewBatch(
	ctx context.Context, queue string, callback qless.JobSpec,
) (*Batch, error) {
	p, err := inside.Check(queue, callback)
	if err != nil {
		return nil, err
	}
	if p.Options.Claim != nil {
		return nil, invalid("put", p.JID, "Unique can't be used with a batch of shards")
	}
	at := s.Client(queue, p.JID)
	b, err := inside.OpenBatch(ctx, at, p)
	if b := b.(*qless.Batch); b != nil {
		return &Batch{b, s, at}, err
	}
	return nil, err
}

// Batch returns a handle to the batch with this id and a callback put into the queue. Unlike a
// handle from [qless.Client.Batch], this handle keeps new members in the shard of the batch.
func (s *Shards) Batch(queue, id string) *Batch {
	at := s.Client(queue, id)
	return &Batch{at.Batch(id), s, at}
}

// Add puts jobs as members of the batch, like [qless.Batch.Add]. A job of another shard is
// [ErrWrongShard]. With [ByJID], random jids of members are made to fit, and a [qless.JID] must
// have the id of the batch in braces; with [ByQueue], the queue must be in the shard of the batch.
func (b *Batch) Add(ctx context.Context, queue string, jobs []qless.JobSpec) ([]string, error) {
	if err := checkJIDs("batch", b.ID); err != nil {
		return nil, err
	}
	puts, err := inside.CheckAll(queue, jobs)
	if err != nil {
		return nil, err
	}
	for i := range puts {
		if err := b.keep(ctx, &puts[i]); err != nil {
			return nil, atIndex(i, puts[i].JID, err)
		}
	}
	return inside.AddToBatch(ctx, b.Batch, puts)
}

// keep keeps a new member in the shard of the batch, or returns an error.
func (b *Batch) keep(ctx context.Context, p *inside.Put) error {
	if p.Options.JID == "" {
		p.JID = "{" + nameOf(b.ID) + "}-" + p.JID
	}
	if at := b.shards.shardOf(p); at != b.at {
		return wrongShard(p.JID, "it belongs to the shard %s, but its batch %s is in %s",
			at.Namespace(), b.ID, b.at.Namespace())
	}
	return b.shards.checkDepends(ctx, b.at, p)
}
