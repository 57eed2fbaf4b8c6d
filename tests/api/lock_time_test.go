package api

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/lease"
	"github.com/qless/qless-go/tests/scripts"
)

// expiresIn requires that a lock lasts for a time from now according to the job's hash, the queue
// and the worker.
func (e *env) expiresIn(jid string, d time.Duration) {
	e.T.Helper()
	job := e.Read(jid)
	end := e.Clock.Now().Add(d)
	require.WithinDuration(e.T, end, job.Expires, 100*time.Microsecond)
	for _, key := range []string{"ql:q:" + job.Queue + "-locks", "ql:w:" + job.Worker + ":jobs"} {
		score := must(e.Redis.ZScore(e.T.Context(), key, jid).Result())(e.T)
		require.InDelta(e.T, float64(end.UnixMicro())/1e6, score, 1e-4, key)
	}
}

func TestALockTimeOfAJobHoldsWhoeverTakesIt(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		e.Set("q-heartbeat", 30)
		e.Put("q", qless.JID("j"), qless.LockTime(2500*time.Millisecond), qless.Priority(1))
		e.Put("q", qless.JID("plain"))
		require.Equal(t, 2500*time.Millisecond, e.Read("j").Options.LockTime)
		require.Zero(t, e.Read("plain").Options.LockTime)
		jobs := e.Pops("q", 2)
		require.Equal(t, 2500*time.Millisecond, jobs[0].Options.LockTime)
		require.WithinDuration(t, e.Clock.Now().Add(2500*time.Millisecond), jobs[0].Expires, 100*time.Microsecond)
		e.expiresIn("j", 2500*time.Millisecond)
		e.expiresIn("plain", 30*time.Second)

		e.Clock.Advance(2 * time.Second)
		require.NoError(t, errOf(jobs[0].Heartbeat(t.Context())))
		e.expiresIn("j", 2500*time.Millisecond)
		require.NoError(t, jobs[0].Next(t.Context(), "q2"))
		require.Equal(t, 2500*time.Millisecond, e.Pop("q2").Options.LockTime)
		e.expiresIn("j", 2500*time.Millisecond)

		e.Put("q2", qless.JID("j"), qless.LockTime(time.Millisecond))
		_, err := scripts.RunDropIn(t.Context(), e.Redis,
			"pop", scripts.Time(e.Clock.Now()), "q2", "w1", "1")
		require.NoError(t, err)
		e.expiresIn("j", time.Millisecond)
	})
}

func TestReserveAndRenewKnowTheLockTimeOfEachJob(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		e.Put("q", qless.JID("j"), qless.LockTime(2500*time.Millisecond), qless.Priority(2))
		e.Put("q", qless.JID("headers"), qless.Headers{"a": "1"}, qless.Priority(1))
		e.Put("q", qless.JID("plain"))
		reply := e.run("reserve", "w1", "3", "10", "0", "q").([]any)
		require.InDelta(t, 2.5, number(t, strings.Split(reply[5].(string), "\x01")[10]), 1e-4)
		require.InDelta(t, 60, number(t, strings.Split(reply[6].(string), "\x01")[10]), 1e-4)
		e.Clock.Advance(time.Second)
		require.Equal(t, []any{"60", "2.5", "60"}, e.run("renew", "w1", "plain", "j", "headers"))
		e.expiresIn("j", 2500*time.Millisecond)
		e.expiresIn("plain", time.Minute)
		e.expiresIn("headers", time.Minute)
	})
}

// number returns the value of a number in a reply.
func number(t *testing.T, part any) float64 {
	t.Helper()
	var n float64
	require.NoError(t, errOf(fmt.Sscan(part.(string), &n)))
	return n
}

func TestALockTimeOfAReceiveWinsUntilAHeartbeat(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		e.Put("q", qless.JID("own"), qless.LockTime(5*time.Second), qless.Priority(2))
		e.Put("q", qless.JID("plain"))
		defer e.Close()
		jobs := e.received(lease.Request{Queues: []string{"q"}, Count: 2, LockTime: time.Second})
		e.expiresIn("own", time.Second)
		e.expiresIn("plain", time.Second)
		for _, job := range jobs {
			require.NoError(t, errOf(job.Heartbeat(t.Context())))
		}
		e.expiresIn("own", 5*time.Second)
		e.expiresIn("plain", time.Minute)
		require.False(t, e.Redis.HExists(t.Context(), "ql:j:plain", "grace").Val())
		e.Clock.Advance(61 * time.Second)
		require.Equal(t, []string{"own"}, jids(e.Pops("q", 2)), "the other one has a grace period again")
	})
}

func TestALockThatLastsNoTimeAtAll(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		defer e.Close()
		atOnce := lease.Request{Queues: []string{"q"}, Count: 5, LockTime: -1}
		jid := e.Put("q", qless.Retries(2))
		for remaining := 2; remaining >= 0; remaining-- {
			jobs := e.received(atOnce)
			require.Equal(t, []string{jid}, jids(jobs))
			require.Equal(t, remaining, jobs[0].Remaining)
		}
		require.Empty(t, e.received(atOnce))
		require.Equal(t, "failed-retries-q", e.Read(jid).Failure.Group)

		e.Put("q", qless.JID("ended"))
		require.NoError(t, e.received(atOnce)[0].Complete(t.Context()), "no one else has taken it")
		require.False(t, e.Redis.HExists(t.Context(), "ql:j:ended", "grace").Val())
	})
}

