package qless

import (
	"cmp"
	"context"
	"errors"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/qless/qless-go/internal/together"
)

// A ShardBy determines how jobs are assigned to shards.
type ShardBy string

const (
	// ShardByJID spreads the jobs of each queue over all shards by their jids. If a jid has a part
	// in braces, as in "{order-7}-pack", only that part counts, so that jobs that depend on one
	// another can be kept in one shard. It is the default: the empty ShardBy means the same.
	ShardByJID ShardBy = "jid"

	// ShardByQueue keeps all jobs of a queue in one shard and spreads the queues by their names.
	ShardByQueue ShardBy = "queue"
)

// Shards spread jobs over several namespaces, for workloads that have outgrown one server. The
// namespaces may be on several masters of a cluster or on separate servers. A job stays in the
// shard where it was put, whatever queues it goes through, so these are per shard:
//
//   - the order of jobs, by priority and age;
//   - dependencies: a dependency on a job of another shard is [ErrWrongShard];
//   - tags, tracking, failure groups, statistics, settings and max-concurrency.
//
// Use the shards' own clients for these: [Shards.Clients]. Shards are safe for concurrent use.
type Shards struct {
	key     ShardBy
	clients []*Client
}

// NewShards returns shards that spread jobs over the namespaces of clients. A job's shard is chosen
// by its key and the name of the namespace (rendezvous hashing), regardless of the order of the
// clients: adding a shard to n others sends one in n+1 future jobs to a different shard. The error
// is [ErrInvalid] if there are no clients, a client is nil, or two clients have the same namespace,
// even on different servers.
//
// To remove a shard, stop putting jobs into it, and keep its workers running until it is empty.
func NewShards(key ShardBy, clients ...*Client) (*Shards, error) {
	key = cmp.Or(key, ShardByJID)
	if key != ShardByJID && key != ShardByQueue {
		return nil, invalid("shard", "", "the key %q is unknown", key)
	}
	if len(clients) == 0 {
		return nil, invalid("shard", "", "there are no clients")
	}
	namespaces := map[string]bool{}
	for i, c := range clients {
		if c == nil {
			return nil, invalid("shard", "", "clients[%d] is nil", i)
		}
		if namespaces[c.Namespace()] {
			return nil, invalid("shard", "", "two shards have the namespace %q", c.Namespace())
		}
		namespaces[c.Namespace()] = true
	}
	return &Shards{key: key, clients: slices.Clone(clients)}, nil
}

// Clients returns the shards' clients, in the order in which they were given.
func (s *Shards) Clients() []*Client { return slices.Clone(s.clients) }

// ClientFor returns the client of the shard for a job with this queue and jid.
func (s *Shards) ClientFor(queue, jid string) *Client {
	name := queue
	if s.key == ShardByJID {
		name = shardName(jid)
	}
	return slices.MaxFunc(s.clients, func(a, b *Client) int {
		return cmp.Compare(shardWeight(a, name), shardWeight(b, name))
	})
}

// shardName returns the part of a jid that chooses its shard.
func shardName(jid string) string {
	if hasHashTag(jid) {
		_, rest, _ := strings.Cut(jid, "{")
		jid, _, _ = strings.Cut(rest, "}")
	}
	return jid
}

// shardWeight ranks the shards for a name, which goes to the one with the greatest weight.
func shardWeight(c *Client, name string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(c.Namespace()))
	_, _ = h.Write([]byte{0})
	_, _ = h.Write([]byte(name))
	w := h.Sum64()
	w = (w ^ w>>33) * 0xff51afd7ed558ccd // mix: similar names have similar sums
	w = (w ^ w>>33) * 0xc4ceb9fe1a85ec53
	return w ^ w>>33
}

// Queue returns a queue that spans all shards or, with [ShardByQueue], lies in one of them.
func (s *Shards) Queue(name string) *ShardedQueue {
	return &ShardedQueue{shards: s, name: name}
}

