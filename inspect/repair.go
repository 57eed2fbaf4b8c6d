package inspect

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"slices"
	"strconv"
	"time"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/guard"
	"github.com/qless/qless-go/internal/wire"
)

// Cancel deletes the jobs, and notifies the workers that run them. Completed jobs are left
// ([qless.ErrFinished]). Parents are canceled after their dependents if these are selected, too;
// otherwise they are left ([qless.ErrHasDependents]).
func (s Selection) Cancel(ctx context.Context) (Repair, error) {
	r := repair{action: "cancel"}
	err := r.run(ctx, s)
	if err == nil {
		err = r.cancelLong(ctx, s)
	}
	for before := -1; err == nil && r.done.Changed > before && r.isWanted(s); {
		before = r.done.Changed
		blocked := r.takeBlocked()
		if len(blocked) == 0 {
			break
		}
		if err = r.runJIDs(ctx, s, blocked); err == nil {
			err = r.cancelLong(ctx, s)
		}
	}
	return r.done, err
}

// Unfail puts failed jobs back into their queues with fresh retries. Other jobs are left
// ([qless.ErrNotFailed]). The options [qless.Retries] and [qless.TTL] replace the jobs' own; the
// TTL counts from the call.
func (s Selection) Unfail(ctx context.Context, options ...qless.UnfailOption) (Repair, error) {
	var pairs []any
	for i, option := range options {
		switch o := option.(type) {
		case qless.Retries:
			if o < 0 {
				return Repair{}, invalid("repair", "the retries %d are negative", int(o))
			}
			pairs = append(pairs, "retries", int(o))
		case qless.TTL:
			if o == qless.Forever {
				continue
			}
			if time.Duration(o) < time.Millisecond {
				return Repair{}, invalid("repair", "the TTL %v is less than 1ms", time.Duration(o))
			}
			pairs = append(pairs, "ttl", time.Duration(o))
		default:
			return Repair{}, invalid("repair", "options[%d] is a %T", i, option)
		}
	}
	return s.repair(ctx, "unfail", "", pairs...)
}

// Move puts the jobs, in any state, into a queue, like [qless.Job.Move]. Their data stays unchanged
// on the server. The options [qless.JID], [qless.IfAbsent], [qless.Unique] and [qless.DependsOn]
// are [qless.ErrInvalid].
func (s Selection) Move(
	ctx context.Context, queue string, options ...qless.PutOption,
) (Repair, error) {
	if err := checkName("repair", "queue name", queue); err != nil {
		return Repair{}, err
	}
	if err := s.check(); err != nil {
		return Repair{}, err
	}
	pairs := []any{"worker", s.client.WorkerName()}
	for _, option := range options {
		if _, depends := option.(qless.DependsOn); depends {
			return Repair{}, invalid("repair", "DependsOn can't be used with Move of a selection")
		}
		if option == qless.PutOption(qless.IfAbsent) {
			return Repair{}, invalid("repair", "IfAbsent can't be used with Move: the jobs exist")
		}
		pairs = append(pairs, option)
	}
	return s.repair(ctx, "move", queue, pairs...)
}

// Promote makes scheduled jobs ready to pop now. For a parked job, the next pop tries its limits
// again. Jobs in other states are left ([qless.ErrRunning], [qless.ErrNotScheduled]); waiting jobs
// count as changed.
func (s Selection) Promote(ctx context.Context) (Repair, error) {
	return s.repair(ctx, "promote", "")
}

// Timeout takes running jobs from their workers; these jobs are popped next. Other jobs are left
// ([qless.ErrNotRunning]).
func (s Selection) Timeout(ctx context.Context) (Repair, error) {
	return s.repair(ctx, "timeout", "")
}

// SetPriority changes the priority of the jobs.
func (s Selection) SetPriority(ctx context.Context, priority int) (Repair, error) {
	return s.repair(ctx, "priority", strconv.Itoa(priority))
}

// Tag adds tags to the jobs.
func (s Selection) Tag(ctx context.Context, tags ...string) (Repair, error) {
	return s.changeTags(ctx, "tag", tags)
}

// Untag removes tags from the jobs.
func (s Selection) Untag(ctx context.Context, tags ...string) (Repair, error) {
	return s.changeTags(ctx, "untag", tags)
}