// lockTimes are the ways to lock a job for 2 s.
var lockTimes = map[string]func(e *env, options ...qless.PutOption) *qless.Job{
	"of the job": func(e *env, options ...qless.PutOption) *qless.Job {
		e.Put("q", append(options, qless.LockTime(2*time.Second))...)
		return e.Pop("q")
	},
	"of the receive": func(e *env, options ...qless.PutOption) *qless.Job {
		e.T.Cleanup(func() { _ = e.Close() })
		e.Put("q", options...)
		return e.received(lease.Request{Queues: []string{"q"}, LockTime: 2 * time.Second})[0]
	},
}

func TestALockTimeHasNoGracePeriod(t *testing.T) {
	for name, take := range lockTimes {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(t *testing.T, e *env) {
				job := take(e, qless.JID("j"), qless.Retries(3))
				lost := e.Redis.Subscribe(t.Context(), "ql:w:w1")
				t.Cleanup(func() { _ = lost.Close() })
				require.NoError(t, errOf(lost.Receive(t.Context())))

				e.Clock.Advance(1900 * time.Millisecond)
				require.Empty(t, e.Pops("q", 1))
				e.Clock.Advance(200 * time.Millisecond)
				jobs := must(e.As("w2").Queue("q").Pop(t.Context(), 1))(t)
				require.Equal(t, []string{"j"}, jids(jobs))
				require.Equal(t, 2, jobs[0].Remaining)
				require.Equal(t, []string{"put", "popped", "timed-out", "popped"}, whats(e.Read("j").History))
				require.Contains(t, must(lost.ReceiveMessage(t.Context()))(t).Payload, "lock_lost")
				require.Equal(t, 1, must(e.Queue("q").Stats(t.Context(), e.Clock.Now()))(t).Retries)
				requireCode(t, qless.ErrLockLost, job.Complete(t.Context()))
				require.NoError(t, jobs[0].Complete(t.Context()))
				require.False(t, e.Redis.HExists(t.Context(), "ql:j:j", "grace").Val())
			})
		})
	}
}

func TestALockTimeEndsInAFailureAsUsual(t *testing.T) {
	for name, take := range lockTimes {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(t *testing.T, e *env) {
				take(e, qless.JID("j"), qless.Retries(0))
				e.Clock.Advance(3 * time.Second)
				require.Empty(t, e.Pops("q", 1))
				require.Equal(t, "failed-retries-q", e.Read("j").Failure.Group)
				require.NoError(t, e.Read("j").Unfail(t.Context()))
				require.Equal(t, "j", e.Pop("q").JID)
			})
		})
	}
}

func TestWhereALostJobGoes(t *testing.T) {
	for _, c := range []struct {
		place qless.OnLost
		want  []string
	}{
		{"", []string{"j", "urgent", "before", "after"}},
		{qless.OnLostFirst, []string{"j", "urgent", "before", "after"}},
		{qless.OnLostInPlace, []string{"urgent", "before", "j", "after"}},
		{qless.OnLostLast, []string{"urgent", "before", "after", "j"}},
	} {
		for name, take := range lockTimes {
			t.Run(string(c.place)+" "+name, func(t *testing.T) {
				onEach(t, func(t *testing.T, e *env) {
					put := func(jid string, options ...qless.PutOption) {
						e.Put("q", append(options, qless.JID(jid))...)
						e.Clock.Advance(10 * time.Millisecond)
					}
					options := []qless.PutOption{qless.JID("j"), qless.Priority(2), qless.Retries(9)}
					if c.place != "" {
						options = append(options, qless.OnLost(c.place))
					}
					put("before")
					take(e, options...)
					e.run("priority", "j", "0")
					e.Clock.Advance(10 * time.Millisecond)
					put("after")
					put("urgent", qless.Priority(1))
					e.Clock.Advance(3 * time.Second)
					require.Equal(t, c.want, jids(e.Pops("q", 4)))
					require.Equal(t, 8, e.Read("j").Remaining)

					for _, jid := range c.want { // again, with the job in its new state
						if jid != "j" {
							e.Put("q", qless.JID(jid), qless.Delay(time.Hour))
						}
					}
					e.Clock.Advance(2 * time.Minute)
					e.Pops("q", 1) // a job without a lock time gets its grace period
					e.Clock.Advance(time.Minute)
					require.Equal(t, []string{"j"}, jids(e.Pops("q", 4)))
				})
			})
		}
	}
}

