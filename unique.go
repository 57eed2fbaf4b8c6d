package qless

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/qless/qless-go/internal/jobopts"
	"github.com/qless/qless-go/internal/wire"
)

// A UniqueOption is returned by [Unique].
type UniqueOption struct{ unique jobopts.Unique }

// Unique claims a key for a job, so that no other job of the namespace can be put with the same key
// until the job has completed without a next queue, has failed, or was canceled. The key is made of
// the parts, compared as JSON: Unique("invoice", 7) and Unique("invoice", "7") claim different
// keys. Without parts, the klass and the data make the key.
//
// A put with a key of another job changes nothing: the error is [ErrExists], with the jid of the
// holder. Exactly one of several concurrent puts puts the job. A job never blocks its own put with
// the same [JID].
//
// A retried job, or one that moves to another queue, keeps the key. An unfailed job claims the key
// again, but runs even if another job holds it by then.
//
// A part that is nil or an empty string, one that can't be JSON, or a key of more than 512 bytes is
// [ErrInvalid].
func Unique(parts ...any) UniqueOption {
	return UniqueOption{jobopts.Unique{Parts: parts, Data: len(parts) == 0}}
}

// UntilStarted lets another job with the same key be put while the job runs. A retried job holds
// the key again while waiting, unless another job has claimed the key. UntilStarted can't be used
// with For.
func (o UniqueOption) UntilStarted() UniqueOption {
	o.unique.UntilStarted = true
	return o
}

// For holds the key for the duration d after the put, whatever happens to the job, unless it is
// canceled. d is at least 1 ms. For can't be used with UntilStarted.
func (o UniqueOption) For(d time.Duration) UniqueOption {
	o.unique.For = &d
	return o
}

// Replace puts the job in the place of the holder of the key, instead of refusing the put:
//
//   - If the holder is waiting in any way, even after a retry, it becomes the new job, with the
//     klass, data, queue, delay and options of the put, and keeps its jid, history and dependents.
//     The put returns that jid.
//   - If the holder is running, the new job waits until the holder has completed or failed, and
//     holds the key. Further puts replace the waiting job.
//
// So of the jobs with the key, at most one runs and one waits, and the latest put always leads to a
// run. With a [Delay], each put restarts the delay: see [UniqueOption.KeepDue] and
// [UniqueOption.Within]. A job without a delay becomes the last of its priority.
//
// A key held by [UniqueOption.For] refuses the put as without Replace. Replace can't be used with
// For, [JID], [DependsOn], [OnFailure], an [If] or [Job.Move].
func (o UniqueOption) Replace() UniqueOption {
	o.unique.Replace = true
	return o
}

// KeepDue gives a job the due time of the waiting job that it replaces. It needs Replace, and can't
// be used with Within.
func (o UniqueOption) KeepDue() UniqueOption {
	o.unique.KeepDue = true
	return o
}

// Within limits the time from the first put of the waiting job to its due time, however often the
// job is replaced. The limit is no shorter than the [Delay]. Within needs Replace, and can't be
// used with KeepDue.
func (o UniqueOption) Within(longest time.Duration) UniqueOption {
	o.unique.Within = &longest
	return o
}

func (o UniqueOption) applyPut(given *jobopts.Options) { given.Unique = &o.unique }

// An If is a condition of a put on the existing job with the given [JID], which the put then needs.
// Without an If, the put overwrites that job and puts it again. A refused put changes nothing: the
// error is [ErrExists], with the jid of the existing job. Exactly one of several concurrent puts
// puts the job.
type If string

const (
	// IfAbsent refuses the put if there is a job with the [JID], in any state: a complete or failed
	// job counts as long as the record is kept (jobs-history). It can't be used with [Job.Move].
	IfAbsent If = "absent"

	// IfFinished refuses the put if there is a job with the [JID], unless that job is complete or
	// failed; then it is put again.
	IfFinished If = "finished"

	// IfNotRunning refuses the put if a worker runs the job with the [JID], even without a lock. In
	// any other state, that job is overwritten and put again.
	IfNotRunning If = "not_running"
)

