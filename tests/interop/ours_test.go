//go:build interop

package interop

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/events"
	"github.com/qless/qless-go/inspect"
	"github.com/qless/qless-go/tests/repairs"
)

// ours is the side that uses this package.
type ours struct {
	rdb        *redis.Client
	client     *qless.Client
	held       map[string]*qless.Job
	heard      <-chan events.Event
	stopEvents func() // ends the events
}

func (o *ours) String() string { return "ours" }

// do runs an operation with this package.
func (o *ours) do(ctx context.Context, op string, a args) (any, error) {
	reply, err := o.run(ctx, op, a)
	if err != nil {
		return nil, err
	}
	return plain(reply), nil
}

func (o *ours) run(ctx context.Context, op string, a args) (any, error) {
	if jid := a.text("jid"); jid != "" {
		if run, ok := onJob[op]; ok {
			job, err := o.jobOf(ctx, jid)
			if err != nil {
				return nil, err
			}
			return run(ctx, job, a)
		}
	}
	queue := o.queueOf(a)
	switch op {
	case "timeout":
		return nil, repairs.TimeOut(ctx, o.client, a.text("jid"))
	case "begin":
		return nil, o.begin(a.text("worker"))
	case "listen":
		return nil, o.listen(ctx)
	case "hear":
		return o.hear(ctx, a.text("event"), a.text("jid"))
	case "put":
		return queue.Put(ctx, klassOf(a), a.json("data"), putOptions(a)...)
	case "pop":
		jobs, err := queue.Pop(ctx, a.number("count", 1))
		for _, job := range jobs {
			o.held[job.JID] = job
		}
		return jobReplies(jobs), err
	case "peek":
		jobs, err := queue.Peek(ctx, a.number("count", 1))
		return jobReplies(jobs), err
	case "job":
		job, err := o.client.Job(ctx, a.text("jid"))
		if err != nil {
			return nil, noneIfMissing(err)
		}
		return jobReply(job), nil
	case "unfail":
		return repairs.UnfailInto(ctx, o.client, queue.Name(), a.text("group"), a.number("count", 25))
	case "jobs":
		return o.client.Do(ctx, "jobs", a.text("state"), queue.Name())
	case "counts":
		counts, err := queue.Counts(ctx)
		return lowered(counts), err
	case "stats":
		s, err := queue.Stats(ctx, time.Now())
		return map[string]int{
			"failed": s.Failed, "failures": s.Failures, "retries": s.Retries, "wait": s.Wait.Count, "run": s.Run.Count,
		}, err
	case "pause":
		return nil, queue.Pause(ctx)
	case "unpause":
		return nil, queue.Resume(ctx)
	case "recur":
		return queue.Recur(ctx, klassOf(a), a.json("data"), a.seconds("interval"), recurOptions(a)...)
	}
	return o.list(ctx, op, a)
}

// list runs the operations that concern no particular queue or job.
func (o *ours) list(ctx context.Context, op string, a args) (any, error) {
	switch op {
	case "tagged":
		found, err := inspect.New(o.client).Tagged(a.text("tag")).JIDs(ctx, inspect.Range{})
		return jobsOf(found), err
	case "tags":
		return items(inspect.New(o.client).Tags(ctx, inspect.Range{}))
	case "tracked":
		return o.tracked(ctx)
	case "failed":
		return inspect.New(o.client).FailureGroups(ctx)
	case "failed_in":
		found, err := inspect.New(o.client).Failed(a.text("group")).JIDs(ctx, inspect.Range{})
		return jobsOf(found), err
	case "completed":
		return items(inspect.New(o.client).Completed().JIDs(ctx, inspect.Range{}))
	case "queues":
		all, err := o.client.Queues(ctx)
		var names []string
		for _, counts := range all {
			names = append(names, counts.Name)
		}
		slices.Sort(names)
		return none(names, err)
	case "workers":
		all, err := inspect.New(o.client).Workers(ctx)
		slices.SortFunc(all, func(a, b inspect.WorkerStatus) int { return strings.Compare(a.Name, b.Name) })
		workers := []any{}
		for _, counts := range all {
			workers = append(workers, lowered(counts))
		}
		return workers, err
	case "worker":
		reply, err := o.client.Do(ctx, "workers", a.text("name"))
		text, _ := reply.(string)
		return json.RawMessage(text), err
	case "recurring":
		r, err := o.client.RecurringJob(ctx, a.text("jid"))
		if err != nil {
			return nil, noneIfMissing(err)
		}
		return map[string]any{
			"jid": r.JID, "klass": r.Klass, "queue": r.Queue, "data": r.Data, "priority": r.Priority,
			"retries": r.Retries, "interval": r.Interval.Seconds(), "count": r.Count, "tags": append([]string{}, r.Tags...),
		}, nil
	case "recur_change":
		return nil, o.recurChange(ctx, a)
	case "unrecur":
		r, err := o.client.RecurringJob(ctx, a.text("jid"))
		if err != nil {
			return nil, err
		}
		return nil, r.Cancel(ctx)
	case "set":
		return o.client.Do(ctx, "config.set", a.text("option"), fmt.Sprint(a["value"]))
	case "unset":
		return nil, o.client.Config().Unset(ctx, a.text("option"))
	case "get":
		return o.client.Config().Get(ctx, a.text("option"))
	}
	return nil, fmt.Errorf("there is no operation %q", op)
}

