package inspect

import (
	"strings"
	"time"
	"unicode/utf8"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/units"
	"github.com/qless/qless-go/internal/wire"
)

// A Row is a job in a list. [qless.Client.Job] returns all fields.
type Row struct {
	JID   string `json:"jid"`
	Klass string `json:"klass"`

	// Queue is the job's queue, or empty if the job is complete.
	Queue string `json:"queue,omitempty"`

	// State is the job's state. It is empty for a recurring job, and for a jid without a job.
	State qless.State `json:"state,omitempty"`

	Priority  int      `json:"priority"`
	Tags      []string `json:"tags,omitempty"`
	Retries   int      `json:"retries"`
	Remaining int      `json:"remaining"`

	// Worker is the name of the worker that holds the job.
	Worker string `json:"worker,omitempty"`

	// Since is the time of the last put, pop, completion or failure.
	Since time.Time `json:"since,omitzero"`

	// Due is the time at which the job's delay ends, or a recurring job is due.
	Due time.Time `json:"due,omitzero"`

	// IsDue reports that Due has passed, and no worker has asked the queue for jobs since.
	IsDue bool `json:"is_due,omitempty"`

	// Expires is the time at which a running job's lock expires.
	Expires time.Time `json:"expires,omitzero"`

	// Failure is the reason of the last failure or retry, with at most 256 bytes of the message, or
	// nil.
	Failure *qless.Failure `json:"failure,omitempty"`

	// Parked is the limit without room that keeps the job scheduled.
	Parked string `json:"parked,omitempty"`

	// Interval is the interval of a recurring job.
	Interval time.Duration `json:"interval,omitempty"`

	// DataSize is the size of the data on the server, in bytes.
	DataSize int `json:"data_size"`

	// Data is the beginning of the data as text: see [Selection.WithData].
	Data string `json:"data,omitempty"`
}

// MarshalJSON writes the interval as text.
func (r Row) MarshalJSON() ([]byte, error) { return units.Marshal(r) }

// UnmarshalJSON reads the output of MarshalJSON.
func (r *Row) UnmarshalJSON(text []byte) error { return units.Unmarshal(text, r) }

// A rowReply is a job in a reply of the commands list and find.
type rowReply struct {
	JID       wire.Raw             `json:"jid"`
	Klass     wire.Text            `json:"klass"`
	Queue     wire.Text            `json:"queue"`
	State     wire.Text            `json:"state"`
	Priority  wire.Number          `json:"priority"`
	Tags      wire.List[wire.Text] `json:"tags"`
	Retries   wire.Number          `json:"retries"`
	Remaining wire.Number          `json:"remaining"`
	Worker    wire.Text            `json:"worker"`
	Since     wire.Number          `json:"since"`
	Expires   wire.Number          `json:"expires"`
	Due       wire.Number          `json:"due"`
	IsDue     bool                 `json:"fell_due"`
	Failure   *struct {
		Group   wire.Text   `json:"group"`
		Message wire.Text   `json:"message"`
		When    wire.Number `json:"when"`
		Worker  wire.Text   `json:"worker"`
	} `json:"failure"`
	Parked   wire.Text   `json:"parked_by"`
	Interval wire.Number `json:"interval"`
	Size     wire.Number `json:"size"`
	Data     wire.Text   `json:"data"`
}

// rows returns the jobs of a reply, never nil, which would be null in JSON.
func (s Selection) rows(replies []rowReply) []Row {
	rows := make([]Row, len(replies))
	for i := range replies {
		rows[i] = s.row(&replies[i])
	}
	return rows
}

func (s Selection) row(r *rowReply) Row {
	row := Row{
		JID: string(r.JID), Klass: string(r.Klass), Queue: string(r.Queue),
		State: qless.State(wire.State(r.State)), Priority: r.Priority.LargeInt(),
		Tags: wire.Strings(r.Tags), Retries: r.Retries.Int(), Remaining: r.Remaining.Int(),
		Since: r.Since.Time(), Expires: r.Expires.Time(), Due: r.Due.Time(), IsDue: r.IsDue,
		Parked: string(r.Parked), Interval: max(r.Interval.Duration(), 0), DataSize: r.Size.Int(),
	}
	if row.State == qless.StateRunning { // A retried job keeps the name.
		row.Worker = string(r.Worker)
	}
	if f := r.Failure; f != nil && f.Group != "" {
		row.Failure = &qless.Failure{
			Group: string(f.Group), Message: strings.TrimRight(string(f.Message), "\uFFFD"),
			When: f.When.Time(), Worker: string(f.Worker),
		}
		if row.State == qless.StateFailed {
			row.Since = row.Failure.When
		}
	}
	data, _ := s.client.Decode([]byte(r.Data)) // undecodable data is shown unchanged
	row.Data = beginning(string(data), s.data)
	return row
}

// beginning returns at most the first bytes of a text, without a partial character at the end.
func beginning(text string, bytes int) string {
	if len(text) > bytes {
		text = text[:bytes]
	}
	for range utf8.UTFMax {
		if r, size := utf8.DecodeLastRuneInString(text); r != utf8.RuneError || size != 1 {
			break
		}
		text = text[:len(text)-1]
	}
	return strings.TrimRight(text, "\uFFFD")
}
