package api

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
)

func TestFailuresByKlass(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		fails := func(klass, jid, message string) {
			require.NoError(t, errOf(e.Queue("q").Put(t.Context(), klass, nil, qless.JID(jid))))
			require.NoError(t, e.Pop("q").Fail(t.Context(), "g", message))
			e.Clock.Advance(time.Minute)
		}
		sum := func(limit int) inspect.FailureSummary {
			t.Helper()
			var got inspect.FailureSummary
			e.Unchanged(func() { got = must(e.inspect().Failures(t.Context(), "g", limit))(t) })
			for i := range got.Klasses {
				k := &got.Klasses[i]
				k.First, k.Last = k.First.UTC(), k.Last.UTC()
			}
			return got
		}
		require.Equal(t, inspect.FailureSummary{Klasses: []inspect.KlassFailures{}}, sum(0))
		fails("Mail", "a", "first")
		fails("Call", "b", "ring")
		fails("Mail", "c", "last")
		mail := inspect.KlassFailures{
			Klass: "Mail", Count: 2, First: noon, Last: noon.Add(2 * time.Minute), Message: "last", Sample: "c",
		}
		call := inspect.KlassFailures{
			Klass: "Call", Count: 1, First: noon.Add(time.Minute), Last: noon.Add(time.Minute), Message: "ring", Sample: "b",
		}
		all := inspect.FailureSummary{Klasses: []inspect.KlassFailures{mail, call}, Examined: 3, Total: 3}
		for _, limit := range []int{0, -1, 3, 5000} {
			require.Equal(t, all, sum(limit))
		}
		mail.Count, mail.First = 1, mail.Last
		require.Equal(t, inspect.FailureSummary{Klasses: []inspect.KlassFailures{mail}, Examined: 1, Total: 3}, sum(1))
		requireCode(t, qless.ErrInvalid, errOf(e.inspect().Failures(t.Context(), "", 0)))
		requireCode(t, qless.ErrInvalid, errOf(e.inspect().Failures(t.Context(), "g", -2)))
	})
}

func TestManyFailuresAreCountedInSteps(t *testing.T) {
	e := newEnv(t)
	for i := range 2345 {
		jid := fmt.Sprint("j", i)
		require.NoError(t, e.Redis.HSet(t.Context(), "ql:j:"+jid, "klass", fmt.Sprint("K", i%2), "failure",
			fmt.Sprintf(`{"group":"g","message":"m%d","when":%d}`, i, i+1)).Err())
		require.NoError(t, e.Redis.LPush(t.Context(), "ql:f:g", jid).Err())
	}
	got := must(e.inspect().Failures(t.Context(), "g", -1))(t)
	require.Equal(t, 2345, got.Examined)
	require.Len(t, got.Klasses, 2)
	require.Equal(t, inspect.KlassFailures{
		Klass: "K0", Count: 1173, First: time.Unix(1, 0), Last: time.Unix(2345, 0), Message: "m2344", Sample: "j2344",
	}, got.Klasses[0])
}
