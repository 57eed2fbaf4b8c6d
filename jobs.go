package qless

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/qless/qless-go/internal/wire"
)

// Job returns the job with this jid, or [ErrNotFound].
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

// withDue asks for the due times of jobs, which the JSON for other clients lacks.
const withDue = "x:due"

// readAtOnce is the maximum number of jobs for a script to read by their jids.
const readAtOnce = 150

// Jobs returns the existing jobs with these jids, in order.
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
			reply, err := c.run(ctx, "multiget", "", wire.Anys([]any{withDue}, chunk...)...)
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

// deferredOf returns the jids of the jobs without room in a reply.
func deferredOf(op, rest string) ([]string, error) {
	if rest == "" {
		return nil, nil
	}
	jids, err := decode[wire.List[wire.Raw]](op, rest)
	return wire.Strings(jids), err
}

// changeBatchSize is the maximum number of jobs for a call to change together, all or none.
const changeBatchSize = 500

// Cancel deletes up to 500 jobs, whatever their state, and notifies the workers that run them.
// Completed jobs and unknown jids are ignored. A job that others depend on can only be canceled
// together with them; otherwise nothing is changed, and the error is [ErrHasDependents]. More than
// 20,000 dependencies among several jobs are [ErrInvalid]: cancel the dependents first. Package
// inspect cancels any number.
//
// After an error, cancel all jobs again: some may be gone, and one that waited for many others may
// wait for fewer, forever.
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
		// The job waits for too many others to be canceled by one script, which left it alone.
	}
	return c.cancelAll(ctx, jids)
}

// cancelAll cancels jobs together, in several steps if there are many.
func (c *Client) cancelAll(ctx context.Context, jids []string) error {
	for len(jids) > 0 {
		reply, err := c.run(ctx, "cancel.all", "", wire.Anys(nil, jids...)...)
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

// The relations of a job, as named by the command relations and in its JSON.
const (
	relationDependents   = "dependents"
	relationDependencies = "dependencies"
)

// readDependents reads the dependents and dependencies that replies left out because there were
// thousands of them.
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

// related returns the jobs that wait for a job, or that it waits for, reading some thousands at a
// time.
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

// Reschedule makes a waiting or scheduled job due after d. Data, history and retries stay
// unchanged. With 0, the job can be popped at once, after others of its priority. If the job is
// running, the error is [ErrRunning], and in other states [ErrNotScheduled]. A time after the job's
// [StartBy] or [TTL] is [ErrInvalid].
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
