package qless

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"strings"
	"time"

	"github.com/qless/qless-go/internal/calls"
	"github.com/qless/qless-go/internal/jobopts"
	"github.com/qless/qless-go/internal/wire"
)

// encodeData returns a job's data as JSON: a [json.RawMessage] or []byte unchanged, anything else
// marshaled. Nil becomes an empty object, as clients in other languages expect.
func encodeData(op, jid string, data any) (string, error) {
	return encodeJSON(op, jid, "data", data, "{}")
}

// encodeJSON does the same for data or a result. Nil becomes the text empty.
func encodeJSON(op, jid, what string, value any, empty string) (text string, err error) {
	raw, check := []byte(nil), wire.CheckJSON
	switch v := value.(type) {
	case nil:
	case storedData:
		return string(v), nil
	case json.RawMessage:
		raw = v
	case []byte:
		raw = v
	default:
		check = wire.CheckMarshaled
		if raw, err = json.Marshal(value); err != nil {
			return "", &Error{Op: op, Code: ErrInvalid, JID: jid,
				Message: "the " + what + " can't be JSON: " + err.Error(), Err: err}
		}
	}
	if raw == nil {
		return empty, nil
	}
	problem := check(raw)
	if _, isBytes := value.([]byte); isBytes && problem == wire.NotJSON {
		problem = "is a []byte that is not JSON: pass what json.Marshal makes of it, " +
			"or a struct with a []byte field"
	} else if problem == wire.NotJSON {
		problem += fmt.Sprintf(": %.100q", raw)
	}
	if problem != "" {
		return "", invalid(op, jid, "the %s %s", what, problem)
	}
	return string(raw), nil
}

// unmarshal decodes the data or the result of a job into v.
func unmarshal(jid string, raw json.RawMessage, v any) error {
	if err := json.Unmarshal(raw, v); err != nil {
		return &Error{Op: "unmarshal", Code: ErrInvalid, JID: jid, Message: err.Error(), Err: err}
	}
	return nil
}

// storedData is data read from the server, perhaps not JSON to Go: Lua accepts NaN, 0x10 and
// control characters in strings, so other clients may put them. Such data is stored again
// unchanged.
type storedData json.RawMessage

// dataSeed is the seed of the checksums of data, by which a job detects changes.
var dataSeed = maphash.MakeSeed()

// isChanged reports whether Data has changed since the job was read.
func (j *Job) isChanged() bool { return j.dataSum != maphash.Bytes(dataSeed, j.Data) }

// stored returns the job's data as an argument of a put.
func (j *Job) stored() any {
	if j.isChanged() {
		return j.Data
	}
	return storedData(j.Data)
}

// shownJSON returns data for [json.Marshal]: unchanged, or as a string if it is not JSON.
func shownJSON(data json.RawMessage) json.RawMessage {
	if len(data) == 0 || json.Valid(data) {
		return data
	}
	quoted, _ := json.Marshal(string(data))
	return quoted
}

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
	Attempts     wire.List[attemptReply] `json:"attempts"`
	Dependents   wire.List[wire.Raw]     `json:"dependents"`
	Dependencies wire.List[wire.Raw]     `json:"dependencies"`
	LeftOut      wire.List[wire.Text]    `json:"left_out"` // which of the two were too long
	SpawnedFrom  wire.Raw                `json:"spawned_from_jid"`
	PutAt        wire.Number             `json:"put_at"` // only from a pop, like PoppedAt
	PoppedAt     wire.Text               `json:"popped_at"`
	Options      jobopts.Options         `json:"x"`
	Progress     *progressReply          `json:"progress"`
	Parked       wire.Text               `json:"parked"`
	Due          wire.Number             `json:"due"`
	Beside       wire.Number             `json:"beside"` // index of its large data, from 1
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

type attemptReply struct {
	What    wire.Text   `json:"what"`
	Began   wire.Number `json:"began"`
	Ended   wire.Number `json:"ended"`
	Delay   wire.Number `json:"delay"`
	Worker  wire.Raw    `json:"worker"`
	Queue   wire.Raw    `json:"queue"`
	Group   wire.Text   `json:"group"`
	Message wire.Text   `json:"message"`
}

func (r *attemptReply) attempt() Attempt {
	began := r.Began.Time()
	return Attempt{
		What: string(r.What), Began: began, Ran: max(r.Ended.Time().Sub(began), 0),
		Delay: max(r.Delay.Duration(), 0), Worker: string(r.Worker), Queue: string(r.Queue),
		Group: string(r.Group), Message: string(r.Message),
	}
}

// A historyReply is one entry of a history, with the fields of [Job.Log].
type historyReply map[string]json.RawMessage

