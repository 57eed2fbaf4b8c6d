package wake

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/testkit"
	"github.com/qless/qless-go/tests/scripts"
)

// moreWays returns the ways that wake no worker or need a script.
func moreWays() []way {
	var h held
	return []way{
		{"put with a delay of hours", nil, func(e *env) { e.put("q", "j", qless.Delay(9*time.Hour)) }},
		{"put of a job that exists", func(e *env) { e.put("p", "j") }, func(e *env) { e.put("q", "j") }},
		{"schedule", nil, func(e *env) {
			e.script("schedule", "id", "1", "0", "w", "q", "j", "K", "{}", "0")
		}},
		{"retry into another queue", h.hold("p", "j"), func(e *env) {
			e.script("retry", "j", "q", h.job.Worker, "0")
		}},
		{"put by the drop-in", nil, func(e *env) {
			err := e.Redis.Eval(e.T.Context(), qless.DropInScript(), nil,
				"put", "1700000000", "w", "q", "j", "K", "{}", "0").Err()
			must(e, err)
		}},
	}
}

// script runs one of our scripts.
func (e *env) script(command string, args ...any) {
	e.T.Helper()
	must(e, errOf(scripts.Run(e.T.Context(), e.Redis, e.Namespace(), time.Now(), command, args...)))
}

// jobsIn counts the parts of a queue where a reserve may find jobs, now or later.
func (e *env) jobsIn(queue string) (count int64) {
	e.T.Helper()
	for _, part := range []string{"work", "locks", "scheduled", "recur"} {
		found, err := e.Redis.Exists(e.T.Context(), e.Namespace()+"q:"+queue+"-"+part).Result()
		require.NoError(e.T, err)
		count += found
	}
	return count
}

// Reserves skip queues found empty before. All commands that fill a queue announce that, except for
// other clients' scripts.
func TestFillingAnEmptyQueueIsAnnounced(t *testing.T) {
	server := testkit.Start(t)
	var filled int
	all := func() []way { return append(ways(), moreWays()...) }
	for i, w := range all() {
		t.Run(w.name, func(t *testing.T) {
			w := all()[i] // each way holds its own jobs
			namespace := fmt.Sprintf("%d:", i)
			if w.name == "put by the drop-in" {
				namespace = "ql:"
			}
			e := newEnv(t, server, namespace)
			if w.set != nil {
				w.set(e)
			}
			if e.jobsIn("q") > 0 || w.name == "put by another script" {
				return
			}
			require.NoError(t, e.Redis.HSet(t.Context(), namespace+"x:empty", "a list with q", "1").Err())
			w.do(e)
			require.Positive(t, e.jobsIn("q"))
			said, err := e.Redis.SIsMember(t.Context(), namespace+"x:filled", "q").Result()
			require.NoError(t, err)
			require.True(t, said)
			left, err := e.Redis.PTTL(t.Context(), namespace+"x:filled").Result()
			require.NoError(t, err)
			require.NotEqual(t, time.Duration(-1), left, "it ends")
			filled++
		})
	}
	require.GreaterOrEqual(t, filled, 20)
}

// Only workers of several queues have these keys.
func TestNothingIsAnnouncedIfNoQueueIsKnownEmpty(t *testing.T) {
	e := newEnv(t, testkit.Start(t), "ql:")
	e.put("q", "j")
	must(e, e.pop("q", "j").Next(t.Context(), "p"))
	count, err := e.Redis.Exists(t.Context(), "ql:x:filled").Result()
	require.NoError(t, err)
	require.Zero(t, count)
}
