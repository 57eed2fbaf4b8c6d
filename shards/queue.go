package shards

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/inside"
	"github.com/qless/qless-go/internal/together"
)

// A Queue is a lightweight handle to a queue with jobs spread over shards. It is a [qless.Putter].
type Queue struct {
	shards *Shards
	name   string
}

// Queue returns a queue in all shards or, with [ByQueue], in one of them.
func (s *Shards) Queue(name string) *Queue { return &Queue{shards: s, name: name} }

// Name returns the queue's name.
func (q *Queue) Name() string { return q.name }

// Put puts a job into its shard, as [qless.Queue.Put] puts a job into a queue. If a job with the
// same [qless.JID] exists in a shard other than that of its key, a second job is put, even with
// [qless.IfAbsent]. A job with a [qless.Unique] key goes into the shard of that key, regardless of
// the jid; with [ByQueue], the key is unique among the queues of one shard. With [qless.DependsOn],
// Put first looks for the parents in all other shards: if a shard has any, the error is
// [ErrWrongShard] and nothing is put.
func (q *Queue) Put(
	ctx context.Context, klass string, data any, options ...qless.PutOption,
) (jid string, err error) {
	p, shard, err := q.check(ctx, qless.JobSpec{Klass: klass, Data: data, Options: options})
	if err != nil {
		return "", err
	}
	return inside.Send(ctx, shard, p)
}

// Call puts a job into its shard, like [Queue.Put], and waits for it, like [qless.Queue.Call].
func (q *Queue) Call(
	ctx context.Context, klass string, data any, options ...qless.PutOption,
) (qless.Result, error) {
	p, shard, err := q.check(ctx, qless.JobSpec{Klass: klass, Data: data, Options: options})
	if err != nil {
		return qless.Result{}, err
	}
	result, err := inside.Call(ctx, shard, p)
	return result.(qless.Result), err
}

// check checks a job to put, and returns its shard.
func (q *Queue) check(ctx context.Context, spec qless.JobSpec) (inside.Put, *qless.Client, error) {
	p, err := inside.Check(q.name, spec)
	if err != nil {
		return p, nil, err
	}
	shard := q.shards.shardOf(&p)
	return p, shard, q.shards.checkDepends(ctx, shard, &p)
}

// shardOf returns the shard for a job: with a unique key, the key's shard.
func (s *Shards) shardOf(p *inside.Put) *qless.Client {
	if claim := p.Options.Claim; claim != nil {
		return s.Client(p.Queue, claim.Key)
	}
	return s.Client(p.Queue, p.JID)
}

// checkDepends returns an error if a job depends on a job of another shard.
func (s *Shards) checkDepends(ctx context.Context, shard *qless.Client, p *inside.Put) error {
	if len(p.Options.DependsOn) == 0 {
		return nil
	}
	others := slices.DeleteFunc(s.Clients(), func(c *qless.Client) bool { return c == shard })
	found, at, err := anyOf(ctx, others, p.Options.DependsOn...)
	if found == nil {
		return err
	}
	return wrongShard(p.JID, "it can't depend on %s, which is in the shard %s",
		found.JID, at.Namespace())
}

func wrongShard(jid, format string, args ...any) error {
	return &qless.Error{
		Op: "put", Code: ErrWrongShard, JID: jid, Message: fmt.Sprintf(format, args...),
	}
}

// PutMany puts jobs into their shards, as [qless.Queue.PutMany] puts jobs into a queue, and returns
// their jids in order. All jobs are checked before the first is put. An error comes with the
// jids of the jobs that were put.
func (q *Queue) PutMany(ctx context.Context, jobs []qless.JobSpec) ([]string, error) {
	puts, err := inside.CheckAll(q.name, jobs)
	if err != nil {
		return nil, err
	}
	parts, err := q.shards.part(ctx, puts)
	if err != nil {
		return nil, err
	}
	return inside.SendParts(ctx, parts)
}

// part groups jobs to put by shard, in the order of the shards.
func (s *Shards) part(ctx context.Context, puts []inside.Put) ([]inside.Part, error) {
	shards := map[string]*qless.Client{} // by jid
	for _, p := range puts {
		shards[p.JID] = s.shardOf(&p)
	}
	byShard := map[*qless.Client][]inside.Put{}
	for i, p := range puts {
		shard := shards[p.JID]
		for _, other := range p.Options.DependsOn {
			if at, together := shards[other]; together && at != shard {
				return nil, atIndex(i, p.JID, wrongShard(p.JID,
					"it can't depend on %s, which is in the shard %s", other, at.Namespace()))
			}
		}
		if err := s.checkDepends(ctx, shard, &p); err != nil {
			return nil, atIndex(i, p.JID, err)
		}
		byShard[shard] = append(byShard[shard], p)
	}
	var parts []inside.Part
	for _, c := range s.clients {
		if len(byShard[c]) > 0 {
			parts = append(parts, inside.Part{Client: c, Puts: byShard[c]})
		}
	}
	return parts, nil
}

// atIndex adds the index and the jid of one of many jobs to an error.
func atIndex(i int, jid string, err error) error {
	var cause *qless.Error
	if !errors.As(err, &cause) {
		return err
	}
	own := *cause
	own.JID = jid
	own.Message = fmt.Sprintf("jobs[%d]: %s", i, own.Message)
	return &own
}

// Pop locks at most count jobs, like [qless.Queue.Pop], from one shard after another, in random
// order. If a shard fails, Pop returns the jobs locked so far along with the error.
func (q *Queue) Pop(ctx context.Context, count int) ([]*qless.Job, error) {
	if count < 1 {
		return nil, invalid("pop", "", "the count %d is not positive", count)
	}
	var jobs []*qless.Job
	for _, i := range rand.Perm(len(q.shards.clients)) {
		if len(jobs) == count {
			break
		}
		more, err := q.shards.clients[i].Queue(q.name).Pop(ctx, count-len(jobs))
		jobs = append(jobs, more...)
		if err != nil {
			return jobs, err
		}
	}
	return jobs, nil
}

// Counts returns the numbers of the queue's jobs in all shards, by state. A queue paused in any
// shard counts as paused.
func (q *Queue) Counts(ctx context.Context) (qless.QueueCounts, error) {
	all, err := together.Ask(q.shards.clients, func(c *qless.Client) (qless.QueueCounts, error) {
		return c.Queue(q.name).Counts(ctx)
	})
	total := qless.QueueCounts{Name: q.name}
	for _, counts := range all {
		total = sum(total, counts)
	}
	return total, err
}