// Job returns a job, whichever shard has it, or [ErrNotFound]. It asks all shards, because a job
// that was put before a shard was added, or into another queue, is not in the shard of its key. The
// first shard that has it answers for all, so a silent shard delays only jobs that no other shard
// has.
func (s *Shards) Job(ctx context.Context, jid string) (*Job, error) {
	if err := checkName("get", "jid", jid); err != nil {
		return nil, err
	}
	found, err := s.anyOf(ctx, s.clients, jid)
	if found == nil && err == nil {
		err = noSuchJob("get", jid)
	}
	return found, err
}

// Result returns how a job has ended, whichever shard has it, as [Client.Result] does. Like
// [Shards.Job], it asks all shards.
func (s *Shards) Result(ctx context.Context, jid string) (Result, error) {
	found, err := s.result(ctx, "result", jid)
	if err != nil {
		return Result{}, err
	}
	return found.result, found.err
}

// Wait waits for a job, whichever shard has it, as [Client.Wait] does. Like [Shards.Job], it asks
// all shards.
func (s *Shards) Wait(
	ctx context.Context, jid string, options ...WaitOption,
) (Result, error) {
	o, err := readWaitOptions(jid, options)
	if err != nil {
		return Result{}, err
	}
	putBy := time.Now().Add(o.awaitPut)
	found, err := s.result(ctx, "wait", jid)
	for n := 1; errors.Is(err, ErrNotFound) && time.Now().Before(putBy); n++ {
		untilPut.Wait(ctx, n)
		found, err = s.result(ctx, "wait", jid)
	}
	if err != nil {
		return Result{}, err
	}
	if found.err == nil {
		return found.result, nil
	}
	return found.shard.joinAndWait(ctx, jid, true, o)
}

// WaitAll waits for several jobs, whichever shards have them, as [Client.WaitAll] does.
func (s *Shards) WaitAll(ctx context.Context, jids ...string) ([]Result, error) {
	if err := checkJobNames("wait", jids); err != nil {
		return nil, err
	}
	return together.Ask(jids, func(jid string) (Result, error) { return s.Wait(ctx, jid) })
}

// A shardResult is the answer of the shard that has a job about its result: err is nil or
// [ErrUnfinished].
type shardResult struct {
	shard  *Client
	result Result
	err    error
}

// result asks all shards for the result of a job.
func (s *Shards) result(ctx context.Context, op, jid string) (shardResult, error) {
	if err := checkJobName(op, jid); err != nil {
		return shardResult{}, err
	}
	found, known, err := together.First(ctx, s.clients,
		func(ctx context.Context, c *Client) (shardResult, bool, error) {
			result, err := c.Result(ctx, jid)
			if err == nil || errors.Is(err, ErrUnfinished) {
				return shardResult{c, result, err}, true, nil
			} else if errors.Is(err, ErrNotFound) {
				err = nil
			}
			return shardResult{}, false, err
		})
	if !known && err == nil {
		err = noSuchJob(op, jid)
	}
	return found, err
}

// anyOf returns one of the jobs, from the first of some shards that has any, or nil.
func (s *Shards) anyOf(ctx context.Context, in []*Client, jids ...string) (*Job, error) {
	job, _, err := together.First(ctx, in, func(ctx context.Context, c *Client) (*Job, bool, error) {
		found, err := c.Jobs(ctx, jids...)
		if len(found) == 0 {
			return nil, false, err
		}
		return found[0], true, nil
	})
	return job, err
}

// Queues returns the counts of every queue, summed over all shards and sorted by name.
func (s *Shards) Queues(ctx context.Context) ([]QueueCounts, error) {
	all, err := together.Ask(s.clients, func(c *Client) ([]QueueCounts, error) {
		return c.Queues(ctx)
	})
	if err != nil {
		return nil, err
	}
	byName := map[string]QueueCounts{}
	for _, counts := range slices.Concat(all...) {
		byName[counts.Name] = counts.plus(byName[counts.Name])
	}
	var sums []QueueCounts
	for _, counts := range byName {
		sums = append(sums, counts)
	}
	slices.SortFunc(sums, func(a, b QueueCounts) int { return strings.Compare(a.Name, b.Name) })
	return sums, nil
}

// plus adds the counts of two shards. A queue that is paused in either counts as paused.
func (c QueueCounts) plus(other QueueCounts) QueueCounts {
	return QueueCounts{
		Name:      c.Name,
		Waiting:   c.Waiting + other.Waiting,
		Running:   c.Running + other.Running,
		Stalled:   c.Stalled + other.Stalled,
		Scheduled: c.Scheduled + other.Scheduled,
		Depends:   c.Depends + other.Depends,
		Recurring: c.Recurring + other.Recurring,
		Paused:    c.Paused || other.Paused,
	}
}

// A ShardedQueue is a lightweight handle to a queue whose jobs are spread over shards.
type ShardedQueue struct {
	shards *Shards
	name   string
}

// Name returns the queue's name.
func (q *ShardedQueue) Name() string { return q.name }

// Put puts a job into its shard, as [Queue.Put] puts one into a queue. If a job with the same [JID]
// exists in a shard other than that of its key, a second job is put, even with [IfAbsent]. A job
// with a [Unique] key goes into the shard of that key, whatever its jid; with [ShardByQueue], the
// key is unique among the queues of one shard. With [DependsOn], Put first looks for these jobs in
// all other shards: if one has any, the error is [ErrWrongShard] and nothing is put.
func (q *ShardedQueue) Put(
	ctx context.Context, klass string, data any, options ...PutOption,
) (string, error) {
	p, err := newPut(q.name, JobSpec{klass, data, options})
	if err != nil {
		return "", err
	}
	shard := q.shardOf(p)
	if err := q.shards.checkDepends(ctx, shard, p); err != nil {
		return "", err
	}
	return shard.put(ctx, p)
}

// shardOf returns the shard for a job: with a unique key, that of the key.
func (q *ShardedQueue) shardOf(p *put) *Client {
	if claim := p.options.Claim; claim != nil {
		return q.shards.ClientFor(q.name, claim.Key)
	}
	return q.shards.ClientFor(q.name, p.jid)
}

// checkDepends returns an error if a job depends on a job of another shard.
func (s *Shards) checkDepends(ctx context.Context, shard *Client, p *put) error {
	if len(p.options.DependsOn) == 0 {
		return nil
	}
	others := slices.DeleteFunc(s.Clients(), func(c *Client) bool { return c == shard })
	found, err := s.anyOf(ctx, others, p.options.DependsOn...)
	if found == nil {
		return err
	}
	return wrongShard(p.jid, found.JID, found.client)
}

func wrongShard(jid, other string, at *Client) error {
	return &Error{Op: "put", Code: ErrWrongShard, JID: jid,
		Message: "it can't depend on " + other + ", which is in the shard " + at.Namespace()}
}

// PutMany puts jobs into their shards, as [Queue.PutMany] puts them into a queue, and returns their
// jids in order. All jobs are checked before the first is put. If it fails, it returns the jids of
// the jobs that were put along with the error.
func (q *ShardedQueue) PutMany(ctx context.Context, jobs []JobSpec) ([]string, error) {
	puts, err := newPuts(q.name, jobs)
	if err != nil {
		return nil, err
	}
	parts, err := q.part(ctx, puts)
	if err != nil {
		return nil, err
	}
	calls, err := q.shards.beginPuts(ctx, parts)
	if err != nil {
		return nil, err
	}
	var mu sync.Mutex
	jids := make([]string, len(puts)) // empty for jobs that were not put
	var existing []conflict
	err = together.Each(q.shards.clients, func(c *Client) error {
		if len(parts[c]) == 0 {
			return nil
		}
		put, found, err := c.sendAll(calls[c].ctx, parts[c])
		calls[c].end(manyError(found, err))
		mu.Lock()
		defer mu.Unlock()
		for i, jid := range put {
			jids[parts[c][i].at] = jid
		}
		existing = append(existing, found...)
		return err
	})
	slices.SortFunc(existing, func(a, b conflict) int { return a.at - b.at })
	jids = slices.DeleteFunc(jids, func(jid string) bool { return jid == "" })
	return jids, manyError(existing, err)
}

