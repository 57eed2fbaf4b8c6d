package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/qless/qless-go"
)

// A payload is a job of Sidekiq.
type payload struct {
	Class    string          `json:"class"`
	Wrapped  string          `json:"wrapped"` // the class of ActiveJob
	JID      string          `json:"jid"`
	Queue    string          `json:"queue"`
	Args     json.RawMessage `json:"args"`
	Retry    any             `json:"retry"`       // true, false or a number
	RetryFor float64         `json:"retry_for"`   // in seconds, instead of retry
	Retried  *int            `json:"retry_count"` // from 0 on
	Tags     []string        `json:"tags"`
	Expiry   float64         `json:"expiry"` // in Unix seconds
	Batch    string          `json:"bid"`

	unknown []string // fields
}

// known has the fields kept by a job, and the fields that concern Sidekiq only.
const known = " class wrapped display_class jid queue args at retry retry_for retry_count tags" +
	" expiry bid created_at enqueued_at failed_at retried_at error_message error_class" +
	" error_backtrace backtrace dead "

// readPayload reads an entry. An error explains why the entry can't become a job.
func readPayload(t *taken) (*payload, error) {
	var p payload
	var fields map[string]json.RawMessage
	for _, to := range []any{&p, &fields} {
		if err := json.Unmarshal([]byte(t.text), to); err != nil {
			return &p, fmt.Errorf("it is not a job of Sidekiq: %w", err)
		}
	}
	due, err := t.due()
	switch {
	case err != nil || math.Abs(due) > maxTime:
		return &p, errors.New("its time " + t.Due + " is none")
	case p.Class == "":
		return &p, errors.New("it has no class")
	case p.JID == "":
		return &p, errors.New("it has no jid")
	case p.Batch != "":
		return &p, errors.New("its batch " + p.Batch + " of Sidekiq waits for it")
	}
	for _, field := range slices.Sorted(maps.Keys(fields)) {
		if !strings.Contains(known, " "+field+" ") {
			p.unknown = append(p.unknown, field)
		}
	}
	return &p, nil
}

// name returns a name for an entry.
func (p *payload) name(t *taken) string {
	if p.JID == "" || p.Class == "" {
		return fmt.Sprintf("%s: %.60q", t.From, t.text)
	}
	return fmt.Sprintf("%s: %s %s", t.From, p.Class, p.JID)
}

// maxTime is the last time accepted as a time, in Unix seconds.
const maxTime = 1e11

// due returns when an entry is due, in Unix seconds, or 0 for a queued entry.
func (t *taken) due() (float64, error) {
	if t.Due == "" {
		return 0, nil
	}
	return strconv.ParseFloat(t.Due, 64)
}

// job translates the payload of an entry.
func (p *payload) job(t *taken) *job {
	j := &job{queue: "default", klass: p.Class, data: p.Args}
	if queue, is := strings.CutPrefix(t.From, "queue:"); is {
		j.queue = queue
	} else if p.Queue != "" {
		j.queue = p.Queue
	}
	if p.Wrapped != "" {
		j.klass = p.Wrapped
	}
	j.options = []qless.PutOption{qless.Retries(p.retriesLeft())}
	if due, _ := t.due(); t.Due != "" {
		j.options = append(j.options, qless.At(timeOf(due)))
	}
	if len(p.Tags) > 0 {
		j.options = append(j.options, qless.Tags(p.Tags))
	}
	if p.Expiry > 0 { // an expired job ends at once, as in Sidekiq
		j.options = append(j.options, qless.TTL(max(time.Until(timeOf(p.Expiry)), time.Second)))
	}
	return j
}

func timeOf(seconds float64) time.Time { return time.UnixMicro(int64(seconds * 1e6)) }

// usualRetries is how often Sidekiq retries a job with retry set to true.
const usualRetries = 25

// retriesLeft returns how often the job may still be retried.
func (p *payload) retriesLeft() int {
	left := 0
	switch retry := p.Retry.(type) {
	case bool:
		if retry {
			left = usualRetries
		}
	case float64:
		left = int(retry)
	}
	if p.RetryFor > 0 {
		left = retriesWithin(p.RetryFor)
	}
	if p.Retried != nil {
		left -= *p.Retried + 1
	}
	return max(left, 0)
}

// retriesWithin returns the number of Sidekiq's retries in a time, in seconds, with its usual
// pauses.
func retriesWithin(seconds float64) int {
	n := 0
	for ; n < usualRetries; n++ {
		if seconds -= math.Pow(float64(n), 4) + 15; seconds < 0 {
			break
		}
	}
	return n
}
