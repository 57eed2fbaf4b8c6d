package lmstfy

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"math"
	"time"

	"github.com/qless/qless-go"
)

// Klass is the klass of published jobs.
const Klass = "lmstfy"

// A Message is the data of a published job, for workers in Go.
type Message struct {
	Body []byte `json:"body"`
}

// The beginning and the end of an encoded Message.
const (
	messageHead = `{"body":"`
	messageTail = `"}`
)

// encodeBody returns the data of a job with this body. Unlike json.Marshal, it reads the body once.
func encodeBody(body []byte) json.RawMessage {
	size := len(messageHead) + base64.StdEncoding.EncodedLen(len(body)) + len(messageTail)
	data := append(make([]byte, 0, size), messageHead...)
	data = base64.StdEncoding.AppendEncode(data, body)
	return append(data, messageTail...)
}

// bodyOf returns the body of a job. If the job was not published here, the body is its data.
func bodyOf(job *qless.Job) []byte {
	if job.Klass != Klass {
		return job.Data
	}
	text, encoded := bytes.CutPrefix(job.Data, []byte(messageHead))
	if text, ended := bytes.CutSuffix(text, []byte(messageTail)); encoded && ended {
		body := make([]byte, 0, base64.StdEncoding.DecodedLen(len(text)))
		body, err := base64.StdEncoding.AppendDecode(body, text)
		if err == nil && !bytes.ContainsAny(text, "\r\n") { // the decoder would ignore these
			return body
		}
	}
	var message struct {
		Body *[]byte `json:"body"`
	}
	if json.Unmarshal(job.Data, &message) != nil || message.Body == nil {
		return job.Data
	}
	return *message.Body
}

// A description is an answer about a job. The fields are sent in alphabetical order.
type description struct {
	Attributes  map[string]string `json:"attributes"`
	Data        []byte            `json:"data"`
	ElapsedMS   int64             `json:"elapsed_ms"`
	JobID       string            `json:"job_id"`
	Message     string            `json:"msg,omitempty"`
	Namespace   string            `json:"namespace"`
	Queue       string            `json:"queue"`
	RemainTries int               `json:"remain_tries"`
	TTL         int64             `json:"ttl"`
}

// describe returns an answer about a job, without its message and its tries.
func describe(namespace, queue string, job *qless.Job, now time.Time) description {
	return description{
		Attributes: job.Headers,
		Data:       bodyOf(job),
		ElapsedMS:  elapsed(job, now).Milliseconds(),
		JobID:      job.JID,
		Namespace:  namespace,
		Queue:      queue,
		TTL:        secondsLeft(job, now),
	}
}

// secondsLeft returns the rest of a job's life in seconds, or 0 if the life is unlimited. A
// delivered job has at least a second left, whatever the clocks say.
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
