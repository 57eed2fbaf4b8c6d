package qless

import (
	"cmp"
	"context"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
)

// A ShardKey says by what jobs are spread over shards.
type ShardKey int

const (
	// ByJID spreads the jobs of each queue over all shards, by their jids. When a jid has a part in
	// braces, as "{order-7}-pack" has, that part alone decides, so that jobs which depend on
	// one another can be kept in one shard.
	ByJID ShardKey = iota

	// ByQueue keeps all jobs of a queue in one shard, and spreads the queues by their names.
	ByQueue
)

// Shards are namespaces over which jobs are spread, for those who have outgrown one server: those
// of several masters of a cluster, or of servers of their own. Each is a whole qless. A job stays in
// the shard where it was put, whatever queues it goes through; so these hold within a shard only:
//
//   - the order of jobs, by priority and age;
//   - dependencies: one on a job of another shard is [ErrWrongShard];
//   - tags, tracking, failure groups, statistics, settings and max-concurrency.
//
// For all of these, use the shards' own clients ([Shards.Clients]). It is safe for concurrent use.
type Shards struct {
	key     ShardKey
	clients []*Client
}

// Shard spreads jobs over the namespaces of clients. Each job's place is drawn by its key
// and the name of the namespace (rendezvous hashing), in whatever order the clients are given:
// when a shard is added to n others, one in n+1 of the jobs to come has another place than it had
// before. Two clients with the same namespace are [ErrInvalid], even if their servers differ.
//
// To take a shard away, leave it out where jobs are put, and let workers go on with it until it is
// empty.
func Shard(key ShardKey, clients ...*Client) (*Shards, error) {
	if key != ByJID && key != ByQueue {
		return nil, invalid("shard", "", "the key %d is unknown", key)
	}
	if len(clients) == 0 {
		return nil, invalid("shard", "", "no client is given")
	}
	for i, c := range clients {
		if slices.ContainsFunc(clients[:i], func(other *Client) bool { return other.Namespace() == c.Namespace() }) {
			return nil, invalid("shard", "", "two shards have the namespace %q", c.Namespace())
		}
	}
	return &Shards{key: key, clients: slices.Clone(clients)}, nil
}

// Clients returns the shards' clients, in the order in which they were given.
func (s *Shards) Clients() []*Client { return slices.Clone(s.clients) }

// Of returns the shard in which a job is put that has this jid and goes into this queue.
func (s *Shards) Of(queue, jid string) *Client {
	name := queue
	if s.key == ByJID {
		name = jid
		if hasHashTag(jid) {
			_, rest, _ := strings.Cut(jid, "{")
			name, _, _ = strings.Cut(rest, "}")
		}
	}
	return slices.MaxFunc(s.clients, func(a, b *Client) int { return cmp.Compare(weight(a, name), weight(b, name)) })
}

// weight is how much a shard wants what has a name: the one that wants it most gets it.
func weight(c *Client, name string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(c.Namespace()))
	_, _ = h.Write([]byte{0})
	_, _ = h.Write([]byte(name))
	w := h.Sum64()
	w = (w ^ w>>33) * 0xff51afd7ed558ccd // similar names come to similar sums: stir them
	w = (w ^ w>>33) * 0xc4ceb9fe1a85ec53
	return w ^ w>>33
}

// Queue returns a queue that lies in all shards, or, [ByQueue], in its own.
func (s *Shards) Queue(name string) *ShardedQueue {
	return &ShardedQueue{shards: s, name: name}
}

// Job returns a job, wherever it is; [ErrNotFound] when no shard has it. All shards are asked: a
// job that was put before a shard was added, or into another queue, is not where its key says.
func (s *Shards) Job(ctx context.Context, jid string) (*Job, error) {
	if err := checkName("get", "jid", jid); err != nil {
		return nil, err
	}
	found, err := s.jobs(ctx, s.clients, jid)
	if len(found) > 0 {
		return found[0], nil
	}
	if err == nil {
		err = &Error{Op: "get", Code: CodeNotFound, JID: jid, Message: "no such job"}
	}
	return nil, err
}

// jobs returns those of the jobs that some shards have.
func (s *Shards) jobs(ctx context.Context, in []*Client, jids ...string) ([]*Job, error) {
	found, err := ask(in, func(c *Client) ([]*Job, error) { return c.Jobs(ctx, jids...) })
	return slices.Concat(found...), err
}

