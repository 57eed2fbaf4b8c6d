package actions

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
	"github.com/qless/qless-go/internal/guard"
)

const (
	readAtOnce   = 25        // jobs read by one script; the data may be long
	maxCollected = 1_000_000 // the maximum number of jobs of a run
)

// The time limits of a step, and of a long run without steps.
const (
	stepTimeout = time.Minute
	longTimeout = time.Hour
)

var (
	errStale   = errors.New("the job has changed since the page was shown")
	errStopped = errors.New("stopped: the rest was left as it was")
)

// A Run performs an action in steps.
type Run struct {
	ID     string
	Info   *Info
	Space  *Space
	Form   *Form         // until the run has ended
	Back   string        // the page to go back to
	IsLong bool          // may take long
	Ended  chan struct{} // closed when the outcome is final

	once    string // identifies the form
	target  *Target
	log     *slog.Logger
	receipt *Receipt
	stopped atomic.Bool
	members []string        // pending members of canceled batches, to cancel next
	added   map[string]bool // all of these members: the target does not name them

	mu       sync.Mutex
	now      Progress
	done     *Outcome
	selected int      // the number of selected jobs
	only     string   // the jid of a single job
	logged   []string // the jids of some jobs
}

// NewID returns a unique word.
func NewID() string { return rand.Text() }

// hasEnded reports whether the outcome is final.
func (r *Run) hasEnded() bool {
	select {
	case <-r.Ended:
		return true
	default:
		return false
	}
}

// hasFailed reports whether the run has ended and done nothing.
func (r *Run) hasFailed() bool { return r.hasEnded() && r.done.Err != nil && r.done.Changed == 0 }

// do performs the action and records the outcome.
func (r *Run) do() {
	defer close(r.Ended)
	if r.IsLong {
		r.log.Info("dashboard: an action has begun")
	}
	err := r.guarded()
	r.change(func(done *Outcome) {
		r.now.Phase, done.Time, done.Err, done.Error = "done", time.Now(), err, reasonOf(err)
		if r.receipt != nil && r.receipt.size().Jobs > 0 {
			done.Receipt = r.ID
		} else if r.only != "" && done.Changed == 1 && len(done.JIDs) == 0 {
			done.put(r.only)
		}
	})
	r.Form, r.target = nil, nil // the form and the target may be long
	r.logOutcome()
	r.Space.Ended(r.done)
}

// guarded turns a panic into an error, to keep the program running.
func (r *Run) guarded() (err error) {
	problem := guard.Call(func() { err = r.work() })
	if problem == nil {
		return err
	}
	var stack string
	if panicked, ok := problem.(*guard.Panic); ok {
		stack = string(panicked.Stack)
	}
	r.log.Error("dashboard: an action has failed", "reason", problem, "stack", stack)
	return errors.New("the dashboard has failed: see its log")
}

func (r *Run) work() error {
	if r.Info.OnJobs {
		return r.onJobs()
	}
	r.enter("working", 0)
	most := stepTimeout
	if r.IsLong {
		most = longTimeout
	}
	ctx, cancel := context.WithTimeout(context.Background(), most)
	defer cancel()
	done, err := r.Info.Do(ctx, r, nil)
	r.add(done)
	return err
}

// onJobs changes the jobs of the request. It collects the jobs first, because a change may remove
// jobs from their list.
func (r *Run) onJobs() error {
	isCancel := r.Info.Name == "job.cancel"
	if isCancel {
		r.receipt = r.Space.History.newReceipt(r)
	}
	jids, err := r.collect()
	if err != nil {
		return err
	}
	r.enter("working", len(jids))
	r.selects(jids)
	for len(jids) > 0 {
		blocked, err := r.pass(jids)
		members := r.members
		if err != nil || !isCancel || len(blocked) == len(jids) && len(members) == 0 {
			return err
		}
		r.change(func(done *Outcome) { done.forgive(blocked) })
		r.members = nil
		jids = append(blocked, without(members, jids)...) // their dependents are gone
	}
	return nil
}

// addMembers notes the pending members of batches with callbacks about to be canceled: such members
// are canceled, too.
func (r *Run) addMembers(ctx context.Context, jobs []*qless.Job) error {
	for _, job := range jobs {
		if job.BatchSize == nil || job.State != qless.StateDepends {
			continue
		}
		for jid, err := range r.Space.Client.Batch(job.JID).Pending(ctx) {
			if err != nil {
				return err
			}
			if !r.added[jid] {
				r.members = append(r.members, jid)
				r.added[jid] = true
			}
		}
	}
	return nil
}

// without returns the jids not among others.
func without(jids, others []string) []string {
	known := map[string]bool{}
	for _, jid := range others {
		known[jid] = true
	}
	return slices.DeleteFunc(jids, func(jid string) bool { return known[jid] })
}

// collect returns the jobs of the request, each once.
func (r *Run) collect() (all []string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), longTimeout)
	defer cancel()
	seen := map[string]bool{}
	for jid, err := range r.target.jobs(ctx) {
		if err == nil {
			err = r.checkStopped()
		}
		if err != nil {
			return nil, err
		}
		if seen[jid] {
			continue
		}
		seen[jid] = true
		all = append(all, jid)
		if len(all)%doneAtOnce == 0 {
			r.enter("collecting", len(all))
		}
		if len(all) == maxCollected {
			break
		}
	}
	return all, nil
}

