package actions

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"slices"
	"unicode/utf8"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
	"github.com/qless/qless-go/web/internal/words"
)

// jobMoves returns the actions that change the states of existing jobs.
func jobMoves() []*Info {
	return []*Info{
		{
			Name: "job.unfail", Label: "Retry", Done: "retried", Primary: true,
			Hint:   "Each goes back into its own queue, with fresh retries.",
			States: []qless.State{qless.StateFailed},
			Action: bulkWith(retry),
		},
		{
			Name: "job.promote", Label: "Make due now", Done: "made due", Primary: true,
			Hint:   "Workers can take them now.",
			States: []qless.State{qless.StateScheduled},
			Action: bulk(inspect.Selection.Promote),
		},
		{
			Name: "job.timeout", Label: "Take from worker", Done: "taken from its worker", Primary: true,
			Hint:   "Their workers lose them, and they are the next to be taken.",
			States: []qless.State{qless.StateRunning},
			Action: bulk(inspect.Selection.Timeout),
		},
		{
			Name: "job.move", Label: "Move", Done: "moved", Primary: true,
			Hint: "Jobs in any state are put into the queue. Workers that run them lose them.",
			Fields: []Field{
				{Name: "to", Label: "Into the queue", Kind: Text},
				{Name: "delay", Label: "Delay", Kind: Duration, Optional: true},
			},
			Action: bulkWith(move),
		},
		{
			Name: "job.cancel", Label: "Cancel", Done: "canceled", Destructive: true, Primary: true,
			Hint: "Canceled jobs are deleted, and with the callback of a batch its members that have not " +
				"ended. A receipt is kept for a while: it puts them again.",
			States: unended,
			Action: bulk(inspect.Selection.Cancel),
		},
		{
			Name: "job.reschedule", Label: "Reschedule", Done: "rescheduled", States: pending,
			Fields: []Field{{Name: "delay", Label: "Due in", Kind: Duration}},
			Action: each(func(ctx context.Context, r *Run, job *qless.Job) error {
				return job.Reschedule(ctx, r.Form.duration("delay"))
			}),
		},
	}
}

// jobMarks returns the actions that change how jobs are ordered and found.
func jobMarks() []*Info {
	tags := Field{Name: "tags", Label: "Tags", Kind: Tags}
	return []*Info{
		{
			Name: "job.priority", Label: "Set priority", Done: "changed", States: unended,
			Fields: []Field{{Name: "priority", Label: "Priority", Kind: Number,
				Hint: "The highest is popped first."}},
			Action: bulkWith(setPriority),
		},
		{
			Name: "job.tag", Label: "Tag", Done: "tagged", Fields: []Field{tags},
			Action: withTags(inspect.Selection.Tag),
		},
		{
			Name: "job.untag", Label: "Untag", Done: "untagged", Fields: []Field{tags},
			Action: withTags(inspect.Selection.Untag),
		},
		{
			Name: "job.track", Label: "Track", Done: "tracked", Action: bulk(inspect.Selection.Track),
		},
		{
			Name: "job.untrack", Label: "Untrack", Done: "untracked",
			Action: bulk(inspect.Selection.Untrack),
		},
	}
}

// jobEdits returns the actions that change the contents of jobs, or copy jobs.
func jobEdits() []*Info {
	return []*Info{
		{
			Name: "job.depend", Label: "Add dependencies", Done: "changed", States: depends,
			Fields: []Field{{Name: "jids", Label: "Also waits for", Kind: JIDs, Hint: manyJIDs}},
			Action: each(func(ctx context.Context, r *Run, job *qless.Job) error {
				return job.Depend(ctx, r.Form.jids("jids")...)
			}),
		},
		{
			Name: "job.undepend", Label: "Remove dependencies", Done: "changed", States: depends,
			Fields: []Field{{Name: "jids", Label: "No longer waits for", Kind: JIDs, Optional: true,
				Hint: manyJIDs + " If it is empty, they wait for nothing any more."}},
			Action: each(undepend),
		},
		{
			Name: "job.log", Label: "Add a note", Done: "The note was added.",
			SingleJob: true, Creates: true,
			Hint:   "It is added to the history of the job.",
			Fields: []Field{{Name: "message", Label: "Note", Kind: Text, Secret: true}},
			Action: each(func(ctx context.Context, r *Run, job *qless.Job) error {
				return job.Log(ctx, r.Form.Get("message"), nil)
			}),
		},
		{
			Name: "job.edit", Label: "Edit data", Done: "changed", SingleJob: true, States: editable,
			Hint: "The job is put again into its queue with all that it had: a waiting one becomes the " +
				"last of its priority, and one that has failed is tried again.",
			Fields: []Field{{Name: "data", Label: "Data, as JSON", Kind: JSON, Secret: true}},
			Fill:   fillEdit, Action: edit{editJob},
		},
		{
			Name: "job.copy", Label: "Copy", Done: "copied", SingleJob: true, Confirm: true,
			Creates: true,
			Hint:    "A new job like this one is put, with another jid.",
			Fields: []Field{{Name: "to", Label: "Into the queue", Kind: Text, Optional: true,
				Hint: "If it is empty, into the job's own."}},
			Action: each(copyJob),
		},
	}
}

const manyJIDs = "Jids, with spaces or commas between them."

// The states of jobs for several actions.
var (
	unended = []qless.State{
		qless.StateWaiting, qless.StateScheduled, qless.StateDepends, qless.StateRunning,
		qless.StateTimedOut, qless.StateFailed,
	}
	pending  = []qless.State{qless.StateWaiting, qless.StateScheduled, qless.StateTimedOut}
	depends  = []qless.State{qless.StateDepends}
	editable = []qless.State{
		qless.StateWaiting, qless.StateScheduled, qless.StateDepends, qless.StateFailed,
	}
)

// move puts jobs into another queue. The field is not called queue, because scopes have a queue,
// too.
func move(ctx context.Context, s inspect.Selection, f *Form) (inspect.Repair, error) {
	var options []qless.PutOption
	if f.has("delay") {
		options = append(options, qless.Delay(f.duration("delay")))
	}
	return s.Move(ctx, f.Get("to"), options...)
}

func retry(ctx context.Context, s inspect.Selection, _ *Form) (inspect.Repair, error) {
	return s.Unfail(ctx)
}

func setPriority(ctx context.Context, s inspect.Selection, f *Form) (inspect.Repair, error) {
	return s.SetPriority(ctx, f.number("priority"))
}

func withTags(
	do func(s inspect.Selection, ctx context.Context, tags ...string) (inspect.Repair, error),
) bulkWith {
	return func(ctx context.Context, s inspect.Selection, f *Form) (inspect.Repair, error) {
		return do(s, ctx, f.tags("tags")...)
	}
}

func undepend(ctx context.Context, r *Run, job *qless.Job) error {
	jids := r.Form.jids("jids")
	if len(jids) == 0 {
		return job.UndependAll(ctx)
	}
	return job.Undepend(ctx, jids...)
}

// An edit changes the data of a job, unless the data has changed since the page was shown.
type edit struct{ each }

func (edit) Check(f *Form) {
	if len(f.Values["job"]) > 1 || f.Has("scope") {
		f.Refuse("", "The data of one job can be changed at a time.")
	}
}

// fillEdit sets the data of the job, and a digest for edit to detect changes.
func fillEdit(ctx context.Context, s *Space, f *Form) error {
	if len(f.Values["job"]) != 1 {
		return nil
	}
	_, jid, err := picked(f.Get("job"))
	if err != nil {
		return err
	}
	job, err := s.Client.Job(ctx, jid)
	if err != nil {
		return err
	}
	f.Set("digest", digest(job.Data))
	if !s.HidesData {
		f.Set("data", words.JSON(job.Data))
	}
	return nil
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

func editJob(ctx context.Context, r *Run, job *qless.Job) error {
	if err := canEdit(job, r.Form.Get("digest")); err != nil {
		return err
	}
	data := r.Form.data("data")
	if isSame(job.Data, data) {
		return nil
	}
	if err := job.SetData(data); err != nil {
		return err
	}
	return job.Move(ctx, job.Queue, keepOptions(job)...)
}

// isSame reports whether data has not changed, except for whitespace.
func isSame(before, now json.RawMessage) bool {
	var line bytes.Buffer
	return json.Compact(&line, before) == nil && bytes.Equal(line.Bytes(), now)
}

func canEdit(job *qless.Job, shown string) error {
	refused := &qless.Error{Op: "edit", JID: job.JID, Code: qless.ErrExists}
	switch {
	case !slices.Contains(editable, job.State):
		refused.Code, refused.Message = qless.ErrRunning, "the job is "+string(job.State)
	case shown == "" || shown != digest(job.Data):
		refused.Message = "its data has changed since the page was shown, or was not shown"
	case !utf8.Valid(job.Data):
		refused.Message = "its data is not UTF-8, so that it can't be changed in a browser"
	default:
		return nil
	}
	return refused
}

// keepOptions returns the options for a put that leaves a job in its place.
func keepOptions(job *qless.Job) []qless.PutOption {
	options := []qless.PutOption{qless.IfNotRunning}
	if len(job.Dependencies) > 0 {
		options = append(options, qless.DependsOn(job.Dependencies))
	}
	isPending := job.State == qless.StateScheduled || job.State == qless.StateDepends
	if isPending && !job.Due.IsZero() && job.Parked == "" {
		options = append(options, qless.At(job.Due))
	}
	return options
}

// copyJob puts a copy of a job.
func copyJob(ctx context.Context, r *Run, job *qless.Job) error {
	queue := cmp.Or(r.Form.Get("to"), QueueOf(job))
	job.BatchSize = nil // the copy is not a callback
	spec := job.Spec()
	options := slices.DeleteFunc(spec.Options, func(option qless.PutOption) bool {
		_, isJID := option.(qless.JID)
		return isJID
	})
	return r.put(r.Space.Client.Queue(queue).Put(ctx, spec.Klass, spec.Data, options...))
}

// QueueOf returns the queue of a job, or the last queue of a complete job.
func QueueOf(job *qless.Job) string {
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
