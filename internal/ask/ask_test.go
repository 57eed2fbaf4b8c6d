package ask

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// newAsker returns an asker with the queues q and r that asks every 10 s.
func newAsker(order string) *Asker {
	a := New(Config{
		Name: "w", Order: order, Poll: 10 * time.Second,
		InStep: func(wait, _ time.Duration) time.Duration { return wait },
	})
	a.SetQueues([]string{"q", "r"}, nil)
	return a
}

// in runs a test with its own clock.
func in(t *testing.T, test func(t *testing.T, a *Asker)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, newAsker("")) })
}

// request returns the arguments of a request as one text.
func (a *Asker) request(room, ahead int) string {
	return strings.Trim(fmt.Sprint(a.Ask(room, ahead)...), "[]")
}

// reply returns the reply of the script.
func reply(cursor any, wait, claim string, listeners int64, rest ...any) []any {
	return append([]any{cursor, wait, claim, listeners}, rest...)
}

// answer makes a request for a job and answers it with a number of jobs.
func answer(t *testing.T, a *Asker, reply []any, jobs int) Answer {
	t.Helper()
	a.Begin()
	a.Ask(1, 0)
	got, err := Read(reply)
	require.NoError(t, err)
	a.Answered(&got, jobs)
	return got
}

// rings requires that the alarm rings after a time.
func rings(t *testing.T, a *Asker, after time.Duration) {
	t.Helper()
	began := time.Now()
	require.True(t, a.Wait(t.Context()))
	require.Equal(t, after, time.Since(began))
	require.True(t, a.IsWanting())
}

func TestRequests(t *testing.T) {
	words := func(args []any) (texts []string) {
		for _, arg := range args {
			texts = append(texts, fmt.Sprint(arg))
		}
		return texts
	}
	a := newAsker("strict")
	require.Equal(t, []string{"w", "3", "10", "0", "q", "r"}, words(a.Ask(3, 0)))
	a.Polls = true
	require.Equal(t, []string{"w", "3", "10", "4", "polls", "1", "ahead", "2", "q", "r"},
		words(a.Ask(3, 2)))
	require.Equal(t, []string{"w", "250", "10", "0", "q", "r"}, words(a.Ask(300, 5)))
	answer(t, a, reply(int64(1), "5", "q", 2), 0)
	require.Equal(t, []string{"claim", "q"}, words(a.Ask(1, 0))[4:6])
	require.Equal(t, []string{"w", "q", "1", "q", "r"}, words(a.Depart(true)))
	require.Equal(t, []string{"w", "q", "0", "q", "r"}, words(a.Depart(false)))

	a = newAsker("round-robin")
	a.config.Lock = []string{"owner", "o"}
	require.Equal(t, []string{"owner", "o", "order", "round-robin", "cursor", "0"},
		words(a.Ask(1, 0))[4:10])
	answer(t, a, reply(int64(7), "5", "", 2), 0)
	require.Equal(t, []string{"cursor", "7"}, words(a.Ask(1, 0))[8:10])

	a = newAsker("shuffled")
	require.Equal(t, []string{"order", "shuffled", "cursor"}, words(a.Ask(1, 0))[4:7])

	a.SetQueues([]string{"q", "r"}, []int{6, 1})
	answer(t, a, reply("9 1", "5", "", 2), 0)
	require.Equal(t, []string{"order", "weighted", "weights", "6 1", "cursor", "9 1"},
		words(a.Ask(1, 0))[4:10])
	a.SetQueues([]string{"q", "s"}, []int{6, 1})
	require.NotEqual(t, "9 1", words(a.Ask(1, 0))[9], "the cursor has numbers of other queues")
}

func TestWithoutQueuesItLeavesTheLastOnes(t *testing.T) {
	in(t, func(t *testing.T, a *Asker) {
		a.SetQueues(nil, nil)
		require.False(t, a.HasQueues(1))
		require.True(t, a.HasQueues(0))
		require.Equal(t, "w 0 10 0 q r", strings.Join(strings.Fields(fmt.Sprintln(a.Ask(0, 0)...)), " "))
		a.Begin()
		a.NoQueues()
		require.True(t, a.IsResting())
		rings(t, a, 10*time.Second)
	})
}

func TestBadReplies(t *testing.T) {
	for _, bad := range []any{
		nil, "text", []any{}, reply(nil, "0", "", 2), []any{int64(0), "0", "", "many"},
	} {
		_, err := Read(bad)
		require.Error(t, err, "%v", bad)
	}
	got, err := Read(reply(int64(0), "0", "", 2, " jid klass", "a", "b"))
	require.NoError(t, err)
	require.Equal(t, []string{"jid", "klass"}, got.Names)
	require.Equal(t, []any{"a", "b"}, got.Items)
	require.True(t, got.IsBacklog())
}

