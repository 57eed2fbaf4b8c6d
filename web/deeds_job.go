package web

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/qless/qless-go"
)

// unfinished are the states of jobs that have not ended.
var unfinished = []qless.State{
	qless.StateWaiting, qless.StateScheduled, qless.StateDepends, qless.StateRunning,
	qless.StateTimedOut,
}

// changesOfJobs are the actions on jobs that exist.
func changesOfJobs() []deed {
	pending := []qless.State{qless.StateWaiting, qless.StateScheduled, qless.StateTimedOut}
	depends := []qless.State{qless.StateDepends}
	tags := field{Name: "tags", Label: "Tags", Kind: "text", Hint: hintTags}
	return []deed{
		{
			Action: ActionJobCancel, Label: "Cancel", Done: "canceled", IsGrim: true, isMain: true,
			Hint:   "They are deleted; a receipt of them is kept for a while.",
			states: append(slices.Clone(unfinished), qless.StateFailed),
			jobs:   inBulk(func(in *input) bulk { return (*qless.Bulk).Cancel }),
		},
		{
			Action: ActionJobRetry, Label: "Retry", Done: "retried", isMain: true,
			Hint:   "Each goes back into its own queue, with fresh retries.",
			states: []qless.State{qless.StateFailed},
			jobs: inBulk(func(in *input) bulk {
				return func(b *qless.Bulk, ctx context.Context) (qless.BulkResult, error) {
					return b.Retry(ctx)
				}
			}),
		},
		{
			Action: ActionJobTimeout, Label: "Time out", Done: "timed out", isMain: true,
			Hint:   "They are taken from their workers, and are the next to be popped.",
			states: []qless.State{qless.StateRunning}, jobs: timeOut,
		},
		{
			Action: ActionJobMove, Label: "Move", Done: "moved", isMain: true,
			Hint: "They are put into the queue, whatever their state; workers that run them lose them.",
			Fields: []field{
				{Name: "to", Label: "Into the queue", Kind: "text"},
				{Name: "delay", Label: "Delay", Kind: "text", Hint: hintTime, IsOpt: true},
			},
			jobs: move,
		},
		{
			Action: ActionJobPromote, Label: "Promote", Done: "promoted", isMain: true,
			Hint:   "They can be popped now.",
			states: []qless.State{qless.StateScheduled},
			jobs:   inBulk(func(in *input) bulk { return (*qless.Bulk).Promote }),
		},
		{
			Action: ActionJobReschedule, Label: "Reschedule", Done: "rescheduled", states: pending,
			Fields: []field{{Name: "delay", Label: "Due in", Kind: "text", Hint: hintTime}},
			jobs:   reschedule,
		},
		{
			Action: ActionJobPriority, Label: "Set priority", Done: "changed",
			states: append(slices.Clone(unfinished), qless.StateFailed),
			Fields: []field{{Name: "priority", Label: "Priority", Kind: "number",
				Hint: "The highest is popped first."}},
			jobs: inBulk(func(in *input) bulk {
				priority := in.number("priority")
				return func(b *qless.Bulk, ctx context.Context) (qless.BulkResult, error) {
					return b.SetPriority(ctx, priority)
				}
			}),
		},
		{
			Action: ActionJobTag, Label: "Tag", Done: "tagged", Fields: []field{tags},
			jobs: withTags((*qless.Bulk).Tag),
		},
		{
			Action: ActionJobUntag, Label: "Untag", Done: "untagged", Fields: []field{tags},
			jobs: withTags((*qless.Bulk).Untag),
		},
		{
			Action: ActionJobTrack, Label: "Track", Done: "tracked",
			jobs: inBulk(func(in *input) bulk { return (*qless.Bulk).Track }),
		},
		{
			Action: ActionJobUntrack, Label: "Untrack", Done: "untracked",
			jobs: inBulk(func(in *input) bulk { return (*qless.Bulk).Untrack }),
		},
		{
			Action: ActionJobDepend, Label: "Depend", Done: "changed", states: depends,
			Fields: []field{{Name: "jids", Label: "Wait also for", Kind: "text", Hint: hintJIDs}},
			jobs:   depend,
		},
		{
			Action: ActionJobUndepend, Label: "Undepend", Done: "changed", states: depends,
			Fields: []field{
				{Name: "jids", Label: "No longer wait for", Kind: "text", IsOpt: true,
					Hint: hintJIDs + " If it is empty, they wait for nothing any more."},
			},
			jobs: undepend,
		},
		{
			Action: ActionJobLog, Label: "Add a note", Done: "noted", isSingle: true, isNew: true,
			Hint: "It is added to the history of the job.",
			Fields: []field{
				{Name: "message", Label: "Note", Kind: "text", IsSecret: true},
			},
			jobs: note,
		},
		{
			Action: ActionJobEdit, Label: "Edit data", Done: "changed", isSingle: true,
			Hint: "The job is put again into its queue with all that it had: a waiting one becomes the " +
				"last of its priority, and one that has failed is tried again.",
			states: []qless.State{
				qless.StateWaiting, qless.StateScheduled, qless.StateDepends, qless.StateFailed,
			},
			Fields: []field{{Name: "data", Label: "Data, as JSON", Kind: "area", IsSecret: true}},
			fill:   fillEdit, jobs: edit,
		},
		{
			Action: ActionJobCopy, Label: "Copy", Done: "copied", isSingle: true, isAsked: true,
			isNew: true,
			Hint:  "A new job like this one is put, with another jid.",
			Fields: []field{
				{Name: "to", Label: "Into the queue", Kind: "text", IsOpt: true,
					Hint: "If it is empty, into the job's own."},
			},
			jobs: copyJobs,
		},
	}
}

