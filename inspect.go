package qless

import (
	"context"
	"errors"
	"math"
	"slices"
	"strconv"

	"github.com/qless/qless-go/internal/wire"
)

// A Range selects a part of a list. The zero value selects the first 25 items.
type Range struct {
	// Offset is how many items to skip.
	Offset int

	// Limit is how many items to return at most. Defaults to 25. The special value -1 means all,
	// but not more than 100,000. A greater limit is refused. More than 5000 items are read in
	// steps: what enters or leaves the list meanwhile may be missed, or listed twice.
	Limit int
}

const (
	defaultLimit = 25
	maxLimit     = 100_000
)

// bounds returns the offset and the limit, none of which is negative.
func (r Range) bounds(op string) (offset, limit int, err error) {
	if r.Offset < 0 || r.Offset > math.MaxInt32 {
		return 0, 0, invalid(op, "", "the offset %d is not from 0 to %d", r.Offset, math.MaxInt32)
	}
	if r.Limit < -1 || r.Limit > maxLimit {
		return 0, 0, invalid(op, "", "the limit %d is not from -1 to %d", r.Limit, maxLimit)
	}
	switch r.Limit {
	case 0:
		return r.Offset, defaultLimit, nil
	case -1:
		return r.Offset, maxLimit, nil
	}
	return r.Offset, r.Limit, nil
}

// pageOf returns a part of a list that was read as a whole.
func pageOf[T any](all []T, offset, limit int) []T {
	first := min(offset, len(all))
	return all[first:min(first+limit, len(all))]
}

// A Page is a part of a list.
type Page[T any] struct {
	Items []T `json:"items"` // not nil unless the call failed
	Total int `json:"total"` // the length of the whole list
}

// A List names one of a queue's lists of jobs.
type List string

// The lists of a queue, for [Queue.JIDs].
const (
	ListWaiting   List = "waiting"   // in the order in which they are popped
	ListRunning   List = "running"   // by when their locks end
	ListStalled   List = "stalled"   // running with an expired lock, by when it ended
	ListScheduled List = "scheduled" // by when they fall due
	ListDepends   List = "depends"   // waiting for other jobs, by age
	ListRecurring List = "recurring" // recurring jobs, by when they fall due
)

// JIDs returns the jids in one of the queue's lists. With [ListScheduled], jobs that have fallen
// due are first moved to the waiting jobs. For failed and completed jobs, which are in no queue,
// see [Client.FailedIn] and [Client.Completed].
func (q *Queue) JIDs(ctx context.Context, list List, r Range) (Page[string], error) {
	if err := q.check("jobs"); err != nil {
		return Page[string]{}, err
	}
	switch list {
	case ListWaiting, ListRunning, ListStalled, ListScheduled, ListDepends, ListRecurring:
		return q.client.list(ctx, "jobs", r, string(list), q.name)
	}
	return Page[string]{}, invalid("jobs", "", "a queue has no list %q", string(list))
}

// Completed returns the jids of completed jobs, latest first.
func (c *Client) Completed(ctx context.Context, r Range) (Page[string], error) {
	return c.list(ctx, "jobs", r, "complete")
}

// FailureGroups returns the number of failed jobs in each failure group. It reads about 500 groups in
// a step.
func (c *Client) FailureGroups(ctx context.Context) (map[string]int, error) {
	groups := map[string]int{}
	for cursor := ""; ; {
		reply, err := c.run(ctx, "failed", "", "", "0", "0", "from", cursor)
		if err != nil {
			return nil, err
		}
		part, err := decode[struct {
			Cursor wire.Text              `json:"cursor"`
			Groups map[string]wire.Number `json:"groups"`
		}]("failed", reply)
		if err != nil {
			return nil, err
		}
		for group, count := range part.Groups {
			groups[group] = count.Int()
		}
		if cursor = string(part.Cursor); cursor == "" {
			return groups, nil
		}
	}
}

// FailedIn returns the jids of the jobs in a failure group, latest failure first.
func (c *Client) FailedIn(ctx context.Context, group string, r Range) (Page[string], error) {
	if err := checkName("failed", "group", group); err != nil {
		return Page[string]{}, err
	}
	return c.list(ctx, "failed", r, group)
}

