package api

import (
	"fmt"
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

// Jobs that are promoted one after another take turns with those of others, as all that return to
// their queue in the model.
func TestPromotedJobsTakeTheirTurn(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		e.putFair(3, qless.Fair("a"), "a", qless.Delay(time.Hour))
		e.putFair(3, qless.Fair("b"), "b")
		for i := range 3 {
			require.NoError(t, errOf(e.inspect().JIDs(fmt.Sprint("a", i)).Promote(t.Context())))
		}
		got := strings.Join(jids(e.Pops("q", 6)), "")
		for i := 0; i < len(got); i += 4 {
			require.NotEqual(t, got[i], got[i+2], got)
		}
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

// However the last job with a tenant leaves its queue, nothing is left of the turns. The model has
// the other ways.
func TestTheTurnsOfAQueueEndWithItsLastJob(t *testing.T) {
	for name, leave := range map[string]func(e *env) error{
		"reserved":  func(e *env) error { return errOf(e.Run(e.T.Context(), "reserve", "", "w", 9, 0, 0, "q")) },
		"withdrawn": func(e *env) error { return lease.New(e.Client).Withdraw(e.T.Context(), "j") },
		"ended":     func(e *env) error { e.end("j", repairs.Ending{}); return nil },
		"ended, failed": func(e *env) error {
			e.end("j", repairs.Ending{State: qless.StateFailed, Group: "g"})
			return nil
		},
		"moved in bulk": func(e *env) error { return errOf(e.inspect().JIDs("j").Move(e.T.Context(), "other")) },
		"rescheduled":   func(e *env) error { return e.Read("j").Reschedule(e.T.Context(), time.Minute) },
	} {
		runOnEach(t, name, func(t *testing.T, e *env) {
			e.Put("q", qless.JID("j"), qless.Fair("a"))
			require.Positive(t, e.Redis.TTL(t.Context(), "ql:x:fair:0:q").Val())
			require.NoError(t, leave(e))
			require.Zero(t, e.Redis.Exists(t.Context(), "ql:x:fair:0:q").Val())
		})
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
