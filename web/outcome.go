package web

import (
	"crypto/rand"
	"encoding/json"
	"maps"
	"net/http"
	"sync"
	"time"

	"github.com/qless/qless-go"
)

// An outcome is what an action has done.
type outcome struct {
	ID      string
	Action  Action
	Verb    string // "canceled", or of what is not about jobs, "The queue is paused."
	Time    time.Time
	Count   int               // how many were changed
	Left    int               // how many were left as they were
	Why     map[string]string // why, by jid
	Err     error             // what ended it early
	JIDs    []string          // of new jobs
	Receipt string            // the id of the receipt of canceled jobs
	Recur   string            // the jid of a new recurring job

	isOne bool // it is not about jobs
}

const (
	maxReasons = 100 // how many jobs an outcome gives reasons for
	maxNewJobs = 20  // how many new jobs it names
)

func (o *outcome) add(sum qless.BulkResult) {
	o.Count += sum.Count
	before := o.Left
	for jid, err := range sum.Errors {
		o.leave(jid, err)
	}
	o.Left = before + sum.Left
}

// leave records that a job was left as it is.
func (o *outcome) leave(jid string, why error) {
	o.Left++
	if o.Why == nil {
		o.Why = map[string]string{}
	}
	if len(o.Why) < maxReasons {
		o.Why[jid] = plainly(why)
	}
}

// made records that a job was put.
func (o *outcome) made(jid string) {
	if len(o.JIDs) < maxNewJobs {
		o.JIDs = append(o.JIDs, jid)
	}
}

// Sentence says what was done, or is empty if nothing was.
func (o *outcome) Sentence() string {
	switch {
	case o.Count == 0 && (o.Left > 0 || o.Err != nil):
		return ""
	case o.isOne:
		return o.Verb
	}
	return plural(o.Count, "job") + " " + o.Verb + "."
}

// Reason says what has ended it early, or is empty.
func (o *outcome) Reason() string {
	if o.Err == nil {
		return ""
	}
	if isDenial(o.Err) {
		return "Redis does not permit this to the dashboard's user. Its buttons are off for a minute. (" +
			plainly(o.Err) + ")"
	}
	return plainly(o.Err)
}

// status returns the HTTP status for it.
func (o *outcome) status() int {
	switch {
	case o.Err == nil || o.Count > 0:
		return http.StatusOK
	case isDenial(o.Err):
		return http.StatusForbidden
	}
	return statusOf(o.Err)
}

// MarshalJSON writes the error as its text.
func (o *outcome) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		ID      string            `json:"id"`
		Action  Action            `json:"action"`
		Time    time.Time         `json:"time"`
		Count   int               `json:"count"`
		Left    int               `json:"left"`
		Why     map[string]string `json:"why,omitempty"`
		Error   string            `json:"error,omitempty"`
		JIDs    []string          `json:"jids,omitempty"`
		Recur   string            `json:"recurring,omitempty"`
		Receipt string            `json:"receipt,omitempty"`
	}{
		o.ID, o.Action, o.Time, o.Count, o.Left, maps.Clone(o.Why), o.Reason(), o.JIDs, o.Recur,
		o.Receipt,
	})
}

func newID() string { return rand.Text() }

// outcomes keeps the last outcomes, for the pages that follow the actions.
type outcomes struct {
	mu    sync.Mutex
	all   map[string]*outcome
	order []string
}

// maxOutcomes is how many outcomes are kept.
const maxOutcomes = 100

func (o *outcomes) add(done *outcome) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.all == nil {
		o.all = map[string]*outcome{}
	}
	o.all[done.ID] = done
	o.order = append(o.order, done.ID)
	if len(o.order) > maxOutcomes {
		delete(o.all, o.order[0])
		o.order = o.order[1:]
	}
}

func (o *outcomes) get(id string) *outcome {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.all[id]
}

// outcomeOf returns the outcome that a page follows, or nil.
func (s *site) outcomeOf(r *http.Request) *outcome {
	return s.handler.outcomes.get(r.URL.Query().Get("outcome"))
}