// onJob has the operations on a popped or looked-up job.
var onJob = map[string]func(ctx context.Context, job *qless.Job, a args) (any, error){
	"complete": func(ctx context.Context, job *qless.Job, a args) (any, error) {
		changeData(job, a)
		var err error
		if next := a.text("next"); next == "" {
			err = job.Complete(ctx)
		} else {
			err = job.Next(ctx, next, qless.Delay(a.seconds("delay")), qless.DependsOn(a.texts("depends")))
		}
		if err == nil {
			err = job.Refresh(ctx)
		}
		return job.State, err
	},
	"fail": func(ctx context.Context, job *qless.Job, a args) (any, error) {
		changeData(job, a)
		return job.JID, job.Fail(ctx, a.text("group"), a.text("message"))
	},
	"heartbeat": func(ctx context.Context, job *qless.Job, a args) (any, error) {
		changeData(job, a)
		expires, err := job.Heartbeat(ctx)
		return expires.After(time.Now()), err
	},
	"retry": func(ctx context.Context, job *qless.Job, a args) (any, error) {
		return job.Retry(ctx, a.seconds("delay"), a.text("group"), a.text("message"))
	},
	"move": func(ctx context.Context, job *qless.Job, a args) (any, error) {
		return job.JID, job.Move(ctx, a.text("queue"))
	},
	"cancel": func(ctx context.Context, job *qless.Job, a args) (any, error) { return nil, job.Cancel(ctx) },
	"prioritize": func(ctx context.Context, job *qless.Job, a args) (any, error) {
		return nil, job.SetPriority(ctx, a.number("priority", 0))
	},
	"depend": func(ctx context.Context, job *qless.Job, a args) (any, error) {
		return nil, job.Depend(ctx, a.texts("on")...)
	},
	"undepend": func(ctx context.Context, job *qless.Job, a args) (any, error) {
		return nil, job.Undepend(ctx, a.texts("on")...)
	},
	"tag": func(ctx context.Context, job *qless.Job, a args) (any, error) {
		return tagsAfter(ctx, job, job.Tag(ctx, a.texts("tags")...))
	},
	"untag": func(ctx context.Context, job *qless.Job, a args) (any, error) {
		return tagsAfter(ctx, job, job.Untag(ctx, a.texts("tags")...))
	},
	"track":   func(ctx context.Context, job *qless.Job, a args) (any, error) { return nil, job.Track(ctx) },
	"untrack": func(ctx context.Context, job *qless.Job, a args) (any, error) { return nil, job.Untrack(ctx) },
}

// tagsAfter returns the tags of a job changed by a call.
func tagsAfter(ctx context.Context, job *qless.Job, err error) (any, error) {
	if err == nil {
		err = job.Refresh(ctx)
	}
	return append([]string{}, job.Tags...), err
}

// begin begins a scenario, with a named worker without jobs.
func (o *ours) begin(worker string) error {
	if o.stopEvents != nil {
		o.stopEvents()
		o.stopEvents = nil
	}
	o.held = map[string]*qless.Job{}
	var err error
	o.client, err = qless.New(o.rdb, &qless.ClientConfig{WorkerName: worker})
	return err
}

func (o *ours) listen(ctx context.Context) error {
	ctx, o.stopEvents = context.WithCancel(ctx)
	var err error
	o.heard, err = events.Listen(ctx, o.client)
	return err
}

// ourKinds maps the words for kinds of events that differ from ours.
var ourKinds = map[string]events.Kind{
	"track": events.Tracked, "untrack": events.Untracked,
}

// hear waits for an event, and drops earlier events.
func (o *ours) hear(ctx context.Context, word, jid string) (any, error) {
	kind := cmp.Or(ourKinds[word], events.Kind(word))
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		select {
		case event := <-o.heard:
			if event.Kind == kind && event.JID == jid {
				return lowered(event), nil
			}
		case <-ctx.Done():
			return nil, fmt.Errorf("no %s of %s", kind, jid)
		}
	}
}

// jobOf returns a job as popped by this side, or otherwise as it is now.
func (o *ours) jobOf(ctx context.Context, jid string) (*qless.Job, error) {
	if job, ok := o.held[jid]; ok {
		return job, nil
	}
	return o.client.Job(ctx, jid)
}