// Queues returns the counts of every queue, over all shards, by name.
func (s *Shards) Queues(ctx context.Context) ([]QueueCounts, error) {
	all, err := ask(s.clients, func(c *Client) ([]QueueCounts, error) { return c.Queues(ctx) })
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

// plus adds the counts of two shards. The queue is paused when it is in one of them.
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

// ask asks every one of several at once, and returns what they answered, and the first error in
// their order.
func ask[T, A any](several []T, question func(one T) (A, error)) ([]A, error) {
	answers, errs := make([]A, len(several)), make([]error, len(several))
	var all sync.WaitGroup
	for i, one := range several {
		all.Go(func() { answers[i], errs[i] = question(one) })
	}
	all.Wait()
	for _, err := range errs {
		if err != nil {
			return answers, err
		}
	}
	return answers, nil
}

// each does something with every one of several at once, and returns the first error in their
// order.
func each[T any](several []T, do func(one T) error) error {
	_, err := ask(several, func(one T) (struct{}, error) { return struct{}{}, do(one) })
	return err
}

// A ShardedQueue is a queue of jobs that are spread over shards. It is only a name.
type ShardedQueue struct {
	shards *Shards
	name   string
}

// Name returns the queue's name.
func (q *ShardedQueue) Name() string { return q.name }

// Put puts a job into its shard, as [Queue.Put] does into a queue. A [JID] of a job that exists in
// another shard than its own makes a second job. With [DependsOn] all other shards are asked first
// whether they have one of those jobs: then the error is [ErrWrongShard], and nothing is put.
func (q *ShardedQueue) Put(ctx context.Context, klass string, data any, options ...PutOption) (string, error) {
	p, err := newPut(q.name, klass, data, options)
	if err != nil {
		return "", err
	}
	shard := q.shards.Of(q.name, p.options.jid)
	if err := q.shards.checkDepends(ctx, shard, p); err != nil {
		return "", err
	}
	return p.options.jid, shard.put(ctx, p)
}

// checkDepends errors when a job depends on one that is in another shard than its own.
func (s *Shards) checkDepends(ctx context.Context, shard *Client, p *put) error {
	if len(p.options.depends) == 0 {
		return nil
	}
	others := slices.DeleteFunc(s.Clients(), func(c *Client) bool { return c == shard })
	found, err := s.jobs(ctx, others, p.options.depends...)
	if len(found) == 0 {
		return err
	}
	return wrongShard(p.options.jid, found[0].JID, found[0].client)
}

func wrongShard(jid, other string, at *Client) error {
	return &Error{Op: "put", Code: CodeWrongShard, JID: jid,
		Message: "it can't depend on " + other + ", which is in the shard " + at.Namespace()}
}

// PutMany puts jobs into their shards, as [Queue.PutMany] does into a queue, and returns their jids
// in order. All jobs are checked before the first is put, as there. When it fails, the jids of those that were put come with the error.
func (q *ShardedQueue) PutMany(ctx context.Context, jobs []JobSpec) ([]string, error) {
	puts, err := newPuts(q.name, jobs)
	if err != nil {
		return nil, err
	}
	parts, err := q.part(ctx, puts)
	if err != nil {
		return nil, err
	}
	var mu sync.Mutex
	done := map[string]bool{}
	err = each(q.shards.clients, func(c *Client) error {
		if len(parts[c]) == 0 {
			return nil
		}
		put, err := c.putAll(ctx, parts[c])
		mu.Lock()
		defer mu.Unlock()
		for _, jid := range put {
			done[jid] = true
		}
		return err
	})
	return slices.DeleteFunc(jidsOf(puts), func(jid string) bool { return !done[jid] }), err
}

// part deals jobs out to their shards.
func (q *ShardedQueue) part(ctx context.Context, puts []*put) (map[*Client][]*put, error) {
	shards := map[string]*Client{} // by jid
	for _, jid := range jidsOf(puts) {
		shards[jid] = q.shards.Of(q.name, jid)
	}
	parts := map[*Client][]*put{}
	for i, p := range puts {
		jid := p.options.jid
		shard := shards[jid]
		for _, other := range p.options.depends {
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

// Pop locks at most count jobs, as [Queue.Pop] does, of one shard after the other, beginning with
// any. Jobs that were locked before a shard failed come with the error.
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

// Counts returns how many jobs the queue has in all shards. It is paused when it is in one of them.
func (q *ShardedQueue) Counts(ctx context.Context) (QueueCounts, error) {
	all, err := ask(q.shards.clients, func(c *Client) (QueueCounts, error) { return c.Queue(q.name).Counts(ctx) })
	sum := QueueCounts{Name: q.name}
	for _, counts := range all {
		sum = sum.plus(counts)
	}
	return sum, err
}

// Len returns how many jobs are running, waiting and scheduled in all shards, together.
func (q *ShardedQueue) Len(ctx context.Context) (int, error) {
	lengths, err := ask(q.shards.clients, func(c *Client) (int, error) { return c.Queue(q.name).Len(ctx) })
	sum := 0
	for _, length := range lengths {
		sum += length
	}
	return sum, err
}
