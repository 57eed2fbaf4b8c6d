package actions

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"net/url"
	"strings"
	"time"
)

// A Request is a request for an action.
type Request struct {
	Info   *Info
	Form   *Form
	Space  *Space
	Target *Target // the jobs, if the action is about jobs
	Count  *Count  // the number of these jobs, once counted
}

// OnceName is the name of the input that identifies a form sent twice, by a double click or a
// reload of the next page. The action is done once. Idempotent actions don't need OnceName.
const OnceName = "once"

// NewRequest returns a request for an action with the values of a form.
func (s *Space) NewRequest(info *Info, values url.Values) (*Request, error) {
	q := &Request{Info: info, Form: &Form{Values: values}, Space: s}
	if info.Creates && values.Get(OnceName) != "" {
		sum := sha256.Sum256([]byte(s.Base + "\n" + info.Name + "\n" + values.Encode()))
		q.Form.Once = hex.EncodeToString(sum[:16])
	}
	var err error
	if info.OnJobs {
		q.Target, err = s.targetOf(q.Form)
	}
	return q, err
}

// IsReady reports whether the request needs no question: it is complete, and confirmed or harmless.
// It records invalid fields in the form.
func (q *Request) IsReady() bool {
	isSure := q.Form.Get("sure") != ""
	if !isSure && (q.Info.asks(q.Form) || q.Target != nil && !q.Target.isOne()) {
		return false
	}
	q.Form.check(q.Info.Fields)
	q.Info.Check(q.Form)
	return len(q.Form.Problems) == 0
}

// CountJobs counts the jobs of the request, unless counted before.
func (q *Request) CountJobs(ctx context.Context) error {
	if q.Target == nil || q.Count != nil {
		return nil
	}
	count, err := q.Target.count(ctx)
	q.Count = &count
	return err
}

// Fill adds the current values to the form, unless the form has values.
func (q *Request) Fill(ctx context.Context) error {
	if q.Info.Fill == nil || !q.Form.isFresh(q.Info.Fields) {
		return nil
	}
	return q.Info.Fill(ctx, q.Space, q.Form)
}

// typedFrom is the number of jobs above which the user must type a name.
const typedFrom = 1000

// MustType reports whether the user must type a name, because of many jobs.
func (q *Request) MustType() bool {
	return q.Count != nil && (q.Count.IsMore || q.Count.Jobs > typedFrom)
}

// Typed returns the name that the user must type: that of the queue, group, tag or worker, or else
// of the action.
func (q *Request) Typed() string {
	name := strings.TrimSpace(printable(q.Target.Name))
	if name == "" {
		return q.Info.Name
	}
	return name
}

// IsTyped reports whether the name was typed, if that is required. A missing name is recorded in
// the form.
func (q *Request) IsTyped() bool {
	if !q.MustType() || strings.TrimSpace(printable(q.Form.Get("typed"))) == q.Typed() {
		return true
	}
	q.Form.Refuse("typed", "This is not the name: %s", q.Typed())
	return false
}

// printable returns a text as shown by a browser.
func printable(text string) string {
	text = strings.ToValidUTF8(text, "\ufffd")
	return strings.NewReplacer("\x00", "\ufffd", "\r", " ", "\n", " ").Replace(text)
}

// isLong reports whether the action may take long.
func (q *Request) isLong() bool {
	if q.Target != nil {
		return q.Count != nil && (q.Count.IsMore || q.Count.Jobs > doneAtOnce)
	}
	return q.Info.IsLong != nil && q.Info.IsLong(q.Space, q.Form)
}

// NewRun returns a run of a request.
func NewRun(q *Request, log *slog.Logger) *Run {
	r := &Run{
		ID: NewID(), Info: q.Info, Space: q.Space, Form: q.Form, Back: q.Form.Get("back"),
		IsLong: q.isLong(), Ended: make(chan struct{}), once: q.Form.Once, target: q.Target, log: log,
		added: map[string]bool{},
	}
	r.now = Progress{ID: r.ID, Action: r.Info.Name, Began: time.Now(), Phase: "collecting"}
	if q.Target != nil {
		r.now.What = q.Target.What
	}
	r.done = &Outcome{ID: r.ID, Action: r.Info.Name, what: r.Info.Done}
	return r
}
