package web

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// A sample is read at most this often, unless it may be older, and for at most so long.
const (
	sampleAge     = 1500 * time.Millisecond
	sampleTimeout = 10 * time.Second
)

// samples keeps what was read last, so that all who look at a page share its readings. What nobody
// has looked at for a while is dropped with the next reading.
type samples struct {
	mu  sync.Mutex
	all map[string]*sample
}

type sample struct {
	done  chan struct{} // closed when value and err are there
	at    time.Time     // when it was asked for
	age   time.Duration // how old it may get
	value any
	err   error
}

// sampled returns what read returned lately for the key, or reads it. Concurrent callers share one
// reading; ctx ends the wait, not the reading.
func sampled[T any](
	ctx context.Context, s *samples, key string, read func(ctx context.Context) (T, error),
) (T, error) {
	return sampledFor(ctx, s, sampleAge, key, read)
}

// sampledFor is sampled for what costs more, and may be older.
func sampledFor[T any](
	ctx context.Context, s *samples, age time.Duration, key string,
	read func(ctx context.Context) (T, error),
) (T, error) {
	got, isNew := s.join(key, age)
	if isNew {
		go func() {
			defer close(got.done)
			defer func() {
				if problem := recover(); problem != nil { // of Redact or Links
					got.err = fmt.Errorf("web: the page can't be read: %v", problem)
				}
			}()
			reading, cancel := context.WithTimeout(context.WithoutCancel(ctx), sampleTimeout)
			defer cancel()
			got.value, got.err = read(reading)
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

// join returns the sample of a key, and whether it has yet to be read.
func (s *samples) join(key string, age time.Duration) (*sample, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if got := s.all[key]; got != nil && now.Sub(got.at) < age {
		return got, false
	}
	fresh := map[string]*sample{}
	for other, got := range s.all {
		if now.Sub(got.at) < got.age {
			fresh[other] = got
		}
	}
	got := &sample{done: make(chan struct{}), at: now, age: age}
	fresh[key] = got
	s.all = fresh
	return got, true
}

// drop forgets a reading that has failed and would be kept for long.
func (s *samples) drop(key string, failed *sample) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all[key] == failed && failed.age > sampleAge {
		delete(s.all, key)
	}
}

// forget drops all samples, because something has been changed.
func (s *samples) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = nil
}
