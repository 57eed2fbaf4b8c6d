package api

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/shards"
)

// conditions are the options that refuse puts, with the states in which they refuse.
var conditions = map[string]struct {
	option  qless.If
	refuses func(state qless.State) bool
}{
	"if absent": {qless.IfAbsent, func(qless.State) bool { return true }},
	"if finished": {qless.IfFinished, func(state qless.State) bool {
		return state != qless.StateComplete && state != qless.StateFailed
	}},
	"if not running": {qless.IfNotRunning, func(state qless.State) bool {
		return state == qless.StateRunning
	}},
}

func TestOfPutsAtOnceExactlyOnePutsTheJob(t *testing.T) {
	for name, config := range map[string]qless.ClientConfig{
		"together": {}, "alone": {Unbatched: true},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEnvWith(t, config)
			const rounds, putters = 20, 16
			for round := range rounds {
				jid := fmt.Sprint("j", round)
				var puts, refused atomic.Int64
				var all sync.WaitGroup
				for n := range putters {
					all.Go(func() {
						c := e.Client
						if n%2 == 0 {
							c = e.NewClient(e.Redis, config)
						}
						got, err := c.Queue("q").Put(t.Context(), "K", n, qless.JID(jid), qless.IfAbsent)
						switch {
						case got != jid:
							t.Errorf("%s was put as %s: %v", jid, got, err)
						case err == nil:
							puts.Add(1)
						case errors.Is(err, qless.ErrExists):
							refused.Add(1)
						default:
							t.Error(err)
						}
					})
				}
				all.Wait()
				require.EqualValues(t, 1, puts.Load())
				require.EqualValues(t, putters-1, refused.Load())
				require.Equal(t, []string{"put"}, whats(e.Read(jid).History))
			}
		})
	}
}

func TestJobsOfAPutManyThatExistDoNotStopTheOthers(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		e.Put("q", qless.JID("b"), qless.Priority(3))
		e.Put("q", qless.JID("d"))
		before := e.Read("b")
		spec := func(jid string, more ...qless.PutOption) qless.JobSpec {
			return qless.JobSpec{Klass: "New", Options: append(more, qless.JID(jid), qless.IfAbsent)}
		}
		jobs := []qless.JobSpec{
			spec("a"), spec("b"), {Klass: "New"}, spec("d", qless.DependsOn{"a"}), spec("e", qless.DependsOn{"a", "b"}),
		}
		got, err := e.Queue("q").PutMany(t.Context(), jobs)
		require.Len(t, got, 5)
		require.Equal(t, []string{"a", "b", got[2], "d", "e"}, got)
		own := requireCode(t, qless.ErrExists, err)
		require.Equal(t, []int{1, 3}, own.Indices)
		require.Equal(t, "2 jobs exist: jobs[1], jobs[3]", own.Message)
		require.Empty(t, own.JID)
		require.Equal(t, before.Priority, e.Read("b").Priority)
		require.Equal(t, "K", e.Read("b").Klass)
		require.Empty(t, e.Read("d").Dependencies)
		require.Empty(t, e.Read("d").Dependents)
		require.ElementsMatch(t, []string{"a", "b"}, e.Read("e").Dependencies)
		require.Equal(t, qless.QueueCounts{Name: "q", Waiting: 4, Depends: 1}, e.Counts("q"))

		got, err = e.Queue("q").PutMany(t.Context(), jobs[:1])
		require.Equal(t, []string{"a"}, got)
		own = requireCode(t, qless.ErrExists, err)
		require.Equal(t, []int{0}, own.Indices)
		require.Equal(t, "a", own.JID)
		require.Equal(t, "jobs[0]: the job exists and is waiting", own.Message)
	})
}

func TestJobsThatExistInAPutManyOfSeveralScripts(t *testing.T) {
	e := newEnv(t)
	for _, jid := range []string{"j0", "j1500", "j2400"} {
		e.Put("q", qless.JID(jid))
	}
	jobs := specs(2500)
	want := make([]string, len(jobs))
	for i := range jobs {
		want[i] = fmt.Sprint("j", i)
		jobs[i].Options = []qless.PutOption{qless.JID(want[i]), qless.IfAbsent}
	}
	got, err := e.Queue("q").PutMany(t.Context(), jobs)
	require.Equal(t, want, got)
	require.Equal(t, []int{0, 1500, 2400}, requireCode(t, qless.ErrExists, err).Indices)
	require.Equal(t, 2500, e.Counts("q").Waiting)

	got, err = e.Queue("q").PutMany(t.Context(), jobs)
	require.Equal(t, want, got)
	own := requireCode(t, qless.ErrExists, err)
	require.Len(t, own.Indices, 2500)
	require.Regexp(t, `^2500 jobs exist: jobs\[0\], .*, jobs\[9\], 2490 more$`, own.Message)
}

func TestJobsThatExistInShards(t *testing.T) {
	e := newEnv(t)
	sharded := must(shards.New(shards.ByJID,
		e.NewClient(e.Redis, qless.ClientConfig{Namespace: "a:"}), e.NewClient(e.Redis, qless.ClientConfig{Namespace: "b:"})))(t)
	q := sharded.Queue("q")
	jobs := specs(20)
	var want []string
	for i := range jobs {
		want = append(want, fmt.Sprint("j", i))
		jobs[i].Options = []qless.PutOption{qless.JID(want[i]), qless.IfAbsent}
	}
	even, odd := []int{}, []qless.JobSpec{}
	for i := range jobs {
		if i%2 == 0 {
			even = append(even, i)
			require.NoError(t, errOf(q.Put(t.Context(), "K", nil, jobs[i].Options...)))
		} else {
			odd = append(odd, jobs[i])
		}
	}
	jid, err := q.Put(t.Context(), "K", nil, jobs[0].Options...)
	require.Equal(t, "j0", jid)
	requireCode(t, qless.ErrExists, err)
	got, err := q.PutMany(t.Context(), jobs)
	require.Equal(t, want, got)
	require.Equal(t, even, requireCode(t, qless.ErrExists, err).Indices)
	require.Len(t, requireCode(t, qless.ErrExists, errOf(q.PutMany(t.Context(), odd))).Indices, 10)
}
