package web

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/qless/qless-go"
)

// A foundScope is all jobs that match what somebody looks for, in whatever lists they are.
type foundScope struct {
	site *site
	data findData
	seen *qless.Overview // the lists, as they were when the first job was looked for
}

// foundOf reads what a form looks for.
func (s *site) foundOf(q *request) (target, error) {
	form := q.form
	c := &foundScope{site: s, data: findData{
		Query: form.Get("q"), In: form.Get("in"), State: form.Get("state"), Queue: form.Get("queue"),
		most: scopePage, lists: maxLegs, jobs: maxLooked,
	}}
	if !c.data.IsAsked() {
		return nil, invalid("the scope found needs a q, a state or a queue")
	}
	return c, s.checkFind(&c.data)
}

func (c *foundScope) isOne() bool   { return false }
func (c *foundScope) typed() string { return cmp.Or(c.data.Query, c.data.Queue) }

// String says which jobs it has.
func (c *foundScope) String() string {
	var b strings.Builder
	b.WriteString("jobs")
	if c.data.Query != "" {
		where := cmp.Or(c.data.In, "klass, tag or jid")
		fmt.Fprintf(&b, " with %q as %s", c.data.Query, where)
	}
	if c.data.State != "" {
		fmt.Fprintf(&b, ", %s", c.data.State)
	}
	if c.data.Queue != "" {
		fmt.Fprintf(&b, ", of the queue %s", c.data.Queue)
	}
	return b.String()
}

func (c *foundScope) find(
	ctx context.Context, after qless.Cursor,
) (jids []string, looked int, next qless.Cursor, err error) {
	if err := c.look(ctx); err != nil {
		return nil, 0, "", err
	}
	part := c.data
	if err := c.site.readLegs(ctx, &part, c.seen, string(after)); err != nil {
		return nil, 0, "", err
	}
	for i := range part.Items {
		jids = append(jids, part.Items[i].JID)
	}
	for _, leg := range part.Legs {
		looked += leg.Looked
	}
	return jids, looked, qless.Cursor(part.Next), nil
}

// look reads which lists there are.
func (c *foundScope) look(ctx context.Context) error {
	if c.seen != nil {
		return nil
	}
	seen, err := c.site.Client.Overview(ctx, qless.OverviewQuery{})
	if err == nil {
		c.seen = &seen
	}
	return err
}

// total is how many jobs all lists have.
func (c *foundScope) total(ctx context.Context) (n int, isAll bool, err error) {
	if err := c.look(ctx); err != nil {
		return 0, false, err
	}
	var last place
	for i, leg := range c.site.legsOf(&c.data, c.seen) {
		list := leg.place
		list.pass = 0
		if i == 0 || list != last {
			n += leg.total
		}
		last = list
	}
	if len(c.site.completeLegs(&c.data)) > 0 && c.data.In != "tag" {
		page, err := c.site.Client.ListCompleted(ctx, qless.Range{Limit: 1})
		return n + page.Total, false, err
	}
	return n, false, err
}

// holds reports whether a job still is what was looked for.
func (c *foundScope) holds(job *qless.Job) bool {
	if c.data.Queue != "" && job.Queue != c.data.Queue || !c.holdsState(job) {
		return false
	}
	query := c.data.Query
	switch c.data.In {
	case "klass":
		return job.Klass == query
	case "tag":
		return slices.Contains(job.Tags, query)
	case "jid":
		return strings.Contains(job.JID, query)
	case "data":
		return strings.Contains(string(job.Data), query)
	case "failure":
		return job.Failure != nil &&
			(hasText(job.Failure.Group, query) || hasText(job.Failure.Message, query))
	}
	return job.Klass == query || slices.Contains(job.Tags, query) || strings.Contains(job.JID, query)
}

func (c *foundScope) holdsState(job *qless.Job) bool {
	if c.data.State == "" {
		return true
	}
	if c.data.State == string(qless.ListStalled) && job.Expires.After(time.Now()) {
		return false
	}
	return slices.Contains(statesOf(c.data.State), job.State)
}

// statesOf returns the states of the jobs in lists of a name that Find offers.
func statesOf(list string) []qless.State {
	if states := (&scope{list: qless.List(list)}).statesOfList(); states != nil {
		return states
	}
	return []qless.State{qless.State(list)}
}

// FindScope returns the jobs that match what somebody looks for.
func (f *frame) FindScope() scopeForm {
	data := f.data.(*findData)
	form := f.Scope("found", "q", data.Query, "in", data.In, "state", data.State, "queue", data.Queue)
	if data.State != "" {
		form.states = statesOf(data.State)
	}
	return form
}
