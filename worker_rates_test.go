package qless

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/qless/qless-go/internal/hub"
	"github.com/qless/qless-go/internal/runs"
	"github.com/stretchr/testify/require"
)

// A rateServer takes what a rateKeeper sends, as the script rates.add does.
type rateServer struct {
	mu      sync.Mutex
	answer  error // what it answers, unless it is nil
	deaf    bool  // it does not take what it answers so
	calls   int
	number  int
	parts   int
	counted map[runs.Key]int
	ages    []time.Duration
}

func (s *rateServer) send(_ context.Context, _ string, part *ratePart, age time.Duration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	if s.answer != nil && s.deaf {
		return s.answer
	}
	if part.number > s.number {
		s.number = part.number
		s.parts++
		s.ages = append(s.ages, age)
		for key, counts := range part.counts {
			s.counted[key] += counts.Completed
		}
	}
	return s.answer
}

// answers has the server answer by an error, and take nothing.
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

// withRates runs a rateKeeper in a bubble, while a function runs.
func withRates(t *testing.T, during func(k *rateKeeper, s *rateServer)) {
	synctest.Test(t, func(t *testing.T) {
		s := &rateServer{counted: map[runs.Key]int{}}
		k := &rateKeeper{log: quietLog(), send: s.send, now: time.Now, run: "run", again: hub.NewSignal()}
		ctx, cancel := context.WithCancel(t.Context())
		done := closedAfter(func() { k.keep(ctx) })
		during(k, s)
		cancel()
		<-done
	})
}

// pass lets time pass in a bubble.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (k *rateKeeper) countSome(klass string, n int) {
	for range n {
		k.count(&activeJob{queue: "q", klass: klass, waited: time.Second, ran: time.Millisecond}, ActionComplete)
	}
}

func TestRatesAreSentEveryFifteenSecondsIfThereAreAny(t *testing.T) {
	withRates(t, func(k *rateKeeper, s *rateServer) {
		pass(time.Hour)
		calls, _ := s.seen()
		require.Zero(t, calls, "nothing was counted")
		k.countSome("K", 3)
		pass(rateInterval)
		calls, sum := s.seen()
		require.Equal(t, []int{1, 3}, []int{calls, sum})
		for i := range 240 {
			k.countSome(fmt.Sprint(i%9), 100)
			pass(rateInterval)
		}
		calls, sum = s.seen()
		require.Equal(t, 24003, sum)
		require.InDelta(t, 240, calls, 30)
		for _, age := range s.ages {
			require.LessOrEqual(t, age, rateInterval)
		}
	})
}

func TestRatesAreKeptWhileTheServerDoesNotTakeThem(t *testing.T) {
	for name, answer := range map[string]error{
		"it is away":      errors.New("no connection"),
		"it is full":      serverAnswer("OOM command not allowed when used memory > 'maxmemory'."),
		"it is busy":      serverAnswer("BUSY Redis is busy running a script."),
		"it is a replica": serverAnswer("READONLY You can't write against a read only replica."),
		"no permission":   serverAnswer("NOPERM this user has no permissions"),
	} {
		t.Run(name, func(t *testing.T) {
			withRates(t, func(k *rateKeeper, s *rateServer) {
				s.answers(answer, true)
				for range 1000 {
					k.countSome("K", 7)
					pass(rateInterval)
					require.LessOrEqual(t, len(k.closed), maxRateParts)
				}
				_, sum := s.seen()
				require.Zero(t, sum)
				s.answers(nil, false)
				pass(rateInterval)
				_, sum = s.seen()
				require.Equal(t, 7000, sum)
				require.LessOrEqual(t, s.parts, maxRateParts)
				require.Greater(t, s.ages[0], 999*rateInterval, "it says when they were counted")
			})
		})
	}
}

// The server has taken them, but nobody knows.
func TestRatesWhoseAnswersAreLostAreCountedOnce(t *testing.T) {
	withRates(t, func(k *rateKeeper, s *rateServer) {
		for i := range 100 {
			s.answers(nil, false)
			if i%3 > 0 {
				s.answers(errors.New("the connection broke"), i%3 == 1)
			}
			k.countSome("K", 1)
			pass(rateInterval)
		}
		s.answers(nil, false)
		pass(rateInterval)
		_, sum := s.seen()
		require.Equal(t, 100, sum)
	})
}

func TestRatesThatAreRefusedForThemselvesAreDropped(t *testing.T) {
	withRates(t, func(k *rateKeeper, s *rateServer) {
		k.countSome("K", 1)
		s.answers(serverAnswer("WRONGTYPE Operation against a key holding the wrong kind of value"), true)
		pass(rateInterval)
		s.answers(nil, false)
		k.countSome("K", 5)
		pass(rateInterval)
		_, sum := s.seen()
		require.Equal(t, 5, sum)
	})
}

func TestRatesOfTooManyKlassesAreCountedTogether(t *testing.T) {
	withRates(t, func(k *rateKeeper, s *rateServer) {
		for i := range 2 * maxRateKeys {
			k.countSome(fmt.Sprint(i), 1)
		}
		pass(rateInterval)
		require.Len(t, s.counted, maxRateKeys+1)
		require.Equal(t, maxRateKeys, s.counted[runs.Key{}])
		k.countSome(strings.Repeat("x", maxRateName), 3)
		pass(rateInterval)
		require.Equal(t, maxRateKeys+3, s.counted[runs.Key{}], "so are those with long names")
	})
}

func TestRatesAreSentWhenAsked(t *testing.T) {
	withRates(t, func(k *rateKeeper, s *rateServer) {
		k.ask()
		require.False(t, k.isAsked(), "there is nothing to send")
		k.countSome("K", 1)
		k.ask()
		require.True(t, k.isAsked())
		synctest.Wait()
		require.False(t, k.isAsked())
		s.answers(errors.New("no connection"), true)
		k.countSome("K", 1)
		k.ask()
		synctest.Wait()
		require.False(t, k.isAsked(), "it was tried")
		_, sum := s.seen()
		require.Equal(t, 1, sum)
	})
}

func TestRunsThatDoNotCount(t *testing.T) {
	withRates(t, func(k *rateKeeper, s *rateServer) {
		k.count(nil, ActionComplete)
		for _, action := range []Action{ActionRelease, ""} {
			k.count(&activeJob{queue: "q", klass: "K"}, action)
		}
		pass(rateInterval)
		calls, _ := s.seen()
		require.Zero(t, calls)
	})
}