func (o *ours) recurChange(ctx context.Context, a args) error {
	r, err := o.client.RecurringJob(ctx, a.text("jid"))
	if err != nil {
		return err
	}
	for name := range a {
		switch name {
		case "priority":
			r.Priority = a.number(name, 0)
		case "retries":
			r.Retries = a.number(name, 0)
		case "interval":
			r.Interval = a.seconds(name)
		case "data":
			r.Data = a.json(name)
		case "queue":
			r.Queue = a.text(name)
		case "tags":
			r.Tags = append(r.Tags, a.texts(name)...)
		}
	}
	return r.Update(ctx)
}

func (o *ours) queueOf(a args) *qless.Queue { return o.client.Queue(a.text("queue")) }

func klassOf(a args) string {
	if klass := a.text("klass"); klass != "" {
		return klass
	}
	return "K"
}

func changeData(job *qless.Job, a args) {
	if _, changed := a["data"]; changed {
		job.Data = a.json("data")
	}
}

// A jobOption goes with both put and recur.
type jobOption interface {
	qless.PutOption
	qless.RecurOption
}

// jobOptions are the options common to put and recur.
func jobOptions(a args) []jobOption {
	var options []jobOption
	if jid := a.text("jid"); jid != "" {
		options = append(options, qless.JID(jid))
	}
	if _, ok := a["priority"]; ok {
		options = append(options, qless.Priority(a.number("priority", 0)))
	}
	if _, ok := a["retries"]; ok {
		options = append(options, qless.Retries(a.number("retries", 0)))
	}
	if _, ok := a["tags"]; ok {
		options = append(options, qless.Tags(a.texts("tags")))
	}
	return options
}

func putOptions(a args) []qless.PutOption {
	options := []qless.PutOption{qless.Delay(a.seconds("delay")), qless.DependsOn(a.texts("depends"))}
	for _, option := range jobOptions(a) {
		options = append(options, option)
	}
	return options
}

func recurOptions(a args) []qless.RecurOption {
	options := []qless.RecurOption{qless.Offset(a.seconds("offset"))}
	for _, option := range jobOptions(a) {
		options = append(options, option)
	}
	return options
}

// jobReply returns a job in the scenarios' form.
func jobReply(job *qless.Job) any {
	group := ""
	if job.Failure != nil {
		group = job.Failure.Group
	}
	history := []string{}
	for _, entry := range job.History {
		history = append(history, entry.What)
	}
	return map[string]any{
		"jid": job.JID, "klass": job.Klass, "queue": job.Queue, "state": stateOf(job), "worker": job.Worker,
		"data": job.Data, "priority": job.Priority, "retries": job.Retries, "remaining": job.Remaining,
		"tags": append([]string{}, job.Tags...), "tracked": job.Tracked, "failure": group, "history": history,
		"dependencies": sorted(job.Dependencies), "dependents": sorted(job.Dependents),
	}
}

func jobReplies(jobs []*qless.Job) []any {
	all := []any{}
	for _, job := range jobs {
		all = append(all, jobReply(job))
	}
	return all
}

func sorted(names []string) []string {
	return append([]string{}, slices.Sorted(slices.Values(names))...)
}

// tracked returns the tracked jobs, grouped by whether they still exist.
func (o *ours) tracked(ctx context.Context) (any, error) {
	tracked, err := inspect.New(o.client).Tracked().JIDs(ctx, inspect.Range{})
	if err != nil {
		return nil, err
	}
	jobs, err := o.client.Jobs(ctx, tracked.Items...)
	found, expired := []string{}, tracked.Items
	for _, job := range jobs {
		found = append(found, job.JID)
		expired = slices.DeleteFunc(expired, func(jid string) bool { return jid == job.JID })
	}
	return map[string]any{"jobs": found, "expired": expired}, err
}

// items returns the items of a page.
func items(page inspect.Page[string], err error) (any, error) { return page.Items, err }

// jobsOf returns a page in the form of other languages.
func jobsOf(page inspect.Page[string]) any {
	return map[string]any{"total": page.Total, "jobs": page.Items}
}

// none returns a list that is not null.
func none(list []string, err error) (any, error) { return append([]string{}, list...), err }

func noneIfMissing(err error) error {
	if e, ok := err.(*qless.Error); ok && e.Code == qless.ErrNotFound {
		return nil
	}
	return err
}

// lowered returns a struct's fields under their names in other languages.
func lowered(value any) any {
	known := map[string]string{"Kind": "event"}
	fields := map[string]any{}
	for name, field := range plain(value).(map[string]any) {
		if field == nil {
			field = []any{}
		}
		fields[cmp.Or(known[name], strings.ToLower(name))] = field
	}
	return fields
}

// stateOf returns the server's word for the state of a job.
func stateOf(job *qless.Job) string {
	if job.State == qless.StateTimedOut {
		return "stalled"
	}
	return string(job.State)
}
