package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/qless/qless-go"
)

const (
	doneAtOnce   = 500       // how many jobs are changed while a browser waits, and in one step
	readAtOnce   = 25        // how many jobs are read by one script, since their data may be long
	maxCollected = 1_000_000 // how many jobs a run changes
	maxLongRuns  = 4         // how many runs that take long are under way at a time
	maxRuns      = 50        // how many runs are kept
)

var errStale = errors.New("the job has changed since the page was shown")

// A run does what an action says, in steps.
type run struct {
	ID     string
	Action Action
	Label  string
	What   string
	Back   string
	Began  time.Time

	site    *site
	deed    *deed
	audit   *audit
	receipt *receipt
	isLong  bool
	once    string // what the form is known by that asked for it
	stopped atomic.Bool
	ended   chan struct{} // closed when done is final

	mu    sync.Mutex
	phase string
	found int
	done  *outcome
}

func (s *site) newRun(r *http.Request, q *request) *run {
	run := &run{
		ID: newID(), Action: q.action, Label: q.deed.Label, Back: q.form.Get("back"),
		Began: time.Now(), site: s, deed: q.deed, audit: s.auditOf(r, q),
		ended: make(chan struct{}), phase: "collecting", once: q.in.once,
	}
	if q.target != nil {
		run.What = q.target.String()
	}
	run.done = &outcome{ID: run.ID, Action: q.action, Verb: q.deed.Done, isOne: q.deed.one != nil}
	return run
}

// do runs what a run does, and closes it.
func (r *run) do(work func()) {
	defer close(r.ended)
	if r.isLong {
		r.audit.begun()
	}
	r.guard(work)
	r.mu.Lock()
	r.phase, r.done.Time = "done", time.Now()
	done := r.done
	if r.receipt != nil && r.receipt.len() > 0 {
		done.Receipt = r.receipt.ID
	}
	r.mu.Unlock()
	if done.Err != nil && done.Count == 0 {
		r.site.handler.repeats.forget(r)
	}
	if isDenial(done.Err) {
		r.site.denials.add(r.Action)
	}
	r.site.samples.forget()
	r.site.groups.forget()
	r.audit.ended(done)
	r.site.handler.outcomes.add(done)
}

// guard turns a panic into an error of the run: it must not end the program.
func (r *run) guard(work func()) {
	defer func() {
		if reason := recover(); reason != nil {
			r.site.handler.options.Logger.Error("dashboard: an action has panicked",
				"action", string(r.Action), "reason", fmt.Sprint(reason), "stack", string(debug.Stack()))
			r.fail(errors.New("the dashboard has failed: see its log"))
		}
	}()
	work()
}

func (r *run) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.done.Err == nil {
		r.done.Err = err
	}
}

// one does something that is not about jobs of a list.
func (r *run) one(do doOne) {
	r.enter("working", 0)
	most := actTimeout
	if r.isLong {
		most = longTimeout
	}
	ctx, cancel := context.WithTimeout(context.Background(), most)
	defer cancel()
	if err := do(ctx, r); err != nil {
		r.fail(err)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.done.isOne && r.done.Count == 0 {
		r.done.Count = 1
	}
}

// onJobs does something with the jobs of a target: it collects them first, because what is done
// with jobs may change the list that they are in.
func (r *run) onJobs(target target, do doJobs) {
	if r.Action == ActionJobCancel {
		receipts := &r.site.handler.receipts
		r.receipt = &receipt{ID: r.ID, site: r.site, Began: r.Began, most: receipts.most}
		receipts.add(r.receipt)
	}
	jids, err := r.collect(target)
	if err != nil {
		r.fail(err)
		return
	}
	r.audit.add(jids)
	r.enter("working", len(jids))
	for len(jids) > 0 {
		blocked, err := r.pass(target, jids, do)
		if err != nil {
			r.fail(err)
			return
		}
		if len(blocked) == len(jids) || !r.isToTryAgain() {
			return
		}
		r.forgive(blocked)
		jids = blocked
	}
}

// isToTryAgain reports whether jobs that others depend on are tried again after those.
func (r *run) isToTryAgain() bool { return r.Action == ActionJobCancel }

// forgive forgets that jobs were left, because they are tried again.
func (r *run) forgive(jids []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, jid := range jids {
		r.done.Left--
		delete(r.done.Why, jid)
	}
}

func (r *run) enter(phase string, found int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.phase, r.found = phase, found
}

// collect returns the jobs of a target, each once.
func (r *run) collect(target target) ([]string, error) {
	var all []string
	seen := map[string]bool{}
	for after, more := qless.Cursor(""), true; more; more = after != "" {
		if err := r.isStopped(); err != nil {
			return nil, err
		}
		ctx, cancel := context.WithTimeout(context.Background(), actTimeout)
		jids, _, next, err := target.find(ctx, after)
		cancel()
		if err != nil {
			return nil, err
		}
		for _, jid := range jids {
			if !seen[jid] && len(all) < maxCollected {
				seen[jid] = true
				all = append(all, jid)
			}
		}
		if r.enter("collecting", len(all)); len(all) == maxCollected {
			break
		}
		after = next
	}
	return all, nil
}

var errStopped = errors.New("stopped: the rest was left as it was")

func (r *run) isStopped() error {
	if r.stopped.Load() {
		return errStopped
	}
	return nil
}

// pass does something with jobs, step by step, and returns those that others depend on.
func (r *run) pass(target target, jids []string, do doJobs) (blocked []string, err error) {
	for some := range slices.Chunk(jids, doneAtOnce) {
		if err := r.isStopped(); err != nil {
			return nil, err
		}
		left, err := r.step(target, some, do)
		if err != nil {
			return nil, err
		}
		blocked = append(blocked, left...)
	}
	return blocked, nil
}

// step does something with those jobs that are still what the page has shown.
func (r *run) step(target target, jids []string, do doJobs) (blocked []string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), actTimeout)
	defer cancel()
	jobs, err := r.read(ctx, jids)
	if err != nil {
		return nil, err
	}
	jobs = r.unchanged(target, jids, jobs)
	if len(jobs) == 0 {
		return nil, nil
	}
	if r.receipt != nil {
		if err := r.receipt.reserve(jobs); err != nil {
			return nil, err
		}
	}
	sum, err := do(ctx, r, jobs)
	if r.receipt != nil {
		r.receipt.drop(sum.Errors)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.done.add(sum)
	for jid, why := range sum.Errors {
		if why.Code == qless.CodeHasDependents {
			blocked = append(blocked, jid)
		}
	}
	return blocked, err
}

