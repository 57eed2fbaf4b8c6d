package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"time"

	"github.com/google/uuid"

	"github.com/qless/qless-go"
)

// createTable makes the outbox. The number keeps the order of the rows, the id becomes the jid. A
// row that can't become a job stays, with the error.
const createTable = `
CREATE TABLE IF NOT EXISTS qless_outbox (
	number  INTEGER PRIMARY KEY AUTOINCREMENT,
	id      TEXT NOT NULL UNIQUE,
	queue   TEXT NOT NULL,
	klass   TEXT NOT NULL,
	data    TEXT NOT NULL,
	options TEXT NOT NULL,
	created TEXT NOT NULL DEFAULT CURRENT_TIMESTAMP,
	problem TEXT
)`

// A message is a job that is on its way into a queue.
type message struct {
	queue   string
	klass   string
	data    any
	options options
}

// options are those options of a put that the outbox can store. A delay would count from when the
// relay puts the job, so there is a time instead.
type options struct {
	At       time.Time `json:"at,omitzero"`
	Priority int       `json:"priority,omitempty"`
	Tags     []string  `json:"tags,omitempty"`
}

// put adds a job to the outbox, in the transaction that makes the job necessary. It returns the
// jid.
func put(ctx context.Context, tx *sql.Tx, m message) (jid string, err error) {
	if m.queue == "" || m.klass == "" {
		return "", errors.New("outbox: a job needs a queue and a klass")
	}
	data, err := json.Marshal(m.data)
	if err != nil {
		return "", err
	}
	stored, err := json.Marshal(m.options)
	if err != nil {
		return "", err
	}
	jid = uuid.NewString()
	_, err = tx.ExecContext(ctx,
		`INSERT INTO qless_outbox (id, queue, klass, data, options) VALUES (?, ?, ?, ?, ?)`,
		jid, m.queue, m.klass, string(data), string(stored))
	return jid, err
}

// A row is a job in the outbox.
type row struct {
	id, queue, klass, data, options string
}

// spec returns the job of a row. A job that is there already stays as it is: that is what makes it
// safe to put a row again.
func (r row) spec() (qless.JobSpec, error) {
	var stored options
	if err := json.Unmarshal([]byte(r.options), &stored); err != nil {
		return qless.JobSpec{}, err
	}
	list := []qless.PutOption{
		qless.JID(r.id), qless.IfAbsent, qless.Priority(stored.Priority), qless.Tags(stored.Tags),
	}
	if !stored.At.IsZero() {
		list = append(list, qless.At(stored.At))
	}
	return qless.JobSpec{Klass: r.klass, Data: json.RawMessage(r.data), Options: list}, nil
}
