package actions

import (
	"cmp"
	"context"
	"iter"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
	"github.com/qless/qless-go/internal/units"
	"github.com/qless/qless-go/web/internal/find"
)

// A Target is the set of jobs for an action.
type Target struct {
	What string // a description of the jobs
	Name string // the name for the user to type if the jobs are many, or ""

	space *Space
	jids  []string    // the jobs picked on a page
	lists []find.List // or the lists with the jobs
	query *find.Query // or a query of all lists
	batch string      // or the batch with the jobs as failed members
	holds func(*qless.Job) bool
}

// A Count is the number of jobs of a target.
type Count struct {
	Jobs     int     `json:"jobs"`
	IsMore   bool    `json:"is_more,omitempty"` // more may exist
	Examined int     `json:"examined"`          // the number of jobs read
	Total    int     `json:"total"`             // the number of all jobs in the lists
	Sample   []Named `json:"sample,omitempty"`  // some of the jobs
}

// A Named is a job with its names.
type Named struct {
	JID   string `json:"jid"`
	Klass string `json:"klass"`
}

func (c *Count) addSample(jobs []inspect.Row) {
	for _, job := range jobs[:min(len(jobs), sampleSize)] {
		c.Sample = append(c.Sample, Named{job.JID, job.Klass})
	}
}

// The maximum numbers of jobs counted one by one, and of jobs named.
const (
	maxCounted = 20_000
	sampleSize = 10
)

// ScopeFields are the inputs of a scope besides its kind.
var ScopeFields = []string{
	"queue", "list", "group", "worker", "klass", "tag", "jid", "data", "q", "state", "large",
	"since", "until", "batch",
}

// targetOf returns the jobs selected by a form.
func (s *Space) targetOf(f *Form) (*Target, error) {
	switch kind := f.Get("scope"); kind {
	case "":
		return s.picked(f)
	case "found":
		return s.found(f)
	case "batch":
		return s.members(f)
	default:
		return s.scoped(f, kind)
	}
}

// picked returns the jobs picked on a page.
func (s *Space) picked(f *Form) (*Target, error) {
	states := map[string]qless.State{}
	t := &Target{space: s, holds: func(job *qless.Job) bool { return states[job.JID] == job.State }}
	for _, value := range f.Values["job"] {
		state, jid, err := picked(value)
		if err != nil {
			return nil, err
		}
		if _, isThere := states[jid]; !isThere {
			t.jids = append(t.jids, jid)
		}
		states[jid] = state
	}
	if len(t.jids) == 0 {
		return nil, invalid("no job is selected")
	}
	return t, nil
}

// found returns all jobs found by a query, in any list.
func (s *Space) found(f *Form) (*Target, error) {
	period, err := periodOf(f)
	if err != nil {
		return nil, err
	}
	q, err := find.NewQuery(f.Get, period)
	if err != nil {
		return nil, err
	}
	if !q.IsAsked() {
		return nil, invalid("the scope found needs a q, a state or a queue")
	}
	return &Target{
		space: s, What: q.String(), Name: cmp.Or(q.Words, q.Queue), query: &q, holds: q.Holds,
	}, q.Check(s.HidesData)
}

// members returns the failed members of a batch.
func (s *Space) members(f *Form) (*Target, error) {
	jid := f.Get("batch")
	if jid == "" {
		return nil, invalid("the scope batch needs a batch")
	}
	return &Target{
		space: s, What: "failed members of the batch " + jid, Name: jid, batch: jid,
		holds: func(job *qless.Job) bool { return job.State == qless.StateFailed },
	}, nil
}

// openBatch lists the pending members and the reported failed members of the batch.
func (t *Target) openBatch(ctx context.Context) error {
	batch := t.space.Client.Batch(t.batch)
	status, err := batch.Status(ctx)
	if err != nil {
		return err
	}
	var jids []string
	for _, member := range status.Failed {
		jids = append(jids, member.JID)
	}
	for jid, err := range batch.Pending(ctx) {
		if err != nil {
			return err
		}
		jids = append(jids, jid)
	}
	t.lists = []find.List{{
		Jobs:    t.space.JIDs(jids...),
		Matches: func(job *inspect.Row) bool { return job.State == qless.StateFailed },
	}}
	return nil
}

// periodOf returns the period of a form.
func periodOf(f *Form) (units.Period, error) {
	period, err := units.ParsePeriod(f.Get("since"), f.Get("until"), time.Now())
	if err != nil {
		return period, invalid("%v", err)
	}
	return period, nil
}

// A scope stands for all jobs of a list.
type scope struct {
	field  string // the field with the name of the list, or empty
	what   string // a description; % stands for the name
	states []qless.State
	jobs   func(in *inspect.Inspector, name string) inspect.Selection
	holds  func(job *qless.Job, name string) bool // a condition besides the state, or nil
}

var scopes = map[string]scope{
	"failed": {
		"group", "jobs that failed in the group %", []qless.State{qless.StateFailed},
		(*inspect.Inspector).Failed,
		func(job *qless.Job, name string) bool { return job.Failure != nil && job.Failure.Group == name },
	},
	"tagged": {
		"tag", "jobs with the tag %", nil, (*inspect.Inspector).Tagged,
		func(job *qless.Job, name string) bool { return slices.Contains(job.Tags, name) },
	},
	"worker": {
		"worker", "jobs that the worker % runs", []qless.State{qless.StateRunning},
		(*inspect.Inspector).HeldBy,
		func(job *qless.Job, name string) bool { return job.Worker == name },
	},
	"completed": {
		"", "completed jobs", []qless.State{qless.StateComplete},
		func(in *inspect.Inspector, _ string) inspect.Selection { return in.Completed() }, nil,
	},
	"tracked": {
		"", "tracked jobs", nil,
		func(in *inspect.Inspector, _ string) inspect.Selection { return in.Tracked() },
		func(job *qless.Job, _ string) bool { return job.Tracked },
	},
}

