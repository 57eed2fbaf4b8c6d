// Package inside gives other packages of the project what package qless does not export. Package
// qless sets its variables. Clients are *qless.Client, batches are *qless.Batch, results are
// qless.Result and specs are qless.JobSpec, which this package can't import.
package inside

import (
	"context"
	"log/slog"
	"time"

	"github.com/qless/qless-go/internal/ask"
	"github.com/qless/qless-go/internal/jobopts"
)

// A Put is a job to be put, checked and encoded.
type Put struct {
	Queue, JID, Klass, Data string

	Options jobopts.Options

	At int // its index among several
}

// A Found is a job that exists in place of a put.
type Found struct {
	At    int    // which of the puts
	JID   string // the job that has its jid or holds its unique key
	State string // of that job; "replaced", or "put" if the put was done before
}

// A Part is a client and the jobs that it puts.
type Part struct {
	Client any
	Puts   []Put
}

// Run runs a command about a job, for the observer and the errors of the client.
var Run func(ctx context.Context, client any, command, jid string, args ...any) (any, error)

// A Job is a job for a command, and the context of the call that is about it.
type Job struct {
	Context context.Context
	JID     string
	Args    []any
}

// RunEach runs a command once for each job, in one round trip and without sending any again. The
// replies and the errors are those of Run.
var RunEach func(
	ctx context.Context, client any, command string, jobs []Job,
) (replies []any, errs []error)

// IsBatching reports whether calls of a client may share round trips.
var IsBatching func(client any) bool

// An Attached belongs to a client, which closes it and then waits for its end.
type Attached interface {
	Close()
	Wait()
}

// Attach returns what open returned for a client, or for one of its copies, at the first call. It
// is nil if the client was closed before.
var Attach func(client any, open func() Attached) Attached

// OpenExchanger returns what takes jobs for others, with a name of its own. op is that of errors.
var OpenExchanger func(client any, op string, config ask.Config) any

// DecodeData decodes the data of a *qless.Job that an exchanger has taken.
var DecodeData func(job any)

// Ends returns the number of ends of a *qless.Job that only were counted.
var Ends func(job any) int

// Withdraw cancels a job that is not running and has not ended.
var Withdraw func(ctx context.Context, client any, jid string) error

// EncodeResult encodes the result of a job.
var EncodeResult func(client any, op, jid string, result any) (string, error)

// CheckName returns an error if no queue, group or other named thing can have a name. what tells
// which of them it is.
var CheckName func(op, what, name string) error

// CheckJID returns an error if no job can have a jid.
var CheckJID func(op, jid string) error

// SettleDeferred releases or fails dependents that were too many for one script.
var SettleDeferred func(ctx context.Context, client any)

// Wrap turns the error of a command into a *qless.Error.
var Wrap func(op, jid string, err error) error

// ErrorOfOne returns the error of a call for one or several jobs as that of one job.
var ErrorOfOne func(op, jid string, err error) error

// Observer returns the observer of a client, a func(context.Context, qless.Command), or nil.
var Observer func(client any) any

// Logger returns the logger of a client.
var Logger func(client any) *slog.Logger

// Observe passes a command to the observer of a client, and returns its error as that of a client.
var Observe func(ctx context.Context, client any, command string, sent time.Time, err error) error

// Prepare checks and encodes a job as a put by the client does, or by one with the default config
// if it is nil.
var Prepare func(ctx context.Context, client any, queue string, spec any) (Put, error)

// PutOnce puts the first of several jobs, in any queues, with one script: all or none of them. It
// returns the number of jobs put, and the jobs that exist. The server remembers the jids until a
// command put.settled for a week, and does not put them again.
var PutOnce func(ctx context.Context, client any, puts []Put) (n int, found []Found, err error)

// Check checks a job to be put, whichever client puts it. The jid is a new one unless the Options
// have one.
var Check func(queue string, spec any) (Put, error)

// CheckAll does the same for the specs of a PutMany.
var CheckAll func(queue string, specs any) ([]Put, error)

// Send puts a checked job. It returns the jid, or that of the existing job.
var Send func(ctx context.Context, client any, p Put) (jid string, err error)

// PutStored puts a job with data and options as they are stored. It returns the jid, or that of the
// existing job.
var PutStored func(
	ctx context.Context, client any, queue, jid, klass, data string, pairs []string,
) (string, error)

// SendParts puts checked jobs by several clients at once, after all of them have encoded theirs.
// It returns the jids of the jobs that were put, in their order, and the error of a PutMany.
var SendParts func(ctx context.Context, parts []Part) (jids []string, err error)

// Call puts a checked job and waits for its end.
var Call func(ctx context.Context, client any, p Put) (result any, err error)

// Wait returns the AwaitPut of a wait for a job, and a function that waits for a job that exists.
var Wait func(jid string, options any) (
	awaitPut time.Duration, wait func(ctx context.Context, client any) (result any, err error),
	err error,
)

// OpenBatch puts a checked job as the callback of a batch, and returns the batch.
var OpenBatch func(ctx context.Context, client any, p Put) (batch any, err error)

// AddToBatch puts checked jobs as members of a batch, and returns their jids.
var AddToBatch func(ctx context.Context, batch any, puts []Put) (jids []string, err error)
