package qlesstest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
)

// RequirePut returns a waiting, scheduled or depending job of a klass in a queue. If there is none,
// the test fails with a list of the queue's jobs.
//
// Of several, it returns the job put last. Among jobs put in the same second, it returns the last
// to run, and prefers a waiting job to a scheduled or depending one.
func RequirePut(t testing.TB, client *qless.Client, queue, klass string) *qless.Job {
	t.Helper()
	jobs, err := jobsIn(t, queue, client)
	if err != nil {
		t.Fatalf("qlesstest.RequirePut: %v", err)
	}
	var newest *qless.Job
	for _, job := range jobs {
		if job.Klass == klass && (newest == nil || !putAt(job).Before(putAt(newest))) {
			newest = job
		}
	}
	if newest == nil {
		t.Fatalf("qlesstest.RequirePut: queue %s has no %s, but %s", queue, klass, list(jobs))
	}
	return newest
}

// RequirePutOf returns a job of a klass, like [RequirePut], and its data. The test fails if the
// data is not a T.
func RequirePutOf[T any](
	t testing.TB, client *qless.Client, queue string, klass qless.Klass[T],
) (*qless.Job, T) {
	t.Helper()
	job := RequirePut(t, client, queue, klass.Name())
	data, err := klass.Data(job)
	if err != nil {
		t.Fatalf("qlesstest.RequirePutOf: %v", err)
	}
	return job, data
}

// jobsIn returns the jobs in a queue that have not begun to run. A job that falls due moves from
// the scheduled to the waiting jobs, so waiting jobs are read later.
func jobsIn(t testing.TB, queue string, client *qless.Client) ([]*qless.Job, error) {
	var jobs []*qless.Job
	for _, list := range []inspect.List{inspect.Depends, inspect.Scheduled, inspect.Waiting} {
		for job, err := range inspect.New(client).Queue(queue, list).Jobs(t.Context()) {
			if err != nil {
				return nil, err
			}
			jobs = append(jobs, job)
		}
	}
	return jobs, nil
}

// putAt returns when a job was last put, to the second.
func putAt(job *qless.Job) time.Time {
	for _, entry := range slices.Backward(job.History) {
		if entry.What == "put" {
			return entry.When
		}
	}
	return time.Time{}
}

// list names jobs, at most 20.
func list(jobs []*qless.Job) string {
	if len(jobs) == 0 {
		return "nothing"
	}
	var lines []string
	for _, job := range jobs[:min(len(jobs), 20)] {
		lines = append(lines, fmt.Sprintf("%s %s (%s)", job.Klass, job.JID, job.State))
	}
	if more := len(jobs) - len(lines); more > 0 {
		lines = append(lines, fmt.Sprintf("%d more", more))
	}
	return strings.Join(lines, ", ")
}
