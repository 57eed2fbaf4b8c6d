package qlesstest

import (
	"testing"

	"github.com/qless/qless-go"
)

// Work calls a worker's handler for a job, with its middleware, and returns what the handler's error
// means. [qless.ClientFromContext] returns the worker's client. The worker need not run, and the job
// need not be in one of its queues. If its klass has no handler, the test fails. A panic of the
// handler is not recovered.
//
// Nothing happens to the job but what the handler does itself. What an error leaves to the worker,
// such as the delay before a retry, is not set in the outcome.
func Work(t testing.TB, worker *qless.Worker, job *qless.Job) qless.Outcome {
	t.Helper()
	handler := worker.Handler(job.Klass)
	if handler == nil {
		t.Fatalf("qlesstest.Work: the worker has no handler for the klass %q", job.Klass)
	}
	return qless.OutcomeOf(handler(t.Context(), job))
}