func TestAnAnswerRefusesJobsAhead(t *testing.T) {
	for want, answers := range map[bool][]Answer{
		true: {{room: 2, ahead: 4, jobs: 2, more: true}, {room: 2, ahead: 4, jobs: 1, more: true}},
		false: {
			{room: 2, ahead: 4, jobs: 3, more: true}, {room: 2, ahead: 4, jobs: 2},
			{room: 2, jobs: 2, more: true},
		},
	} {
		for _, answer := range answers {
			require.Equal(t, want, answer.RefusesAhead(), "%+v", answer)
		}
	}
}

func TestDemand(t *testing.T) {
	in(t, func(t *testing.T, a *Asker) {
		require.True(t, a.IsWanting())

		got := answer(t, a, reply(int64(0), "0", "", 2), 1)
		a.Settle(got)
		require.True(t, a.IsWanting(), "there may be more")
		require.True(t, got.IsPlenty())
		require.False(t, got.IsBacklog())
		require.False(t, a.IsIdle())
		require.False(t, a.Wait(t.Context()), "it is due")

		a.Settle(answer(t, a, reply(int64(0), "3", "q", 2), 0))
		require.True(t, a.IsResting())
		require.True(t, a.IsIdle())
		rings(t, a, 3*time.Second)

		got = answer(t, a, reply(int64(0), "3", "q", 2), 0)
		a.Woken()
		a.Settle(got)
		require.True(t, a.IsWanting(), "it was woken since")

		a.Begin()
		a.Ask(1, 0)
		a.Unanswered()
		require.True(t, a.IsWanting())
		require.True(t, a.IsIdle())

		a.Ask(0, 0)
		got, err := Read(reply(int64(0), "0", "", 2))
		require.NoError(t, err)
		a.Answered(&got, 0)
		a.Settle(got)
		require.False(t, a.IsIdle(), "it has left")
		a.RingAfter(time.Hour)
		<-a.Due // of the wake-up
		rings(t, a, time.Hour)
	})
}

func TestTheContextEndsAWait(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	a := newAsker("")
	require.False(t, a.Wait(ctx))
	require.False(t, a.Pause(ctx))
}

func TestAnAskerThatIsNotHeardAsksMoreOften(t *testing.T) {
	in(t, func(t *testing.T, a *Asker) {
		unheard := reply(int64(0), "1", "", -1)
		for _, wait := range []time.Duration{100, 200, 400, 800, 1000, 1000} {
			got := answer(t, a, unheard, 0)
			require.False(t, got.Listens())
			a.Settle(got)
			rings(t, a, wait*time.Millisecond)
			<-a.Due
		}
		a.Settle(answer(t, a, reply(int64(0), "1", "", 2), 0))
		rings(t, a, time.Second)
		<-a.Due
		a.Settle(answer(t, a, unheard, 0))
		rings(t, a, 100*time.Millisecond)
	})
}

func TestOnlyPollsAreInStep(t *testing.T) {
	in(t, func(t *testing.T, a *Asker) {
		a.config.InStep = func(wait, interval time.Duration) time.Duration {
			require.Equal(t, 10*time.Second, interval)
			return wait / 2
		}
		a.Settle(answer(t, a, reply(int64(0), "8", "", 2), 0))
		rings(t, a, 4*time.Second)
		<-a.Due
		a.Settle(answer(t, a, reply(int64(0), "8", "q", 2), 0))
		rings(t, a, 8*time.Second) // when the claimed job is due
	})
}

// A request soon after a count does not count relays, unless a relay may be missing.
func TestBriefRequests(t *testing.T) {
	in(t, func(t *testing.T, a *Asker) {
		isBrief := func() bool { return strings.Contains(a.request(1, 0), "brief") }
		none, some := reply(int64(0), "3", "", 2), reply(int64(0), "0", "", 2)
		require.False(t, isBrief())
		answer(t, a, none, 0)
		require.True(t, isBrief())
		require.NotContains(t, a.request(0, 0), "brief")
		a.JobsReady()
		require.False(t, isBrief())
		require.True(t, isBrief())
		a.Unanswered()
		require.False(t, isBrief())
		<-time.After(time.Second)
		require.False(t, isBrief())

		answer(t, a, none, 0)
		require.True(t, isBrief())
		a.JobsReady()
		answer(t, a, some, 1) // without a count, because the asker is not idle
		require.False(t, isBrief())
	})
}