// scopeOf returns the scope of a kind. list is a queue's list.
func scopeOf(kind, list string) (scope, error) {
	if kind != "queue" {
		found, isKnown := scopes[kind]
		if !isKnown {
			return scope{}, invalid("there is no scope %q", kind)
		}
		return found, nil
	}
	if !slices.Contains(inspect.JobLists(), inspect.List(list)) {
		return scope{}, invalid("the jobs of the list %q can't be changed all at once", list)
	}
	return scope{
		"queue", list + " jobs of the queue %", find.StatesOf(list),
		func(in *inspect.Inspector, name string) inspect.Selection {
			return in.Queue(name, inspect.List(list))
		},
		func(job *qless.Job, name string) bool {
			isStalled := list != string(inspect.Stalled) || job.Expires.Before(time.Now())
			return job.Queue == name && isStalled
		},
	}, nil
}

// StatesOf returns the states of the jobs of a scope, or nil for any.
func StatesOf(kind, list string) []qless.State {
	found, _ := scopeOf(kind, list)
	return found.states
}

// scoped returns all jobs of a list under a filter.
func (s *Space) scoped(f *Form, kind string) (*Target, error) {
	c, err := scopeOf(kind, f.Get("list"))
	if err != nil {
		return nil, err
	}
	period, err := periodOf(f)
	if err != nil {
		return nil, err
	}
	name := ""
	if c.field != "" {
		if name = f.Get(c.field); name == "" {
			return nil, invalid("the scope %s needs a %s", kind, c.field)
		}
	}
	q, err := find.NewQuery(func(field string) string {
		if field == c.field {
			return ""
		}
		return f.Get(field)
	}, period)
	if err == nil {
		err = q.Check(s.HidesData)
	}
	if err != nil {
		return nil, err
	}
	what := strings.Replace(c.what, "%", name, 1)
	if q.Words != "" {
		what += " that match " + q.Words
	}
	return &Target{
		What: what + q.Conditions(), Name: name, space: s,
		lists: []find.List{q.In(find.List{
			Jobs: c.jobs(s.Inspector, name), IsLatestFirst: kind == "failed" || kind == "completed",
		})},
		holds: func(job *qless.Job) bool {
			return q.Holds(job) && (c.states == nil || slices.Contains(c.states, job.State)) &&
				(c.holds == nil || c.holds(job, name))
		},
	}, nil
}

// isOne reports whether the target is a single job.
func (t *Target) isOne() bool { return len(t.jids) == 1 }

// open looks up the lists with the jobs.
func (t *Target) open(ctx context.Context) error {
	if t.batch != "" && t.lists == nil {
		return t.openBatch(ctx)
	}
	if t.query == nil || t.lists != nil {
		return nil
	}
	seen, err := t.space.Overview(ctx, inspect.OverviewQuery{})
	if err == nil {
		t.lists = t.query.Lists(t.space.Inspector, &seen)
	}
	return err
}

// count counts the jobs. It reads only the beginning of a long list.
func (t *Target) count(ctx context.Context) (c Count, err error) {
	if err := t.open(ctx); err != nil {
		return c, err
	}
	isAll := len(t.lists) == 1 && t.query == nil && t.lists[0].Filter == inspect.Filter{} &&
		t.lists[0].Period == units.Period{} && t.lists[0].Matches == nil
	if jobs := t.space.JIDs(t.jids...); t.jids != nil || isAll {
		if isAll {
			jobs = t.lists[0].Jobs
		}
		page, err := jobs.List(ctx, inspect.Range{Limit: sampleSize})
		c.Jobs, c.Examined, c.Total = page.Total, page.Total, page.Total
		c.addSample(page.Items)
		return c, err
	}
	if c.Total, err = t.total(ctx); err != nil {
		return c, err
	}
	bounds := find.Bounds{Items: math.MaxInt32, Lists: math.MaxInt32, Jobs: maxCounted}
	found := find.New(bounds, t.space.Redact)
	err = found.Run(ctx, t.lists, "")
	c.addSample(found.Items)
	c.Jobs, c.Examined, c.IsMore = len(found.Items), found.Sum(), found.Next != ""
	return c, err
}

// total returns the number of jobs of all lists.
func (t *Target) total(ctx context.Context) (int, error) {
	if t.query == nil {
		return t.lists[0].Jobs.Count(ctx)
	}
	n, hasCompleted := find.Total(t.lists)
	if !hasCompleted {
		return n, nil
	}
	completed, err := t.space.Completed().Count(ctx)
	return n + completed, err
}

// jobs iterates over the jids. A jid may occur twice.
func (t *Target) jobs(ctx context.Context) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for _, jid := range t.jids {
			if !yield(jid, nil) {
				return
			}
		}
		if err := t.open(ctx); err != nil {
			yield("", err)
			return
		}
		for _, l := range t.lists {
			for row, err := range l.Selection().Each(ctx) {
				if err != nil {
					yield("", err)
					return
				}
				isWanted, isLast := t.space.wants(&l, row)
				if isWanted && !yield(row.JID, nil) {
					return
				}
				if isLast {
					break
				}
			}
		}
	}
}

// wants is [find.List.Wants] for the visible parts of a row.
func (s *Space) wants(l *find.List, row inspect.Row) (isWanted, isLast bool) {
	one := []inspect.Row{row}
	if l.Matches != nil {
		s.Redact(one)
	}
	return l.Wants(&one[0])
}