func (h *historyReply) UnmarshalJSON(raw []byte) error {
	*h = nil
	switch raw[0] {
	case '{':
		return json.Unmarshal(raw, (*map[string]json.RawMessage)(h))
	case '[': // as it is stored: [when, what, details]
		var parts []json.RawMessage
		if err := json.Unmarshal(raw, &parts); err != nil || len(parts) < 2 {
			return err
		}
		if len(parts) > 2 && json.Unmarshal(parts[2], (*map[string]json.RawMessage)(h)) != nil {
			*h = historyReply{"data": parts[2]}
		} else if *h == nil {
			*h = historyReply{}
		}
		(*h)["when"], (*h)["what"] = parts[0], parts[1]
	}
	return nil
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

// entries returns the entry as one event, or as several for an old-style entry, which holds a whole
// stage of a job.
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
		State:        State(wire.State(r.State)),
		Queue:        string(r.Queue),
		Tracked:      r.Tracked,
		Priority:     r.Priority.LargeInt(),
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
		leftOut:      wire.Strings(r.LeftOut),
	}
	if j.State == StateRunning || j.State == StateTimedOut { // a retried job keeps them on the server
		j.Worker, j.Expires = string(r.Worker), r.Expires.Time()
	}
	j.setRun(string(r.PoppedAt), r.PutAt.Time())
	for _, entry := range r.History {
		j.History = append(j.History, entry.entries()...)
	}
	for _, attempt := range r.Attempts {
		j.Attempts = append(j.Attempts, attempt.attempt())
	}
	if r.Failure != nil {
		j.Failure = r.Failure.failure()
	}
	j.applyStored(&r.Options)
	j.decodeData()
	return j
}

// setRun sets the fields of the job's run. since is the beginning in the server's form, or empty;
// put is the time of the put or the pop before it, or zero.
func (j *Job) setRun(since string, put time.Time) {
	j.since, j.PoppedAt = since, wire.AsNumber(since).Time()
	j.Attempt = max(j.Retries-max(j.Remaining, 0), 0) + 1
	if !put.IsZero() && !j.PoppedAt.IsZero() {
		j.Waited = max(j.PoppedAt.Sub(put), 0)
	}
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

// decode reads a JSON reply. Any other is an [ErrServer].
func decode[T any](op string, reply any) (T, error) {
	value, err := wire.DecodeJSON[T](reply)
	return value, replyError(op, err)
}

// decodeJobs decodes a reply with several jobs. rest is its part about jobs that did not fit.
func (c *Client) decodeJobs(op string, reply any) (jobs []*Job, rest string, err error) {
	text, rest, large := wire.Parts(reply)
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

// decodeReservedJob decodes the fields of a job, ignoring unknown ones. Its data stays encoded: a
// codec may not return, or take its time.
func (c *Client) decodeReservedJob(fields calls.Fields, sent time.Time) *Job {
	job := &Job{
		JID:         fields.Text("jid"),
		Klass:       fields.Text("klass"),
		Queue:       fields.Text("queue"),
		Priority:    fields.Number("priority").LargeInt(),
		Retries:     fields.Number("retries").Int(),
		Remaining:   fields.Number("remaining").Int(),
		Data:        json.RawMessage(fields.Text("data")),
		SpawnedFrom: fields.Text("spawned_from_jid"),
		State:       StateRunning,
		Worker:      c.worker,
		Expires:     sent.Add(fields.Number("heartbeat").Duration()),
		client:      c,
	}
	job.setRun(fields.Text("time"), fields.Number("put_at").Time())
	if raw := fields.Text("tags"); raw != "" && raw != "[]" {
		var tags wire.List[wire.Text]
		if json.Unmarshal([]byte(raw), &tags) == nil {
			job.Tags = wire.Strings(tags)
		}
	}
	if raw := fields.Text("failure"); raw != "" {
		var failure failureReply
		if json.Unmarshal([]byte(raw), &failure) == nil {
			job.Failure = failure.failure()
		}
	}
	if text := fields.Text("x:o"); text != "" {
		options := jobopts.Parse(text)
		job.applyStored(&options)
	}
	return job
}

// decodePopped decodes a reply of the script pop. One usual job is not sent as JSON.
func (c *Client) decodePopped(reply any) (jobs []*Job, rest string, err error) {
	fields, history, ok := calls.Popped(reply)
	if !ok {
		return c.decodeJobs("pop", reply)
	}
	job := c.decodeReservedJob(fields, time.Time{})
	if job.JID == "" || job.since == "" {
		return nil, "", unexpected("pop", reply)
	}
	job.Expires = job.PoppedAt.Add(fields.Number("heartbeat").Duration())
	for _, entry := range history {
		var h historyReply
		if json.Unmarshal([]byte(wire.AsString(entry)), &h) == nil {
			job.History = append(job.History, h.entries()...)
		}
	}
	job.decodeData()
	return []*Job{job}, "", nil
}

// take sets the job's data if it is beside the JSON.
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

// replyError returns the error for an unreadable reply. It counts as the server's error.
func replyError(op string, err error) error {
	if err == nil {
		return nil
	}
	return &Error{Op: op, Code: ErrServer, Message: err.Error(), Err: errors.Unwrap(err)}
}

// validText replaces invalid UTF-8, which JSON can't hold: the note of a progress, for example, may
// hold raw bytes.
func validText(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }
