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

// An Outbox writes jobs into transactions. The zero value is one, and all of them write into the
// same table.
type Outbox struct {
	// Headers returns headers for each job, as that of [qless.ClientConfig] does: the context of a
	// trace goes with the job, not with the relay. It may be nil.
	Headers func(ctx context.Context) map[string]string

	// Clock returns the time from which delays and lifetimes count. Defaults to [time.Now].
	Clock func() time.Time
}

// A Tx is a transaction, such as *sql.Tx.
type Tx interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// Put writes a job into the outbox, as a part of the transaction, and returns its jid. The job is
// put into its queue once the transaction is committed. It takes the options of [qless.Queue.Put],
// and counts times from now: a delay does not begin when a relay puts the job.
//
// Every job is put as with [qless.IfAbsent]. With a [qless.JID], it is put unless there is a job
// with that jid, or one in the outbox; other conditions are [qless.ErrInvalid]. A job whose
// [qless.Unique] key another job holds when the relay comes to it is dropped, as a put would be.
//
// A job that can't be put, because of its options, its data or its names, is [qless.ErrInvalid],
// and writes nothing. Other errors are those of the database.
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

// complete gives the options of a job a jid and the condition of a put, and makes its durations
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

// timeAfter returns a duration as a time after now. A time stays, and so does a duration that has
// no end.
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

// newJID returns a random jid, as clients of all languages make them.
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