func TestLostAnswersMakeRequestsSmaller(t *testing.T) {
	in(t, func(t *testing.T, a *Asker) {
		lose := func(room int, err error) (asked, next int) {
			a.Ask(room, 0)
			return a.Lost(err)
		}
		broken := errors.New("EOF")
		asked, _ := lose(100, redis.ErrClosed)
		require.Zero(t, asked, "one broken connection")
		require.Equal(t, 50, a.Ask(100, 0)[1])
		asked, next := lose(100, broken)
		require.Equal(t, []int{50, 25}, []int{asked, next})
		asked, _ = lose(100, os.ErrDeadlineExceeded)
		require.Zero(t, asked, "one was logged")
		require.Equal(t, 12, a.Ask(100, 0)[1])

		for _, room := range []int{24, 24} { // below the 25 of the lost answer
			answer(t, a, reply(int64(0), "0", "", 2), 250)
			require.Equal(t, room, a.Ask(100, 0)[1])
		}
		<-time.After(appetiteRest)
		for _, room := range []int{48, 96, 192, 200} {
			answer(t, a, reply(int64(0), "0", "", 2), 250)
			require.Equal(t, room, a.Ask(200, 0)[1])
		}
		asked, next = lose(200, os.ErrDeadlineExceeded)
		require.Equal(t, []int{200, 100}, []int{asked, next})
	})
}

func TestRefusalsLeaveRequestsAsLarge(t *testing.T) {
	a := newAsker("")
	for _, err := range []error{redisError("OOM"), redisError("LOADING x")} {
		a.Ask(100, 0)
		asked, _ := a.Lost(err)
		require.Zero(t, asked)
	}
	require.Equal(t, 100, a.Ask(100, 0)[1])
	a.Ask(0, 0)
	asked, _ := a.Lost(os.ErrDeadlineExceeded)
	require.Zero(t, asked, "it asked for none")
}

type redisError string

func (e redisError) Error() string { return string(e) }
func (redisError) RedisError()     {}

func TestFailuresDelayTheNextExchange(t *testing.T) {
	in(t, func(t *testing.T, a *Asker) {
		paused := func() time.Duration {
			began := time.Now()
			require.True(t, a.Pause(t.Context()))
			return time.Since(began)
		}
		require.Zero(t, paused())
		require.False(t, a.Succeeded())
		require.True(t, a.Failed(errors.New("EOF")))
		require.False(t, a.Failed(errors.New("EOF")))
		first := paused()
		require.Positive(t, first)
		require.True(t, a.Failed(redisError("OOM")), "another kind")
		require.False(t, a.Failed(redisError("OOM")))
		require.Greater(t, paused(), first)
		require.True(t, a.Succeeded())
		require.False(t, a.Succeeded())
		require.True(t, a.Failed(redisError("OOM")))
	})
}

func TestAQueueThatIsLeftOutIsAskedAgain(t *testing.T) {
	in(t, func(t *testing.T, a *Asker) {
		a.SetQueues([]string{"q", "r"}, []int{6, 1})
		a.LeaveOut([]string{"q"})
		require.NotContains(t, a.request(1, 0), "weights", "one queue has no order")
		require.NotContains(t, a.request(0, 1), "q", "nor are jobs taken ahead")
		require.True(t, strings.HasSuffix(a.request(0, 0), "qr"), "it leaves both")
		a.Begin()
		a.rest()
		a.LeaveOut(nil)
		require.True(t, a.IsWanting())
		require.Contains(t, a.request(1, 0), "weights6 1cursor")
	})
}

func TestAWakeUpForAQueueLeftOutIsPassedOn(t *testing.T) {
	in(t, func(t *testing.T, a *Asker) {
		a.WokenFor("q")
		require.False(t, a.MustLeave(), "it asks the queue")
		a.LeaveOut([]string{"q"})
		require.True(t, a.MustLeave())
		a.Ask(0, 0)
		require.False(t, a.MustLeave())
		a.Unanswered()
		require.True(t, a.MustLeave())
		a.Ask(0, 0)
		a.WokenFor("r")
		require.False(t, a.MustLeave())
	})
}

func TestAnIdleAskerWithoutQueuesLeaves(t *testing.T) {
	in(t, func(t *testing.T, a *Asker) {
		answer(t, a, reply(int64(0), "10", "", 2), 0)
		require.True(t, a.IsIdle())
		a.LeaveOut([]string{"r"})
		require.False(t, a.MustLeave())
		a.LeaveOut([]string{"q", "r"})
		require.True(t, a.MustLeave())
	})
}
