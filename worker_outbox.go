package qless

import (
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/qless/qless-go/internal/hub"
	"github.com/qless/qless-go/internal/redisx"
	"github.com/qless/qless-go/internal/runs"
	"github.com/qless/qless-go/internal/wire"
)

// A report is the outcome of a job, to be sent to the server.
type report struct {
	Outcome
	quiet     bool // ends no run: the job was not started, or lost by its run
	run       *run // unless quiet
	jid       string
	queue     string
	since     string    // when the job was popped, by the server's clock; empty if unknown
	data      string    // empty if unchanged
	result    string    // empty if there is none
	message   string    // of a failure
	until     time.Time // when the lock ends
	sent      bool      // sent before, without a reply
	alone     bool      // the server refused a call with it: send it alone
	unstarted bool      // releases a job whose handler was not called
	place     int       // the order among such reports of an exchange; 0: none
	refusals  int       // how often the server refused the report alone
	late      bool      // the lock has ended: another worker probably has the job
}

func (r *report) lockEnded() bool { return !time.Now().Before(r.until) }

// endedAs returns how the job has ended, by the server's answer: a retry fails a job that has no
// retries left.
func (r *report) endedAs(answer string) Action {
	if r.Action == ActionRetry && strings.HasPrefix(answer, "-") {
		return ActionFail
	}
	return r.Action
}

// reportArgs is the number of arguments of a report without details.
const reportArgs = 5

// reportBatch is the maximum number of reports in one script.
const reportBatch = 200

// finishArgs returns the arguments of the script finish. Consecutive complete jobs of a queue, with
// nothing else to report, are listed together.
func finishArgs(worker string, reports []*report) []any {
	args := append(make([]any, 0, 4+len(reports)*reportArgs), worker)
	count, queue := -1, "" // the index of the number of jobs listed together, and their queue
	named := 0
	for _, r := range reports {
		details := r.details()
		if r.Action != ActionComplete || r.data != "" || len(details) > 0 {
			count = -1
			args = append(args, string(r.Action), r.jid, r.queue, r.data, len(details))
			args = wire.Anys(args, details...)
			continue
		}
		if count < 0 || r.queue != queue {
			args = append(args, "completed", r.queue, "")
			count, queue, named = len(args)-1, r.queue, 0
		}
		named++
		args[count] = named
		args = append(args, r.jid)
	}
	return args
}

// finishAnswers returns the answer of the script finish to each report. There are none if all jobs
// are complete, with nothing else to report.
func finishAnswers(reply any, reports []*report) ([]string, error) {
	answers, err := decodeStrings("finish", reply)
	if err == nil && len(answers) > 0 && len(answers) != len(reports) {
		err = unexpected("finish", reply)
	}
	return answers, err
}

// An actionSpec describes what follows from an action.
type actionSpec struct {
	args      func(o *Outcome, message string) []string // of the script finish, in pairs
	hasResult bool                                      // the action may have ended the job
	count     func(*WorkerStats) *int                   // the counter of such outcomes
	countRun  func(*runs.Counts) *int                   // that of such runs, or nil
}

var actions = map[Action]actionSpec{
	ActionComplete: {
		args:      (*Outcome).completeArgs,
		hasResult: true,
		count:     func(s *WorkerStats) *int { return &s.Completed },
		countRun:  func(c *runs.Counts) *int { return &c.Completed },
	},
	ActionFail: {
		args:      (*Outcome).failureArgs,
		hasResult: true,
		count:     func(s *WorkerStats) *int { return &s.Failed },
		countRun:  func(c *runs.Counts) *int { return &c.Failed },
	},
	ActionRelease: { // neither completes nor fails a run
		args:  (*Outcome).releaseArgs,
		count: func(s *WorkerStats) *int { return &s.Released },
	},
	ActionRetry: {
		args:      (*Outcome).retryArgs,
		hasResult: true,
		count:     func(s *WorkerStats) *int { return &s.Retried },
		countRun:  func(c *runs.Counts) *int { return &c.Retried },
	},
}

