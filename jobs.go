package qless

import (
	"context"
	"strconv"
	"strings"

	"github.com/qless/qless-go/internal/wire"
)

// A Page is a part of a longer list.
type Page struct {
	// Offset is how many items to leave out.
	Offset int

	// Count is how many items there may be. Defaults to 25.
	Count int
}

// args returns the offset and the count as the scripts take them.
func (p Page) args(op string) ([]any, error) {
	if p.Offset < 0 || p.Count < 0 {
		return nil, invalid(op, "", "the page %+v is negative", p)
	}
	if p.Count == 0 {
		p.Count = 25
	}
	return []any{strconv.Itoa(p.Offset), strconv.Itoa(p.Count)}, nil
}

// JIDs is a page of jids, and how many there are in all.
type JIDs struct {
	Total int
	JIDs  []string
}

// TrackedJobs are the jobs that are being watched.
type TrackedJobs struct {
	Jobs    []*Job
	Expired []string // jids whose jobs are gone
}

// Job returns a job; [ErrNotFound] when there is none. It is the qless command get.
func (c *Client) Job(ctx context.Context, jid string) (*Job, error) {
	if err := checkName("get", "jid", jid); err != nil {
		return nil, err
	}
	reply, err := c.run(ctx, "get", jid, jid)
	if err != nil {
		return nil, err
	}
	if reply == nil {
		return nil, &Error{Op: "get", Code: CodeNotFound, JID: jid, Message: "no such job"}
	}
	job, err := decode[jobReply]("get", reply)
	if err != nil {
		return nil, err
	}
	return job.job(c), nil
}

// Jobs returns those of the jobs that exist, in the order of the jids. It is the qless
// command multiget.
func (c *Client) Jobs(ctx context.Context, jids ...string) ([]*Job, error) {
	if len(jids) == 0 {
		return nil, nil
	}
	if err := checkNames("multiget", "jid", jids); err != nil {
		return nil, err
	}
	reply, err := c.run(ctx, "multiget", "", anys(nil, jids...)...)
	if err != nil {
		return nil, err
	}
	return c.decodeJobs("multiget", reply)
}

// Cancel deletes jobs, whatever their state; workers that have one are told. Completed jobs
// are left alone, and jids of no job are ignored. A job that others depend on can only be
// canceled together with them: else nothing is, and the error is [ErrHasDependents]. It is
// the qless command cancel.
func (c *Client) Cancel(ctx context.Context, jids ...string) error {
	return c.runOnJobs(ctx, "cancel", jids)
}

// Timeout takes running jobs from their workers at once; they are the next to be popped.
// When one of them does not run, nothing is changed, and the error is [ErrNotRunning] or
// [ErrNotFound]. It is the qless command timeout.
func (c *Client) Timeout(ctx context.Context, jids ...string) error {
	return c.runOnJobs(ctx, "timeout", jids)
}

func (c *Client) runOnJobs(ctx context.Context, op string, jids []string) error {
	if err := checkNames(op, "jid", jids); err != nil {
		return err
	}
	jid := ""
	if len(jids) == 1 {
		jid = jids[0]
	}
	_, err := c.run(ctx, op, jid, anys(nil, jids...)...)
	return err
}

// Completed returns the jids of completed jobs, the latest first. It is the qless command
// jobs complete.
func (c *Client) Completed(ctx context.Context, page Page) ([]string, error) {
	args, err := page.args("jobs")
	if err != nil {
		return nil, err
	}
	reply, err := c.run(ctx, "jobs", "", append([]any{"complete"}, args...)...)
	if err != nil {
		return nil, err
	}
	return decodeStrings("jobs", reply)
}

// Tracked returns the jobs that are being watched. It is the qless command track.
func (c *Client) Tracked(ctx context.Context) (TrackedJobs, error) {
	reply, err := c.run(ctx, "track", "")
	if err != nil {
		return TrackedJobs{}, err
	}
	told, err := decode[struct {
		Jobs    wire.List[jobReply]  `json:"jobs"`
		Expired wire.List[wire.Text] `json:"expired"`
	}]("track", reply)
	if err != nil {
		return TrackedJobs{}, err
	}
	tracked := TrackedJobs{Expired: wire.Strings(told.Expired)}
	for i := range told.Jobs {
		tracked.Jobs = append(tracked.Jobs, told.Jobs[i].job(c))
	}
	return tracked, nil
}

// Tagged returns the jids of the jobs that have a tag, the longest tagged first. It is the
// qless command tag get.
func (c *Client) Tagged(ctx context.Context, tag string, page Page) (JIDs, error) {
	if err := checkName("tag", "tag", tag); err != nil {
		return JIDs{}, err
	}
	return c.pageOfJIDs(ctx, "tag", page, "get", tag)
}

// Tags returns the tags that two or more jobs have, the most used first. It is the qless
// command tag top.
func (c *Client) Tags(ctx context.Context, page Page) ([]string, error) {
	args, err := page.args("tag")
	if err != nil {
		return nil, err
	}
	reply, err := c.run(ctx, "tag", "", append([]any{"top"}, args...)...)
	if err != nil {
		return nil, err
	}
	tags, err := decode[wire.List[wire.Text]]("tag", reply)
	return wire.Strings(tags), err
}

// Failed returns how many failed jobs each failure group has. It is the qless command
// failed.
func (c *Client) Failed(ctx context.Context) (map[string]int, error) {
	reply, err := c.run(ctx, "failed", "")
	if err != nil {
		return nil, err
	}
	if raw, ok := reply.(string); ok && strings.HasPrefix(raw, "[") {
		return map[string]int{}, nil // an empty object, as Lua sees it
	}
	counts, err := decode[map[string]wire.Number]("failed", reply)
	if err != nil {
		return nil, err
	}
	groups := make(map[string]int, len(counts))
	for group, count := range counts {
		groups[group] = count.Int()
	}
	return groups, nil
}

// FailedIn returns the jids of the jobs of a failure group, the latest failure first. It is
// the qless command failed.
func (c *Client) FailedIn(ctx context.Context, group string, page Page) (JIDs, error) {
	if err := checkName("failed", "group", group); err != nil {
		return JIDs{}, err
	}
	return c.pageOfJIDs(ctx, "failed", page, group)
}

// pageOfJIDs runs a command whose last arguments are a page and whose reply is one.
func (c *Client) pageOfJIDs(ctx context.Context, op string, page Page, first ...string) (JIDs, error) {
	args, err := page.args(op)
	if err != nil {
		return JIDs{}, err
	}
	reply, err := c.run(ctx, op, "", append(anys(nil, first...), args...)...)
	if err != nil {
		return JIDs{}, err
	}
	told, err := decode[struct {
		Total wire.Number          `json:"total"`
		Jobs  wire.List[wire.Text] `json:"jobs"`
	}](op, reply)
	return JIDs{Total: told.Total.Int(), JIDs: wire.Strings(told.Jobs)}, err
}
