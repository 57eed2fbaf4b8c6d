package qless

import (
	"errors"
	"fmt"
	"strings"

	"github.com/qless/qless-go/internal/wire"
)

// A ConflictOption says what a put does if there is a job with its [JID] already. It is returned by
// [IfAbsent], [IfFinished] and [IfNotRunning], of which a put takes one. Without any, the put
// overwrites the job and puts it again, even while it runs.
//
// A put that is refused changes nothing, and its error is [ErrExists], with the jid of the job that
// is there. The server decides, so of several puts at once exactly one puts the job. If the client
// has [WithReplicas], and too few have confirmed that the job is there, the error is
// [ErrNotReplicated] as well.
type ConflictOption struct{ condition condition }

// A condition is the argument that stands for a ConflictOption.
type condition string

const (
	conditionAbsent   condition = "absent"
	conditionFinished condition = "finished"
	conditionIdle     condition = "idle"
)

// conditionNames holds the names of the options.
var conditionNames = map[condition]string{
	conditionAbsent: "IfAbsent", conditionFinished: "IfFinished", conditionIdle: "IfNotRunning",
}

// IfAbsent refuses to put a job if there is one with its [JID], in any state: a complete or failed
// job counts as long as its record is kept ([ConfigJobsHistory]). It can't be used with [Job.Move].
func IfAbsent() ConflictOption { return ConflictOption{conditionAbsent} }

// IfFinished refuses to put a job if there is one with its [JID], unless that is complete or
// failed: then it is put again.
func IfFinished() ConflictOption { return ConflictOption{conditionFinished} }

// IfNotRunning refuses to put a job if there is one with its [JID] that a worker runs. In any other
// state, that job is overwritten and put again. A job whose lock has ended counts as running until
// another worker gets it.
func IfNotRunning() ConflictOption { return ConflictOption{conditionIdle} }

func (o ConflictOption) applyPut(c *callOptions) {
	c.conditions = append(c.conditions, o.condition)
}

// checkConditions returns an error if there are conditions that don't go together.
func (c *callOptions) checkConditions(op string) error {
	for i, condition := range c.conditions {
		if conditionNames[condition] == "" {
			return invalid(op, c.jid, "a ConflictOption is empty")
		}
		if first := c.conditions[0]; i > 0 && condition != first {
			return invalid(op, c.jid, "%s and %s can't be used together",
				conditionNames[first], conditionNames[condition])
		}
	}
	return nil
}

// A foundJob is a job that a put left as it was, or replaced.
type foundJob struct {
	at    int // which of the puts
	jid   string
	state State
	holds bool // it is another job, which holds the unique key
}

// replaced reports whether the put has replaced the job.
func (f foundJob) replaced() bool { return f.state == "replaced" }

// answer returns what the put returns, if err is what is wrong with puts that are not refused.
func (f foundJob) answer(err error) (string, error) {
	if !f.replaced() {
		refused := f.exists("put")
		return f.jid, refused.unconfirmed(err)
	}
	return f.jid, putError(f.jid, err)
}

// found returns the job that a put has found.
func (p *put) found(f foundJob) foundJob {
	f.holds = f.jid != p.options.jid
	return f
}

// unconfirmed returns the error of a put that was refused, where err is what is wrong otherwise. If
// the replicas have not confirmed that the job is there, it is both.
func (e *Error) unconfirmed(err error) *Error {
	if errors.Is(err, ErrNotReplicated) {
		e.Err = err
		e.Message += ", but too few replicas have confirmed it"
	}
	return e
}

// exists returns the error of a put that was refused.
func (f foundJob) exists(op string) *Error {
	return &Error{Op: op, Code: CodeExists, JID: f.jid, Message: "the job " + f.describe()}
}

// describe says that the job exists, and its state.
func (f foundJob) describe() string {
	exists := "exists"
	if f.holds {
		exists = "holds the unique key"
	}
	if f.state == "" { // its hash is damaged, or it is gone
		return exists
	}
	return exists + " and is " + string(f.state)
}

// foundBy returns the job that was there if the reply of a single put says so.
func foundBy(reply any) (foundJob, bool) {
	parts, ok := reply.([]any)
	if !ok || len(parts) != 2 {
		return foundJob{}, false
	}
	return foundJob{jid: wire.AsString(parts[0]), state: State(wire.AsString(parts[1]))}, true
}

// foundByMany returns the jobs that were there by the reply of put.many.
func foundByMany(reply any) ([]foundJob, error) {
	var found []foundJob
	for _, item := range items(reply) {
		parts, ok := item.([]any)
		if !ok || len(parts) != 3 {
			return nil, unexpected("put.many", reply)
		}
		at, err := decodeInt("put.many", parts[0])
		if err != nil {
			return nil, err
		}
		job, _ := foundBy(parts[1:])
		job.at = at
		found = append(found, job)
	}
	return found, nil
}

// maxListed is how many jobs a message lists.
const maxListed = 10

// manyError returns the error of a PutMany, where err is nil or what is wrong with the jobs that
// were put, and those found were there.
func manyError(found []foundJob, err error) error {
	if len(found) == 0 || err != nil && !errors.Is(err, ErrNotReplicated) {
		return err
	}
	return existError(found).unconfirmed(err)
}

// existError returns the error of a PutMany some of whose jobs were there.
func existError(found []foundJob) *Error {
	if len(found) == 1 {
		err := found[0].exists("put")
		err.Message = fmt.Sprintf("jobs[%d]: %s", found[0].at, err.Message)
		err.Indices = []int{found[0].at}
		return err
	}
	err := &Error{Op: "put", Code: CodeExists}
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