// Tagged returns the jids of the jobs that have a tag, in the order in which they were tagged.
func (c *Client) Tagged(ctx context.Context, tag string, r Range) (Page[string], error) {
	if err := checkName("tag", "tag", tag); err != nil {
		return Page[string]{}, err
	}
	return c.list(ctx, "tag", r, "get", tag)
}

// Tags returns the tags that at least two jobs have, most used first.
func (c *Client) Tags(ctx context.Context, r Range) (Page[string], error) {
	return c.list(ctx, "tag", r, "top")
}

// Tracked returns the jids of the tracked jobs, in the order in which tracking began. Some of the
// jobs may no longer exist: [Client.Jobs] leaves those out.
func (c *Client) Tracked(ctx context.Context, r Range) (Page[string], error) {
	return c.list(ctx, "track", r, "list")
}

// listedAtOnce is how many items a script lists.
const listedAtOnce = 5000

// list runs a command that returns a part of a list and the length of the whole, in steps.
func (c *Client) list(
	ctx context.Context, op string, r Range, first ...string,
) (Page[string], error) {
	offset, limit, err := r.bounds(op)
	if err != nil {
		return Page[string]{}, err
	}
	page := Page[string]{Items: []string{}}
	for {
		n := min(limit-len(page.Items), listedAtOnce)
		part, err := c.listPart(ctx, op, Range{offset + len(page.Items), n}, first)
		if err != nil {
			return Page[string]{}, err
		}
		page.Items, page.Total = append(page.Items, part.Items...), part.Total
		if len(part.Items) < n || len(page.Items) == limit {
			return page, nil
		}
	}
}

// listPart runs the command once. Its last argument is for commands that do not always return the
// length.
func (c *Client) listPart(
	ctx context.Context, op string, r Range, first []string,
) (Page[string], error) {
	args := append(anys(nil, first...), strconv.Itoa(r.Offset), strconv.Itoa(r.Limit), "total")
	reply, err := c.run(ctx, op, "", args...)
	if err != nil {
		return Page[string]{}, err
	}
	got, err := decode[struct {
		Total wire.Number          `json:"total"`
		Jobs  wire.List[wire.Text] `json:"jobs"`
		Tags  wire.List[wire.Text] `json:"tags"`
	}](op, reply)
	if err != nil {
		return Page[string]{}, err
	}
	return Page[string]{Items: itemsOf(append(got.Jobs, got.Tags...)), Total: got.Total.Int()}, nil
}

// itemsOf returns texts as strings, and never nil, which would be null in JSON.
func itemsOf(texts []wire.Text) []string {
	return append([]string{}, wire.Strings(texts)...)
}

// withDue asks for when jobs are due, which the JSON for other clients does not say.
const withDue = "x:due"

// Job returns a job, or [ErrNotFound].
func (c *Client) Job(ctx context.Context, jid string) (*Job, error) {
	if err := checkName("get", "jid", jid); err != nil {
		return nil, err
	}
	reply, err := c.run(ctx, "get", jid, jid, withDue)
	if err != nil {
		return nil, err
	}
	if reply == nil {
		return nil, noSuchJob("get", jid)
	}
	text, _, large := besides(reply)
	r, err := decode[jobReply]("get", text)
	if err != nil {
		return nil, err
	}
	r.take(large)
	job := r.job(c)
	if err := c.readRelations(ctx, job); err != nil {
		return nil, err
	}
	return job, nil
}

// How many jobs a script pops, and how many it reads by their jids: fewer if their data is large.
const (
	poppedAtOnce = 250
	readAtOnce   = 150
)

// Jobs returns the jobs that exist, in the order of the jids. Without jids it returns none. A script
// reads at most 150 jobs, 2 MiB of data that is larger than 4 KiB, 256 KiB of anything else, and
// 4,000 jids of jobs that wait for others.
func (c *Client) Jobs(ctx context.Context, jids ...string) ([]*Job, error) {
	if len(jids) == 0 {
		return nil, nil
	}
	if err := checkNames("multiget", "jid", jids); err != nil {
		return nil, err
	}
	var jobs []*Job
	for chunk := range slices.Chunk(jids, readAtOnce) {
		for len(chunk) > 0 {
			reply, err := c.run(ctx, "multiget", "", anys([]any{withDue}, chunk...)...)
			if err != nil {
				return nil, err
			}
			some, rest, err := c.decodeJobs("multiget", reply)
			if err != nil {
				return nil, err
			}
			if err := c.readRelations(ctx, some...); err != nil {
				return nil, err
			}
			jobs = append(jobs, some...)
			if chunk, err = restOf("multiget", rest); err != nil {
				return nil, err
			}
		}
	}
	return jobs, nil
}