// A bulk is a method of a [qless.Bulk].
type bulk func(b *qless.Bulk, ctx context.Context) (qless.BulkResult, error)

// inBulk returns what does something with all jobs at once.
func inBulk(read func(in *input) bulk) func(in *input) doJobs {
	return func(in *input) doJobs {
		do := read(in)
		return func(ctx context.Context, run *run, jobs []*qless.Job) (qless.BulkResult, error) {
			return do(run.site.Client.Bulk(jidsOf(jobs)...), ctx)
		}
	}
}

func jidsOf(jobs []*qless.Job) []string {
	jids := make([]string, len(jobs))
	for i, job := range jobs {
		jids[i] = job.JID
	}
	return jids
}

func withTags(
	do func(b *qless.Bulk, ctx context.Context, tags ...string) (qless.BulkResult, error),
) func(in *input) doJobs {
	return inBulk(func(in *input) bulk {
		tags := in.list("tags")
		if len(tags) == 0 {
			in.refuse("tags", "This is needed.")
		}
		return func(b *qless.Bulk, ctx context.Context) (qless.BulkResult, error) {
			return do(b, ctx, tags...)
		}
	})
}

// move puts jobs into a queue. Its input has a name of its own, because a scope has a queue too.
func move(in *input) doJobs {
	queue := in.text("to")
	var options []qless.PutOption
	if in.has("delay") {
		options = append(options, qless.Delay(in.time("delay")))
	}
	return func(ctx context.Context, run *run, jobs []*qless.Job) (qless.BulkResult, error) {
		return run.site.Client.Bulk(jidsOf(jobs)...).Move(ctx, queue, options...)
	}
}

// eachAlone does something with each job. What the server says about one of them leaves that one.
func eachAlone(jobs []*qless.Job, do func(job *qless.Job) error) (qless.BulkResult, error) {
	sum := qless.BulkResult{Errors: map[string]*qless.Error{}}
	for _, job := range jobs {
		err := do(job)
		var why *qless.Error
		switch {
		case err == nil:
			sum.Count++
		case isAboutAll(err) || !errors.As(err, &why):
			return sum, err
		default:
			sum.Left++
			sum.Errors[job.JID] = why
		}
	}
	return sum, nil
}

// isAboutAll reports whether an error is not about one job only.
func isAboutAll(err error) bool {
	code := codeOf(err)
	return code == qless.CodeUnavailable || code == qless.CodeServer || code == qless.CodeInvalid
}

