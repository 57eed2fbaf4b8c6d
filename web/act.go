package web

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/terms"
	"github.com/qless/qless-go/web/internal/actions"
)

// act does the action of a form: at once, after a question, or while a page shows its progress. The
// question has a page with its own URL, for links.
func (s *site) act(w http.ResponseWriter, r *http.Request) {
	q, err := s.readRequest(w, r)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	if r.Method != http.MethodPost || !q.IsReady() {
		s.ask(w, r, q)
		return
	}
	if err := q.CountJobs(r.Context()); err != nil {
		s.fail(w, r, err)
		return
	}
	if !q.IsTyped() {
		s.ask(w, r, q)
		return
	}
	run, err := s.space.History.Start(actions.NewRun(q, s.requestLog(r, q)))
	if err != nil {
		s.fail(w, r, err)
		return
	}
	s.answer(w, r, q, run)
}

// maxForm is the maximum size of a form: some thousand jids, or the data of a job.
const maxForm = 8 << 20

// readRequest reads the request of a form, and checks that it is allowed.
func (s *site) readRequest(w http.ResponseWriter, r *http.Request) (*actions.Request, error) {
	info := actions.All[r.PathValue("action")]
	if info == nil {
		return nil, notFound("there is no action %q", r.PathValue("action"))
	}
	if err := s.check(r, info.Name); err != nil {
		return nil, err
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	if err := r.ParseForm(); err != nil {
		return nil, invalid("the form can't be read: %v", err)
	}
	form := r.PostForm
	if r.Method != http.MethodPost {
		form = r.URL.Query()
		form.Del("sure")
	}
	form, err := actions.Unhide(form)
	if err != nil {
		return nil, err
	}
	return s.space.NewRequest(info, form)
}

// answer answers a request with the result of a run. During a long run, it redirects to a page with
// the progress.
func (s *site) answer(
	w http.ResponseWriter, r *http.Request, q *actions.Request, run *actions.Run,
) {
	if run.IsLong {
		s.answerRun(w, r, run)
		return
	}
	done := run.Outcome()
	if errors.Is(done.Err, qless.ErrInvalid) && done.Changed == 0 && len(q.Info.Fields) > 0 {
		q.Form.Refuse("", "%s", actions.Plainly(done.Err))
		s.ask(w, r, q)
		return
	}
	if !prefersJSON(r) {
		back := q.Form.Get("back")
		if done.Changed == 0 {
			back = cameFrom(q.Form) // the subject still exists
		}
		http.Redirect(w, r, s.back(back, done.ID), http.StatusSeeOther)
		return
	}
	status := http.StatusOK
	switch {
	case done.Err == nil || done.Changed > 0:
	case actions.IsDenial(done.Err):
		status = http.StatusForbidden
	default:
		status = statusOf(done.Err)
	}
	writeJSON(w, status, done)
}

// answerRun answers a request with the progress of a run.
func (s *site) answerRun(w http.ResponseWriter, r *http.Request, run *actions.Run) {
	page := s.Base + "/runs/" + run.ID
	if prefersJSON(r) {
		w.Header().Set("Location", page)
		writeJSON(w, http.StatusAccepted, run.Progress())
		return
	}
	http.Redirect(w, r, page, http.StatusSeeOther)
}

// back returns the URL to return to after an action: the page with the button, with the outcome.
func (s *site) back(page, outcome string) string {
	back := s.ownPage(page)
	query := back.Query()
	query.Set("outcome", outcome)
	back.RawQuery = query.Encode()
	return back.RequestURI()
}

// A runData is the progress of a run.
type runData struct {
	*actions.Progress
	Label string `json:"-"`
	Back  string `json:"-"`
}

// runPage shows the progress of a run.
func (s *site) runPage(r *http.Request) (*view, error) {
	run, err := s.space.History.Run(s.space, r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	data := &runData{run.Progress(), run.Info.Label, s.back(run.Back, run.ID)}
	v := &view{template: "run", Title: data.Label, Data: data, isOver: data.IsDone()}
	if !data.IsDone() {
		v.refresh = 2
	}
	return v, nil
}

// stopRun stops a run before its next step.
func (s *site) stopRun(w http.ResponseWriter, r *http.Request) {
	run, err := s.space.History.Run(s.space, r.PathValue("id"))
	if err == nil {
		err = s.check(r, run.Info.Name)
	}
	if err != nil {
		s.fail(w, r, err)
		return
	}
	run.Stop()
	s.log(r, run.Info.Name).Info("dashboard: an action was stopped")
	s.answerRun(w, r, run)
}

// download sends a receipt as lines of JSON.
func (s *site) download(w http.ResponseWriter, r *http.Request) {
	if s.IsRedacted() {
		s.fail(w, r, fmt.Errorf("%w: data of jobs is hidden; the jobs can be put again", errDenied))
		return
	}
	receipt, err := s.space.History.Receipt(s.space, r.PathValue("id"))
	if err != nil {
		s.fail(w, r, err)
		return
	}
	w.Header().Set("Content-Type", "application/jsonl; charset=utf-8")
	w.Header().Set("Content-Disposition",
		`attachment; filename="canceled-`+receipt.Began.UTC().Format("20060102-150405")+`.jsonl"`)
	_ = receipt.Write(w) // the browser is gone
}

// ended records that an action has changed something, or was denied by the server.
func (s *site) ended(done *actions.Outcome) {
	if actions.IsDenial(done.Err) {
		s.denials.add(Action(done.Action))
	}
	s.samples.forget()
	s.groups.forget()
	s.runs.forget()
}

// requestLog returns a logger with the subject of a request, but without data.
func (s *site) requestLog(r *http.Request, q *actions.Request) *slog.Logger {
	log := s.log(r, q.Info.Name)
	for _, field := range q.Info.Fields {
		if value := strings.Join(q.Form.Values[field.Name], " "); value != "" && !field.Secret {
			log = log.With(field.Name, actions.Short(value))
		}
	}
	for _, name := range actions.ScopeFields {
		words, _ := terms.Parse(q.Form.Get("q"))
		isData := name == "data" || name == "q" && words.InData()
		if value := q.Form.Get(name); value != "" && q.Form.Has("scope") && !isData {
			log = log.With("scope."+name, actions.Short(value))
		}
	}
	return log
}