func (s Selection) changeTags(ctx context.Context, action string, tags []string) (Repair, error) {
	if err := checkNames("repair", "tag", tags); err != nil {
		return Repair{}, err
	}
	text, err := json.Marshal(tags)
	if err != nil {
		return Repair{}, err
	}
	return s.repair(ctx, action, string(text))
}

// Track starts tracking the jobs.
func (s Selection) Track(ctx context.Context) (Repair, error) {
	return s.repair(ctx, "track", "")
}

// Untrack stops tracking the jobs, including jobs that no longer exist.
func (s Selection) Untrack(ctx context.Context) (Repair, error) {
	return s.repair(ctx, "untrack", "")
}

// Apply calls a function with each job, for changes without a method here. If the function returns
// a [*qless.Error] about the job, the job counts as left; any other error, or a panic, ends the
// call. Each job takes at least one round trip and counts as a step.
func (s Selection) Apply(
	ctx context.Context, change func(ctx context.Context, job *qless.Job) error,
) (Repair, error) {
	var done Repair
	for job, err := range s.Jobs(ctx) {
		if err == nil {
			err = guard.Try(func() error { return change(ctx, job) })
		}
		var own *qless.Error
		switch {
		case err == nil:
			done.Changed++
		case job != nil && errors.As(err, &own) && own.JID == job.JID:
			done.leave(own)
		default:
			return done, err
		}
		if err := s.stepped(done); err != nil {
			return done, err
		}
	}
	return done, nil
}

// stepped calls the function of OnStep.
func (s Selection) stepped(soFar Repair) error {
	if s.onStep == nil {
		return nil
	}
	return guard.Try(func() error { return s.onStep(soFar) })
}

// A repairReply is the reply of the command repair.
type repairReply struct {
	Count  wire.Number                     `json:"count"`
	Left   wire.List[wire.List[wire.Text]] `json:"left"`
	Looked wire.Number                     `json:"looked"`
}

// The maximum number of jobs that a script changes, and that a script moves to another queue.
const (
	changedAtOnce = 100
	movedAtOnce   = 50
)

// A repair is the work of a method of a Selection.
type repair struct {
	action, value string
	pairs         []any // of names and values, or options
	done          Repair
	blocked       []string // left because of their dependents, in the order of the steps
	long          []string // left because they have too many dependencies for one script
}

// repair changes the jobs, in steps.
func (s Selection) repair(
	ctx context.Context, action, value string, pairs ...any,
) (Repair, error) {
	r := repair{action: action, value: value, pairs: pairs}
	err := r.run(ctx, s)
	return r.done, err
}

// isWanted reports whether more jobs may be changed.
func (r *repair) isWanted(s Selection) bool { return s.atMost == 0 || r.done.Changed < s.atMost }

// run changes the jobs of a selection, in steps.
func (r *repair) run(ctx context.Context, s Selection) error {
	if err := s.check(); err != nil {
		return err
	}
	switch s.list {
	case Recurring:
		return invalid("repair", "recurring jobs are not repaired")
	case failedList:
		return r.runGroup(ctx, s)
	case jidsList:
		return r.runJIDs(ctx, s, s.jids)
	}
	seen := map[string]bool{}
	jids := []string{}
	for page, err := range s.pages(ctx, "") {
		if err != nil {
			return err
		}
		jids = appendNew(jids, page, seen)
		if s.atMost == 0 {
			continue
		}
		if err := r.runJIDs(ctx, s, jids); err != nil || !r.isWanted(s) {
			return err
		}
		jids = jids[:0]
	}
	if s.atMost > 0 {
		return nil
	}
	return r.runJIDs(ctx, s, jids)
}

// runGroup changes the jobs of a failure group, the oldest first. With AtMost, it reads the oldest
// 1000 jids, and then twice as many each time, as far as necessary. Reading can't continue from an
// older job, which may have left the group.
func (r *repair) runGroup(ctx context.Context, s Selection) error {
	seen := map[string]bool{}
	for count := lookedAtOnce; ; count *= 2 {
		after := Cursor("")
		if s.atMost > 0 {
			after = Cursor(strconv.Itoa(count) + " ")
		}
		jids, read := []string{}, 0
		for page, err := range s.pages(ctx, after) {
			if err != nil {
				return err
			}
			jids, read = appendNew(jids, page, seen), read+len(page)
		}
		slices.Reverse(jids)
		if err := r.runJIDs(ctx, s, jids); err != nil {
			return err
		}
		if s.atMost == 0 || read < count || !r.isWanted(s) {
			return nil
		}
	}
}

