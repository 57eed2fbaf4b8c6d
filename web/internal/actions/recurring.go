package actions

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/web/internal/words"
)

// recurringActions returns the actions on recurring jobs.
func recurringActions() []*Info {
	jid := subject("jid", "Recurring job")
	klass := Field{Name: "klass", Label: "Klass", Kind: Text}
	every := Field{Name: "interval", Label: "Every", Kind: Duration}
	rest := []Field{
		{Name: "priority", Label: "Priority", Kind: Number, Optional: true},
		{Name: "retries", Label: "Retries", Kind: Number, Optional: true},
		{Name: "backlog", Label: "Backlog", Kind: Number, Optional: true,
			Hint: "How many missed jobs are put at most; 0 means all."},
		{Name: "data", Label: "Data, as JSON", Kind: JSON, Optional: true, Secret: true},
	}
	set := append([]Field{jid, every, klass, {Name: "queue", Label: "Queue", Kind: Text}}, rest...)
	for i := range set[1:] {
		set[1+i].Optional = true
	}
	put := append([]Field{
		subject("queue", "Queue"), klass, every,
		{Name: "offset", Label: "First in", Kind: Duration, Optional: true},
		{Name: "jid", Label: "JID", Kind: Text, Hint: "A new one if it is empty.", Optional: true},
		{Name: "tags", Label: "Tags", Kind: Tags, Optional: true},
	}, rest...)
	return []*Info{
		{
			Name: "recur.set", Label: "Change", Done: "The recurring job is changed.",
			Hint:   "Jobs that it has put stay as they are. What is left empty stays as it is.",
			Fields: set, Fill: fillRecurring, Action: onRecurring(setRecurring),
		},
		{
			Name: "recur.run", Label: "Run now", Done: "A job was put.", Creates: true,
			Fields: []Field{jid}, Action: onRecurring(runRecurring),
		},
		{
			Name: "recur.cancel", Label: "Cancel", Done: "The recurring job is deleted.",
			Hint: "Jobs that it has put are kept.", Destructive: true, Fields: []Field{jid},
			Action: onRecurring(func(ctx context.Context, _ *Run, job *qless.RecurringJob) error {
				return job.Cancel(ctx)
			}),
		},
		{
			Name: "recur.put", Label: "New recurring job", Done: "The recurring job was put.",
			Hint: "If there is one with the jid, it is changed.", Creates: true,
			Fields: put, Action: single(putRecurring),
		},
	}
}

// onRecurring returns an action on a recurring job.
func onRecurring(do func(ctx context.Context, r *Run, job *qless.RecurringJob) error) Action {
	return single(func(ctx context.Context, r *Run) error {
		job, err := r.Space.Client.RecurringJob(ctx, r.Form.Get("jid"))
		if err != nil {
			return err
		}
		return do(ctx, r, job)
	})
}

// runRecurring puts a job as the recurring job would.
func runRecurring(ctx context.Context, r *Run, job *qless.RecurringJob) error {
	return r.put(r.Space.Client.Queue(job.Queue).Put(ctx, job.Klass, slices.Clone(job.Data),
		qless.Priority(job.Priority), qless.Retries(job.Retries), qless.Tags(job.Tags)))
}

func fillRecurring(ctx context.Context, s *Space, f *Form) error {
	job, err := s.Client.RecurringJob(ctx, f.Get("jid"))
	if err != nil {
		return err
	}
	f.fill("interval", words.Exact(job.Interval), "priority", strconv.Itoa(job.Priority),
		"retries", strconv.Itoa(job.Retries), "backlog", strconv.Itoa(job.Backlog),
		"klass", job.Klass, "queue", job.Queue)
	if !s.HidesData && utf8.Valid(job.Data) {
		f.Set("data", words.JSON(job.Data))
	}
	return nil
}

// setRecurring changes the fields in the form.
func setRecurring(ctx context.Context, r *Run, job *qless.RecurringJob) error {
	f := r.Form
	interval := f.duration("interval")
	if f.has("interval") && words.Exact(interval) != words.Exact(job.Interval) {
		job.Interval = interval
	}
	for _, field := range []struct {
		name  string
		value *int
	}{{"priority", &job.Priority}, {"retries", &job.Retries}, {"backlog", &job.Backlog}} {
		if f.has(field.name) {
			*field.value = f.number(field.name)
		}
	}
	if data := f.data("data"); data != nil && !isSame(job.Data, data) {
		job.Data = data
	}
	job.Klass = cmp.Or(f.Get("klass"), job.Klass)
	job.Queue = cmp.Or(f.Get("queue"), job.Queue)
	return job.Update(ctx)
}

func putRecurring(ctx context.Context, r *Run) error {
	f := r.Form
	var options []qless.RecurOption
	if f.has("priority") {
		options = append(options, qless.Priority(f.number("priority")))
	}
	if f.has("retries") {
		options = append(options, qless.Retries(f.number("retries")))
	}
	if tags := f.tags("tags"); len(tags) > 0 {
		options = append(options, qless.Tags(tags))
	}
	if f.has("backlog") {
		options = append(options, qless.Backlog(f.number("backlog")))
	}
	if f.has("offset") {
		options = append(options, qless.Offset(f.duration("offset")))
	}
	if jid := f.Get("jid"); jid != "" {
		options = append(options, qless.JID(jid))
	}
	jid, err := r.queue().Recur(ctx, f.Get("klass"), f.jobData(), f.duration("interval"), options...)
	if err == nil {
		r.change(func(done *Outcome) { done.Recur = jid })
	}
	return err
}
