// Package shards spreads jobs over several namespaces, for workloads too large for one server. The
// namespaces may be on several masters of a cluster, or on separate servers. A [qless.WorkerGroup]
// works on all of them.
//
// A job stays in the shard where it was put, through all queues, so these are per shard:
//
//   - the order of jobs, by priority and age;
//   - dependencies: a dependency on a job of another shard is [ErrWrongShard];
//   - tags, tracking, failure groups, statistics, settings and max-concurrency.
//
// Use the shards' own clients for these: [Shards.Clients].
package shards

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
	"github.com/qless/qless-go/internal/inside"
	"github.com/qless/qless-go/internal/jobopts"
	"github.com/qless/qless-go/internal/redisx"
	"github.com/qless/qless-go/internal/rendezvous"
	"github.com/qless/qless-go/internal/together"
)

// By determines how jobs are assigned to shards.
type By string

const (
	// ByJID spreads the jobs of each queue over all shards by their jids. If a jid has a part in
	// braces, as in "{order-7}-pack", only that part counts, to keep jobs that depend on one another
	// in one shard. ByJID is the default: the empty By means the same.
	ByJID By = "jid"

	// ByQueue keeps all jobs of a queue in one shard and spreads the queues by their names.
	ByQueue By = "queue"
)

// ErrWrongShard is the code of errors about a job that can't depend on a job of another shard, or
// be a member of a batch there.
const ErrWrongShard qless.Code = "wrong_shard"

// Shards spread jobs over several namespaces. They are safe for concurrent use.
type Shards struct {
	by      By
	clients []*qless.Client
}

