package qless

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/qless/qless-go/internal/wire"
)

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
	text, _, large := wire.Parts(reply)
	r, err := decode[jobReply]("get", text)
	if err != nil {
		return nil, err
	}
	r.take(large)
	job := r.job(c)
	if err := c.readDependents(ctx, job); err != nil {
		return nil, err
	}
	return job, nil
}

// withDue asks for when jobs are due, which the JSON for other clients does not say.
const withDue = "x:due"

// readAtOnce is how many jobs a script reads by their jids: fewer if their data is large.
const readAtOnce = 150

// Jobs returns the jobs that exist, in the order of the jids. Without jids it returns none. A
// script reads at most 150 jobs, 2 MiB of data that is larger than 4 KiB, 256 KiB of anything else,
// and 4,000 jids of jobs that wait for others.
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
			if err := c.readDependents(ctx, some...); err != nil {
				return nil, err
			}
			jobs = append(jobs, some...)
			if chunk, err = deferredOf("multiget", rest); err != nil {
				return nil, err
			}
		}
	}
	return jobs, nil
}

// deferredOf returns the jids of the jobs for which a reply had no room.
func deferredOf(op, rest string) ([]string, error) {
	if rest == "" {
		return nil, nil
	}
	jids, err := decode[wire.List[wire.Raw]](op, rest)
	return wire.Strings(jids), err
}

// changeBatchSize is how many jobs a call changes together, all of them or none.
const changeBatchSize = 500

// Cancel deletes jobs, whatever their state; the workers that are running them are notified.
// Completed jobs and unknown jids are ignored. No jid at all, or more than 500, is [ErrInvalid]:
// package inspect cancels any number. A job that others depend on can only be canceled together
// with them: otherwise the error is [ErrHasDependents] and nothing is changed. If there are more
// than 20,000 dependencies among several jobs, it is [ErrInvalid]: cancel the dependents first.
//
// A script cancels at most 100 jobs, fewer failed ones if it has to look for them in long groups,
// and takes at most 1,000 dependencies from jobs; then Cancel runs it again. If that fails, because
// the connection breaks or a job has come that depends on one of the others, those before are
// canceled. None of the others waits for one of them, but one that waited for more than 1,000 jobs
// may wait for fewer, and for ever: cancel it again.
func (c *Client) Cancel(ctx context.Context, jids ...string) error {
	const op = "cancel"
	jids = wire.Distinct(jids)
	if len(jids) > changeBatchSize {
		return invalid(op, "", "%d jobs are more than %d: package inspect cancels any number",
			len(jids), changeBatchSize)
	}
	if err := checkNames(op, "jid", jids); err != nil {
		return err
	}
	if len(jids) == 1 {
		reply, err := c.run(ctx, op, jids[0], jids[0])
		if err != nil || len(wire.Items(reply)) == 1 {
			return err
		}
		// The job waits for too many others to be canceled by one script, which has left it.
	}
	return c.cancelAll(ctx, jids)
}

// cancelAll cancels jobs together, in several steps if they are many.
func (c *Client) cancelAll(ctx context.Context, jids []string) error {
	for len(jids) > 0 {
		reply, err := c.run(ctx, "cancel.all", "", anys(nil, jids...)...)
		if err != nil {
			var own *Error
			if errors.As(err, &own) {
				own.Op = "cancel"
			}
			return err
		}
		got, err := decode[struct {
			Rest wire.List[wire.Text] `json:"rest"`
		}]("cancel", reply)
		if err != nil {
			return err
		}
		jids = wire.Strings(got.Rest)
	}
	return nil
}

// The relations of a job, as the command relations calls them, and as its JSON does.
const (
	relationDependents   = "dependents"
	relationDependencies = "dependencies"
)

// readDependents reads what the replies with these jobs have left out, because it was too much for
// one: thousands of dependents or dependencies.
func (c *Client) readDependents(ctx context.Context, jobs ...*Job) error {
	for _, job := range jobs {
		for _, relation := range job.leftOut {
			jids, err := c.related(ctx, job.JID, relation)
			if err != nil {
				return err
			}
			switch relation {
			case relationDependents:
				job.Dependents = jids
			case relationDependencies:
				job.Dependencies = jids
			}
		}
		job.leftOut = nil
	}
	return nil
}

// related returns the jobs that wait for a job, or that it waits for, some thousand in a step.
func (c *Client) related(ctx context.Context, jid, relation string) ([]string, error) {
	const op = "relations"
	var all []string // some perhaps twice
	for cursor := "0"; ; {
		reply, err := c.run(ctx, op, jid, jid, relation, cursor)
		if err != nil {
			return nil, err
		}
		parts := wire.Items(reply)
		if len(parts) != 2 {
			return nil, unexpected(op, reply)
		}
		some, err := decodeStrings(op, parts[1])
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
		if cursor = wire.AsString(parts[0]); cursor == "0" {
			return wire.Distinct(all), nil
		}
	}
}

// Reschedule makes a waiting or scheduled job due in d from now. Its data, its history and its
// retries stay as they are. With 0 it can be popped at once, after others of its priority. Once the
// job is running, the error is [ErrRunning], and in other states [ErrNotScheduled]. A job whose
// [StartBy] or [TTL] would be over by then is [ErrInvalid].
func (j *Job) Reschedule(ctx context.Context, d time.Duration) error {
	const op = "reschedule"
	if err := j.usable(op); err != nil {
		return err
	}
	if d < 0 {
		return invalid(op, j.JID, "the time %v is negative", d)
	}
	reply, err := j.client.run(ctx, op, j.JID, j.JID, wire.FormatSeconds(d))
	if err != nil {
		return err
	}
	switch state, err := stateIn(op, j.JID, reply); {
	case err != nil || state == StateWaiting || state == StateScheduled:
		return err
	case state == StateRunning:
		return inState(op, j.JID, ErrRunning, state)
	default:
		return inState(op, j.JID, ErrNotScheduled, state)
	}
}
