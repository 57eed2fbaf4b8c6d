package outbox

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"github.com/qless/qless-go"
)

// An Outbox writes jobs in transactions. The zero value is ready to use. All outboxes write to the
// same table.
type Outbox struct {
	// Headers, if set, returns headers for each job, like Headers of [qless.ClientConfig]: the
	// context of a trace belongs to the job, not to the relay.
	Headers func(ctx context.Context) map[string]string

	// Clock returns the time from which delays and lifetimes count. Defaults to [time.Now].
	Clock func() time.Time
}

// A Tx is a transaction, such as *sql.Tx.
type Tx interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// Put writes a job to the outbox as part of the transaction, and returns its jid. The job is put
// into its queue once the transaction is committed. Put takes the options of [qless.Queue.Put].
// Times count from now: a delay begins with the call, not when a relay puts the job.
//
// Every job is put as with [qless.IfAbsent]. With a [qless.JID], it is put unless a job with that
// jid exists, or is in the outbox; other conditions are [qless.ErrInvalid]. If another job holds
// the [qless.Unique] key of a job when the relay puts it, the job is dropped, as by a put.
//
// If the options, data or names of a job are invalid, Put returns [qless.ErrInvalid] and writes
// nothing. Any other error comes from the database.
func (o *Outbox) Put(
	ctx context.Context, tx Tx, queue, klass string, data any, options ...qless.PutOption,
) (jid string, err error) {
	if o.Headers != nil {
		options = append([]qless.PutOption{qless.Headers(o.Headers(ctx))}, options...)
	}
	if queue == "" {
		return "", invalid("", "the queue name is empty")
	}
	text, err := qless.JobSpec{Klass: klass, Data: data, Options: options}.MarshalJSON()
	if err != nil {
		return "", err
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(text, &fields); err != nil {
		return "", err
	}
	stored := string(fields["data"])
	delete(fields, "klass")
	delete(fields, "data")
	now := time.Now()
	if o.Clock != nil {
		now = o.Clock()
	}
	if jid, err = complete(fields, now); err != nil {
		return "", err
	}
	text, err = json.Marshal(fields)
	if err != nil {
		return "", err
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO qless_outbox (jid, queue, klass, data, options, created)
		VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (jid) DO NOTHING`,
		jid, queue, klass, stored, string(text), now.UnixMicro())
	return jid, err
}

// complete adds a jid and the condition of a put to the options of a job, and turns durations into
// times. It returns the jid, or the id of the row of a job that replaces another one.
func complete(fields map[string]json.RawMessage, now time.Time) (jid string, err error) {
	if given, ok := fields["jid"]; ok {
		if err := json.Unmarshal(given, &jid); err != nil {
			return "", err
		}
	} else {
		jid = newJID()
	}
	if condition, ok := fields["if"]; ok && string(condition) != `["absent"]` {
		return "", invalid(jid,
			"the outbox puts a job if it is absent, not under the condition %s", condition)
	}
	if _, replaces := fields["replace"]; !replaces {
		fields["jid"], err = json.Marshal(jid)
		fields["if"] = json.RawMessage(`"absent"`)
	}
	for name, as := range map[string]string{"delay": "at", "start_by": "start_by", "ttl": "ttl"} {
		given, ok := fields[name]
		if !ok || err != nil {
			continue
		}
		delete(fields, name)
		fields[as], err = timeAfter(now, given)
	}
	return jid, err
}

// timeAfter turns a duration into a time after now. A time stays the same, and so does an infinite
// duration.
func timeAfter(now time.Time, value json.RawMessage) (json.RawMessage, error) {
	var text string
	if err := json.Unmarshal(value, &text); err != nil {
		return nil, err
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return value, nil
	}
	return json.Marshal(now.Add(d))
}

// newJID returns a random jid in the form that clients in all languages use.
func newJID() string {
	var raw [16]byte
	_, _ = rand.Read(raw[:]) // never fails
	return hex.EncodeToString(raw[:])
}

func invalid(jid, format string, args ...any) error {
	return &qless.Error{
		Op: "outbox.put", Code: qless.ErrInvalid, JID: jid, Message: fmt.Sprintf(format, args...),
	}
}