// details returns the arguments of the report's action, in pairs. A report that is late or was sent
// before names its run, because this worker may have popped the job again since.
func (r *report) details() []string {
	spec := actions[r.Action]
	details := spec.args(&r.Outcome, r.message)
	if (r.sent || r.late || r.place > 0) && r.since != "" {
		details = append(details, "since", r.since)
	}
	if r.result != "" && spec.hasResult {
		details = append(details, "result", r.result)
	}
	if r.place > 0 {
		details = append(details, "place", strconv.Itoa(r.place))
	}
	return details
}

// setPlaces makes the jobs that were not started keep their order when released.
func setPlaces(reports []*report) {
	place := 0
	for _, r := range reports {
		if r.unstarted {
			place++
			r.place = place
		}
	}
}

// inBatches splits reports into batches for one script each.
func inBatches(reports []*report) (batches [][]*report) {
	together := reports
	if slices.ContainsFunc(reports, func(r *report) bool { return r.alone }) {
		together = nil
		for _, r := range reports {
			if r.alone {
				batches = append(batches, []*report{r})
			} else {
				together = append(together, r)
			}
		}
	}
	for some := range slices.Chunk(together, reportBatch) {
		batches = append(batches, some)
	}
	return batches
}

// reportBytes is the maximum size in bytes of changed data and results in one exchange, unless one
// job has more.
const reportBytes = 2 << 20

// countReports returns the number of reports for one exchange.
func countReports(reports []*report) int {
	bytes := 0
	for n, r := range reports {
		bytes += len(r.data) + len(r.result)
		if n > 0 && bytes > reportBytes {
			return n
		}
	}
	return len(reports)
}

// maxRefusals is the number of times that the server may refuse a report that was sent alone.
const maxRefusals = 5

// refusedBackoff is how long to wait before sending a refused report again.
var refusedBackoff = redisx.Backoff{First: 200 * time.Millisecond, Longest: 10 * time.Second}

// An outbox holds the reports not delivered yet, and handles the server's answers.
type outbox struct {
	log   *workerLog
	ready hub.Signal // there is something to send again
	rest  hub.Signal // dependents are left to be released

	// reported is called when the server has ended a job by an action, or has not because of an error.
	// It may be nil.
	reported func(r *report, action Action, err error)

	mu      sync.Mutex
	queued  []*report
	sending []*report
	held    map[*report]*time.Timer // refused reports, with the timers that queue them again
}

func newOutbox(
	log *workerLog, ready hub.Signal, reported func(r *report, action Action, err error),
) *outbox {
	return &outbox{
		log: log, ready: ready, rest: hub.NewSignal(), reported: reported,
		held: map[*report]*time.Timer{},
	}
}

// add queues reports.
func (b *outbox) add(reports ...*report) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.queued = append(b.queued, reports...)
}

// take returns the queued reports, which count as being sent until done is called. If their data is
// large, only the first are taken, and the next exchange follows at once.
func (b *outbox) take() []*report {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := countReports(b.queued)
	b.sending, b.queued = b.queued[:n], append([]*report(nil), b.queued[n:]...)
	if len(b.queued) > 0 {
		b.ready.Notify()
	}
	return b.sending
}

// done records that the reports returned by take have been handled.
func (b *outbox) done() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.sending = nil
}

// isEmpty reports whether all reports are delivered.
func (b *outbox) isEmpty() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.queued)+len(b.sending)+len(b.held) == 0
}

// has reports whether there is a report about a job.
func (b *outbox) has(jid string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for r := range b.held {
		if r.jid == jid {
			return true
		}
	}
	return slices.ContainsFunc(b.queued, func(r *report) bool { return r.jid == jid })
}