// Stop stops the run before its next step.
func (r *Run) Stop() { r.stopped.Store(true) }

func (r *Run) checkStopped() error {
	if r.stopped.Load() {
		return errStopped
	}
	return nil
}

// pass changes jobs step by step, and returns the jobs blocked by dependents.
func (r *Run) pass(jids []string) (blocked []string, err error) {
	for some := range slices.Chunk(jids, doneAtOnce) {
		if err := r.checkStopped(); err != nil {
			return nil, err
		}
		done, err := r.step(some)
		if err != nil {
			return nil, err
		}
		for jid, why := range done.Reasons {
			if why.Code == qless.ErrHasDependents {
				blocked = append(blocked, jid)
			}
		}
	}
	return blocked, nil
}

// step changes the jobs that are unchanged since the page was shown.
func (r *Run) step(jids []string) (done inspect.Repair, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), stepTimeout)
	defer cancel()
	var jobs []*qless.Job
	for some := range slices.Chunk(jids, readAtOnce) {
		read, err := r.Space.Client.Jobs(ctx, some...)
		if err != nil {
			return done, err
		}
		jobs = append(jobs, read...)
	}
	if jobs = r.unchanged(jids, jobs); len(jobs) == 0 {
		return done, nil
	}
	if r.receipt != nil {
		if err := r.receipt.checkRoom(jobs); err != nil {
			return done, err
		}
		if err := r.addMembers(ctx, jobs); err != nil {
			return done, err
		}
	}
	done, err = r.Info.Do(ctx, r, jobs)
	if r.receipt != nil {
		r.receipt.add(jobs, done.Reasons)
	}
	r.add(done)
	return done, err
}

// unchanged returns the jobs unchanged since the page was shown, and records the others.
func (r *Run) unchanged(jids []string, jobs []*qless.Job) []*qless.Job {
	same := map[string]bool{}
	jobs = slices.DeleteFunc(jobs, func(job *qless.Job) bool {
		same[job.JID] = r.added[job.JID] || r.target.holds(job)
		return !same[job.JID]
	})
	r.change(func(done *Outcome) {
		for _, jid := range jids {
			if !same[jid] {
				done.leave(jid, errStale)
			}
		}
	})
	return jobs
}

// selection returns the jobs of a step.
func (r *Run) selection(jobs []*qless.Job) inspect.Selection {
	return r.Space.JIDs(jidsOf(jobs)...)
}

func jidsOf(jobs []*qless.Job) []string {
	jids := make([]string, len(jobs))
	for i, job := range jobs {
		jids[i] = job.JID
	}
	return jids
}

// change changes the outcome.
func (r *Run) change(do func(done *Outcome)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	do(r.done)
}

func (r *Run) add(done inspect.Repair) { r.change(func(o *Outcome) { o.add(done) }) }

// put records that a job was put, or returns the error.
func (r *Run) put(jid string, err error) error {
	if err == nil {
		r.change(func(done *Outcome) { done.put(jid) })
	}
	return err
}

func (r *Run) enter(phase string, found int) {
	r.change(func(*Outcome) { r.now.Phase, r.now.Found = phase, found })
}

// Outcome returns the outcome of an ended run.
func (r *Run) Outcome() *Outcome {
	<-r.Ended
	return r.done
}

// A Progress is the progress of a run.
type Progress struct {
	ID        string    `json:"id"`
	Action    string    `json:"action"`
	What      string    `json:"what,omitempty"`
	Began     time.Time `json:"began"`
	Phase     string    `json:"phase"` // collecting, working or done
	Found     int       `json:"found"`
	Handled   int       `json:"handled"`
	Changed   int       `json:"changed"`
	Unchanged int       `json:"unchanged"`
	Outcome   *Outcome  `json:"outcome,omitempty"` // at the end
	IsHalted  bool      `json:"stopping,omitempty"`
}

// IsDone reports whether the run has ended.
func (p *Progress) IsDone() bool { return p.Outcome != nil }

// Progress returns the progress of the run.
func (r *Run) Progress() *Progress {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.now
	p.Changed, p.Unchanged, p.IsHalted = r.done.Changed, r.done.Unchanged, r.stopped.Load()
	p.Handled = p.Changed + p.Unchanged
	if p.Phase == "done" {
		p.Outcome = r.done
	}
	return &p
}

// The maximum number of jids in a log record, and the maximum length of a text.
const (
	loggedJobs = 20
	loggedText = 200
)

// Short shortens a text for the log.
func Short(text string) string {
	if len(text) > loggedText {
		return text[:loggedText] + "…"
	}
	return text
}

// selects records the jobs of a run for the log.
func (r *Run) selects(jids []string) {
	r.selected = len(jids)
	if len(jids) == 1 {
		r.only = jids[0]
	}
	for _, jid := range jids[:min(len(jids), loggedJobs)] {
		r.logged = append(r.logged, Short(jid))
	}
}

// logOutcome logs the outcome of the run.
func (r *Run) logOutcome() {
	log := r.log.With("changed", r.done.Changed, "unchanged", r.done.Unchanged)
	if r.selected > 0 {
		log = log.With("jobs", r.logged, "selected", r.selected)
	}
	if r.done.Err != nil {
		log.Error("dashboard: an action failed", "error", r.done.Err)
		return
	}
	log.Info("dashboard: an action was done")
}
