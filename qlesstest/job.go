package qlesstest

import (
	"testing"

	"github.com/qless/qless-go"
)

// Job returns a running job to pass to a handler. The job is in the queue "test" of a separate
// in-memory server, so all of its methods work. The test fails if the job can't run, because it has
// a [qless.Delay] or [qless.DependsOn].
func Job(t testing.TB, klass string, data any, options ...qless.PutOption) *qless.Job {
	t.Helper()
	return run(t, qless.JobSpec{Klass: klass, Data: data, Options: options})
}

// JobOf returns a running job of a klass, with its default options, like [Job].
func JobOf[T any](
	t testing.TB, klass qless.Klass[T], data T, options ...qless.PutOption,
) *qless.Job {
	t.Helper()
	return run(t, klass.Spec(data, options...))
}

// run puts and pops a job.
func run(t testing.TB, spec qless.JobSpec) *qless.Job {
	t.Helper()
	queue := New(t).Client().Queue(jobQueue)
	if _, err := queue.Put(t.Context(), spec.Klass, spec.Data, spec.Options...); err != nil {
		t.Fatalf("qlesstest.Job: %v", err)
	}
	jobs, err := queue.Pop(t.Context(), 1)
	if err != nil {
		t.Fatalf("qlesstest.Job: %v", err)
	}
	if len(jobs) == 0 {
		t.Fatal("qlesstest.Job: the job does not run: it has a Delay or DependsOn")
	}
	return jobs[0]
}

// jobQueue is the queue of the jobs of Job.
const jobQueue = "test"
