package workq

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"strconv"
	"time"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/inside"
)

// A Body is the data or the result of a Workq client's job: any bytes, as base64 in JSON. Handlers
// in Go decode the data of such jobs into a Body, and set results of this type. Workq clients
// receive any other data and results as JSON.
type Body struct {
	Body []byte `json:"body"`
}

// The beginning and the end of an encoded Body.
const (
	bodyBegin = `{"body":"`
	bodyEnd   = `"}`
)

// bodyOf returns the bytes that data or a result represents.
func bodyOf(data json.RawMessage) []byte {
	if text, ok := bytes.CutPrefix(data, []byte(bodyBegin)); ok {
		text, ok = bytes.CutSuffix(text, []byte(bodyEnd))
		ok = ok && !bytes.ContainsAny(text, "\r\n") // the decoder would ignore these
		body := make([]byte, base64.StdEncoding.DecodedLen(len(text)))
		if n, err := base64.StdEncoding.Decode(body, text); ok && err == nil {
			return body[:n]
		}
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(data, &fields) != nil || len(fields) != 1 {
		return data
	}
	var body *[]byte
	if json.Unmarshal(fields["body"], &body) != nil || body == nil {
		return data
	}
	return *body
}

// Headers of the gateway's jobs.
const (
	headerMaxAttempts = "workq-max-attempts"
	headerMaxFails    = "workq-max-fails"
	headerTime        = "workq-time"
	headerTTL         = "workq-ttl"
)

// manyAttempts is the maximum number of attempts of a job.
const manyAttempts = 255

// longestLife is the longest possible TTL. A time.Duration can't be much longer.
const longestLife = 200 * 365 * 24 * time.Hour

// failureGroup is the group of jobs failed by Workq clients.
const failureGroup = "workq"

// options returns the options for putting a job. shift is added to the time of a scheduled job.
func (s *spec) options(now time.Time, shift time.Duration) []qless.PutOption {
	attempts := s.maxAttempts
	if attempts == 0 {
		attempts = manyAttempts
	}
	options := []qless.PutOption{
		qless.JID(s.id.String()), qless.IfAbsent,
		qless.LockTime(milliseconds(s.ttr)), qless.OnLostInPlace,
		qless.Retries(attempts - 1),
	}
	header := func(key string, n uint64) {
		if n > 0 {
			options = append(options, qless.Headers{key: strconv.FormatUint(n, 10)})
		}
	}
	header(headerTTL, s.ttl)
	header(headerMaxAttempts, s.maxAttempts)
	header(headerMaxFails, s.maxFails)
	if !s.at.IsZero() {
		options = append(options, qless.Headers{headerTime: s.at.Format(timeLayout)},
			qless.At(s.at.Add(shift)))
	}
	if life := s.ends(now).Sub(now); s.ttl > 0 && life < longestLife {
		options = append(options, qless.TTL(life))
	}
	return options
}

// ends returns when the life of the job ends if put now.
func (s *spec) ends(now time.Time) time.Time {
	if !s.at.IsZero() {
		now = s.at
	}
	return now.Add(milliseconds(s.ttl))
}

// queue returns the queue for the job.
func (s *spec) queue() string {
	if s.at.IsZero() {
		return Queue(s.name, s.priority)
	}
	return ScheduledQueue(s.name, s.priority)
}

// header returns a header that is a number, or 0.
func header(job *qless.Job, key string) uint64 {
	n, _ := strconv.ParseUint(job.Headers[key], 10, 64)
	return n
}

// States of jobs in Workq.
const (
	stateNew       = 0
	stateCompleted = 1
	stateFailed    = 2
	statePending   = 3
	stateLeased    = 4
)

func stateOf(job *qless.Job) int {
	switch job.State {
	case qless.StateComplete:
		return stateCompleted
	case qless.StateFailed:
		return stateFailed
	case qless.StateRunning:
		return stateLeased
	}
	if attemptsOf(job) > 0 {
		return statePending
	}
	return stateNew
}

// attemptsOf returns how often a job was leased. It counts in the job's history, unless the history
// was cut short.
func attemptsOf(job *qless.Job) int {
	if len(job.History) > 0 && len(job.History) < shortHistory {
		popped := 0
		for _, entry := range job.History {
			switch entry.What {
			case "popped":
				popped++
			case undelivered:
				popped--
			}
		}
		return max(popped, 0)
	}
	attempts := usedAttempts(job)
	if job.State == qless.StateRunning {
		attempts++
	}
	return attempts
}

// shortHistory is the number of entries up to which a history was certainly not cut short.
const shortHistory = 90

// undelivered is logged to a job after a failed delivery to the leasing client.
const undelivered = "workq: not delivered"

// usedAttempts returns the number of attempts that a job used up before its last lease.
func usedAttempts(job *qless.Job) int {
	return job.Retries - max(job.Remaining, -1) + inside.Ends(job)
}

// idOf returns the id of a job for Workq clients, if any.
func idOf(job *qless.Job) (id, bool) {
	u, err := parseJobID(job.JID)
	return u, err == nil && (job.JID == u.String() || job.JID == u.hex())
}

// placeOf returns the name and the priority of a job, even if it has left its queue.
func placeOf(job *qless.Job) (name string, priority int, ok bool) {
	if name, priority, ok = parseQueue(job.Queue); ok {
		return name, priority, true
	}
	for i := len(job.History) - 1; i >= 0; i-- {
		if job.History[i].What == "put" {
			return parseQueue(job.History[i].Queue)
		}
	}
	return "", 0, false
}

// createdAt returns the time at which a job was first put.
func createdAt(job *qless.Job) time.Time {
	if len(job.History) == 0 {
		return time.Time{}
	}
	return job.History[0].When
}

// ttrOf returns the lock time of a job, in milliseconds.
func ttrOf(job *qless.Job) int64 {
	if job.Options.LockTime > 0 || job.Expires.IsZero() {
		return job.Options.LockTime.Milliseconds()
	}
	return job.Expires.Sub(job.PoppedAt).Milliseconds()
}