func (r *run) read(ctx context.Context, jids []string) ([]*qless.Job, error) {
	jobs := make([]*qless.Job, 0, len(jids))
	for some := range slices.Chunk(jids, readAtOnce) {
		read, err := r.site.Client.Jobs(ctx, some...)
		if err != nil {
			return nil, err
		}
		jobs = append(jobs, read...)
	}
	return jobs, nil
}

// unchanged returns the jobs that are still what the page has shown, and notes the others.
func (r *run) unchanged(target target, jids []string, jobs []*qless.Job) []*qless.Job {
	r.mu.Lock()
	defer r.mu.Unlock()
	kept := make([]*qless.Job, 0, len(jobs))
	same := map[string]bool{}
	for _, job := range jobs {
		if target.holds(job) {
			same[job.JID] = true
			kept = append(kept, job)
		}
	}
	for _, jid := range jids {
		if !same[jid] {
			r.done.leave(jid, errStale)
		}
	}
	return kept
}

// made notes that a job was put.
func (r *run) made(jid string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.done.made(jid)
}

// A progress is how far a run is.
type progress struct {
	ID      string    `json:"id"`
	Action  Action    `json:"action"`
	What    string    `json:"what,omitempty"`
	Began   time.Time `json:"began"`
	Phase   string    `json:"phase"` // collecting, working or done
	Found   int       `json:"found"`
	Handled int       `json:"handled"`
	Count   int       `json:"count"`
	Left    int       `json:"left"`
	Outcome *outcome  `json:"outcome,omitempty"` // at the end

	Label    string `json:"-"`
	Back     string `json:"-"`
	IsHalted bool   `json:"stopping,omitempty"`
}

// IsDone reports whether the run has ended.
func (p *progress) IsDone() bool { return p.Outcome != nil }

func (r *run) look() *progress {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := &progress{
		ID: r.ID, Action: r.Action, What: r.What, Began: r.Began, Phase: r.phase, Found: r.found,
		Handled: r.done.Count + r.done.Left, Count: r.done.Count, Left: r.done.Left,
		Label: r.Label, IsHalted: r.stopped.Load(),
		Back: r.site.back(r.Back, r.ID),
	}
	if r.phase == "done" {
		p.Outcome = r.done
	}
	return p
}

// runs are the runs that are under way, and the last that were.
type runs struct {
	mu    sync.Mutex
	all   map[string]*run
	order []string
}

func (a *runs) add(one *run) error {
	if !one.isLong {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.underWay() >= maxLongRuns {
		return invalid("%d actions are under way: wait until one has ended, or stop one", maxLongRuns)
	}
	if a.all == nil {
		a.all = map[string]*run{}
	}
	a.all[one.ID] = one
	a.order = append(a.order, one.ID)
	if len(a.order) > maxRuns {
		delete(a.all, a.order[0])
		a.order = a.order[1:]
	}
	return nil
}

// halt has all runs stop after the step that they are at.
func (a *runs) halt() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, one := range a.all {
		one.stopped.Store(true)
	}
}

// underWay returns how many runs have not ended.
func (a *runs) underWay() int {
	n := 0
	for _, run := range a.all {
		select {
		case <-run.ended:
		default:
			n++
		}
	}
	return n
}

// run returns the run that a request is about.
func (s *site) run(r *http.Request) (*run, error) {
	all := &s.handler.runs
	all.mu.Lock()
	defer all.mu.Unlock()
	run := all.all[r.PathValue("id")]
	if run == nil || run.site != s {
		return nil, notFound("there is no such run, or it ended long ago")
	}
	return run, nil
}

// runPage shows how far a run is.
func (s *site) runPage(r *http.Request) (*view, error) {
	run, err := s.run(r)
	if err != nil {
		return nil, err
	}
	data := run.look()
	v := &view{template: "run", title: run.Label, data: data, isStill: data.IsDone()}
	if !data.IsDone() {
		v.refresh = 2
	}
	return v, nil
}

// stopRun stops a run before its next step.
func (s *site) stopRun(w http.ResponseWriter, r *http.Request) {
	run, err := s.run(r)
	if err == nil {
		if err = s.refusal(r, run.Action); err != nil {
			s.auditRefusal(r, run.Action, err)
		}
	}
	if err != nil {
		s.fail(w, r, err)
		return
	}
	run.stopped.Store(true)
	s.auditLog(r, run.Action).Info("dashboard: an action was stopped")
	s.answerRun(w, r, run)
}
