package api

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/shards"
	"github.com/qless/qless-go/tests/repairs"
)

// states are ways to bring the job j of the queue q into each state.
var states = map[qless.State]func(t *testing.T, e *env){
	qless.StateWaiting:   func(_ *testing.T, e *env) { e.Put("q", qless.JID("j")) },
	qless.StateScheduled: func(_ *testing.T, e *env) { e.Put("q", qless.JID("j"), qless.Delay(time.Hour)) },
	qless.StateDepends: func(_ *testing.T, e *env) {
		e.Put("q", qless.JID("j"), qless.DependsOn{e.Put("others")})
	},
	qless.StateRunning: func(_ *testing.T, e *env) { e.Put("q", qless.JID("j")); e.Pop("q") },
	qless.StateTimedOut: func(t *testing.T, e *env) {
		e.Put("q", qless.JID("j"))
		require.NoError(t, repairs.TimeOut(t.Context(), e.Client, e.Pop("q").JID))
	},
	qless.StateFailed: func(t *testing.T, e *env) {
		e.Put("q", qless.JID("j"))
		require.NoError(t, e.Pop("q").Fail(t.Context(), "g", "m"))
	},
	qless.StateComplete: func(t *testing.T, e *env) {
		e.Put("q", qless.JID("j"))
		require.NoError(t, e.Pop("q").Complete(t.Context()))
	},
}

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

func TestAPutThatIsRefusedInSomeStatesWritesNothing(t *testing.T) {
	for name, c := range conditions {
		for state, bring := range states {
			t.Run(fmt.Sprintf("%s, %s", name, state), func(t *testing.T) {
				onEach(t, func(t *testing.T, e *env) {
					bring(t, e)
					e.Client = e.As("w2")
					require.Equal(t, state, e.Read("j").State)
					put := func() (string, error) {
						return e.Queue("q").Put(t.Context(), "New", nil, qless.JID("j"), c.option,
							qless.Tags{"new"}, qless.Headers{"new": "1"})
					}
					if !c.refuses(state) {
						require.Equal(t, "j", must(put())(t))
						require.Equal(t, "New", e.Read("j").Klass)
						if state != qless.StateDepends {
							require.Equal(t, qless.StateWaiting, e.Read("j").State)
						}
						return
					}
					e.Unchanged(func() {
						jid, err := put()
						require.Equal(t, "j", jid)
						own := requireCode(t, qless.ErrExists, err)
						require.Equal(t, "j", own.JID)
						require.Equal(t, "the job exists and is "+string(state), own.Message)
					})
				})
			})
		}
	}
}

func TestAPutUnderAConditionPutsAJobThatIsNotThere(t *testing.T) {
	for name, c := range conditions {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(t *testing.T, e *env) {
				e.Put("q", qless.JID("j"), c.option)
				e.Put("q", qless.JID("d"), c.option, qless.DependsOn{"j"})
				require.Equal(t, qless.QueueCounts{Name: "q", Waiting: 1, Depends: 1}, e.Counts("q"))
				require.NoError(t, e.Read("d").Cancel(t.Context()))
				e.Put("q", qless.JID("d"), c.option)
			})
		})
	}
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
	jobs := someJobs(2500)
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
	jobs := someJobs(20)
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

func TestAMoveThatIsRefused(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		e.Put("q", qless.JID("j"))
		waiting := e.Read("j")
		running := e.Pop("q")
		e.Unchanged(func() {
			requireCode(t, qless.ErrExists, waiting.Move(t.Context(), "q2", qless.IfNotRunning))
			requireCode(t, qless.ErrExists, running.Move(t.Context(), "q2", qless.IfFinished))
			err := waiting.Move(t.Context(), "q2", qless.IfAbsent)
			require.Contains(t, requireCode(t, qless.ErrInvalid, err).Message, "IfAbsent")
		})
		require.NoError(t, running.Complete(t.Context()))
		require.NoError(t, waiting.Move(t.Context(), "q2", qless.IfFinished))
		require.Equal(t, "q2", e.Read("j").Queue)
	})
}

func TestConditionsThatDoNotGoTogether(t *testing.T) {
	e := newEnv(t)
	e.Unchanged(func() {
		for message, options := range map[string][]qless.PutOption{
			"IfAbsent and IfFinished can't be used together":     {qless.IfAbsent, qless.IfFinished},
			"IfNotRunning and IfFinished can't be used together": {qless.IfNotRunning, qless.IfFinished, qless.IfNotRunning},
			`the condition If("never") is unknown`:               {qless.If("never")},
			"IfAbsent needs a JID":                               {qless.IfAbsent},
			"IfFinished needs a JID":                             {qless.IfFinished, qless.Unique("k")},
			"IfNotRunning needs a JID":                           {qless.IfNotRunning},
		} {
			_, err := e.Queue("q").Put(t.Context(), "K", nil, options...)
			require.Contains(t, requireCode(t, qless.ErrInvalid, err).Message, message)
			_, err = e.Queue("q").PutMany(t.Context(), []qless.JobSpec{{Klass: "K", Options: options}})
			require.Contains(t, requireCode(t, qless.ErrInvalid, err).Message, "jobs[0]: "+message)
		}
		_, err := e.Run(t.Context(), "put", "j", "w1", "q", "j", "K", "{}", "0", "if", "never")
		require.Contains(t, requireCode(t, qless.ErrInvalid, err).Message, `Unknown condition "never"`)
	})
	e.Put("q", qless.JID("j"), qless.IfAbsent, qless.IfAbsent)
}

func TestConditionsCostNoCommand(t *testing.T) {
	e := newEnv(t)
	e.Put("q")
	cost := func(options ...qless.PutOption) int {
		return len(e.Server.Commands(t, func() { e.Put("q", options...) }))
	}
	plain := cost(qless.JID("a"))
	for name, c := range conditions {
		require.Equal(t, plain, cost(qless.JID(name), c.option), name)
	}
	refused := len(e.Server.Commands(t, func() {
		_, err := e.Queue("q").Put(t.Context(), "K", nil, qless.JID("a"), qless.IfAbsent)
		requireCode(t, qless.ErrExists, err)
	}))
	require.Equal(t, 6, refused,
		"EXISTS for all keys, idle workers, tracked jobs, empty queues and the job; its state")
}
