package qlesstest

import (
	"testing"

	"github.com/qless/qless-go"
)

// Work calls a worker's handler for a job, with its middleware, and returns the outcome for the
// handler's error: see [qless.OutcomeOf]. In the handler, [qless.ClientFromContext] returns the
// worker's client. The worker need not be started, and the job need not be in one of its queues.
// The test fails if the job's klass has no handler. A panic of the handler is not recovered.
//
// The outcome is not applied to the job. Values that an error leaves to the worker are missing,
// such as the delay before a retry. A job made by [Job] is on a separate server, so follow-ups put
// by the handler with the worker's client do not wait for it. Test that with [New] and [Drain].
func Work(t testing.TB, worker *qless.Worker, job *qless.Job) qless.Outcome {
	t.Helper()
	handler := worker.Handler(job.Klass)
	if handler == nil {
		t.Fatalf("qlesstest.Work: the worker has no handler for the klass %q", job.Klass)
	}
	return qless.OutcomeOf(handler(t.Context(), job))
}
