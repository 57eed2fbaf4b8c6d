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

func TestWaitingTenantsTakeTurns(t *testing.T) {
	for _, priority := range []int{0, 1, -1, 999, 10000, -10000} {
		t.Run(fmt.Sprint(priority), func(t *testing.T) {
			onEach(t, func(t *testing.T, e *env) {
				at := qless.Priority(priority)
				e.putFair(60, qless.Fair("a"), "a", at)
				e.Clock.Advance(time.Hour)
				e.putFair(10, qless.Fair("b"), "b", at)
				from := map[string]int{}
				for range 10 {
					turn := e.tenants(2, from)
					require.ElementsMatch(t, []string{"a", "b"}, []string{turn[:1], turn[1:]})
				}
				require.Equal(t, "aaaaa", e.tenants(5, from))
				e.Clock.Advance(time.Hour) // a late tenant is served at once, but gets no turns for the past
				e.putFair(5, qless.Fair("c"), "c", at)
				require.Equal(t, 5, strings.Count(e.tenants(10, from), "c"))
				require.Equal(t, strings.Repeat("a", 40), e.tenants(40, from))
				require.Empty(t, e.Pops("q", 1))
			})
		})
	}
}

func TestAWeightIsHowManyTurnsATenantGets(t *testing.T) {
	for name, c := range map[string]struct {
		weight float64
		share  int // the share of 40
	}{"3": {3, 30}, "a third": {1.0 / 3, 10}, "much": {100, 39}, "little": {0.01, 1}} {
		t.Run(name, func(t *testing.T) {
			e := newEnv(t)
			e.putFair(40, qless.Fair("b"), "b", qless.Priority(10000))
			e.putFair(40, qless.Fair("a", qless.Weight(c.weight)), "a", qless.Priority(10000))
			got := strings.Count(e.tenants(40, map[string]int{}), "a")
			require.InDelta(t, c.share, got, 1)
		})
	}
}

func TestJobsOfOneCallTakeTurns(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		var jobs []qless.JobSpec
		for _, tenant := range []string{"a", "a", "a", "b", "b", "c"} {
			jobs = append(jobs, qless.JobSpec{Klass: tenant, Options: []qless.PutOption{qless.Fair(tenant)}})
		}
		require.NoError(t, errOf(e.Queue("q").PutMany(t.Context(), jobs)))
		var klasses []string
		for range jobs {
			klasses = append(klasses, e.Pop("q").Klass)
		}
		require.ElementsMatch(t, []string{"a", "b", "c"}, klasses[:3])
		require.ElementsMatch(t, []string{"a", "b"}, klasses[3:5])
	})
}

func TestOneCallPutsFairAndPlainJobs(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		_, err := e.Queue("q").PutMany(t.Context(), []qless.JobSpec{
			{Klass: "plain"},
			{Klass: "fair", Options: []qless.PutOption{qless.Fair("a")}},
			{Klass: "plain too"},
		})
		require.NoError(t, err)
		var klasses []string
		for _, job := range e.Pops("q", 10) {
			klasses = append(klasses, job.Klass)
		}
		require.Equal(t, []string{"plain", "plain too", "fair"}, klasses)
	})
}

func TestFairJobsGoBehindOthersOfTheirPriority(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		e.Put("q", qless.JID("fair high"), qless.Fair("a"), qless.Priority(1))
		e.Put("q", qless.JID("fair"), qless.Fair("a"))
		e.Put("q", qless.JID("fair low"), qless.Fair("a"), qless.Priority(-1))
		e.Clock.Advance(time.Hour)
		e.Put("q", qless.JID("plain low"), qless.Priority(-1))
		e.Put("q", qless.JID("plain"))
		e.Put("q", qless.JID("plain high"), qless.Priority(1))
		want := []string{"plain high", "fair high", "plain", "fair", "plain low", "fair low"}
		require.Equal(t, want, jids(e.Pops("q", 10)))
	})
}