// pages iterates over the jids of the whole list from a cursor on, without filters.
func (s Selection) pages(ctx context.Context, after Cursor) iter.Seq2[[]wire.Raw, error] {
	s.filters = nil
	return func(yield func([]wire.Raw, error) bool) {
		for isFirst := true; isFirst || after != ""; isFirst = false {
			found, next, err := search[wire.Raw](ctx, s, after, 0, "jid")
			if !yield(found.Items, err) || err != nil {
				return
			}
			after = next
		}
	}
}

// appendNew appends the jids not seen yet.
func appendNew(jids []string, page []wire.Raw, seen map[string]bool) []string {
	for _, raw := range page {
		if jid := string(raw); !seen[jid] {
			seen[jid], jids = true, append(jids, jid)
		}
	}
	return jids
}

// runJIDs changes the given jobs if they are still in the selection's list. It runs at least one
// step, to check the arguments.
func (r *repair) runJIDs(ctx context.Context, s Selection, jids []string) error {
	for isFirst := true; isFirst || len(jids) > 0 && r.isWanted(s); isFirst = false {
		looked, err := r.change(ctx, s, jids[:min(r.step(), len(jids))])
		if err != nil {
			return err
		}
		jids = jids[looked:]
	}
	return nil
}

// step returns the maximum number of jobs that a script changes.
func (r *repair) step() int {
	if r.action == "move" {
		return movedAtOnce
	}
	return changedAtOnce
}

// change runs a step with some jobs and returns the number of jobs examined.
func (r *repair) change(ctx context.Context, s Selection, jids []string) (int, error) {
	filters := s.filterArgs()
	args := []any{
		r.action, r.value, string(s.list), s.name, jidsJSON(jids), s.rest(r.done.Changed, 0),
		len(filters),
	}
	args = append(append(args, filters...), r.pairs...)
	part, err := do[repairReply](ctx, s.client, "repair", args...)
	if err != nil {
		return 0, err
	}
	looked := part.Looked.Int()
	if looked < min(1, len(jids)) || looked > len(jids) {
		return 0, unexpected("repair", part)
	}
	if err := r.add(part); err != nil {
		return 0, err
	}
	return looked, s.stepped(r.done)
}

// add adds the result of a step.
func (r *repair) add(step repairReply) error {
	r.done.Changed += step.Count.Int()
	for _, left := range step.Left {
		if len(left) != 3 {
			return unexpected("repair", step)
		}
		why := &qless.Error{
			Op: r.action, Code: qless.Code(left[1]), JID: string(left[0]), Message: string(left[2]),
		}
		switch why.Code {
		case codeLong:
			r.long = append(r.long, why.JID)
			continue
		case qless.ErrHasDependents:
			r.blocked = append(r.blocked, why.JID)
		}
		r.done.leave(why)
	}
	return nil
}

// codeLong is the code of a job with too many dependencies to be canceled by one script.
const codeLong qless.Code = "long"

// cancelLong cancels the jobs with too many dependencies, each in several steps.
func (r *repair) cancelLong(ctx context.Context, s Selection) error {
	for _, jid := range r.long {
		if !r.isWanted(s) {
			break
		}
		err := s.client.Cancel(ctx, jid)
		var own *qless.Error
		switch {
		case err == nil:
			r.done.Changed++
		case errors.Is(err, qless.ErrHasDependents) && errors.As(err, &own):
			own.JID = jid
			r.blocked = append(r.blocked, jid)
			r.done.leave(own)
		default:
			return err
		}
		if err := s.stepped(r.done); err != nil {
			return err
		}
	}
	r.long = nil
	return nil
}

// takeBlocked removes the jobs left because of their dependents, and returns them, last first:
// dependents usually come after their dependencies.
func (r *repair) takeBlocked() []string {
	blocked := r.blocked
	r.blocked = nil
	slices.Reverse(blocked)
	for _, jid := range blocked {
		delete(r.done.Reasons, jid)
	}
	r.done.Unchanged -= len(blocked)
	return blocked
}
