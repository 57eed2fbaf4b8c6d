// Package inside gives other modules of the project what package qless does not export. Package
// qless sets its variables. Clients are *qless.Client, and specs are qless.JobSpec, which this
// package can't import.
package inside

import (
	"context"

	"github.com/qless/qless-go/internal/jobopts"
)

// A Put is a job to be put, checked and encoded.
type Put struct {
	Queue, JID, Klass, Data string

	Options jobopts.Options
}

// A Found is a job that exists in place of a put.
type Found struct {
	At    int    // which of the puts
	JID   string // the job that has its jid or holds its unique key
	State string // of that job; "replaced", or "put" if the put was done before
}

// Prepare checks and encodes a job as a put by the client does, or by one with the default config
// if it is nil.
var Prepare func(ctx context.Context, client any, queue string, spec any) (Put, error)

// PutOnce puts the first of several jobs, in any queues, with one script: all or none of them. It
// returns the number of jobs put, and the jobs that exist. The server remembers the jids until a
// command put.settled for a week, and does not put them again.
var PutOnce func(ctx context.Context, client any, puts []Put) (n int, found []Found, err error)