// A job that becomes ready after its put takes its turn then.
func TestFairJobsThatBecomeReadyTakeTheirTurn(t *testing.T) {
	for name, c := range map[string]struct {
		options []qless.PutOption
		ready   func(e *env)
	}{
		"due": {[]qless.PutOption{qless.Delay(time.Minute)}, func(e *env) { e.Clock.Advance(time.Minute) }},
		"released by the last dependency": {[]qless.PutOption{qless.DependsOn{"parent"}}, func(e *env) {
			require.NoError(e.T, e.Pop("parents").Complete(e.T.Context()))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(t *testing.T, e *env) {
				e.Put("parents", qless.JID("parent"))
				e.putFair(1, qless.Fair("a"), "x")
				e.putFair(6, qless.Fair("a"), "a", c.options...)
				e.putFair(3, qless.Fair("b"), "b")
				require.Equal(t, "x0", e.Pop("q").JID)
				c.ready(e)
				got := ""
				for range 9 {
					got += e.Pop("q").JID[:1]
				}
				require.Equal(t, 6, strings.Count(got, "a"))
				require.LessOrEqual(t, strings.Index(got, "a"), 2, got)
				require.LessOrEqual(t, strings.LastIndex(got, "b"), 5, got)
			})
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
			func(e *env, jid string) { require.NoError(e.T, errOf(e.Sweep(e.T.Context(), "q"))) },
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
		t.Run(name, func(t *testing.T) {
			onEach(t, func(t *testing.T, e *env) {
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
		})
	}
}

// Many jobs that are unfailed together go back in the order of their failures.
func TestFairJobsThatAreUnfailedTogether(t *testing.T) {
	for name, unfail := range map[string]func(e *env){
		"into a queue": func(e *env) {
			require.NoError(e.T, errOf(repairs.UnfailInto(e.T.Context(), e.Client, "q", "g", 9)))
		},
		"each into its own": func(e *env) {
			require.NoError(e.T, errOf(repairs.Unfail(e.T.Context(), e.Client, "g", 9)))
		},
		"in bulk": func(e *env) {
			require.NoError(e.T, errOf(e.inspect().JIDs("a0", "a1", "a2").Unfail(e.T.Context())))
		},
	} {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(t *testing.T, e *env) {
				e.putFair(3, qless.Fair("a"), "a")
				for range 3 {
					require.NoError(t, e.Pop("q").Fail(t.Context(), "g", "m"))
					e.Clock.Advance(time.Second)
				}
				e.putFair(3, qless.Fair("b"), "b")
				unfail(e)
				require.Equal(t, "b0 a0 b1 a1 b2 a2", strings.Join(jids(e.Pops("q", 9)), " "))
			})
		})
	}
}

func TestATenantStaysWithItsJob(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		jid := e.Put("q", qless.Fair("a"), qless.Headers{"k": "v"})
		require.Equal(t, "a", e.Read(jid).Options.Fair)
		job := e.Pop("q")
		require.Equal(t, "a", job.Options.Fair)
		for range 20 {
			e.Put("q2", qless.Fair("b"))
		}
		require.NoError(t, job.Next(t.Context(), "q2"))
		require.Equal(t, "a", e.Read(jid).Options.Fair)
		require.Contains(t, jids(e.Pops("q2", 2)), jid)
		e.Put("q", qless.JID(jid), qless.Fair("c"))
		require.Equal(t, "c", e.Read(jid).Options.Fair)
		require.Equal(t, qless.Headers{"k": "v"}, e.Read(jid).Headers)
	})
}

