package web

import (
	"encoding/json"

	"github.com/qless/qless-go"
)

// columns are the columns of a table of jobs that not every table needs.
type columns struct{ Queue, Due, Expires, Parked, Worker, Failure, Tags bool }

// columnsOf returns the columns that some jobs need.
func columnsOf(jobs []qless.JobSummary) (c columns) {
	for i := range jobs {
		job := &jobs[i]
		c.Queue = c.Queue || job.Queue != jobs[0].Queue
		c.Due = c.Due || !job.Due.IsZero()
		c.Expires = c.Expires || !job.Expires.IsZero()
		c.Parked = c.Parked || job.ParkedBy != ""
		c.Worker = c.Worker || job.Worker != ""
		c.Failure = c.Failure || job.Failure != nil
		c.Tags = c.Tags || len(job.Tags) > 0
	}
	return c
}

// FailureOf returns why a job in a list has failed, as it may be shown.
func (f *frame) FailureOf(job qless.JobSummary) string {
	shown := f.Site.redactedFailure(&job)
	if shown == nil {
		return ""
	}
	return shown.Message
}

// redactedFailure returns the failure of a job in a list as it may be shown.
func (s *site) redactedFailure(summary *qless.JobSummary) *qless.Failure {
	redact := s.handler.options.Redact
	if redact == nil || summary.Failure == nil {
		return summary.Failure
	}
	failure := *summary.Failure
	job := &qless.Job{
		JID: summary.JID, Klass: summary.Klass, Queue: summary.Queue, State: summary.State,
		Priority: summary.Priority, Remaining: summary.Remaining, Retries: summary.Retries,
		Tags: summary.Tags, Worker: summary.Worker, Failure: &failure, Data: json.RawMessage("{}"),
	}
	redact(job)
	return job.Failure
}

// redactAll leaves in lists of jobs what may be shown.
func (s *site) redactAll(jobs []qless.JobSummary) {
	if s.handler.options.Redact == nil {
		return
	}
	for i := range jobs {
		jobs[i].Failure = s.redactedFailure(&jobs[i])
		jobs[i].Data = ""
	}
}

// IsRedacted reports whether data and results of jobs are neither shown nor searched.
func (s *site) IsRedacted() bool { return s.handler.options.Redact != nil }
