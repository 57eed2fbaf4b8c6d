package web

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/qless/qless-go"
)

// An Action is something that changes jobs, queues or settings. [Options.Allow] is asked about it.
type Action string

// The actions on jobs.
const (
	ActionJobCancel     Action = "job.cancel"     // delete jobs, and keep a receipt of them
	ActionJobCopy       Action = "job.copy"       // put new jobs that are like others
	ActionJobDepend     Action = "job.depend"     // let jobs wait for more jobs
	ActionJobEdit       Action = "job.edit"       // change the data of a job
	ActionJobLog        Action = "job.log"        // add a message to the history of jobs
	ActionJobMove       Action = "job.move"       // put jobs into another queue
	ActionJobPriority   Action = "job.priority"   // change the priority of jobs
	ActionJobPromote    Action = "job.promote"    // let scheduled jobs be popped now
	ActionJobPut        Action = "job.put"        // put a new job
	ActionJobReschedule Action = "job.reschedule" // change when jobs fall due
	ActionJobRestore    Action = "job.restore"    // put the jobs of a receipt again
	ActionJobRetry      Action = "job.retry"      // put failed jobs back into their own queues
	ActionJobTag        Action = "job.tag"        // add tags to jobs
	ActionJobTimeout    Action = "job.timeout"    // take running jobs from their workers
	ActionJobTrack      Action = "job.track"      // start tracking jobs
	ActionJobUndepend   Action = "job.undepend"   // let jobs wait for fewer jobs, or for none
	ActionJobUntag      Action = "job.untag"      // remove tags from jobs
	ActionJobUntrack    Action = "job.untrack"    // stop tracking jobs
)

// The actions on queues.
const (
	ActionQueueConcurrency Action = "queue.concurrency" // set how many of its jobs may run at once
	ActionQueueForget      Action = "queue.forget"      // remove it from the list of queues
	ActionQueueHeartbeat   Action = "queue.heartbeat"   // set how long its locks last
	ActionQueuePause       Action = "queue.pause"       // keep its jobs from being popped
	ActionQueueRate        Action = "queue.rate"        // set how many of its jobs may start in a time
	ActionQueueUnfail      Action = "queue.unfail"      // put the jobs of a failure group into it
	ActionQueueUnpause     Action = "queue.unpause"     // let its jobs be popped again
)

// The actions on everything else.
const (
	ActionConfigSet        Action = "config.set"        // change a setting
	ActionConfigUnset      Action = "config.unset"      // reset a setting to its default
	ActionLimitDelete      Action = "limit.delete"      // remove a limit
	ActionLimitHold        Action = "limit.hold"        // start no job with a limit for some time
	ActionLimitSet         Action = "limit.set"         // define or change a limit
	ActionRecurCancel      Action = "recur.cancel"      // delete a recurring job
	ActionRecurPut         Action = "recur.put"         // put a recurring job
	ActionRecurRun         Action = "recur.run"         // put a job of a recurring job now
	ActionRecurSet         Action = "recur.set"         // change a recurring job
	ActionScheduleForget   Action = "schedule.forget"   // remove a schedule
	ActionScheduleRun      Action = "schedule.run"      // put a job of a schedule now
	ActionWorkerDeregister Action = "worker.deregister" // remove a worker from the list of workers
)

// Actions returns all actions, sorted.
func Actions() []Action {
	all := make([]Action, 0, len(deeds))
	for action := range deeds {
		all = append(all, action)
	}
	slices.Sort(all)
	return all
}

// deeds are what the actions do.
var deeds map[Action]*deed

func init() {
	deeds = map[Action]*deed{}
	for _, some := range [][]deed{
		changesOfJobs(), newJobs(), changesOfQueues(), changesOfRecurring(), otherChanges(),
	} {
		for i := range some {
			deeds[some[i].Action] = &some[i]
		}
	}
}

// maxForm is how long a form may be: some thousand jids, or the data of a job.
const maxForm = 8 << 20

// act does what the form on a page asks for: at once, after a question, or while a page tells how
// far it is.
func (s *site) act(w http.ResponseWriter, r *http.Request) {
	q, err := s.readRequest(w, r)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	if !q.isComplete() {
		s.ask(w, r, q)
		return
	}
	if q.deed.jobs != nil {
		s.actOnJobs(w, r, q)
		return
	}
	do := q.deed.one(q.in)
	if q.in.isRefused() {
		s.ask(w, r, q)
		return
	}
	run := s.newRun(r, q)
	s.finish(w, r, q, run, q.deed.isLong(s, q.in), func() { run.one(do) })
}

// begin shows the page that asks about an action: with a URL of its own, so that a link leads
// there.
func (s *site) begin(w http.ResponseWriter, r *http.Request) {
	q, err := s.readRequest(w, r)
	if err != nil {
		s.fail(w, r, err)
		return
	}
	s.ask(w, r, q)
}

// A request asks for an action.
type request struct {
	action Action
	deed   *deed
	form   url.Values
	in     *input
	target target // the jobs, if the action is about jobs
	count  count  // how many there are
}