func TestARetryComesBeforeTheTurnsOfOthers(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		e.putFair(2, qless.Fair("a"), "a")
		e.putFair(2, qless.Fair("b"), "b")
		job := e.Pop("q")
		require.NoError(t, errOf(job.Retry(t.Context(), 0, "", "")))
		require.Equal(t, job.JID, e.Pop("q").JID)
	})
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
		t.Run(name, func(t *testing.T) {
			onEach(t, func(t *testing.T, e *env) {
				e.Put("q", qless.JID("j"), qless.Fair("a"), qless.Unique("k"), qless.TTL(time.Hour))
				require.Positive(t, e.Redis.TTL(t.Context(), "ql:x:fair:0:q").Val())
				require.NoError(t, leave(e))
				require.Zero(t, e.Redis.Exists(t.Context(), "ql:x:fair:0:q").Val())
			})
		})
	}
}

// A job that is replaced in its place keeps its tenant's turn.
func TestAReplacedJobKeepsItsTurn(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		e.Put("q", qless.JID("j"), qless.Fair("a"), qless.Unique("k"))
		before := e.Redis.ZRangeWithScores(t.Context(), "ql:x:fair:0:q", 0, -1).Val()
		e.Put("q", qless.Fair("a"), qless.Unique("k").Replace().KeepDue())
		require.Equal(t, before, e.Redis.ZRangeWithScores(t.Context(), "ql:x:fair:0:q", 0, -1).Val())
	})
}

// A place that no tenant's turn determined is not kept, even if the server's clock was set back.
func TestAJobThatGetsATenantAsItIsReplacedTakesATurn(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		e.Put("q", qless.JID("b"), qless.Fair("b"))
		e.Put("q", qless.JID("j"), qless.Unique("k"))
		e.Clock.Advance(-time.Second)
		e.Put("q", qless.Fair("a"), qless.Unique("k").Replace().KeepDue())
		turns := e.Redis.ZScore(t.Context(), "ql:x:fair:0:q", "b").Val()
		require.Equal(t, turns, e.Redis.ZScore(t.Context(), "ql:x:fair:0:q", "a").Val())
	})
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

func TestWhatAFairPutCosts(t *testing.T) {
	e := newEnv(t)
	put := func(name string, options ...qless.PutOption) int {
		options = append(options, qless.JID(name))
		return len(e.Server.Commands(t, func() { e.Put("q", options...) }))
	}
	put("first")
	plain := put("plain")
	require.Equal(t, plain+4, put("a", qless.Fair("a")))
	require.Equal(t, plain+4, put("b", qless.Fair("a")))
	require.Equal(t, plain, put("c"))
}

func TestInvalidFairShares(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		e.Unchanged(func() {
			for _, options := range map[string][]qless.PutOption{
				"no tenant":     {qless.Fair("")},
				"not UTF-8":     {qless.Fair("\xff")},
				"long":          {qless.Fair(strings.Repeat("a", 513))},
				"no weight":     {qless.Fair("a", qless.Weight(0))},
				"negative":      {qless.Fair("a", qless.Weight(-1))},
				"too heavy":     {qless.Fair("a", qless.Weight(101))},
				"not a number":  {qless.Fair("a", qless.Weight(math.NaN()))},
				"high priority": {qless.Fair("a"), qless.Priority(10001)},
				"low priority":  {qless.Priority(-10001), qless.Fair("a")},
			} {
				requireCode(t, qless.ErrInvalid, errOf(e.Queue("q").Put(t.Context(), "K", nil, options...)))

			}
		})
		jid := e.Put("q", qless.Priority(20000))
		e.Put("q", qless.JID(jid), qless.Fair("a")) // such a priority has no room for turns
		e.Put("q", qless.Priority(19999))
		require.Equal(t, jid, e.Pop("q").JID)
	})
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

func TestAScriptThatNamesNoTenantIsRefused(t *testing.T) {
	e := newEnv(t)
	for _, options := range []string{"g|{}", `g|{"g":{"t":""}}`, `g|{"g":7}`} {
		e.Unchanged(func() {
			err := errOf(e.Run(t.Context(), "put", "j", "w1", "q", "j", "K", "{}", "0", "o", options))
			require.Contains(t, requireCode(t, qless.ErrInvalid, err).Message, "has no tenant")
		})
	}
}
