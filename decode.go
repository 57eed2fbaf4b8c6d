package qless

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// The replies of the scripts are JSON written by Lua, or by the scripts of other clients:
// an empty array may be {}, a number may be text or a float, and what is absent may be false.

// list is a JSON array that is {} when it is empty.
type list[T any] []T

func (l *list[T]) UnmarshalJSON(text []byte) error {
	*l = nil
	if text[0] != '[' {
		return nil
	}
	return json.Unmarshal(text, (*[]T)(l))
}

// text is a string; a number counts as its text, anything else as absent.
type text string

func (t *text) UnmarshalJSON(raw []byte) error {
	*t = ""
	switch {
	case raw[0] == '"':
		return json.Unmarshal(raw, (*string)(t))
	case raw[0] == '-' || raw[0] >= '0' && raw[0] <= '9':
		*t = text(raw)
	}
	return nil
}

// number is a number, or the text of one; anything else is 0.
type number float64

func (n *number) UnmarshalJSON(raw []byte) error {
	*n = 0
	f, err := strconv.ParseFloat(strings.Trim(string(raw), `"`), 64)
	if err == nil && !math.IsNaN(f) && !math.IsInf(f, 0) {
		*n = number(f)
	}
	return nil
}

// int returns the whole part, within what an int holds.
func (n number) int() int {
	return int(math.Max(math.MinInt32, math.Min(math.MaxInt32, math.Floor(float64(n)))))
}

// time returns the number as seconds since 1970; 0 is the zero time.
func (n number) time() time.Time {
	if n <= 0 || n > 1e11 {
		return time.Time{}
	}
	whole, fraction := math.Modf(float64(n))
	return time.Unix(int64(whole), int64(math.Round(fraction*1e6))*1000)
}

// duration returns the number as a count of seconds.
func (n number) duration() time.Duration {
	return time.Duration(math.Max(-9e9, math.Min(9e9, float64(n))) * float64(time.Second))
}

type jobReply struct {
	JID          text               `json:"jid"`
	Klass        text               `json:"klass"`
	State        text               `json:"state"`
	Queue        text               `json:"queue"`
	Worker       text               `json:"worker"`
	Tracked      bool               `json:"tracked"`
	Priority     number             `json:"priority"`
	Expires      number             `json:"expires"`
	Retries      number             `json:"retries"`
	Remaining    number             `json:"remaining"`
	Data         text               `json:"data"`
	Tags         list[text]         `json:"tags"`
	History      list[historyReply] `json:"history"`
	Failure      *failureReply      `json:"failure"`
	Dependents   list[text]         `json:"dependents"`
	Dependencies list[text]         `json:"dependencies"`
	SpawnedFrom  text               `json:"spawned_from_jid"`
	PutAt        number             `json:"put_at"` // of a pop, as is the next one
	PoppedAt     text               `json:"popped_at"`
}

type failureReply struct {
	Group   text   `json:"group"`
	Message text   `json:"message"`
	When    number `json:"when"`
	Worker  text   `json:"worker"`
}

func (f *failureReply) UnmarshalJSON(raw []byte) error {
	*f = failureReply{}
	if raw[0] != '{' {
		return nil
	}
	type plain failureReply
	return json.Unmarshal(raw, (*plain)(f))
}

// historyReply is one entry: its own fields, and whatever a log added.
type historyReply map[string]json.RawMessage

func (h *historyReply) UnmarshalJSON(raw []byte) error {
	*h = nil
	if raw[0] != '{' {
		return nil
	}
	return json.Unmarshal(raw, (*map[string]json.RawMessage)(h))
}

func (h historyReply) text(field string) string {
	var t text
	if raw, ok := h[field]; ok {
		_ = t.UnmarshalJSON(raw) // what is not text is absent
	}
	return string(t)
}

func (h historyReply) time(field string) time.Time {
	var n number
	if raw, ok := h[field]; ok {
		_ = n.UnmarshalJSON(raw) // what is not a number is absent
	}
	return n.time()
}

// entries returns the entry as one event; an old-style entry, which holds a whole stage of a job, as
// several.
func (h historyReply) entries() []HistoryEntry {
	if _, modern := h["what"]; modern {
		entry := HistoryEntry{
			When: h.time("when"), What: h.text("what"),
			Queue: h.text("q"), Worker: h.text("worker"), Group: h.text("group"),
		}
		for name, value := range h {
			switch name {
			case "when", "what", "q", "worker", "group":
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
		Priority:     r.Priority.int(),
		Expires:      r.Expires.time(),
		Retries:      r.Retries.int(),
		Remaining:    r.Remaining.int(),
		Data:         json.RawMessage(r.Data),
		Tags:         stringsOf(r.Tags),
		Dependents:   stringsOf(r.Dependents),
		Dependencies: stringsOf(r.Dependencies),
		SpawnedFrom:  string(r.SpawnedFrom),
		client:       c,
		put:          r.PutAt.time(),
		since:        string(r.PoppedAt),
	}
	for _, entry := range r.History {
		j.History = append(j.History, entry.entries()...)
	}
	if r.Failure != nil {
		j.Failure = r.Failure.failure()
	}
	return j
}

// failure returns the failure, nil when there was none.
func (r *failureReply) failure() *Failure {
	if r.Group == "" {
		return nil
	}
	return &Failure{
		Group:   string(r.Group),
		Message: string(r.Message),
		When:    r.When.time(),
		Worker:  string(r.Worker),
	}
}

func stringsOf(texts []text) []string {
	if len(texts) == 0 {
		return nil
	}
	out := make([]string, len(texts))
	for i, t := range texts {
		out[i] = string(t)
	}
	return out
}

// decode reads a JSON reply. A reply that is not JSON is an [ErrServer].
func decode[T any](op string, reply any) (T, error) {
	var value T
	raw, ok := reply.(string)
	if !ok {
		return value, unexpected(op, reply)
	}
	if err := json.Unmarshal([]byte(raw), &value); err != nil {
		return value, &Error{Op: op, Code: CodeServer,
			Message: "unreadable reply: " + err.Error(), Err: err}
	}
	return value, nil
}

// decodeJobs reads an array of jobs.
func (c *Client) decodeJobs(op string, reply any) ([]*Job, error) {
	replies, err := decode[list[jobReply]](op, reply)
	if err != nil {
		return nil, err
	}
	jobs := make([]*Job, len(replies))
	for i := range replies {
		jobs[i] = replies[i].job(c)
	}
	return jobs, nil
}

// decodeInt reads an integer reply.
func decodeInt(op string, reply any) (int, error) {
	switch v := reply.(type) {
	case int64:
		return int(v), nil
	case string:
		if n, err := strconv.Atoi(v); err == nil {
			return n, nil
		}
	}
	return 0, unexpected(op, reply)
}

// decodeStrings reads an array of strings.
func decodeStrings(op string, reply any) ([]string, error) {
	items, ok := reply.([]any)
	if !ok {
		return nil, unexpected(op, reply)
	}
	out := make([]string, len(items))
	for i, item := range items {
		if out[i], ok = item.(string); !ok {
			return nil, unexpected(op, reply)
		}
	}
	return out, nil
}

func unexpected(op string, reply any) error {
	return &Error{Op: op, Code: CodeServer, Message: fmt.Sprintf("unexpected reply: %.100v", reply)}
}

// validText makes any text fit for JSON, such as a panic's message with raw bytes.
func validText(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }
