package qless

import (
	"context"
	"encoding/json"
	"strconv"
	"time"

	"github.com/qless/qless-go/internal/guard"
	"github.com/qless/qless-go/internal/wire"
)

// A Progress is the progress of a job last reported by the worker: see [Job.SetProgress].
type Progress struct {
	// Done is the amount done, out of Total.
	Done int `json:"done"`

	// Total is the total amount, or 0 if unknown.
	Total int `json:"total"`

	// Note describes the current step of the job, or is empty.
	Note string `json:"note,omitempty"`

	// Attempt is the attempt that reported this, counted as in [Job.Attempt].
	Attempt int `json:"attempt"`

	// Time is when the server recorded the progress.
	Time time.Time `json:"time,omitzero"`
}

// The limits of [Job.SetProgress].
const (
	maxAmount = 1 << 53 // above this, replies lose precision
	maxNote   = 1 << 10
)

// SetProgress records the progress of the job: the amount done, the total or 0 if that is not
// known, and a note of at most 1 KiB. Negative amounts are [ErrInvalid].
//
// In a handler, SetProgress does not talk to the server: the worker sends progress at most once a
// second, but the first of a run, and one whose done is the total, at once. Elsewhere, the caller
// must hold the job's lock.
func (j *Job) SetProgress(ctx context.Context, done, total int, note string) error {
	if err := j.held("progress"); err != nil {
		return err
	}
	switch {
	case done < 0 || total < 0:
		return invalid("progress", j.JID, "%d of %d is negative", done, total)
	case int64(max(done, total)) > maxAmount:
		return invalid("progress", j.JID, "%d of %d is more than %d", done, total, int64(maxAmount))
	case len(note) > maxNote:
		return invalid("progress", j.JID, "the note has %d bytes, which is more than %d",
			len(note), maxNote)
	}
	r := &progressReport{
		jid: j.JID, since: j.since, done: done, total: total, note: validText(note),
	}
	if j.run != nil {
		j.run.setProgress(r)
		return nil
	}
	answers, err := j.client.sendProgress(ctx, j.JID, r)
	if err != nil {
		return err
	}
	if problem, refused := wire.RefusedProblem(answers[0]); refused {
		return refusal("progress", j.JID, problem, nil)
	}
	return nil
}

// A progressReport is the progress of a job, to be sent to the server.
type progressReport struct {
	jid, since  string
	done, total int
	note        string
}

// isLast reports whether everything is done.
func (r *progressReport) isLast() bool { return r.total > 0 && r.done >= r.total }

// sendProgress sends the progress of jobs, and returns the server's answer for each. jid is the jid
// of a single job.
func (c *Client) sendProgress(
	ctx context.Context, jid string, reports ...*progressReport,
) ([]string, error) {
	args := []any{c.worker}
	for _, r := range reports {
		args = append(args,
			r.jid, r.since, strconv.Itoa(r.done), strconv.Itoa(r.total), r.note)
	}
	reply, err := c.run(ctx, "progress", jid, args...)
	if err != nil {
		return nil, err
	}
	answers, err := decodeStrings("progress", reply)
	if err == nil && len(answers) != len(reports) {
		err = unexpected("progress", reply)
	}
	return answers, err
}

// A progressReply is the stored progress of a job.
type progressReply struct {
	Done    wire.Number `json:"done"`
	Total   wire.Number `json:"total"`
	Note    wire.Text   `json:"note"`
	Attempt wire.Number `json:"attempt"`
	Time    wire.Number `json:"time"`
}

func (r *progressReply) UnmarshalJSON(raw []byte) error {
	type plain progressReply
	*r = progressReply{}
	_ = json.Unmarshal(raw, (*plain)(r)) // damaged progress counts as none
	return nil
}

// progress returns the progress, or nil if there is none.
func (r *progressReply) progress() *Progress {
	if r == nil || r.Attempt < 1 {
		return nil
	}
	return &Progress{
		Done: r.Done.LargeInt(), Total: r.Total.LargeInt(), Note: string(r.Note),
		Attempt: r.Attempt.Int(), Time: r.Time.Time(),
	}
}

// OnProgress is an option of [Client.Wait]: a function that is called with the progress of the job
// ([Job.SetProgress]), first with any that is known when the wait begins. Wait does not return
// before the function does. If more progress arrives meanwhile, the function is next called with
// the latest.
type OnProgress func(Progress)

func (o OnProgress) applyWait(given *waitOptions) {
	if o != nil {
		given.progress = &progressNotifier{call: o}
	}
}

// A progressNotifier calls an OnProgress with each progress once. A nil one does nothing.
type progressNotifier struct {
	call  OnProgress
	guard *guard.Guard
	last  Progress
}

// receive handles a message.
func (t *progressNotifier) receive(message string) {
	if reply, err := decode[progressReply]("wait", message); err == nil {
		t.notify(&reply)
	}
}

func (t *progressNotifier) notify(reply *progressReply) {
	p := reply.progress()
	if t == nil || p == nil || *p == t.last || p.Time.Before(t.last.Time) {
		return
	}
	t.last = *p
	_ = t.guard.Call(func() { t.call(*p) })
}