func (o If) applyPut(given *jobopts.Options) { given.If = append(given.If, string(o)) }

// A conflict is an existing job, left alone or replaced by a put.
type conflict struct {
	at    int // which of the puts
	jid   string
	state State
	holds bool // another job, the holder of the unique key
}

// replaced reports whether the put has replaced the job.
func (c conflict) replaced() bool { return c.state == "replaced" }

// answer returns the jid and the error of a refused or replacing put. err is that of puts that are
// not refused.
func (c conflict) answer(err error) (string, error) {
	if !c.replaced() {
		refused := c.exists("put")
		return c.jid, refused.unconfirmed(err)
	}
	return c.jid, errorOfOne("put", c.jid, err)
}

// found completes the description of a job found by the put.
func (p *put) found(other conflict) conflict {
	other.holds = other.jid != p.jid
	return other
}

// unconfirmed returns the error of a refused put. If err reports that the replicas have
// not confirmed the existing job, the result wraps it.
func (e *Error) unconfirmed(err error) *Error {
	if errors.Is(err, ErrNotReplicated) {
		e.Err = err
		e.Message += ", but too few replicas have confirmed it"
	}
	return e
}

// exists returns the error of a refused put.
func (c conflict) exists(op string) *Error {
	return &Error{Op: op, Code: ErrExists, JID: c.jid, Message: "the job " + c.describe()}
}

// describe returns a text about the job's state.
func (c conflict) describe() string {
	exists := "exists"
	if c.holds {
		exists = "holds the unique key"
	}
	if c.state == "" { // the hash is damaged or gone
		return exists
	}
	return exists + " and is " + string(c.state)
}

// conflictIn returns the existing job in the reply of a single put.
func conflictIn(reply any) (conflict, bool) {
	parts, ok := reply.([]any)
	if !ok || len(parts) != 2 {
		return conflict{}, false
	}
	state := State(wire.State(wire.AsString(parts[1])))
	return conflict{jid: wire.AsString(parts[0]), state: state}, true
}

// conflictsIn returns the existing jobs in a reply of put.many.
func conflictsIn(reply any) ([]conflict, error) {
	var found []conflict
	for _, item := range wire.Items(reply) {
		parts, ok := item.([]any)
		if !ok || len(parts) != 3 {
			return nil, unexpected("put.many", reply)
		}
		at, err := decodeInt("put.many", parts[0])
		if err != nil {
			return nil, err
		}
		job, _ := conflictIn(parts[1:])
		job.at = at
		found = append(found, job)
	}
	return found, nil
}

// maxListed is the maximum number of jobs listed by a message.
const maxListed = 10

// manyError returns the error of a PutMany. found are the jobs that existed, and err is the error
// of the other jobs, or nil.
func manyError(found []conflict, err error) error {
	if len(found) == 0 || err != nil && !errors.Is(err, ErrNotReplicated) {
		return err
	}
	return existError(found).unconfirmed(err)
}

// existError returns the error of a PutMany some of whose jobs existed.
func existError(found []conflict) *Error {
	if len(found) == 1 {
		err := found[0].exists("put")
		err.Message = fmt.Sprintf("jobs[%d]: %s", found[0].at, err.Message)
		err.Indices = []int{found[0].at}
		return err
	}
	err := &Error{Op: "put", Code: ErrExists}
	var listed []string
	for i, f := range found {
		err.Indices = append(err.Indices, f.at)
		if i < maxListed {
			listed = append(listed, fmt.Sprintf("jobs[%d]", f.at))
		}
	}
	if more := len(found) - len(listed); more > 0 {
		listed = append(listed, fmt.Sprintf("%d more", more))
	}
	err.Message = fmt.Sprintf("%d jobs exist: %s", len(found), strings.Join(listed, ", "))
	return err
}