// forget drops and returns the reports about a job popped again after the end of the lock.
func (b *outbox) forget(jid string) (forgotten []*report) {
	about := func(r *report) bool {
		if r.jid == jid {
			forgotten = append(forgotten, r)
		}
		return r.jid == jid
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.queued = slices.DeleteFunc(b.queued, about)
	maps.DeleteFunc(b.held, func(r *report, _ *time.Timer) bool { return about(r) })
	return forgotten
}

// close drops all reports, and returns them.
func (b *outbox) close() (undelivered []*report) {
	b.mu.Lock()
	undelivered = slices.Concat(b.queued, b.sending)
	for r, timer := range b.held {
		timer.Stop()
		undelivered = append(undelivered, r)
	}
	clear(b.held)
	b.mu.Unlock()
	if len(undelivered) > 0 {
		b.log.undelivered(len(undelivered))
	}
	return undelivered
}

// requeue queues reports to be sent again at once.
func (b *outbox) requeue(reports []*report) {
	b.add(reports...)
	b.ready.Notify()
}

// hold queues a report again after a time, without delaying the others.
func (b *outbox) hold(r *report, wait time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.held[r] = time.AfterFunc(wait, func() { b.unhold(r) })
}

// unhold queues a held report, unless dropped in the meantime.
func (b *outbox) unhold(r *report) {
	b.mu.Lock()
	if _, ok := b.held[r]; ok {
		delete(b.held, r)
		b.queued = append(b.queued, r)
	}
	b.mu.Unlock()
	b.ready.Notify()
}

// answered handles the reply to reports that were sent in one script, or the error that came
// instead. others is true if another command of the same exchange succeeded. It returns an error if
// the next exchange must wait.
func (b *outbox) answered(reports []*report, reply any, err error, others bool) error {
	var answers []string
	if err == nil {
		answers, err = finishAnswers(reply, reports)
	}
	if err == nil {
		b.settle(reports, answers)
		return nil
	}
	err = wrap("finish", "", err)
	if errors.Is(err, ErrInvalid) {
		b.invalid(reports, err)
		return nil
	}
	for _, r := range reports {
		r.sent = true
	}
	switch general := redisx.IsServerWide(err); {
	case !redisx.IsAnswer(err) && !errors.Is(err, ErrServer):
		b.requeue(reports)
		return err
	case general && !others:
		b.requeueLocked(reports, err)
		return err
	case len(reports) > 1:
		b.separate(reports)
	default:
		b.refused(reports[0], err, general)
	}
	return nil
}

// settle handles the server's answer to each report. Without answers, all jobs are complete.
func (b *outbox) settle(reports []*report, answers []string) {
	for i, r := range reports {
		answer := string(StateComplete)
		if len(answers) > 0 {
			answer = answers[i]
		}
		problem, refused := wire.RefusedProblem(answer)
		if !refused {
			b.end(r, r.endedAs(answer), nil)
			continue
		}
		err := refusal("finish", r.jid, problem, nil)
		switch err.Code {
		case ErrServer: // a key is damaged, perhaps not for long
			r.alone = true
			b.refused(r, err, false)
		case ErrInvalid:
			b.invalid([]*report{r}, err)
		default:
			b.notTaken(r, err)
		}
	}
	if slices.ContainsFunc(answers, wire.LeavesRest) {
		b.rest.Notify()
	}
}

// end reports how the server has ended a job, or why not.
func (b *outbox) end(r *report, action Action, err error) {
	if b.reported != nil {
		b.reported(r, action, err)
	}
}

// notTaken handles a report whose job no longer belongs to this worker.
func (b *outbox) notTaken(r *report, err *Error) {
	switch {
	case r.late || r.unstarted: // nothing waits for it
	case r.sent: // accepted the first time, or the job is lost
		b.log.refusedAgain(r, err.Message)
		b.end(r, r.Action, nil)
	case err.Code == ErrNotFound && !r.quiet:
		b.end(r, r.Action, ErrCanceled)
	default:
		b.log.notTaken(r, err.Message)
		b.end(r, r.Action, err)
	}
}

// invalid handles reports of which one is invalid: the data is nested too deeply, or the job would
// wait for itself. Each is sent alone, and the job of the invalid report fails.
func (b *outbox) invalid(reports []*report, err error) {
	switch r := reports[0]; {
	case len(reports) > 1:
		b.separate(reports)
	case r.Action != ActionFail || r.data != "" || r.result != "":
		r.Outcome = Outcome{Action: ActionFail, Group: "refused", Err: err}
		r.data, r.result, r.message = "", "", r.Outcome.message()
		b.requeue(reports)
	default:
		b.abandon(r, err)
	}
}

// separate sends each report alone, as the server may have refused only one of them.
func (b *outbox) separate(reports []*report) {
	for _, r := range reports {
		r.alone = true
	}
	b.requeue(reports)
}

// refused handles a report that the server refuses even alone, for instance because of a damaged
// key. The report is retried a few times, without delaying others. A general refusal is not about
// the report, which is then retried until the lock has ended.
func (b *outbox) refused(r *report, err error, general bool) {
	r.refusals++
	if r.lockEnded() || !general && r.refusals >= maxRefusals {
		b.abandon(r, err)
		return
	}
	if r.refusals == 1 {
		b.log.outcomeRefused(r, err)
	}
	b.hold(r, refusedBackoff.After(r.refusals))
}

// abandon drops a report refused by the server, and leaves the job's lock to expire.
func (b *outbox) abandon(r *report, err error) {
	b.log.abandoned(r, err)
	b.end(r, r.Action, err)
}

// requeueLocked requeues the reports whose locks have not ended, and abandons the others.
func (b *outbox) requeueLocked(reports []*report, err error) {
	var kept []*report
	for _, r := range reports {
		if r.lockEnded() {
			b.abandon(r, err)
		} else {
			kept = append(kept, r)
		}
	}
	b.requeue(kept)
}

// progressPause is the minimum time between two reports of a job's progress.
const progressPause = time.Second

// A heldProgress is the progress of a running job.
type heldProgress struct {
	*progressReport
	hold *hold
}

// A progressKeeper holds the unsent progress of a worker's jobs.
type progressKeeper struct {
	ready hub.Signal // there is something to send

	mu      sync.Mutex
	waiting map[*hold]*heldProgress
	refused bool // the last call was refused
}

func newProgressKeeper(ready hub.Signal) *progressKeeper {
	return &progressKeeper{ready: ready, waiting: map[*hold]*heldProgress{}}
}

// set keeps a job's progress until it is sent.
func (k *progressKeeper) set(r *heldProgress) {
	k.mu.Lock()
	_, before := k.waiting[r.hold]
	k.waiting[r.hold] = r
	wait := k.wait(r)
	k.mu.Unlock()
	if wait <= 0 {
		k.ready.Notify()
	} else if !before {
		time.AfterFunc(wait, k.ready.Notify)
	}
}

// wait returns the time until a report is due. The mutex is held.
func (k *progressKeeper) wait(r *heldProgress) time.Duration {
	if r.hold.progressSent.IsZero() || r.isLast() {
		return 0
	}
	return time.Until(r.hold.progressSent.Add(progressPause))
}

// take returns the reports to be sent now: due reports, and reports about jobs whose outcomes are
// sent. Reports about jobs that were lost or have ended otherwise are dropped.
func (k *progressKeeper) take(outcomes []*report) []*heldProgress {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.waiting) == 0 {
		return nil
	}
	ending := map[*hold]bool{}
	for _, r := range outcomes {
		if !r.quiet {
			ending[&r.run.hold] = true
		}
	}
	var due []*heldProgress
	for h, r := range k.waiting {
		gone := h.Lost.Load() || h.Ended.Load()
		if !gone && !ending[h] && k.wait(r) > 0 {
			continue
		}
		delete(k.waiting, h)
		if !gone {
			h.progressSent = time.Now()
			due = append(due, r)
		}
	}
	return due
}

// restore keeps reports that could not be sent, unless there are newer ones, and sends them again
// after some time.
func (k *progressKeeper) restore(reports []*heldProgress) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, r := range reports {
		if k.waiting[r.hold] == nil {
			k.waiting[r.hold] = r
		}
	}
	time.AfterFunc(progressPause, k.ready.Notify)
}

// isNews records the error of a call, and reports whether it is the first refusal in a row.
func (k *progressKeeper) isNews(err error) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	before := k.refused
	k.refused = err != nil
	return k.refused && !before
}
