package runs

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// errAway is the error of an unresponsive server, and errNotNow and errNever are refusals of all
// parts, and of one.
var (
	errAway   = errors.New("no connection")
	errNotNow = errors.New("OOM")
	errNever  = errors.New("WRONGTYPE")
)

// A rateServer takes the parts of a Reporter, like the script rates.add.
type rateServer struct {
	mu      sync.Mutex
	answer  error // nil if the server takes parts
	deaf    bool  // the server does not take a part that it answers with an error
	calls   int
	number  int
	parts   int
	refused int // how often a refusal was reported
	counted map[Key]int
	ages    []time.Duration
}

func (s *rateServer) send(_ context.Context, part *Part) (settled bool, refused error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	if part.Number > s.number && (s.answer == nil || !s.deaf) {
		s.number = part.Number
		s.parts++
		s.ages = append(s.ages, part.Age)
		for key, counts := range part.Counts {
			s.counted[key] += counts.Completed
		}
	}
	if s.answer == errAway {
		return false, nil
	}
	return s.answer != errNotNow, s.answer
}

// answers makes the server answer with an error, and take nothing.
func (s *rateServer) answers(err error, deaf bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer, s.deaf = err, deaf
}

func (s *rateServer) seen() (calls, sum int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range s.counted {
		sum += n
	}
	return s.calls, sum
}

// withReporter runs a Reporter in a bubble, while a function runs.
func withReporter(t *testing.T, during func(r *Reporter, s *rateServer)) {
	synctest.Test(t, func(t *testing.T) {
		s := &rateServer{counted: map[Key]int{}}
		r := NewReporter(ReporterConfig{Now: time.Now, Send: s.send, Refused: func(error) { s.refused++ }})
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { r.Run(ctx) })
		during(r, s)
		cancel()
		running.Wait()
	})
}

// pass lets time pass in a bubble.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (r *Reporter) countSome(klass string, n int) {
	for range n {
		r.Count(Key{"q", klass}, func(c *Counts) *int { return &c.Completed }, time.Second, time.Millisecond)
	}
}

func TestRatesAreSentEveryFifteenSecondsIfThereAreAny(t *testing.T) {
	withReporter(t, func(r *Reporter, s *rateServer) {
		pass(time.Hour)
		calls, _ := s.seen()
		require.Zero(t, calls, "nothing was counted")
		r.countSome("K", 3)
		pass(interval)
		calls, sum := s.seen()
		require.Equal(t, []int{1, 3}, []int{calls, sum})
		for i := range 240 {
			r.countSome(fmt.Sprint(i%9), 100)
			pass(interval)
		}
		calls, sum = s.seen()
		require.Equal(t, 24003, sum)
		require.InDelta(t, 240, calls, 30)
		for _, age := range s.ages {
			require.LessOrEqual(t, age, interval)
		}
	})
}

func TestRatesAreKeptWhileTheServerDoesNotTakeThem(t *testing.T) {
	for name, answer := range map[string]error{
		"it is away": errAway, "it takes nothing": errNotNow,
	} {
		t.Run(name, func(t *testing.T) {
			withReporter(t, func(r *Reporter, s *rateServer) {
				s.answers(answer, true)
				for range 1000 {
					r.countSome("K", 7)
					pass(interval)
					require.LessOrEqual(t, len(r.closed), maxParts)
				}
				_, sum := s.seen()
				require.Zero(t, sum)
				s.answers(nil, false)
				pass(interval)
				_, sum = s.seen()
				require.Equal(t, 7000, sum)
				require.LessOrEqual(t, s.parts, maxParts)
				require.Greater(t, s.ages[0], 999*interval, "it says when they were counted")
				require.Equal(t, answer == errNotNow, s.refused == 1, "a refusal is reported once")
			})
		})
	}
}

// The server has taken the parts, but its answers are lost.
func TestRatesWhoseAnswersAreLostAreCountedOnce(t *testing.T) {
	withReporter(t, func(r *Reporter, s *rateServer) {
		for i := range 100 {
			s.answers(nil, false)
			if i%3 > 0 {
				s.answers(errAway, i%3 == 1)
			}
			r.countSome("K", 1)
			pass(interval)
		}
		s.answers(nil, false)
		pass(interval)
		_, sum := s.seen()
		require.Equal(t, 100, sum)
	})
}

func TestRatesThatAreRefusedForThemselvesAreDropped(t *testing.T) {
	withReporter(t, func(r *Reporter, s *rateServer) {
		r.countSome("K", 1)
		s.answers(errNever, true)
		pass(interval)
		s.answers(nil, false)
		r.countSome("K", 5)
		pass(interval)
		_, sum := s.seen()
		require.Equal(t, 5, sum)
	})
}

func TestRatesOfTooManyKlassesAreCountedTogether(t *testing.T) {
	withReporter(t, func(r *Reporter, s *rateServer) {
		for i := range 2 * maxKeys {
			r.countSome(fmt.Sprint(i), 1)
		}
		pass(interval)
		require.Len(t, s.counted, maxKeys+1)
		require.Equal(t, maxKeys, s.counted[Key{}])
		r.countSome(strings.Repeat("x", maxName), 3)
		pass(interval)
		require.Equal(t, maxKeys+3, s.counted[Key{}], "so are those with long names")
	})
}

func TestRatesAreSentWhenAsked(t *testing.T) {
	withReporter(t, func(r *Reporter, s *rateServer) {
		r.Ask()
		require.False(t, r.IsAsked(), "there is nothing to send")
		r.countSome("K", 1)
		r.Ask()
		require.True(t, r.IsAsked())
		synctest.Wait()
		require.False(t, r.IsAsked())
		s.answers(errAway, true)
		r.countSome("K", 1)
		r.Ask()
		synctest.Wait()
		require.False(t, r.IsAsked(), "it was tried")
		_, sum := s.seen()
		require.Equal(t, 1, sum)
	})
}