func timeOut(*input) doJobs {
	return func(ctx context.Context, run *run, jobs []*qless.Job) (qless.BulkResult, error) {
		err := run.site.Client.Timeout(ctx, jidsOf(jobs)...)
		if err == nil {
			return qless.BulkResult{Count: len(jobs)}, nil
		}
		if isAboutAll(err) {
			return qless.BulkResult{}, err
		}
		return eachAlone(jobs, func(job *qless.Job) error { return job.Timeout(ctx) })
	}
}

func reschedule(in *input) doJobs {
	delay := in.time("delay")
	return func(ctx context.Context, _ *run, jobs []*qless.Job) (qless.BulkResult, error) {
		return eachAlone(jobs, func(job *qless.Job) error { return job.Reschedule(ctx, delay) })
	}
}

func depend(in *input) doJobs {
	jids := in.jids("jids")
	return func(ctx context.Context, _ *run, jobs []*qless.Job) (qless.BulkResult, error) {
		return eachAlone(jobs, func(job *qless.Job) error { return job.Depend(ctx, jids...) })
	}
}

func undepend(in *input) doJobs {
	jids := in.jids("jids")
	return func(ctx context.Context, _ *run, jobs []*qless.Job) (qless.BulkResult, error) {
		return eachAlone(jobs, func(job *qless.Job) error {
			if len(jids) == 0 {
				return job.UndependAll(ctx)
			}
			return job.Undepend(ctx, jids...)
		})
	}
}

func note(in *input) doJobs {
	message := in.text("message")
	return func(ctx context.Context, _ *run, jobs []*qless.Job) (qless.BulkResult, error) {
		return eachAlone(jobs, func(job *qless.Job) error { return job.Log(ctx, message, nil) })
	}
}