func TestInvalidLockTimes(t *testing.T) {
	e := newEnv(t)
	e.Put("q", qless.JID("j"))
	e.Unchanged(func() {
		for _, d := range []time.Duration{
			0, -1, time.Millisecond - 1, 24*time.Hour + 1, math.MinInt64, math.MaxInt64,
		} {
			_, err := e.Queue("q").Put(t.Context(), "K", nil, qless.LockTime(d))
			requireCode(t, qless.ErrInvalid, err)
			require.ErrorContains(t, err, "the lock time "+d.String()+" is not from 1ms to 24h0m0s")
			requireCode(t, qless.ErrInvalid, e.Read("j").Move(t.Context(), "q", qless.LockTime(d)))
		}
		_, err := e.Queue("q").Put(t.Context(), "K", nil, qless.OnLost("middle"))
		requireCode(t, qless.ErrInvalid, err)
		require.ErrorContains(t, err, `"middle"`)
		for _, lock := range []string{"", "x", "-1", "nan", "inf"} {
			_, err := e.Run(t.Context(), "reserve", "", "w1", "1", "10", "2", "lock", lock, "q")
			requireCode(t, qless.ErrInvalid, err)
		}
	})
}

func TestADamagedLockTimeIsThatOfTheQueue(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		for i, value := range []string{`0`, `-1`, `"x"`, `[]`, `null`, `1e999`, `{`} {
			jid := fmt.Sprint("j", i)
			e.Put("q", qless.JID(jid))
			require.NoError(t, e.Redis.HSet(t.Context(), "ql:j:"+jid, "x:o", `lq|{"q":5,"l":`+value+`}`).Err())
			job := e.Pop("q")
			e.expiresIn(jid, time.Minute)
			require.Zero(t, job.Options.LockTime)
			require.NoError(t, errOf(job.Heartbeat(t.Context())))
			require.Equal(t, []any{"60"}, e.run("renew", "w1", jid))
			require.NoError(t, job.Complete(t.Context()))
		}
	})
}

func TestALockTimeCostsNothing(t *testing.T) {
	e := newEnv(t)
	require.NoError(t, popOne(t, e.Queue("q")).Complete(t.Context()))
	count := func(run func()) int { return len(e.Server.Commands(t, run)) }
	take := func(option []qless.PutOption) []int {
		var job *qless.Job
		return []int{
			count(func() { e.Put("q", append(option, qless.JID("j"))...) }),
			count(func() { job = e.Pop("q") }),
			count(func() { require.NoError(t, errOf(job.Heartbeat(t.Context()))) }),
			count(func() { require.NoError(t, job.Cancel(t.Context())) }),
		}
	}
	plain := take(nil)
	own := take([]qless.PutOption{qless.LockTime(time.Minute), qless.OnLostInPlace})
	require.Equal(t, []int{plain[0], plain[1], plain[2] - 1, plain[3]}, own)
}

// The place of a job put with OnLostInPlace is determined by its first due time.
func TestAPlaceIsThatOfTheTimeAtWhichAJobFellDue(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		start := e.Clock.Now()
		put := func(jid string, at time.Duration) {
			e.Put("q", qless.JID(jid), qless.At(start.Add(at)), qless.OnLostInPlace,
				qless.LockTime(time.Second))
		}
		put("c", 20*time.Millisecond)
		put("b", 10*time.Millisecond)
		put("d", 30*time.Millisecond)
		put("a", -time.Minute)
		put("older", -2*time.Minute)
		e.Clock.Advance(time.Second)
		want := []string{"older", "a", "b", "c", "d"}
		require.Equal(t, want, jids(e.Pops("q", 9)))
		e.Clock.Advance(time.Minute)
		require.Equal(t, want, jids(e.Pops("q", 9)), "after their locks have ended")
	})
}

func TestAnOldTimeKeepsThePriorityOfAJobThatIsPutAgain(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		past := qless.At(e.Clock.Now().Add(-time.Minute))
		e.Put("q", qless.JID("again"), qless.Priority(5), qless.OnLostInPlace)
		e.Put("q", qless.JID("urgent"), qless.Priority(3))
		e.Put("q", qless.JID("again"), past)
		require.Equal(t, []string{"again", "urgent"}, jids(e.Pops("q", 9)))
	})
}

func TestLostJobsPutLastKeepTheOrderOfTheirLoss(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		want := []string{"b", "d", "a", "c"}
		for _, jid := range want {
			e.Put("q", qless.JID(jid), qless.OnLostLast, qless.LockTime(time.Second))
			e.Clock.Advance(time.Millisecond)
		}
		for _, jid := range want {
			require.Equal(t, []string{jid}, jids(e.Pops("q", 1)))
			e.Clock.Advance(time.Millisecond)
		}
		e.Clock.Advance(time.Minute)
		require.NoError(t, errOf(e.Sweep(t.Context(), "q")))
		require.Equal(t, want, jids(e.Pops("q", 9)))
	})
}

func TestJobsDueTogetherKeepTheOrderOfTheirDelays(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		want := []string{"b", "d", "a", "c"}
		for i, jid := range want {
			delay := time.Second + time.Duration(i)*time.Millisecond
			e.Put("q", qless.JID(jid), qless.OnLostLast, qless.Delay(delay))
		}
		e.Clock.Advance(time.Minute)
		require.Equal(t, want, jids(e.Pops("q", 9)))
	})
}