// restOf returns the jids of the jobs for which a reply had no room.
func restOf(op, rest string) ([]string, error) {
	if rest == "" {
		return nil, nil
	}
	jids, err := decode[wire.List[wire.Raw]](op, rest)
	return wire.Strings(jids), err
}

// maxTogether is how many jobs a call changes together, all of them or none.
const maxTogether = 500

// Cancel deletes jobs, whatever their state; the workers that are running them are notified.
// Completed jobs and unknown jids are ignored. No jid at all, or more than 500, is [ErrInvalid]: for
// any number, use [Bulk.Cancel]. A job that others depend on can only be canceled together with
// them: otherwise the error is [ErrHasDependents] and nothing is changed. If there are more than
// 20,000 dependencies among several jobs, it is [ErrInvalid]: cancel the dependents first.
//
// A script cancels at most 250 jobs, fewer failed ones if it has to look for them in long groups,
// and takes at most 1,000 dependencies from jobs; then Cancel runs it again. If that fails, because
// the connection breaks or a job has come that depends on one of the others, those before are
// canceled. None of the others waits for one of them, but one that waited for more than 1,000 jobs
// may wait for fewer, and for ever: cancel it again.
func (c *Client) Cancel(ctx context.Context, jids ...string) error {
	const op = "cancel"
	jids = unique(jids)
	if len(jids) > maxTogether {
		return invalid(op, "", "%d jobs are more than %d: use Bulk.Cancel", len(jids), maxTogether)
	}
	if err := checkNames(op, "jid", jids); err != nil {
		return err
	}
	if len(jids) == 1 {
		reply, err := c.run(ctx, op, jids[0], jids[0])
		if err != nil || len(items(reply)) == 1 {
			return err
		}
		// The job waits for too many others to be canceled by one script, which has left it.
	}
	err := c.runRests(ctx, &BulkResult{}, "change", jids, op, "all")
	var own *Error
	if errors.As(err, &own) {
		own.Op = op
	}
	return err
}

// Timeout takes running jobs from their workers at once; they are the next to be popped. If one of
// them is not running, the error is [ErrNotRunning] or [ErrNotFound] and nothing is changed. No jid
// at all, or more than 500, is [ErrInvalid].
func (c *Client) Timeout(ctx context.Context, jids ...string) error {
	const op = "timeout"
	if err := checkNames(op, "jid", jids); err != nil {
		return err
	}
	if len(jids) > maxTogether {
		return invalid(op, "", "%d jobs are more than %d", len(jids), maxTogether)
	}
	jid := ""
	if len(jids) == 1 {
		jid = jids[0]
	}
	_, err := c.run(ctx, op, jid, anys(nil, jids...)...)
	return err
}

// WorkerCounts holds the number of jobs that a worker has.
type WorkerCounts struct {
	Name    string `json:"name"`
	Jobs    int    `json:"jobs"`    // whose locks last
	Stalled int    `json:"stalled"` // whose locks have ended

	// Info is what the worker says of itself. It is nil for one that says nothing, such as one of
	// another language, a client that pops, or a [Worker] that has died more than 150 s ago.
	Info *WorkerInfo `json:"info,omitempty"`
}

// WorkerJobs are the jids of the jobs that a worker holds.
type WorkerJobs struct {
	Jobs    []string `json:"jobs"`    // whose locks last
	Stalled []string `json:"stalled"` // whose locks have ended
}

// Workers returns the workers seen lately, the latest first. It reads 500 workers in a step. A job
// that [Job.Timeout] took from a worker is counted until that worker takes another one or stops.
//
// A [Worker] says what it is when it starts, when it is paused, resumed or stopped, and once a
// minute; that is the Info. One that has died loses it after 150 s, and leaves the list after
// [ConfigMaxWorkerAge].
func (c *Client) Workers(ctx context.Context) ([]WorkerCounts, error) {
	var all []WorkerCounts // the latest last; one that was seen meanwhile twice
	known := map[string]bool{}
	for cursor := ""; ; {
		part, next, err := c.workersFrom(ctx, cursor)
		if err != nil {
			return nil, err
		}
		before := len(known)
		for _, w := range part {
			known[w.Name] = true
		}
		all, cursor = append(all, part...), next
		if cursor == "" || len(known) == before {
			break
		}
	}
	workers := make([]WorkerCounts, 0, len(known))
	for _, w := range slices.Backward(all) {
		if known[w.Name] {
			known[w.Name] = false
			workers = append(workers, w)
		}
	}
	return workers, nil
}