// New returns shards that spread jobs over the namespaces of clients. A job's shard is chosen by
// its key and the name of the namespace (rendezvous hashing), regardless of the order of the
// clients: adding a shard to n others sends one in n+1 future jobs to a different shard. The error
// is [qless.ErrInvalid] if there are no clients, a client is nil, or two clients have the same
// namespace, even on different servers.
//
// To remove a shard, stop putting jobs into it, and keep its workers running until it is empty.
func New(by By, clients ...*qless.Client) (*Shards, error) {
	by = cmp.Or(by, ByJID)
	if by != ByJID && by != ByQueue {
		return nil, invalid("shard", "", "the key %q is unknown", by)
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
	return &Shards{by: by, clients: slices.Clone(clients)}, nil
}

// invalid returns an error about an argument.
func invalid(op, jid, format string, args ...any) *qless.Error {
	return &qless.Error{
		Op: op, Code: qless.ErrInvalid, JID: jid, Message: fmt.Sprintf(format, args...),
	}
}

// noSuchJob returns the error for a job missing in all shards.
func noSuchJob(op, jid string) *qless.Error {
	return &qless.Error{Op: op, Code: qless.ErrNotFound, JID: jid, Message: "no such job"}
}

// checkJIDs returns an error if a jid is impossible.
func checkJIDs(op string, jids ...string) error {
	for _, jid := range jids {
		err := jobopts.CheckName("jid", jid)
		if err == nil {
			err = jobopts.CheckJID(jid)
		}
		if err != nil {
			return invalid(op, jid, "%s", err)
		}
	}
	return nil
}

// Clients returns the shards' clients, in the order given to New.
func (s *Shards) Clients() []*qless.Client { return slices.Clone(s.clients) }

// Client returns the client of the shard for a job with this queue and jid.
func (s *Shards) Client(queue, jid string) *qless.Client {
	name := queue
	if s.by == ByJID {
		name = nameOf(jid)
	}
	return rendezvous.Pick(s.clients, (*qless.Client).Namespace, name)
}

// nameOf returns the part of a jid that chooses the shard: the whole jid, or the part in braces.
func nameOf(jid string) string {
	_, rest, _ := strings.Cut(jid, "{")
	if name, _, closed := strings.Cut(rest, "}"); closed && name != "" {
		return name
	}
	return jid
}

// Job returns a job from any shard, or [qless.ErrNotFound]. All shards are asked, because a job put
// before a shard was added, or into another queue, is not in the shard of its key. The first shard
// with the job answers for all, so a silent shard delays only jobs missing in the others.
func (s *Shards) Job(ctx context.Context, jid string) (*qless.Job, error) {
	if err := checkJIDs("get", jid); err != nil {
		return nil, err
	}
	found, _, err := anyOf(ctx, s.clients, jid)
	if found == nil && err == nil {
		err = noSuchJob("get", jid)
	}
	return found, err
}

// anyOf returns one of the jobs and its shard, from the first of some shards with any, or nil.
func anyOf(
	ctx context.Context, in []*qless.Client, jids ...string,
) (*qless.Job, *qless.Client, error) {
	type place struct {
		job   *qless.Job
		shard *qless.Client
	}
	found, _, err := together.First(ctx, in,
		func(ctx context.Context, c *qless.Client) (place, bool, error) {
			jobs, err := c.Jobs(ctx, jids...)
			if len(jobs) == 0 {
				return place{}, false, err
			}
			return place{jobs[0], c}, true, nil
		})
	return found.job, found.shard, err
}

// Result returns the result of a job in any shard, like [qless.Client.Result]. Like
// [Shards.Job], Result asks all shards.
func (s *Shards) Result(ctx context.Context, jid string) (qless.Result, error) {
	found, err := s.ending(ctx, "result", jid)
	if err != nil {
		return qless.Result{}, err
	}
	return found.result, found.err
}

// An ending is the result of a job from the job's shard: err is nil or [qless.ErrUnfinished].
type ending struct {
	shard  *qless.Client
	result qless.Result
	err    error
}

// ending asks all shards for the result of a job.
func (s *Shards) ending(ctx context.Context, op, jid string) (ending, error) {
	if err := checkJIDs(op, jid); err != nil {
		return ending{}, err
	}
	found, known, err := together.First(ctx, s.clients,
		func(ctx context.Context, c *qless.Client) (ending, bool, error) {
			result, err := c.Result(ctx, jid)
			if err == nil || errors.Is(err, qless.ErrUnfinished) {
				return ending{c, result, err}, true, nil
			} else if errors.Is(err, qless.ErrNotFound) {
				err = nil
			}
			return ending{}, false, err
		})
	if !known && err == nil {
		err = noSuchJob(op, jid)
	}
	return found, err
}

// untilPut returns the time to wait before asking again for a job that does not exist yet.
var untilPut = redisx.Backoff{First: 20 * time.Millisecond, Longest: time.Second}

// Wait waits for a job in any shard, like [qless.Client.Wait]. Like [Shards.Job], Wait
// asks all shards.
func (s *Shards) Wait(
	ctx context.Context, jid string, options ...qless.WaitOption,
) (qless.Result, error) {
	awaitPut, wait, err := inside.Wait(jid, options)
	if err != nil {
		return qless.Result{}, err
	}
	putBy := time.Now().Add(awaitPut)
	found, err := s.ending(ctx, "wait", jid)
	for n := 1; errors.Is(err, qless.ErrNotFound) && time.Now().Before(putBy); n++ {
		untilPut.Wait(ctx, n)
		found, err = s.ending(ctx, "wait", jid)
	}
	if err != nil {
		return qless.Result{}, err
	}
	if found.err == nil {
		return found.result, nil
	}
	result, err := wait(ctx, found.shard)
	return result.(qless.Result), err
}

// WaitAll waits for several jobs in any shards, like [qless.Client.WaitAll].
func (s *Shards) WaitAll(ctx context.Context, jids ...string) ([]qless.Result, error) {
	if err := checkJIDs("wait", jids...); err != nil {
		return nil, err
	}
	return together.Ask(jids, func(jid string) (qless.Result, error) { return s.Wait(ctx, jid) })
}

// Holder returns the jid of the holder of the [qless.Unique] key of these parts in any shard, like
// [inspect.Inspector.Holder].
func (s *Shards) Holder(ctx context.Context, parts ...any) (string, error) {
	jid, _, err := together.First(ctx, s.clients,
		func(ctx context.Context, c *qless.Client) (string, bool, error) {
			jid, err := inspect.New(c).Holder(ctx, parts...)
			return jid, jid != "", err
		})
	return jid, err
}

// Queues returns the counts of every queue, summed over all shards and sorted by name.
func (s *Shards) Queues(ctx context.Context) ([]qless.QueueCounts, error) {
	all, err := together.Ask(s.clients, func(c *qless.Client) ([]qless.QueueCounts, error) {
		return c.Queues(ctx)
	})
	if err != nil {
		return nil, err
	}
	byName := map[string]qless.QueueCounts{}
	for _, counts := range slices.Concat(all...) {
		byName[counts.Name] = sum(counts, byName[counts.Name])
	}
	var sums []qless.QueueCounts
	for _, counts := range byName {
		sums = append(sums, counts)
	}
	slices.SortFunc(sums, func(a, b qless.QueueCounts) int { return strings.Compare(a.Name, b.Name) })
	return sums, nil
}

// sum adds the counts of two shards. A queue paused in either counts as paused.
func sum(a, b qless.QueueCounts) qless.QueueCounts {
	return qless.QueueCounts{
		Name:      a.Name,
		Waiting:   a.Waiting + b.Waiting,
		Running:   a.Running + b.Running,
		Stalled:   a.Stalled + b.Stalled,
		Scheduled: a.Scheduled + b.Scheduled,
		Depends:   a.Depends + b.Depends,
		Recurring: a.Recurring + b.Recurring,
		Paused:    a.Paused || b.Paused,
	}
}
