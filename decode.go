package qless

import (
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/qless/qless-go/internal/wire"
)

type jobReply struct {
	JID          wire.Raw                `json:"jid"`
	Klass        wire.Raw                `json:"klass"`
	State        wire.Text               `json:"state"`
	Queue        wire.Raw                `json:"queue"`
	Worker       wire.Raw                `json:"worker"`
	Tracked      bool                    `json:"tracked"`
	Priority     wire.Number             `json:"priority"`
	Expires      wire.Number             `json:"expires"`
	Retries      wire.Number             `json:"retries"`
	Remaining    wire.Number             `json:"remaining"`
	Data         wire.Raw                `json:"data"`
	Tags         wire.List[wire.Text]    `json:"tags"`
	History      wire.List[historyReply] `json:"history"`
	Failure      *failureReply           `json:"failure"`
	Dependents   wire.List[wire.Raw]     `json:"dependents"`
	Dependencies wire.List[wire.Raw]     `json:"dependencies"`
	LeftOut      wire.List[wire.Text]    `json:"left_out"` // which of the two are too many
	SpawnedFrom  wire.Raw                `json:"spawned_from_jid"`
	PutAt        wire.Number             `json:"put_at"` // only from a pop, like PoppedAt
	PoppedAt     wire.Text               `json:"popped_at"`
	Options      jobOptions              `json:"x"`
	Progress     *progressReply          `json:"progress"`
	Parked       wire.Text               `json:"parked"`
	Due          wire.Number             `json:"due"`
	Beside       wire.Number             `json:"beside"` // which of the large data it has, from 1
}

type failureReply struct {
	Group   wire.Text   `json:"group"`
	Message wire.Text   `json:"message"`
	When    wire.Number `json:"when"`
	Worker  wire.Text   `json:"worker"`
}

func (f *failureReply) UnmarshalJSON(raw []byte) error {
	*f = failureReply{}
	if raw[0] != '{' {
		return nil
	}
	type plain failureReply
	return json.Unmarshal(raw, (*plain)(f))
}

// A historyReply is one entry: its own fields, and those that [Job.Log] added.
type historyReply map[string]json.RawMessage

func (h *historyReply) UnmarshalJSON(raw []byte) error {
	*h = nil
	if raw[0] != '{' {
		return nil
	}
	return json.Unmarshal(raw, (*map[string]json.RawMessage)(h))
}

func (h historyReply) text(field string) string {
	var t wire.Text
	if raw, ok := h[field]; ok {
		_ = t.UnmarshalJSON(raw) // anything but text counts as absent
	}
	return string(t)
}

func (h historyReply) time(field string) time.Time {
	var n wire.Number
	if raw, ok := h[field]; ok {
		_ = n.UnmarshalJSON(raw) // anything but a number counts as absent
	}
	return n.Time()
}

// queueField returns the name of the field with the queue: "q", or "queue" in a put by reqless 1.0.
func (h historyReply) queueField() string {
	_, usual := h["q"]
	if usual || h.text("what") != "put" || h.text("queue") == "" {
		return "q"
	}
	return "queue"
}

// entries returns the entry as one event, or as several if it is an old-style entry, which holds a
// whole stage of a job.
func (h historyReply) entries() []HistoryEntry {
	if _, modern := h["what"]; modern {
		queueField := h.queueField()
		entry := HistoryEntry{
			When: h.time("when"), What: h.text("what"),
			Queue: h.text(queueField), Worker: h.text("worker"), Group: h.text("group"),
		}
		for name, value := range h {
			switch name {
			case "when", "what", queueField, "worker", "group":
			default:
				if entry.Details == nil {
					entry.Details = map[string]json.RawMessage{}
				}
				entry.Details[name] = value
			}
		}
		return []HistoryEntry{entry}
	}
	var entries []HistoryEntry
	for _, what := range []string{"put", "popped", "failed", "done"} {
		if when := h.time(what); !when.IsZero() {
			entry := HistoryEntry{When: when, What: what}
			switch what {
			case "put":
				entry.Queue = h.text("q")
			case "popped":
				entry.Worker = h.text("worker")
			}
			entries = append(entries, entry)
		}
	}
	return entries
}

