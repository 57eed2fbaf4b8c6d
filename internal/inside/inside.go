// Package inside exposes unexported parts of package qless to other packages of the project.
// Package qless sets its variables. Clients are *qless.Client, batches are *qless.Batch, results
// are qless.Result and specs are qless.JobSpec, which this package can't import.
package inside

import (
	"context"
	"log/slog"
	"time"

	"github.com/qless/qless-go/internal/ask"
	"github.com/qless/qless-go/internal/jobopts"
)

// A Put is a job to put, checked and encoded.
type Put struct {
	Queue, JID, Klass, Data string

	Options jobopts.Options

	At int // the index among several jobs
}

// A Found is an existing job in place of a put.
type Found struct {
	At    int    // which of the puts
	JID   string // the job with the put's jid or unique key
	State string // the job's state; "replaced", or "put" if the put was done before
}

// A Part is a client and the jobs that it puts.
type Part struct {
	Client any
	Puts   []Put
}

// Run runs a command about a job, for the observer and the errors of the client.
var Run func(ctx context.Context, client any, command, jid string, args ...any) (any, error)

// A Job is a job for a command, with the context of its call.
type Job struct {
	Context context.Context
	JID     string
	Args    []any
}

// RunEach runs a command once for each job, in one round trip and without retries. The replies and
// the errors are those of Run.
var RunEach func(
	ctx context.Context, client any, command string, jobs []Job,
) (replies []any, errs []error)

// IsBatching reports whether calls of a client may share round trips.
var IsBatching func(client any) bool

// An Attached belongs to a client. Closing the client closes the Attached and waits for its end.
type Attached interface {
	Close()
	Wait()
}

// Attach returns the result of the first call of open for a client or its copies, or nil if the
// client was closed before.
var Attach func(client any, open func() Attached) Attached

// OpenExchanger returns an exchanger that takes jobs for others, by its own name. op is for errors.
var OpenExchanger func(client any, op string, config ask.Config) any

// DecodeData decodes the data of a *qless.Job taken by an exchanger.
var DecodeData func(job any)

// Ends returns the number of ends of a *qless.Job that were only counted.
var Ends func(job any) int

// Withdraw cancels a job that is not running and has not ended.
var Withdraw func(ctx context.Context, client any, jid string) error

// EncodeResult encodes the result of a job.
var EncodeResult func(client any, op, jid string, result any) (string, error)

// CheckName returns an error if a name is invalid for a queue, a group or the like, as named by
// what.
var CheckName func(op, what, name string) error

// CheckJID returns an error for an invalid jid.
var CheckJID func(op, jid string) error

// SettleDeferred releases or fails dependents that were too many for one script.
var SettleDeferred func(ctx context.Context, client any)

// Wrap turns the error of a command into a *qless.Error.
var Wrap func(op, jid string, err error) error

// ErrorOfOne returns the error of a call for one or several jobs as the error of one job.
var ErrorOfOne func(op, jid string, err error) error

// Observer returns the observer of a client, a func(context.Context, qless.Command), or nil.
var Observer func(client any) any

// Logger returns the logger of a client.
var Logger func(client any) *slog.Logger

// Observe passes a command to the observer of a client, and returns its error as a client's error.
var Observe func(ctx context.Context, client any, command string, sent time.Time, err error) error

// Prepare checks and encodes a job like a put by the client or, if it is nil, by a client with the
// default config.
var Prepare func(ctx context.Context, client any, queue string, spec any) (Put, error)

// PutOnce puts the first of several jobs, in any queues, with one script: all or none of them. It
// returns the number of jobs put, and the existing jobs. For a week, or until a command
// put.settled, the server remembers the jids, and does not put them again.
var PutOnce func(ctx context.Context, client any, puts []Put) (n int, found []Found, err error)

// Check checks a job to put, for any client. The jid is a new one unless the Options have one.
var Check func(queue string, spec any) (Put, error)

// CheckAll does the same for the specs of a PutMany.
var CheckAll func(queue string, specs any) ([]Put, error)

// Send puts a checked job. It returns the jid of the new or the existing job.
var Send func(ctx context.Context, client any, p Put) (jid string, err error)

// PutStored puts a job with data and options in stored form. It returns the jid of the new or the
// existing job.
var PutStored func(
	ctx context.Context, client any, queue, jid, klass, data string, pairs []string,
) (string, error)

// SendParts puts checked jobs by several clients at once, after all clients have encoded theirs. It
// returns the jids of the jobs put, in order, and the error of a PutMany.
var SendParts func(ctx context.Context, parts []Part) (jids []string, err error)

// Call puts a checked job and waits for its end.
var Call func(ctx context.Context, client any, p Put) (result any, err error)

// Wait returns the AwaitPut of a wait for a job, and a function that waits for an existing job.
var Wait func(jid string, options any) (
	awaitPut time.Duration, wait func(ctx context.Context, client any) (result any, err error),
	err error,
)

// OpenBatch puts a checked job as the callback of a batch, and returns the batch.
var OpenBatch func(ctx context.Context, client any, p Put) (batch any, err error)

// AddToBatch puts checked jobs as members of a batch, and returns their jids.
var AddToBatch func(ctx context.Context, batch any, puts []Put) (jids []string, err error)
