package lmstfy

import (
	"encoding/base64"
	"encoding/json"
	"math"
	"time"

	"github.com/qless/qless-go"
)

// Klass is the klass of the jobs that are published.
const Klass = "lmstfy"

// A Message is the data of a published job, for workers that are written in Go.
type Message struct {
	Body []byte `json:"body"`
}

// encodeBody returns the data of a job with this body. Unlike json.Marshal, it reads it once.
func encodeBody(body []byte) json.RawMessage {
	const head, tail = `{"body":"`, `"}`
	data := make([]byte, 0, len(head)+base64.StdEncoding.EncodedLen(len(body))+len(tail))
	data = append(data, head...)
	data = base64.StdEncoding.AppendEncode(data, body)
	return append(data, tail...)
}

// bodyOf returns the body of a job. For a job that was not published, that is its data.
func bodyOf(job *qless.Job) []byte {
	if job.Klass != Klass {
		return job.Data
	}
	var message struct {
		Body *[]byte `json:"body"`
	}
	if json.Unmarshal(job.Data, &message) != nil || message.Body == nil {
		return job.Data
	}
	return *message.Body
}

// describe returns an answer about a job, without its message.
func describe(namespace, queue string, job *qless.Job, now time.Time) map[string]any {
	return map[string]any{
		"namespace":    namespace,
		"queue":        queue,
		"job_id":       job.JID,
		"data":         bodyOf(job),
		"ttl":          secondsLeft(job, now),
		"elapsed_ms":   elapsed(job, now).Milliseconds(),
		"remain_tries": 0,
		"attributes":   job.Headers,
	}
}

// secondsLeft returns how long a job still lives, or 0 if that does not end. A job that the server
// has given out has a second left, whatever the clocks say.
func secondsLeft(job *qless.Job, now time.Time) int64 {
	if job.Until.IsZero() {
		return 0
	}
	return max(1, int64(math.Round(job.Until.Sub(now).Seconds())))
}

// elapsed returns how long ago a job was published.
func elapsed(job *qless.Job, now time.Time) time.Duration {
	at, known := publishedAt(job.JID)
	if !known {
		return job.Waited
	}
	return max(0, now.Sub(at))
}