func (r *jobReply) job(c *Client) *Job {
	j := &Job{
		JID:          string(r.JID),
		Klass:        string(r.Klass),
		State:        State(r.State),
		Queue:        string(r.Queue),
		Worker:       string(r.Worker),
		Tracked:      r.Tracked,
		Priority:     r.Priority.LargeInt(),
		Expires:      r.Expires.Time(),
		Retries:      r.Retries.Int(),
		Remaining:    r.Remaining.Int(),
		Data:         json.RawMessage(r.Data),
		Tags:         wire.Strings(r.Tags),
		Dependents:   wire.Strings(r.Dependents),
		Dependencies: wire.Strings(r.Dependencies),
		SpawnedFrom:  string(r.SpawnedFrom),
		client:       c,
		Due:          r.Due.Time(),
		Parked:       string(r.Parked),
		Progress:     r.Progress.progress(),
		put:          r.PutAt.Time(),
		since:        string(r.PoppedAt),
		leftOut:      wire.Strings(r.LeftOut),
	}
	for _, entry := range r.History {
		j.History = append(j.History, entry.entries()...)
	}
	if r.Failure != nil {
		j.Failure = r.Failure.failure()
	}
	r.Options.apply(j)
	j.decodeData()
	return j
}

// failure returns the failure, or nil if there was none.
func (r *failureReply) failure() *Failure {
	if r.Group == "" {
		return nil
	}
	return &Failure{
		Group:   string(r.Group),
		Message: string(r.Message),
		When:    r.When.Time(),
		Worker:  string(r.Worker),
	}
}

// decode reads a JSON reply. A reply that is not JSON is an [ErrServer].
func decode[T any](op string, reply any) (T, error) {
	value, err := wire.DecodeJSON[T](reply)
	return value, replyError(op, err)
}

// decodeJobs reads a reply of several jobs, and what it says of those that are not in it.
func (c *Client) decodeJobs(op string, reply any) (jobs []*Job, rest string, err error) {
	text, rest, large := besides(reply)
	replies, err := decode[wire.List[jobReply]](op, text)
	if err != nil {
		return nil, "", err
	}
	jobs = make([]*Job, len(replies))
	for i := range replies {
		replies[i].take(large)
		jobs[i] = replies[i].job(c)
	}
	return jobs, rest, nil
}

// besides returns the parts of a reply that may have large data: the JSON, what it says of jobs that
// are not in it, and the data.
func besides(reply any) (text any, rest string, large []any) {
	parts, ok := reply.([]any)
	if !ok || len(parts) < 2 {
		return reply, "", nil
	}
	return parts[0], wire.AsString(parts[1]), parts[2:]
}

// take takes the job's data if it is beside the JSON.
func (r *jobReply) take(large []any) {
	if i := r.Beside.Int(); i > 0 && i <= len(large) {
		r.Data = wire.Raw(wire.AsString(large[i-1]))
	}
}

func decodeInt(op string, reply any) (int, error) {
	n, err := wire.DecodeInt(reply)
	return n, replyError(op, err)
}

func decodeStrings(op string, reply any) ([]string, error) {
	texts, err := wire.DecodeStrings(reply)
	return texts, replyError(op, err)
}

// unexpected returns the error for a reply of the wrong type.
func unexpected(op string, reply any) error { return replyError(op, wire.Unexpected(reply)) }

// replyError returns the error for a reply that can't be read. It counts as the server's error.
func replyError(op string, err error) error {
	if err == nil {
		return nil
	}
	return &Error{Op: op, Code: CodeServer, Message: err.Error(), Err: errors.Unwrap(err)}
}

// validText makes text fit for JSON: the message of a panic, for example, may hold raw bytes.
func validText(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }
