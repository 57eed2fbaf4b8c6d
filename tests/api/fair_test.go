package api

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/lease"
	"github.com/qless/qless-go/tests/repairs"
)

// putFair puts count jobs of a tenant, whose jids begin with its name.
func (e *env) putFair(count int, option qless.FairOption, name string, more ...qless.PutOption) {
	e.T.Helper()
	for i := range count {
		jid := qless.JID(fmt.Sprintf("%s%d", name, i))
		e.Put("q", append([]qless.PutOption{jid, option}, more...)...)
	}
}

// tenants pops jobs one by one, and returns the first letters of their jids. Each tenant's jobs
// must come in order, starting with the given number.
func (e *env) tenants(count int, from map[string]int) string {
	e.T.Helper()
	var got strings.Builder
	for range count {
		jid := e.Pop("q").JID
		require.Equal(e.T, fmt.Sprint(from[jid[:1]]), jid[1:], "the order of %s", jid[:1])
		from[jid[:1]]++
		got.WriteString(jid[:1])
	}
	return got.String()
}

func TestAWeightIsHowManyTurnsATenantGets(t *testing.T) {
	for name, c := range map[string]struct {
		weight float64
		share  int // the share of 40
	}{"3": {3, 30}, "a third": {1.0 / 3, 10}, "much": {100, 39}, "little": {0.01, 1}} {
		runEnv(t, name, func(t *testing.T, e *env) {
			e.putFair(40, qless.Fair("b"), "b", qless.Priority(10000))
			e.putFair(40, qless.Fair("a", qless.Weight(c.weight)), "a", qless.Priority(10000))
			got := strings.Count(e.tenants(40, map[string]int{}), "a")
			require.InDelta(t, c.share, got, 1)
		})
	}
}

// A tenant's jobs that return to their queue one after another take turns with those of others.
func TestFairJobsThatGoBackTakeTheirTurn(t *testing.T) {
	const jobs = 6
	debounced := func(e *env, jid string, options ...qless.PutOption) {
		e.Put("q", append(options, qless.JID(jid), qless.Fair("a"), qless.Unique(jid))...)
	}
	again := func(e *env, jid string, key qless.UniqueOption) {
		e.Put("q", key, qless.Delay(time.Second), qless.Fair("a"))
	}
	for name, c := range map[string]struct{ put, back func(e *env, jid string) }{
		"due, and put once more": {
			func(e *env, jid string) { debounced(e, jid, qless.Delay(time.Second)) },
			func(e *env, jid string) { again(e, jid, qless.Unique(jid).Replace().KeepDue()) },
		},
		"due by their Within, and put once more": {
			func(e *env, jid string) { debounced(e, jid, qless.Delay(time.Second)) },
			func(e *env, jid string) { again(e, jid, qless.Unique(jid).Replace().Within(time.Second)) },
		},
		"unfailed": {
			func(e *env, jid string) {
				e.Put("q", qless.JID(jid), qless.Fair("a"))
				require.NoError(e.T, e.Pop("q").Fail(e.T.Context(), "g", "m"))
			},
			func(e *env, jid string) { require.NoError(e.T, e.Read(jid).Unfail(e.T.Context())) },
		},
		"lost, and last": {
			func(e *env, jid string) {
				e.Put("q", qless.JID(jid), qless.Fair("a"), qless.OnLostLast, qless.LockTime(time.Second))
				e.Pop("q")
			},
			func(e *env, jid string) { e.sweep("q") },
		},
		"given another priority": {
			func(e *env, jid string) { e.Put("q", qless.JID(jid), qless.Fair("a"), qless.Priority(-1)) },
			func(e *env, jid string) { require.NoError(e.T, e.Read(jid).SetPriority(e.T.Context(), 0)) },
		},
		"moved": {
			func(e *env, jid string) { e.Put("other", qless.JID(jid), qless.Fair("a")) },
			func(e *env, jid string) { require.NoError(e.T, e.Read(jid).Move(e.T.Context(), "q")) },
		},
		"promoted": {
			func(e *env, jid string) { e.Put("q", qless.JID(jid), qless.Fair("a"), qless.Delay(time.Hour)) },
			func(e *env, jid string) {
				require.NoError(e.T, errOf(e.inspect().JIDs(e.Read(jid).JID).Promote(e.T.Context())))
			},
		},
		"of the next queue": {
			func(e *env, jid string) { e.Put("other", qless.JID(jid), qless.Fair("a")) },
			func(e *env, _ string) { require.NoError(e.T, e.Pop("other").Next(e.T.Context(), "q")) },
		},
	} {
		runOnEach(t, name, func(t *testing.T, e *env) {
			for i := range jobs {
				c.put(e, fmt.Sprint("a", i))
			}
			e.putFair(jobs, qless.Fair("b"), "b")
			e.Clock.Advance(2 * time.Second)
			for i := range jobs {
				c.back(e, fmt.Sprint("a", i))
			}
			got := ""
			for _, jid := range jids(e.Pops("q", 2*jobs)) {
				got += jid[:1]
			}
			for i := 0; i < len(got); i += 2 {
				require.NotEqual(t, got[i], got[i+1], got)
			}
			require.Equal(t, jobs, strings.Count(got, "a"))
		})
	}
}

// Of one tenant that keeps putting, and others that put once, only a few are remembered.
func TestAQueueForgetsTenants(t *testing.T) {
	e := newEnv(t)
	e.putFair(3, qless.Fair("a"), "a")
	for i := range 200 {
		e.Put("q", qless.Fair(fmt.Sprint("once ", i)))
		e.Put("q", qless.Fair("a"))
		e.Pops("q", 2)
	}
	require.Less(t, e.Redis.ZCard(t.Context(), "ql:x:fair:0:q").Val(), int64(20))
	e.Pops("q", 100)
	e.Put("q", qless.Fair("last"))
	require.Equal(t, []string{"last"}, e.Redis.ZRange(t.Context(), "ql:x:fair:0:q", 0, -1).Val())
}

// However the last job with a tenant leaves its queue, nothing is left of the turns.
func TestTheTurnsOfAQueueEndWithItsLastJob(t *testing.T) {
	for name, leave := range map[string]func(e *env) error{
		"popped": func(e *env) error { e.Pop("q"); return nil },
		"reserved": func(e *env) error {
			return errOf(e.Run(e.T.Context(), "reserve", "", "w", 9, 0, 0, "q"))
		},
		"canceled":  func(e *env) error { return e.Cancel(e.T.Context(), "j") },
		"withdrawn": func(e *env) error { return lease.New(e.Client).Withdraw(e.T.Context(), "j") },
		"ended":     func(e *env) error { return errOf(repairs.End(e.T.Context(), e.Client, "j", repairs.Ending{})) },
		"ended, failed": func(e *env) error {
			return errOf(repairs.End(e.T.Context(), e.Client, "j", repairs.Ending{State: qless.StateFailed, Group: "g"}))
		},
		"expired": func(e *env) error {
			e.Clock.Advance(time.Hour)
			return errOf(e.Sweep(e.T.Context()))
		},
		"expired, and failed": func(e *env) error {
			e.Put("other", qless.DependsOn{"j"})
			e.Clock.Advance(time.Hour)
			return errOf(e.Sweep(e.T.Context()))
		},
		"met when it has expired": func(e *env) error {
			e.Clock.Advance(time.Hour)
			require.Empty(e.T, e.Pops("q", 1))
			return nil
		},
		"put elsewhere":   func(e *env) error { e.Put("other", qless.JID("j")); return nil },
		"put for later":   func(e *env) error { e.Put("q", qless.JID("j"), qless.Delay(time.Minute)); return nil },
		"moved":           func(e *env) error { return e.Read("j").Move(e.T.Context(), "other") },
		"moved in bulk":   func(e *env) error { return errOf(e.inspect().JIDs("j").Move(e.T.Context(), "other")) },
		"rescheduled":     func(e *env) error { return e.Read("j").Reschedule(e.T.Context(), time.Minute) },
		"replaced":        func(e *env) error { e.Put("q", qless.Unique("k").Replace()); return nil },
		"of new priority": func(e *env) error { return e.Read("j").SetPriority(e.T.Context(), 7) },
	} {
		runOnEach(t, name, func(t *testing.T, e *env) {
			e.Put("q", qless.JID("j"), qless.Fair("a"), qless.Unique("k"), qless.TTL(time.Hour))
			require.Positive(t, e.Redis.TTL(t.Context(), "ql:x:fair:0:q").Val())
			require.NoError(t, leave(e))
			require.Zero(t, e.Redis.Exists(t.Context(), "ql:x:fair:0:q").Val())
		})
	}
}

// As long as all of them have waiting jobs, tenants of one weight differ by at most one job, and
// tenants of different weights by the value of a turn.
func TestSharesOfRandomTenants(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	dice := rand.New(rand.NewPCG(seed, 1))
	e := newEnv(t)
	weights := []float64{1, 1, 2, 0.5}
	puts := make([]int, len(weights))
	for range 400 {
		tenant := dice.IntN(len(weights))
		name := string(rune('a' + tenant))
		e.Put("q", qless.JID(fmt.Sprint(name, puts[tenant])), qless.Fair(name, qless.Weight(weights[tenant])))
		puts[tenant]++
	}
	from := map[string]int{}
	for taken := 1; ; taken++ {
		e.tenants(1, from)
		for i := range weights {
			if from[string(rune('a'+i))] == puts[i] {
				return
			}
			share := float64(from[string(rune('a'+i))]) / weights[i]
			for j := range weights {
				other := float64(from[string(rune('a'+j))]) / weights[j]
				require.Less(t, math.Abs(share-other), 1/weights[i]+1/weights[j]+0.01, "after %d, %v", taken, from)
			}
		}
	}
}

func TestDamagedTurnsDoNotKeepJobsFromTheirQueue(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		require.NoError(t, e.Redis.Set(t.Context(), "ql:x:fair:0:q", "damaged", 0).Err())
		e.putFair(3, qless.Fair("a"), "a")
		require.Len(t, e.Pops("q", 5), 3)
		jid := e.Put("q", qless.Fair("a"))
		for _, damaged := range []string{"g|{}", `g|{"g":7}`, `g|{"g":{"t":7}}`, "g|{", `g|{"g":{"t":"a","w":"x"}}`} {
			require.NoError(t, e.Redis.HSet(t.Context(), "ql:j:"+jid, "x:o", damaged).Err())
			e.Put("q", qless.JID(jid))
			require.Equal(t, jid, e.Pop("q").JID, damaged)
		}
	})
}