// fillEdit sets the data of the job, and the digest of it, by which edit knows whether it is still
// the same.
func fillEdit(ctx context.Context, s *site, form url.Values) error {
	if form.Has("digest") || len(form["job"]) != 1 {
		return nil
	}
	_, jid, err := picked(form.Get("job"))
	if err != nil {
		return err
	}
	job, err := s.Client.Job(ctx, jid)
	if err != nil {
		return err
	}
	form.Set("digest", digest(job.Data))
	if s.handler.options.Redact == nil && !form.Has("data") {
		form.Set("data", pretty(job.Data))
	}
	return nil
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// edit changes the data of a job, unless it is not what the page has shown.
func edit(in *input) doJobs {
	shown, data := in.text("digest"), in.data("data")
	if len(in.form["job"]) > 1 || in.form.Has("scope") {
		in.refuse("", "The data of one job can be changed at a time.")
	}
	return func(ctx context.Context, run *run, jobs []*qless.Job) (qless.BulkResult, error) {
		return eachAlone(jobs, func(job *qless.Job) error {
			if err := canEdit(job, shown); err != nil {
				return err
			}
			return saveEdit(ctx, job, data)
		})
	}
}

func saveEdit(ctx context.Context, job *qless.Job, data json.RawMessage) error {
	if isSame(job.Data, data) {
		return nil
	}
	if err := job.SetData(data); err != nil {
		return err
	}
	return job.Move(ctx, job.Queue, keepPlace(job)...)
}

// isSame reports whether data is what it was, but for spaces.
func isSame(before, now json.RawMessage) bool {
	var line bytes.Buffer
	return json.Compact(&line, before) == nil && bytes.Equal(line.Bytes(), now)
}

func canEdit(job *qless.Job, shown string) error {
	refused := &qless.Error{Op: "edit", JID: job.JID}
	switch {
	case !deeds[ActionJobEdit].fits(job.State):
		refused.Code, refused.Message = qless.CodeRunning, "the job is "+string(job.State)
	case shown == "" || shown != digest(job.Data):
		refused.Code = qless.CodeExists
		refused.Message = "its data has changed since the page was shown, or was not shown"
	case !utf8.Valid(job.Data):
		refused.Code = qless.CodeExists
		refused.Message = "its data is not UTF-8, so that it can't be changed in a browser"
	default:
		return nil
	}
	return refused
}

// keepPlace returns the options that put a job again to where it is.
func keepPlace(job *qless.Job) []qless.PutOption {
	options := []qless.PutOption{qless.IfNotRunning()}
	if len(job.Dependencies) > 0 {
		options = append(options, qless.DependsOn(job.Dependencies...))
	}
	isPending := job.State == qless.StateScheduled || job.State == qless.StateDepends
	if isPending && !job.Due.IsZero() && job.Parked == "" {
		options = append(options, qless.At(job.Due))
	}
	return options
}

// copyJobs puts new jobs like others.
func copyJobs(in *input) doJobs {
	queue := in.text("to")
	return func(ctx context.Context, run *run, jobs []*qless.Job) (qless.BulkResult, error) {
		return eachAlone(jobs, func(job *qless.Job) error {
			jid, err := copyJob(ctx, run.site, job, queue)
			if err == nil {
				run.made(jid)
			}
			return err
		})
	}
}

func copyJob(ctx context.Context, s *site, job *qless.Job, queue string) (string, error) {
	if queue == "" {
		queue = queueOf(job)
	}
	job.BatchSize = nil // the copy is no callback
	spec := job.Spec()
	options := slices.DeleteFunc(spec.Options, func(option qless.PutOption) bool {
		_, isJID := option.(qless.JID)
		return isJID
	})
	return s.Client.Queue(queue).Put(ctx, spec.Klass, spec.Data, options...)
}

// queueOf returns the queue of a job, or the last one of a job that is complete.
func queueOf(job *qless.Job) string {
	if job.Queue != "" {
		return job.Queue
	}
	for _, entry := range slices.Backward(job.History) {
		if entry.Queue != "" {
			return entry.Queue
		}
	}
	return ""
}

// newJobs are the actions that put jobs.
func newJobs() []deed {
	return []deed{
		{
			Action: ActionJobPut, Label: "New job", Done: "The job was put.", isNew: true,
			Fields: []field{
				subject("queue", "Queue"),
				{Name: "klass", Label: "Klass", Kind: "text"},
				{Name: "data", Label: "Data, as JSON", Kind: "area", IsOpt: true, IsSecret: true},
				{Name: "priority", Label: "Priority", Kind: "number", IsOpt: true},
				{Name: "delay", Label: "Delay", Kind: "text", Hint: hintTime, IsOpt: true},
				{Name: "tags", Label: "Tags", Kind: "text", Hint: hintTags, IsOpt: true},
				{Name: "retries", Label: "Retries", Kind: "number", IsOpt: true,
					Hint: "5 if it is empty."},
				{Name: "depends", Label: "Wait for the jobs", Kind: "text", Hint: hintJIDs, IsOpt: true},
			},
			one: put,
		},
		{
			Action: ActionJobRestore, Label: "Put again", Done: "put again",
			Hint:   "The jobs of the receipt are put as they were. Those that exist are left alone.",
			Fields: []field{subject("receipt", "Receipt")},
			one:    restore, long: isLongReceipt,
		},
	}
}

func put(in *input) doOne {
	queue, klass, data := in.text("queue"), in.text("klass"), in.data("data")
	options := in.putOptions()
	if in.once != "" { // another process may have done it
		options = append(options, qless.JID(in.once), qless.IfAbsent())
	}
	return func(ctx context.Context, run *run) error {
		var value any
		if data != nil {
			value = data
		}
		jid, err := run.site.Client.Queue(queue).Put(ctx, klass, value, options...)
		if in.once != "" && errors.Is(err, qless.ErrExists) {
			jid, err = in.once, nil
		}
		if err == nil {
			run.made(jid)
		}
		return err
	}
}

// everyText writes an interval as an input takes it.
func everyText(d time.Duration) string {
	text := d.String()
	for _, zero := range []string{"m0s", "h0m"} {
		if cut, found := strings.CutSuffix(text, zero); found {
			text = cut + zero[:1]
		}
	}
	return text
}