// A shardPut is the part of a put for one shard.
type shardPut struct {
	ctx context.Context
	end func(err error)
}

// beginPuts prepares all jobs to put into shards.
func (s *Shards) beginPuts(
	ctx context.Context, parts map[*Client][]*put,
) (map[*Client]shardPut, error) {
	calls := map[*Client]shardPut{}
	var failed error
	for _, c := range s.clients {
		if len(parts[c]) == 0 {
			continue
		}
		own, done := c.beginPut(ctx, "put.many", parts[c]...)
		calls[c] = shardPut{own, func(err error) { done("", err) }}
		if failed = c.prepareAll(own, parts[c]); failed != nil {
			break
		}
	}
	if failed != nil {
		for _, call := range calls {
			call.end(failed)
		}
	}
	return calls, failed
}

// part groups puts by shard.
func (q *ShardedQueue) part(ctx context.Context, puts []*put) (map[*Client][]*put, error) {
	shards := map[string]*Client{} // by jid
	for _, p := range puts {
		shards[p.jid] = q.shardOf(p)
	}
	parts := map[*Client][]*put{}
	for i, p := range puts {
		jid := p.jid
		shard := shards[jid]
		for _, other := range p.options.DependsOn {
			if at, together := shards[other]; together && at != shard {
				return nil, p.failure(i, wrongShard(jid, other, at))
			}
		}
		if err := q.shards.checkDepends(ctx, shard, p); err != nil {
			return nil, p.failure(i, err)
		}
		parts[shard] = append(parts[shard], p)
	}
	return parts, nil
}

// Pop locks at most count jobs, as [Queue.Pop] does, from one shard after another, in random order.
// If a shard fails, Pop returns the jobs that it has locked so far along with the error.
func (q *ShardedQueue) Pop(ctx context.Context, count int) ([]*Job, error) {
	var jobs []*Job
	if count < 1 {
		return nil, invalid("pop", "", "the count %d is not positive", count)
	}
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

// Counts returns the numbers of the queue's jobs in all shards, by state. A queue that is paused in
// one of them counts as paused.
func (q *ShardedQueue) Counts(ctx context.Context) (QueueCounts, error) {
	all, err := together.Ask(q.shards.clients, func(c *Client) (QueueCounts, error) {
		return c.Queue(q.name).Counts(ctx)
	})
	sum := QueueCounts{Name: q.name}
	for _, counts := range all {
		sum = sum.plus(counts)
	}
	return sum, err
}

// Holder returns the jid of the job that holds the [Unique] key of these parts in any shard, as
// [Client.Holder] does.
func (s *Shards) Holder(ctx context.Context, parts ...any) (string, error) {
	jid, _, err := together.First(ctx, s.clients,
		func(ctx context.Context, c *Client) (string, bool, error) {
			jid, err := c.Holder(ctx, parts...)
			return jid, jid != "", err
		})
	return jid, err
}

// Call puts a job into its shard, as [ShardedQueue.Put] does, and waits for it as [Queue.Call]
// does.
func (q *ShardedQueue) Call(
	ctx context.Context, klass string, data any, options ...PutOption,
) (Result, error) {
	p, err := newCall(q.name, JobSpec{klass, data, options})
	if err != nil {
		return Result{}, err
	}
	shard := q.shardOf(p)
	if err := q.shards.checkDepends(ctx, shard, p); err != nil {
		return Result{}, err
	}
	return shard.putAndWait(ctx, p)
}
