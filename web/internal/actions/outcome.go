package actions

import (
	"errors"
	"strings"
	"time"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
	"github.com/qless/qless-go/web/internal/words"
)

// An Outcome is the outcome of a run.
type Outcome struct {
	ID        string            `json:"id"`
	Action    string            `json:"action"`
	Time      time.Time         `json:"time"`
	Changed   int               `json:"changed"`             // of changed jobs
	Unchanged int               `json:"unchanged"`           // of unchanged jobs
	Reasons   map[string]string `json:"reasons,omitempty"`   // the reasons for unchanged jobs, by jid
	Error     string            `json:"error,omitempty"`     // the error that ended the run early
	JIDs      []string          `json:"jids,omitempty"`      // of new jobs, or of the only job
	Recur     string            `json:"recurring,omitempty"` // the jid of a new recurring job
	Receipt   string            `json:"receipt,omitempty"`   // the ID of the receipt of canceled jobs

	Err error `json:"-"`

	what string // [Info].Done
}

const (
	doneAtOnce = 500 // jobs changed in one step, or while the browser waits
	maxReasons = 100 // the maximum number of jobs with a reason
	maxNewJobs = 20  // the maximum number of new jobs named
)

func (o *Outcome) add(done inspect.Repair) {
	o.Changed += done.Changed
	before := o.Unchanged
	for jid, err := range done.Reasons {
		o.leave(jid, err)
	}
	o.Unchanged = before + done.Unchanged
}

// leave records an unchanged job.
func (o *Outcome) leave(jid string, why error) {
	o.Unchanged++
	if o.Reasons == nil {
		o.Reasons = map[string]string{}
	}
	if len(o.Reasons) < maxReasons {
		o.Reasons[jid] = Plainly(why)
	}
}

// forgive forgets unchanged jobs.
func (o *Outcome) forgive(jids []string) {
	o.Unchanged -= len(jids)
	for _, jid := range jids {
		delete(o.Reasons, jid)
	}
}

// put records a new job.
func (o *Outcome) put(jid string) {
	if len(o.JIDs) < maxNewJobs {
		o.JIDs = append(o.JIDs, jid)
	}
}

// theQueue begins the result of an action on one or several queues.
const theQueue = "The queue is "

// Sentence describes the outcome. It is empty if nothing was done.
func (o *Outcome) Sentence() string {
	switch {
	case o.Changed == 0 && (o.Unchanged > 0 || o.Err != nil):
		return ""
	case o.Changed > 1 && strings.HasPrefix(o.what, theQueue):
		return words.Plural(o.Changed, "queue") + " are " + o.what[len(theQueue):]
	case strings.HasSuffix(o.what, "."):
		return o.what
	}
	return words.Plural(o.Changed, "job") + " " + o.what + "."
}

// Kept reports how many jobs were not changed: "3 jobs not canceled".
func (o *Outcome) Kept() string {
	if strings.HasSuffix(o.what, ".") {
		return words.Plural(o.Unchanged, "job") + " not changed"
	}
	return words.Plural(o.Unchanged, "job") + " not " + o.what
}

// reasonOf returns why a run ended early, or "".
func reasonOf(err error) string {
	switch {
	case err == nil:
		return ""
	case IsDenial(err):
		return "Redis does not permit this to the dashboard's user. Its buttons are off for a minute. (" +
			Plainly(err) + ")"
	}
	return Plainly(err)
}

// Plainly returns the text of an error, without the names of commands.
func Plainly(err error) string {
	var cause *qless.Error
	if errors.As(err, &cause) && cause.Message != "" {
		return cause.Message
	}
	return err.Error()
}

// IsDenial reports whether the server denied a command to its user.
func IsDenial(err error) bool {
	if !errors.Is(err, qless.ErrServer) {
		return false
	}
	text := err.Error()
	return strings.Contains(text, "NOPERM") || strings.Contains(text, "ACL failure in script") ||
		strings.Contains(text, "The user executing the script can't")
}