// readRequest reads what a form asks for, unless it is not allowed.
func (s *site) readRequest(w http.ResponseWriter, r *http.Request) (*request, error) {
	action := Action(r.PathValue("action"))
	deed := deeds[action]
	if deed == nil {
		return nil, notFound("there is no action %q", string(action))
	}
	if err := s.refusal(r, action); err != nil {
		s.auditRefusal(r, action, err)
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
	form, err := unhidden(form)
	if err != nil {
		return nil, err
	}
	q := &request{action: action, deed: deed, form: form}
	q.in = &input{form: form, hides: s.handler.options.Redact != nil, once: s.onceOf(q)}
	if deed.jobs != nil {
		q.target, err = s.targetOf(q)
	}
	return q, err
}

// isComplete reports whether there is nothing to ask: all is said, and it is confirmed or does no
// harm.
func (q *request) isComplete() bool {
	if q.form.Get("sure") != "" {
		q.in.require(q.deed.Fields)
		return !q.in.isRefused()
	}
	return !q.deed.isAsking(q.form) && (q.target == nil || q.target.isOne())
}

// actOnJobs changes jobs: those that a page showed, or all that match something.
func (s *site) actOnJobs(w http.ResponseWriter, r *http.Request, q *request) {
	do := q.deed.jobs(q.in)
	if q.in.isRefused() {
		s.ask(w, r, q)
		return
	}
	if err := s.count(r, q); err != nil {
		s.fail(w, r, err)
		return
	}
	if q.mustType() && !q.isTyped() {
		q.in.refuse("typed", "This is not the name: %s", q.typed())
		s.ask(w, r, q)
		return
	}
	run := s.newRun(r, q)
	isLong := q.count.IsMore || q.count.Jobs > doneAtOnce
	s.finish(w, r, q, run, isLong, func() { run.onJobs(q.target, do) })
}

// finish does something, and answers with what has become of it: at once, or if that may take
// long, by a page that tells how far it is.
func (s *site) finish(
	w http.ResponseWriter, r *http.Request, q *request, run *run, isLong bool, do func(),
) {
	run.isLong = isLong
	if before := s.handler.repeats.first(run); before != run {
		s.answer(w, r, q, before)
		return
	}
	if err := s.handler.runs.add(run); err != nil {
		s.handler.repeats.forget(run)
		s.fail(w, r, err)
		return
	}
	s.handler.background.Go(func() { run.do(do) })
	s.answer(w, r, q, run)
}

// answer answers a request with what has become of a run.
func (s *site) answer(w http.ResponseWriter, r *http.Request, q *request, run *run) {
	if run.isLong {
		s.answerRun(w, r, run)
		return
	}
	<-run.ended
	done := run.done
	if errors.Is(done.Err, qless.ErrInvalid) && done.Count == 0 && len(q.deed.Fields) > 0 {
		q.in.refuse("", "%s", plainly(done.Err))
		s.ask(w, r, q)
		return
	}
	if prefersJSON(r) {
		writeJSON(w, done.status(), done)
		return
	}
	http.Redirect(w, r, s.back(q.form.Get("back"), done.ID), http.StatusSeeOther)
}

// answerRun answers a request with what tells how far a run is.
func (s *site) answerRun(w http.ResponseWriter, r *http.Request, run *run) {
	if prefersJSON(r) {
		w.Header().Set("Location", s.base+"/runs/"+run.ID)
		writeJSON(w, http.StatusAccepted, run.look())
		return
	}
	http.Redirect(w, r, s.base+"/runs/"+run.ID, http.StatusSeeOther)
}

// back returns where an action goes back to: the page that it came from, with its outcome.
func (s *site) back(page, outcome string) string {
	back := s.ownPage(page)
	query := back.Query()
	query.Set("outcome", outcome)
	back.RawQuery = query.Encode()
	return back.RequestURI()
}

// ownPage returns a page of the site, or the overview if it is none.
func (s *site) ownPage(page string) *url.URL {
	own, err := url.Parse(page)
	isOwn := err == nil && !own.IsAbs() && own.Host == "" && own.Opaque == "" &&
		strings.HasPrefix(own.EscapedPath(), s.base+"/") && !strings.HasPrefix(own.Path, "//")
	if !isOwn {
		own, _ = url.Parse(s.base + "/")
	}
	return own
}

// How long the server may take for one step of an action, and for all of one that takes long and
// has no steps of its own.
const (
	actTimeout  = time.Minute
	longTimeout = time.Hour
)

func notFound(format string, args ...any) error {
	err := invalid(format, args...).(*qless.Error)
	err.Op, err.Code = "web", qless.CodeNotFound
	return err
}

// codeOf returns the code of an error, if it has one.
func codeOf(err error) qless.Code {
	var cause *qless.Error
	if errors.As(err, &cause) {
		return cause.Code
	}
	return ""
}

// plainly returns what an error says, without the names of commands.
func plainly(err error) string {
	var cause *qless.Error
	if errors.As(err, &cause) && cause.Message != "" {
		return cause.Message
	}
	return err.Error()
}
