package lmstfy

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/qless/qless-go"
)

// publish answers PUT /api/:namespace/:queue.
func (r *request) publish() {
	p, body, ok := r.publication(maxJobSize, "body too large")
	if !ok {
		return
	}
	if ids := r.put(p, [][]byte{body}); ids != nil {
		r.reply(http.StatusCreated, publishedJob{ids[0], "published"})
	}
}

// publication reads the parameters and the body of a request to publish. If one is invalid,
// publication answers the request.
func (r *request) publication(most int64, large string) (p publication, body []byte, ok bool) {
	p, problem := r.server.defaults.parsePublication(r.values)
	if problem != "" {
		r.fail(http.StatusBadRequest, problem)
		return p, nil, false
	}
	body, tooLarge, err := r.readBody(most)
	switch {
	case err != nil:
		r.fail(http.StatusBadRequest, "failed to read body")
	case tooLarge:
		r.fail(http.StatusRequestEntityTooLarge, large)
	}
	return p, body, err == nil && !tooLarge
}

// A publishedJob is the answer to a publish.
type publishedJob struct {
	JobID   string `json:"job_id"`
	Message string `json:"msg"`
}

// republish answers PUT /api/:namespace/:queue/job/:job_id. It always deletes the old job.
func (r *request) republish() {
	if _, err := r.pool.remove(r.Context(), r.queueName(r.queue), r.job); err != nil {
		r.internal("delete a job", err)
		return
	}
	r.publish()
}

// publishBulk answers PUT /api/:namespace/:queue/bulk.
func (r *request) publishBulk() {
	p, body, ok := r.publication(r.server.config.MaxBulkSize, "job too large")
	if !ok {
		return
	}
	bodies, status, problem := parseBulk(body)
	if problem != "" {
		r.fail(status, problem)
		return
	}
	if ids := r.put(p, bodies); ids != nil {
		r.reply(http.StatusCreated, map[string]any{"msg": "published", "job_ids": ids})
	}
}

// parseBulk returns the bodies of jobs, or the status and the message of an answer.
func parseBulk(body []byte) (bodies [][]byte, status int, problem string) {
	var jobs []json.RawMessage
	if json.Unmarshal(body, &jobs) != nil {
		return nil, http.StatusBadRequest, "request body should be an array of objects"
	}
	switch {
	case len(jobs) == 0:
		return nil, http.StatusBadRequest, "no jobs"
	case len(jobs) > maxBulkJobs:
		return nil, http.StatusBadRequest, "too many jobs"
	}
	for _, job := range jobs {
		if len(job) > maxJobSize {
			return nil, http.StatusRequestEntityTooLarge, "job too large"
		}
		bodies = append(bodies, job)
	}
	return bodies, 0, ""
}

// put publishes jobs with these bodies, and returns their ids. If that fails, put answers the
// request.
func (r *request) put(p publication, bodies [][]byte) []string {
	versioned := isVersioned(r.Header)
	var attributes map[string]string
	if versioned {
		attributes = attributesOf(r.Header)
	}
	if len(attributes) > maxAttributes {
		r.fail(http.StatusBadRequest, "too many attributes, cannot exceed 16")
		return nil
	}
	ids := newJobIDs(time.Now(), len(bodies), uint32(p.delay), versioned)
	jobs := make([]draft, len(bodies))
	for i, body := range bodies {
		jobs[i] = draft{ids[i], body}
	}
	err := r.pool.publish(r.Context(), r.queueName(r.queue), jobs, p, r.carried(attributes))
	if err != nil {
		r.internal("publish", err)
		return nil
	}
	r.server.metrics.published(r, len(jobs), p.delay > 0)
	return ids
}

// maxIgnored limits how much of an oversized body is read and dropped, to let the client read the
// answer.
const maxIgnored = 16 << 20

// readBody reads a body of at most the given length, within the time that the client may take.
func (r *request) readBody(most int64) (body []byte, tooLarge bool, err error) {
	controller := http.NewResponseController(r.writer)
	setDeadline(controller.SetReadDeadline, r.server.config.ReadTimeout)
	if r.ContentLength > most {
		_, _ = io.CopyN(io.Discard, r.Body, maxIgnored)
		return nil, true, nil
	}
	var read bytes.Buffer
	read.Grow(int(min(max(r.ContentLength, 0), maxAhead)) + bytes.MinRead)
	_, err = read.ReadFrom(io.LimitReader(r.Body, most+1))
	if int64(read.Len()) > most {
		_, _ = io.CopyN(io.Discard, r.Body, maxIgnored)
		return nil, true, nil
	}
	if err == nil {
		setDeadline(controller.SetReadDeadline, 0)
	}
	return read.Bytes(), false, err
}

// published counts published jobs.
func (m *metrics) published(r *request, jobs int, delayed bool) {
	m.name(r.namespace)
	n := float64(jobs)
	m.publish.add(n, r.poolName)
	m.poolAdd.add(n, r.poolName)
	m.publishQueue.add(n, r.namespace, r.poolName, r.queue)
	if delayed {
		m.timerAdd.add(n, r.poolName)
	} else {
		m.directPush.add(n, r.poolName)
	}
}

// carried returns a new job's attributes together with its carried request headers, in lower case.
// Headers that do not fit are left out.
func (r *request) carried(attributes map[string]string) map[string]string {
	all := maps.Clone(attributes)
	if all == nil {
		all = map[string]string{}
	}
	size := 0
	for key, value := range all {
		size += len(key) + len(value)
	}
	for _, name := range r.server.config.Carried {
		key, value := strings.ToLower(name), strings.Join(r.Header.Values(name), ",")
		_, given := all[key]
		fits := size+len(key)+len(value) <= maxHeaders
		if value == "" || given || !fits || !utf8.ValidString(value) {
			continue
		}
		all[key] = value
		size += len(key) + len(value)
	}
	return all
}

// maxHeaders is the maximum size of a job's headers, in bytes.
const maxHeaders = 8 << 10

// giveBack adds a job's carried headers to the answer to a consumer.
func (r *request) giveBack(header http.Header, job *qless.Job) {
	for _, name := range r.server.config.Carried {
		if value := job.Headers[strings.ToLower(name)]; value != "" {
			header.Set(name, value)
		}
	}
}