// workersFrom returns some of the workers, the latest last, and where the next ones begin.
func (c *Client) workersFrom(
	ctx context.Context, cursor string,
) (workers []WorkerCounts, next string, err error) {
	reply, err := c.run(ctx, "workers", "", "", "", "", "registered", cursor)
	if err != nil {
		return nil, "", err
	}
	part, err := decode[struct {
		Cursor  wire.Text `json:"cursor"`
		Workers wire.List[struct {
			Name       wire.Text   `json:"name"`
			Jobs       wire.Number `json:"jobs"`
			Stalled    wire.Number `json:"stalled"`
			Registered wire.Text   `json:"registered"`
		}] `json:"workers"`
	}]("workers", reply)
	if err != nil {
		return nil, "", err
	}
	for _, r := range part.Workers {
		workers = append(workers, WorkerCounts{
			Name: string(r.Name), Jobs: r.Jobs.Int(), Stalled: r.Stalled.Int(),
			Info: parseWorkerInfo(string(r.Registered)),
		})
	}
	return workers, string(part.Cursor), nil
}

// WorkerJobs returns the jobs that a worker holds, those whose locks end last first, or none if there
// is no such worker. It reads 500 jobs in a step. A job that [Job.Timeout] took from it is not among
// them.
func (c *Client) WorkerJobs(ctx context.Context, name string) (WorkerJobs, error) {
	if err := checkName("workers", "worker name", name); err != nil {
		return WorkerJobs{}, err
	}
	var all []heldJob // the last first; one that was renewed meanwhile twice
	for cursor := ""; ; {
		part, next, err := c.workerJobsFrom(ctx, name, cursor)
		if err != nil {
			return WorkerJobs{}, err
		}
		all, cursor = append(all, part...), next
		if cursor == "" {
			break
		}
	}
	held, known := WorkerJobs{Jobs: []string{}, Stalled: []string{}}, map[string]bool{}
	for _, job := range slices.Backward(all) {
		switch {
		case known[job.jid]:
		case job.isStalled:
			held.Stalled = append(held.Stalled, job.jid)
		default:
			held.Jobs = append(held.Jobs, job.jid)
		}
		known[job.jid] = true
	}
	return held, nil
}

// A heldJob is a job of a worker.
type heldJob struct {
	jid       string
	isStalled bool
}

// workerJobsFrom returns some of the jobs of a worker, those whose locks end last at the end, and
// where the next ones begin.
func (c *Client) workerJobsFrom(
	ctx context.Context, name, cursor string,
) (jobs []heldJob, next string, err error) {
	reply, err := c.run(ctx, "workers", "", name, "held", cursor)
	if err != nil {
		return nil, "", err
	}
	part, err := decode[struct {
		Cursor  wire.Text            `json:"cursor"`
		Jobs    wire.List[wire.Text] `json:"jobs"`
		Stalled wire.List[wire.Text] `json:"stalled"`
	}]("workers", reply)
	for _, jid := range part.Stalled {
		jobs = append(jobs, heldJob{string(jid), true})
	}
	for _, jid := range part.Jobs {
		jobs = append(jobs, heldJob{string(jid), false})
	}
	return jobs, string(part.Cursor), err
}

// Deregister removes workers from the list of known workers, 500 in a step. They keep their locks,
// and a [Worker] that runs is listed again within a minute. No name at all is [ErrInvalid].
func (c *Client) Deregister(ctx context.Context, workers ...string) error {
	if err := checkNames("worker.deregister", "worker name", workers); err != nil {
		return err
	}
	for some := range slices.Chunk(workers, deregisteredAtOnce) {
		if _, err := c.run(ctx, "worker.deregister", "", anys(nil, some...)...); err != nil {
			return err
		}
	}
	return nil
}

// deregisteredAtOnce is how many workers a script deregisters.
const deregisteredAtOnce = 500
