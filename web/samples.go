package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/guard"
)

// samples caches the last readings, shared by all viewers of a page. Time is divided into turns: a
// sample is valid until the end of its turn, or for its own maximum age if longer. Open pages are
// updated when a turn begins, and so never show samples of an earlier turn. Samples not viewed for
// a while are dropped at the next reading.
type samples struct {
	began time.Time // the first turn
	mu    sync.Mutex
	all   map[string]*sample
}

const (
	sampleTurn    = 1750 * time.Millisecond
	sampleTimeout = 10 * time.Second // of a reading
)

type sample struct {
	done   chan struct{} // closed when value and err are set
	until  time.Time     // the end of validity
	isKept bool          // valid for a separate time
	value  any
	err    error
}

// turn returns the end of the turn at a time, for turns of a length.
func (s *samples) turn(now time.Time, length time.Duration) time.Time {
	return s.began.Add(now.Sub(s.began).Truncate(length) + length)
}

// sampled returns this turn's result of read for the key, or calls read. Concurrent callers share
// one reading. The context ends the wait, not the reading.
func sampled[T any](
	ctx context.Context, s *samples, key string, read func(ctx context.Context) (T, error),
) (T, error) {
	return sampledFor(ctx, s, 0, key, read)
}

// sampledFor is sampled for expensive readings, which may be older.
func sampledFor[T any](
	ctx context.Context, s *samples, age time.Duration, key string,
	read func(ctx context.Context) (T, error),
) (T, error) {
	got, isNew := s.join(key, time.Now(), age)
	if isNew {
		go func() {
			defer close(got.done)
			reading, cancel := context.WithTimeout(context.WithoutCancel(ctx), sampleTimeout)
			defer cancel()
			problem := guard.Call(func() { got.value, got.err = read(reading) })
			if problem != nil { // of Redact or Links
				got.err = fmt.Errorf("web: the page can't be read: %w", problem)
			} else if got.err != nil && reading.Err() != nil {
				got.err = &qless.Error{Code: qless.ErrUnavailable, Op: "web.read", Err: got.err,
					Message: fmt.Sprintf("the server has not answered for %v", sampleTimeout)}
			}
		}()
	}
	var none T
	select {
	case <-got.done:
	case <-ctx.Done():
		return none, ctx.Err()
	}
	if got.err != nil {
		s.drop(key, got)
		return none, got.err
	}
	return got.value.(T), nil
}

// join returns the sample of a key, and reports whether the caller must read it. The sample is
// valid for age, or until the end of the turn if age is 0.
func (s *samples) join(key string, now time.Time, age time.Duration) (*sample, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if got := s.all[key]; got != nil && now.Before(got.until) {
		return got, false
	}
	fresh := map[string]*sample{}
	for other, got := range s.all {
		if now.Before(got.until) {
			fresh[other] = got
		}
	}
	got := &sample{done: make(chan struct{}), until: now.Add(age), isKept: age > 0}
	if !got.isKept {
		got.until = s.turn(now, sampleTurn)
	}
	fresh[key] = got
	s.all = fresh
	return got, true
}

// drop removes a failed reading instead of keeping the reading for long.
func (s *samples) drop(key string, failed *sample) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all[key] == failed && failed.isKept {
		delete(s.all, key)
	}
}

// forget drops all samples after a change.
func (s *samples) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = nil
}

// errHung is the error of a reading abandoned by all, because the server does not answer.
var errHung = &qless.Error{
	Code: qless.ErrUnavailable, Op: "web.read", Message: "the server does not answer",
}

// patience is how long a page waits before asking whether the server answers, and for the answer.
const patience = 900 * time.Millisecond

// patiently reads a page. If that takes long, it sends the server a small query, and gives up
// without an answer.
func (s *site) patiently(
	r *http.Request, read func(*http.Request) (*view, error),
) (*view, error) {
	ctx, stop := context.WithCancelCause(r.Context())
	defer stop(nil)
	look := time.AfterFunc(patience, func() {
		if !s.answers(ctx) {
			stop(errHung)
		}
	})
	defer look.Stop()
	v, err := read(r.WithContext(ctx))
	if err != nil && errors.Is(context.Cause(ctx), errHung) {
		err = errHung
	}
	return v, err
}

// answers reports whether the server answers soon, even with an error.
func (s *site) answers(ctx context.Context) bool {
	answer := make(chan struct{})
	go func() {
		defer close(answer)
		_, _ = s.Client.Do(context.WithoutCancel(ctx), "config.get", "heartbeat")
	}()
	select {
	case <-answer:
		return true
	case <-time.After(patience):
		return false
	}
}

// viewsKept is the maximum number of pages with a kept last reading, for a time when the server
// does not answer.
const viewsKept = 20

// lastView returns the last reading of a page with its time, or nil.
func (s *site) lastView(page string) *view {
	last, isKept := s.views.get(page)
	if !isKept {
		return nil
	}
	old := *last.value
	old.Old, old.status = last.at, http.StatusServiceUnavailable
	return &old
}
