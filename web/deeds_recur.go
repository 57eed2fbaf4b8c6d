package web

import (
	"context"
	"encoding/json"
	"net/url"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/qless/qless-go"
)

// changesOfRecurring are the actions on recurring jobs.
func changesOfRecurring() []deed {
	jid := subject("jid", "Recurring job")
	every := field{Name: "interval", Label: "Every", Kind: "text", Hint: hintTime}
	rest := []field{
		{Name: "priority", Label: "Priority", Kind: "number", IsOpt: true},
		{Name: "retries", Label: "Retries", Kind: "number", IsOpt: true},
		{Name: "backlog", Label: "Backlog", Kind: "number", IsOpt: true,
			Hint: "How many missed jobs are put at most; 0 means all."},
		{Name: "data", Label: "Data, as JSON", Kind: "area", IsOpt: true, IsSecret: true},
	}
	set := append([]field{jid, every, {Name: "klass", Label: "Klass", Kind: "text"},
		{Name: "queue", Label: "Queue", Kind: "text"}}, rest...)
	for i := range set[1:] {
		set[1+i].IsOpt = true
	}
	return []deed{
		{
			Action: ActionRecurSet, Label: "Change", Done: "The recurring job is changed.",
			Hint:   "Jobs that it has put stay as they are. What is left empty stays as it is.",
			Fields: set, fill: fillRecurring, one: setRecurring,
		},
		{
			Action: ActionRecurRun, Label: "Run now", Done: "A job was put.", isNew: true,
			Fields: []field{jid}, one: runRecurring,
		},
		{
			Action: ActionRecurCancel, Label: "Cancel", Done: "The recurring job is deleted.",
			Hint:   "Jobs that it has put are kept.",
			IsGrim: true, Fields: []field{jid},
			one: onRecurring(func(ctx context.Context, _ *run, job *qless.RecurringJob) error {
				return job.Cancel(ctx)
			}),
		},
		{
			Action: ActionRecurPut, Label: "New recurring job", Done: "The recurring job was put.",
			isNew: true,
			Hint:  "If there is one with the jid, it is changed.",
			Fields: append([]field{
				subject("queue", "Queue"), {Name: "klass", Label: "Klass", Kind: "text"}, every,
				{Name: "offset", Label: "First in", Kind: "text", Hint: hintTime, IsOpt: true},
				{Name: "jid", Label: "JID", Kind: "text", Hint: "A new one if it is empty.", IsOpt: true},
				{Name: "tags", Label: "Tags", Kind: "text", Hint: hintTags, IsOpt: true},
			}, rest...),
			one: putRecurring,
		},
	}
}

func onRecurring(
	do func(ctx context.Context, run *run, job *qless.RecurringJob) error,
) func(in *input) doOne {
	return func(in *input) doOne {
		jid := in.text("jid")
		return func(ctx context.Context, run *run) error {
			job, err := run.site.Client.RecurringJob(ctx, jid)
			if err != nil {
				return err
			}
			return do(ctx, run, job)
		}
	}
}

// runRecurring puts a job as the recurring job would.
func runRecurring(in *input) doOne {
	return onRecurring(func(ctx context.Context, run *run, job *qless.RecurringJob) error {
		made, err := run.site.Client.Queue(job.Queue).Put(ctx, job.Klass, slices.Clone(job.Data),
			qless.Priority(job.Priority), qless.Retries(job.Retries), qless.Tags(job.Tags...))
		if err == nil {
			run.made(made)
		}
		return err
	})(in)
}

func fillRecurring(ctx context.Context, s *site, form url.Values) error {
	if form.Get("jid") == "" || form.Has("interval") {
		return nil
	}
	job, err := s.Client.RecurringJob(ctx, form.Get("jid"))
	if err != nil {
		return err
	}
	fillValues(form, "interval", everyText(job.Interval), "priority", strconv.Itoa(job.Priority),
		"retries", strconv.Itoa(job.Retries), "backlog", strconv.Itoa(job.Backlog))
	if isPlain(job.Klass) {
		fillValues(form, "klass", job.Klass)
	}
	if isPlain(job.Queue) {
		fillValues(form, "queue", job.Queue)
	}
	if s.handler.options.Redact == nil && utf8.Valid(job.Data) {
		fillValues(form, "data", pretty(job.Data))
	}
	return nil
}

// A recurChange is what a form says about a recurring job. What is nil stays as it is.
type recurChange struct {
	interval                   *time.Duration
	priority, retries, backlog *int
	klass, queue               *string
	data                       json.RawMessage
}

func setRecurring(in *input) doOne {
	var c recurChange
	if in.has("interval") {
		interval := in.time("interval")
		c.interval = &interval
	}
	for name, to := range map[string]**int{
		"priority": &c.priority, "retries": &c.retries, "backlog": &c.backlog,
	} {
		if in.has(name) {
			n := in.number(name)
			*to = &n
		}
	}
	for name, to := range map[string]**string{"klass": &c.klass, "queue": &c.queue} {
		if text := in.text(name); text != "" {
			*to = &text
		}
	}
	c.data = in.data("data")
	return onRecurring(func(ctx context.Context, _ *run, job *qless.RecurringJob) error {
		return c.apply(ctx, job)
	})(in)
}

// apply changes what is not as it should be.
func (c *recurChange) apply(ctx context.Context, job *qless.RecurringJob) error {
	if c.interval != nil && everyText(*c.interval) != everyText(job.Interval) {
		if err := job.SetInterval(ctx, *c.interval); err != nil {
			return err
		}
	}
	for _, number := range []struct {
		to  *int
		now int
		set func(context.Context, int) error
	}{
		{c.priority, job.Priority, job.SetPriority}, {c.retries, job.Retries, job.SetRetries},
		{c.backlog, job.Backlog, job.SetBacklog},
	} {
		if number.to != nil && *number.to != number.now {
			if err := number.set(ctx, *number.to); err != nil {
				return err
			}
		}
	}
	if c.data != nil && !isSame(job.Data, c.data) {
		if err := job.SetData(ctx, c.data); err != nil {
			return err
		}
	}
	if c.klass != nil && *c.klass != job.Klass {
		if err := job.SetKlass(ctx, *c.klass); err != nil {
			return err
		}
	}
	if c.queue != nil && *c.queue != job.Queue {
		return job.Move(ctx, *c.queue)
	}
	return nil
}

func putRecurring(in *input) doOne {
	queue, klass := in.text("queue"), in.text("klass")
	every, data := in.time("interval"), in.data("data")
	options := recurOptions(in)
	return func(ctx context.Context, run *run) error {
		var value any
		if data != nil {
			value = data
		}
		jid, err := run.site.Client.Queue(queue).Recur(ctx, klass, value, every, options...)
		if err == nil {
			run.mu.Lock()
			run.done.Recur = jid
			run.mu.Unlock()
		}
		return err
	}
}

func recurOptions(in *input) []qless.RecurOption {
	var options []qless.RecurOption
	if in.has("priority") {
		options = append(options, qless.Priority(in.number("priority")))
	}
	if in.has("retries") {
		options = append(options, qless.Retries(in.number("retries")))
	}
	if in.has("backlog") {
		options = append(options, qless.Backlog(in.number("backlog")))
	}
	if in.has("offset") {
		options = append(options, qless.Offset(in.time("offset")))
	}
	if jid := in.text("jid"); jid != "" {
		options = append(options, qless.JID(jid))
	}
	if tags := in.list("tags"); len(tags) > 0 {
		options = append(options, qless.Tags(tags...))
	}
	return options
}
