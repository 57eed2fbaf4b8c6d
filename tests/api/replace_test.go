package api

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
	"github.com/qless/qless-go/lease"
	"github.com/qless/qless-go/shards"
	"github.com/qless/qless-go/tests/repairs"
	"github.com/qless/qless-go/tests/scripts"
)

// again returns the option for puts that replace the holder of the key k.
func again() qless.UniqueOption { return qless.Unique("k").Replace() }

// trigger puts a job with data that replaces the holder of the key k.
func (e *env) trigger(data any, options ...qless.PutOption) string {
	e.T.Helper()
	jid := must(e.Queue("q").Put(e.T.Context(), "K", data, append([]qless.PutOption{again()}, options...)...))(e.T)
	return jid
}

// due returns the due time of a scheduled job, after noon.
func (e *env) due(queue, jid string) time.Duration {
	e.T.Helper()
	score := must(e.Redis.ZScore(e.T.Context(), "ql:q:"+queue+"-scheduled", jid).Result())(e.T)
	return time.Duration((score - float64(noon.Unix())) * float64(time.Second)).Round(time.Millisecond)
}

// sinceNoon returns the time of the test's clock, without the microseconds by which it advances.
func (e *env) sinceNoon() time.Duration {
	return e.Clock.Now().Sub(noon).Round(time.Millisecond)
}

func TestAPutThatReplacesPutsAJobIfNoneHasTheKey(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		first := e.trigger(1, qless.Delay(time.Minute))
		e.holder(first)
		require.Equal(t, qless.StateScheduled, e.Read(first).State)
		e.Clock.Advance(time.Minute)
		require.NoError(t, e.Pop("q").Complete(t.Context()))
		second := e.trigger(2)
		require.NotEqual(t, first, second)
		require.Equal(t, second, e.Pop("q").JID)
	})
}

// The existing job becomes the new one, in any state but running.
func TestAPutThatReplacesChangesAJobThatWaits(t *testing.T) {
	for state, bring := range map[string]func(t *testing.T, e *env){
		"waiting":   func(*testing.T, *env) {},
		"scheduled": func(_ *testing.T, e *env) { e.Put("q", qless.JID("j"), qless.Delay(time.Hour)) },
		"depends": func(_ *testing.T, e *env) {
			e.Put("q", qless.JID("j"), qless.DependsOn{e.Put("x", qless.JID("x"))}, qless.OnFailureRun)
		},
		"timed out": func(t *testing.T, e *env) {
			require.NoError(t, repairs.TimeOut(t.Context(), e.Client, e.Pop("q").JID))
		},
		"retried":  func(t *testing.T, e *env) { require.NoError(t, errOf(e.Pop("q").Retry(t.Context(), 0, "", ""))) },
		"released": func(t *testing.T, e *env) { require.NoError(t, e.Pop("q").Release(t.Context(), 0)) },
		"delayed": func(t *testing.T, e *env) {
			require.NoError(t, errOf(e.Pop("q").Retry(t.Context(), time.Hour, "", "")))
		},
		"next": func(t *testing.T, e *env) { require.NoError(t, e.Pop("q").Next(t.Context(), "q2")) },
	} {
		t.Run(state, func(t *testing.T) {
			onEach(t, func(t *testing.T, e *env) {
				e.Put("q", qless.JID("j"), qless.Unique("k"), qless.Priority(1), qless.Tags{"old", "both"},
					qless.Retries(1), qless.Headers{"a": "old"}, qless.LockTime(time.Second))
				bring(t, e)
				before := e.Read("j")
				jid := must(e.Queue("new").Put(t.Context(), "New", "new", again(), qless.Priority(7),
					qless.Tags{"both", "new"}, qless.Retries(9), qless.Headers{"b": "new"}, qless.Delay(time.Minute)))(t)
				require.Equal(t, "j", jid)
				job := e.Read("j")
				require.Equal(t, "New", job.Klass)
				require.Equal(t, `"new"`, string(job.Data))
				require.Equal(t, "new", job.Queue)
				require.Equal(t, 7, job.Priority)
				require.Equal(t, qless.Tags{"both", "new"}, job.Tags)
				require.Equal(t, []int{9, 9}, []int{job.Retries, job.Remaining})
				require.Equal(t, qless.Headers{"b": "new"}, job.Headers)
				require.Zero(t, job.Options.LockTime)
				require.Equal(t, before.Dependencies, job.Dependencies)
				require.Equal(t, append(whats(before.History), "put"), whats(job.History))
				require.Zero(t, must(e.inspect().Tagged("old").JIDs(t.Context(), inspect.Range{}))(t).Total)
				e.held("j", qless.Unique("k"))
				if len(job.Dependencies) > 0 {
					job := must(e.Queue("x").Pop(t.Context(), 1))(t)
					require.NoError(t, job[0].Fail(t.Context(), "g", "m"))
				}
				require.Equal(t, qless.StateScheduled, e.Read("j").State)
				require.Equal(t, time.Minute, e.due("new", "j"))
				e.Clock.Advance(time.Minute)
				require.Equal(t, "j", e.Pop("new").JID)
				for _, queue := range []string{"q", "q2"} {
					counts := e.Counts(queue)
					require.Zero(t, counts.Waiting+counts.Running+counts.Scheduled+counts.Depends)
				}
			})
		})
	}
}

// An option that a put omits has its default, not the job's earlier value.
func TestAReplacedJobHasWhatItsLastPutSays(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		jid := e.Put("q", again(), qless.Priority(3), qless.Tags{"t"}, qless.Retries(1),
			qless.Headers{"a": "1"}, qless.LockTime(time.Second), qless.OnLostLast)
		ended := e.waits(t.Context(), jid)
		child := e.Put("q", qless.JID("child"), qless.DependsOn{jid}, qless.OnFailureRun)
		require.Equal(t, jid, e.trigger(nil))
		plain := e.Read(e.Put("q", qless.JID("plain")))
		job := e.Read(jid)
		require.Equal(t, plain.Priority, job.Priority)
		require.Equal(t, plain.Tags, job.Tags)
		require.Equal(t, plain.Retries, job.Retries)
		require.Empty(t, job.Headers)
		require.Zero(t, job.Options.LockTime)
		require.Equal(t, []string{child}, job.Dependents)

		require.NoError(t, e.Pop("q").Fail(t.Context(), "g", "m"))
		require.Equal(t, qless.StateFailed, e.soon(ended).result.State, "waiters of the job are notified")
		require.Equal(t, qless.StateWaiting, e.Read(child).State, "as are those that depend on it")
	})
}

func TestAPutThatReplacesBeginsTheDelayAgain(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		jid := e.trigger(0, qless.Delay(10*time.Second))
		for i := range 3 {
			e.Clock.Advance(8 * time.Second)
			require.Equal(t, jid, e.trigger(i, qless.Delay(10*time.Second)))
			require.Empty(t, e.Pops("q", 1))
		}
		e.Clock.Advance(10 * time.Second)
		job := e.Pop("q")
		require.Equal(t, jid, job.JID)
		require.Equal(t, "2", string(job.Data))
	})
}

func TestKeepDueLeavesTheTimeAndThePlaceOfAJob(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		key := again().KeepDue()
		jid := e.trigger(0, key, qless.Delay(10*time.Second))
		e.Clock.Advance(8 * time.Second)
		require.Equal(t, jid, e.trigger(1, key, qless.Delay(10*time.Second)))
		require.Equal(t, 10*time.Second, e.due("q", jid))
		e.Clock.Advance(3 * time.Second)
		require.Equal(t, 1, e.Counts("q").Waiting)
		e.Put("q", qless.JID("later"))
		e.Clock.Advance(time.Second)
		require.Equal(t, jid, e.trigger(2, key, qless.Delay(10*time.Second)), "it is due, and stays so")
		e.Put("q", qless.JID("last"))
		require.Equal(t, []string{jid, "later", "last"}, jids(e.Pops("q", 5)))
	})
}

func TestKeepDueWithoutADelayKeepsThePlaceInTheQueue(t *testing.T) {
	for name, c := range map[string]struct {
		bring func(t *testing.T, e *env)
		key   qless.UniqueOption
		more  []qless.PutOption
		want  []string
	}{
		"due":           {nil, again().KeepDue(), nil, []string{"a", "j", "b"}},
		"without":       {nil, again(), nil, []string{"a", "b", "j"}},
		"more urgent":   {nil, again().KeepDue(), []qless.PutOption{qless.Priority(1)}, []string{"j", "a", "b"}},
		"less urgent":   {nil, again().KeepDue(), []qless.PutOption{qless.Priority(-1)}, []string{"a", "b", "j"}},
		"with a delay":  {nil, again().KeepDue(), []qless.PutOption{qless.Delay(time.Hour)}, []string{"a", "j", "b"}},
		"before Within": {nil, again().Within(time.Minute), nil, []string{"a", "b", "j"}},
		"after Within":  {nil, again().Within(500 * time.Millisecond), nil, []string{"a", "j", "b"}},
		"timed out": {func(t *testing.T, e *env) {
			require.NoError(t, repairs.TimeOut(t.Context(), e.Client, e.Pop("j").JID))
		},
			again().KeepDue(), nil, []string{"j", "a", "b"}},
		"released": {func(t *testing.T, e *env) { require.NoError(t, e.Pop("j").Release(t.Context(), 0)) },
			again().KeepDue(), nil, []string{"j", "a", "b"}},
		"parked": {func(t *testing.T, e *env) {
			require.NoError(t, e.Limit("api").Hold(t.Context(), time.Hour))
			e.Put("j", qless.Unique("k").Replace().KeepDue(), qless.Limits{"api"})
			require.Empty(t, e.Pops("j", 1))
			require.Equal(t, "api", e.Read("j").Parked)
		}, again().KeepDue(), nil, []string{"a", "j", "b"}},
	} {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(t *testing.T, e *env) {
				e.Put("q", qless.JID("a"))
				e.Clock.Advance(time.Second)
				e.Put("j", qless.JID("j"), qless.Unique("k"))
				e.Clock.Advance(time.Second)
				if c.bring != nil {
					c.bring(t, e)
				}
				e.Put("q", qless.JID("b"))
				e.Clock.Advance(time.Second)
				require.Equal(t, "j", e.Put("q", append(c.more, c.key)...))
				require.Equal(t, c.want, jids(e.Pops("q", 5)))
			})
		})
	}
}

func TestWithinBoundsHowLongAJobIsPutOff(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		options := []qless.PutOption{again().Within(25 * time.Second), qless.Delay(10 * time.Second)}
		jid := e.trigger(0, options...)
		for range 3 {
			e.Clock.Advance(6 * time.Second)
			require.Equal(t, jid, e.trigger(1, options...))
		}
		require.Equal(t, 25*time.Second, e.due("q", jid))
		e.Clock.Advance(7 * time.Second)
		require.Equal(t, jid, e.trigger(2, options...), "it is due, but has not been popped")
		e.Clock.Advance(7 * time.Second)
		require.Equal(t, jid, e.trigger(3, options...))
		job := e.Pop("q")
		require.Equal(t, "3", string(job.Data))

		next := e.trigger(4, options...)
		require.NotEqual(t, jid, next, "it counts from its own first put")
		require.NoError(t, job.Complete(t.Context()))
		require.Equal(t, e.sinceNoon()+10*time.Second, e.due("q", next))
	})
}

// The waiting time of a job counts from its last pop, or its last put by another client.
func TestWithinCountsFromTheLastPopOrForeignPut(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		options := []qless.PutOption{again().Within(20 * time.Second), qless.Delay(15 * time.Second)}
		jid := e.trigger(0, options...)
		e.Clock.Advance(15 * time.Second)
		job := e.Pop("q")
		e.Clock.Advance(time.Minute)
		require.NoError(t, errOf(job.Retry(t.Context(), 0, "", "")))
		require.Equal(t, jid, e.trigger(1, options...))
		require.Equal(t, qless.StateWaiting, e.Read(jid).State)

		require.NoError(t, e.Pop("q").Release(t.Context(), 0))
		require.Equal(t, jid, e.trigger(2, options...))
		require.Equal(t, e.sinceNoon()+15*time.Second, e.due("q", jid))

		e.Clock.Advance(10 * time.Second)
		e.Put("q", qless.JID(jid))
		e.Clock.Advance(10 * time.Second)
		require.Equal(t, jid, e.trigger(3, options...))
		require.Equal(t, e.sinceNoon()+10*time.Second, e.due("q", jid))
	})
}

func TestAPutThatReplacesFollowsARunningJob(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		first := e.trigger(1)
		running := e.Pop("q")
		second := e.trigger(2)
		require.NotEqual(t, first, second)
		require.Equal(t, []string{first}, e.Read(second).Dependencies)
		require.Equal(t, []string{first}, e.Read(second).Options.Parents)
		e.holder(second)
		for i := range 3 {
			require.Equal(t, second, e.trigger(3+i, qless.Tags{"t"}), "one waits")
			require.Equal(t, []string{first}, e.Read(second).Dependencies)
		}
		require.Empty(t, e.Pops("q", 5), "they don't overlap")

		require.NoError(t, running.Complete(t.Context()))
		e.holder(second)
		job := e.Pop("q")
		require.Equal(t, second, job.JID)
		require.Equal(t, "5", string(job.Data), "the last one is never lost")
		require.NoError(t, job.Complete(t.Context()))
		e.holder("")
	})
}

func TestAFollowingJobWaitsForTheRealEnd(t *testing.T) {
	for name, c := range map[string]struct {
		live   func(t *testing.T, e *env)
		failed bool
	}{
		"retried": {func(t *testing.T, e *env) {
			require.NoError(t, errOf(e.Pop("q").Retry(t.Context(), 0, "", "")))
			e.alone()
			require.NoError(t, e.Pop("q").Complete(t.Context()))
		}, false},
		"released": {func(t *testing.T, e *env) {
			require.NoError(t, e.Pop("q").Release(t.Context(), 0))
			e.alone()
			require.NoError(t, e.Pop("q").Complete(t.Context()))
		}, false},
		"goes on": {func(t *testing.T, e *env) {
			require.NoError(t, e.Pop("q").Next(t.Context(), "q2"))
			e.alone()
			require.NoError(t, e.Pop("q2").Complete(t.Context()))
		}, false},
		"lost": {func(t *testing.T, e *env) {
			e.Set("grace-period", 0)
			e.Pop("q")
			e.Clock.Advance(time.Hour)
			e.alone()
			require.NoError(t, e.Pop("q").Complete(t.Context()))
		}, false},
		"fails": {func(t *testing.T, e *env) {
			require.NoError(t, e.Pop("q").Fail(t.Context(), "g", "m"))
		}, true},
		"out of retries": {func(t *testing.T, e *env) {
			for range 2 {
				require.NoError(t, errOf(e.Pop("q").Retry(t.Context(), 0, "", "")))
			}
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(t *testing.T, e *env) {
				first := e.trigger(1, qless.Retries(1))
				job := e.Pop("q")
				e.trigger(2)
				require.NoError(t, job.Release(t.Context(), 0))
				c.live(t, e)
				second := e.Pop("q")
				require.Equal(t, "2", string(second.Data))
				if c.failed {
					require.Equal(t, first, second.FailedDependencies[0].JID)
				}
			})
		})
	}
}

// alone requires that of the jobs with the key k, one waits for the other.
func (e *env) alone() {
	e.T.Helper()
	require.Equal(e.T, qless.StateDepends, e.Read(must(e.Holder(e.T.Context(), "k"))(e.T)).State)
}

// Only the waiting job can be canceled by itself, and then the other has the key again.
func TestCancelingAJobThatFollowsAnother(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		first := e.trigger(1)
		e.Pop("q")
		second := e.trigger(2)
		requireCode(t, qless.ErrHasDependents, e.Cancel(t.Context(), first))
		require.NoError(t, e.Cancel(t.Context(), second))
		e.holder(first)
		third := e.trigger(3)
		require.Equal(t, []string{first}, e.Read(third).Dependencies)
		require.NoError(t, e.Cancel(t.Context(), first, third))
		e.holder("")
		require.Zero(t, e.Redis.Exists(t.Context(), `ql:x:unique:["k"]`).Val())

		first = e.trigger(4)
		e.Pop("q")
		second = e.trigger(5)
		require.NoError(t, e.Cancel(t.Context(), second, first))
		e.holder("")
	})
}

func TestAHandlerPutsItsOwnFollower(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		e.trigger(1)
		for i := range 3 {
			job := e.Pop("q")
			e.trigger(i)
			require.Empty(t, e.Pops("q", 1))
			require.NoError(t, job.Complete(t.Context()))
		}
	})
}

// A job that holds its key until it has started is replaced, but not followed.
func TestReplaceWithUntilStarted(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		key := again().UntilStarted()
		first := e.Put("q", key)
		require.Equal(t, first, e.Put("q", key))
		e.Pop("q")
		second := e.Put("q", key)
		require.NotEqual(t, first, second)
		require.Equal(t, second, e.Pop("q").JID, "they may overlap")
	})
}

func TestAKeyForSomeTimeIsNotReplaced(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		e.Put("q", qless.JID("j"), qless.Unique("k").For(time.Minute))
		e.held("j", again())
		e.Pop("q")
		e.held("j", again())
		e.Clock.Advance(time.Minute)
		jid := e.trigger(1)
		e.holder(jid)
	})
}

func TestReplacingAmongManyPuts(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		spec := func(data int, options ...qless.PutOption) qless.JobSpec {
			return qless.JobSpec{Klass: "K", Data: data, Options: options}
		}
		key := func(parts ...any) qless.UniqueOption { return qless.Unique(parts...).Replace() }
		waiting := e.Put("q", key("waiting"), qless.Tags{"old"})
		running := e.Put("q2", key("running"))
		e.Pop("q2")
		jids := must(e.Queue("q").PutMany(t.Context(), []qless.JobSpec{
			spec(0, qless.JID("plain")),
			spec(1, key("waiting"), qless.Tags{"one"}),
			spec(2, key("new"), qless.Delay(time.Minute)),
			spec(3, key("running")),
			spec(4, key("waiting"), qless.Tags{"two"}),
			spec(5, key("new"), qless.Tags{"new"}),
			spec(6, key("running"), qless.Delay(time.Minute)),
			spec(7, qless.JID("given"), qless.Unique("given"), qless.Headers{"a": "1"}),
			spec(8, key("given").KeepDue()),
			spec(9, key("new").KeepDue(), qless.Delay(time.Hour)),
		}))(t)
		require.Equal(t, []string{"plain", waiting, jids[2], jids[3], waiting, jids[2], jids[3], "given", "given", jids[2]}, jids)
		for jid, want := range map[string]string{
			waiting: "4 waiting [two] []",
			jids[2]: "9 waiting [] []",
			jids[3]: "6 depends [] [" + running + "]",
			"given": "8 waiting [] []",
		} {
			job := e.Read(jid)
			require.Equal(t, want, fmt.Sprint(string(job.Data), " ", job.State, " ", job.Tags, " ", job.Dependencies))
			require.Equal(t, "put", job.History[len(job.History)-1].What)
		}
		require.Len(t, e.Read("given").History, 1)
		require.Equal(t, 4, e.Counts("q").Waiting)
		require.Equal(t, 1, e.Counts("q").Depends)
		require.Equal(t, int64(6), e.Redis.Exists(t.Context(), "ql:j:plain", "ql:j:given", "ql:j:"+waiting,
			"ql:j:"+running, "ql:j:"+jids[2], "ql:j:"+jids[3]).Val())

		e.Unchanged(func() {
			_, err := e.Queue("q").PutMany(t.Context(), []qless.JobSpec{
				spec(1, qless.JID(waiting)), spec(2, key("waiting")),
			})
			requireCode(t, qless.ErrInvalid, err)
			_, err = e.Queue("q").PutMany(t.Context(), []qless.JobSpec{
				spec(2, key("waiting")), spec(1, qless.JID(waiting)),
			})
			require.Contains(t, requireCode(t, qless.ErrInvalid, err).Message, "is named twice")
		})
	})
}

// A job that another put of the same call depends on is replaced as well.
func TestReplacingAJobOfTheSameCallThatOthersWaitFor(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		jids := must(e.Queue("q").PutMany(t.Context(), []qless.JobSpec{
			{Klass: "K", Options: []qless.PutOption{qless.JID("parent"), qless.Unique("k"), qless.DependsOn{e.Put("x")}}},
			{Klass: "K", Options: []qless.PutOption{qless.JID("child"), qless.DependsOn{"parent"}, qless.OnFailureRun}},
			{Klass: "K", Data: 2, Options: []qless.PutOption{again()}},
		}))(t)
		require.Equal(t, []string{"parent", "child", "parent"}, jids)
		require.Empty(t, e.Pops("q", 5))
		require.NoError(t, e.Pop("x").Complete(t.Context()))
		job := e.Pop("q")
		require.Equal(t, "2", string(job.Data))
		require.NoError(t, job.Fail(t.Context(), "g", "m"))
		require.Equal(t, "child", e.Pop("q").JID)
	})
}

// An existing job that is put again by its jid, and replaced by the same call, keeps its place,
// too.
func TestReplacingAJobOfTheSameCallThatWasThere(t *testing.T) {
	for name, option := range map[string][]qless.PutOption{
		"with its key again": {qless.JID("j"), qless.Unique("k")},
		"without":            {qless.JID("j")},
	} {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(t *testing.T, e *env) {
				e.Put("q", qless.JID("j"), qless.Unique("k"))
				e.Put("q", qless.JID("child"), qless.DependsOn{"j"}, qless.OnFailureRun)
				require.NoError(t, e.Pop("q").Fail(t.Context(), "g", "m"))
				require.NoError(t, e.Pop("q").Complete(t.Context()))
				e.Put("q", qless.JID("second"), qless.DependsOn{"j"}, qless.OnFailureFail)
				require.Equal(t, qless.StateFailed, e.Read("second").State)
				ids := must(e.Queue("q").PutMany(t.Context(), []qless.JobSpec{
					{Klass: "K", Options: option},
					{Klass: "K", Options: []qless.PutOption{qless.JID("third"), qless.DependsOn{"j"}, qless.OnFailureRun}},
					{Klass: "K", Data: 2, Options: []qless.PutOption{again()}},
				}))(t)
				require.Equal(t, []string{"j", "third", "j"}, ids)
				e.holder("j")
				job := e.Pop("q")
				require.Equal(t, "2", string(job.Data))
				require.NoError(t, job.Fail(t.Context(), "g", "m"))
				require.Equal(t, "third", e.Pop("q").JID)
			})
		})
	}
}

func TestOptionsThatDoNotGoWithReplace(t *testing.T) {
	e := newEnv(t)
	for words, options := range map[string][]qless.PutOption{
		"JID and Unique.Replace":                  {again(), qless.JID("j")},
		"DependsOn and Unique.Replace":            {again(), qless.DependsOn{"a"}},
		"OnFailure and Unique.Replace":            {qless.OnFailureWait, again()},
		"IfAbsent and Unique.Replace":             {again(), qless.IfAbsent},
		"IfFinished and Unique.Replace":           {again(), qless.IfFinished},
		"IfNotRunning and Unique.Replace":         {again(), qless.IfNotRunning},
		"Unique.Replace and For":                  {again().For(time.Minute)},
		"Unique.KeepDue needs Replace":            {qless.Unique("k").KeepDue()},
		"Unique.Within needs Replace":             {qless.Unique("k").Within(time.Minute)},
		"Unique.KeepDue and Within":               {again().KeepDue().Within(time.Minute)},
		"Unique.Within needs at least 1ms, not 0": {again().Within(0)},
		"not -1s": {again().Within(-time.Second)},
		"the delay 1m0s is longer than Unique.Within(1s)": {again().Within(time.Second), qless.Delay(time.Minute)},
	} {
		e.Unchanged(func() {
			_, err := e.Queue("q").Put(t.Context(), "K", nil, options...)
			require.Contains(t, requireCode(t, qless.ErrInvalid, err).Message, words)
		})
	}
	e.Put("q", qless.JID("j"))
	err := e.Read("j").Move(t.Context(), "q", again())
	require.Contains(t, requireCode(t, qless.ErrInvalid, err).Message, "Unique.Replace can't be used with Move")

	const o = `u|{"u":{"k":"k"}}`
	for _, more := range [][]any{
		{"o", o, "replace", "all"}, {"o", `h|{"h":{"a":"1"}}`, "replace", "delay"},
		{"o", o, "replace", "delay", "depends", `["a"]`}, {"o", o, "replace", "delay", "if", "absent"},
		{"o", `u|{"u":{"k":"k","m":"for","d":5}}`, "replace", "delay"},
		{"o", o, "replace", "delay", "within", "x"},
	} {
		e.Unchanged(func() {
			_, err := e.Run(t.Context(), "put", "j", append([]any{"w1", "q", "new", "K", "{}", "0"}, more...)...)
			requireCode(t, qless.ErrInvalid, err)
		})
	}
}

// Every put with the key goes to its shard, so that it finds the existing job.
func TestReplacingInShards(t *testing.T) {
	e := newEnv(t)
	queue := e.sharded(shards.ByJID, 3).Queue("q")
	for i := range 10 {
		first := must(queue.Put(t.Context(), "K", nil, qless.Unique("k", i).Replace()))(t)
		jids := must(queue.PutMany(t.Context(), []qless.JobSpec{
			{Klass: "K", Options: []qless.PutOption{qless.Unique("k", i).Replace()}},
		}))(t)
		require.Equal(t, []string{first}, jids)
	}
}

// The puts of many goroutines share scripts, and each gets the jid of its own job.
func TestManyReplaceAtOnce(t *testing.T) {
	e := newEnv(t)
	jids := make(chan string, 100)
	for range cap(jids) {
		go func() {
			jid, err := e.Queue("q").Put(t.Context(), "K", nil, again())
			if err != nil {
				jid = err.Error()
			}
			jids <- jid
		}()
	}
	first := <-jids
	for range cap(jids) - 1 {
		require.Equal(t, first, <-jids)
	}
	require.Equal(t, 1, e.Counts("q").Waiting)
}

// sendAgain repeats a put that replaces a job.
func (e *env) sendAgain(jid string, data int) string {
	e.T.Helper()
	args := []any{"w1", "q", jid, "K", data, "0", "new", "1", "o", `u|{"u":{"k":"[\"k\"]"}}`, "replace", "delay"}
	reply := e.run("put", args...)
	many := e.run("put.many", append([]any{"w1", "new"}, append(args[1:6:6], append([]any{"4"}, args[8:]...)...)...)...)
	found, replaced := reply.([]any)
	if !replaced {
		require.Nil(e.T, many)
		return reply.(string)
	}
	require.Equal(e.T, "replaced", found[1])
	require.Equal(e.T, []any{[]any{int64(0), found[0], "replaced"}}, many)
	return found[0].(string)
}

// A put that is sent again changes nothing, whatever has happened to the job meanwhile.
func TestAPutThatReplacesAndIsSentAgainIsKnown(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		known := func(jid, sent string) {
			t.Helper()
			e.Unchanged(func() { require.Equal(t, jid, e.sendAgain(sent, 0)) })
		}
		require.Equal(t, "a", e.sendAgain("a", 1))
		known("a", "a")
		require.Equal(t, "a", e.sendAgain("b", 2))
		known("a", "b")
		job := e.Pop("q")
		known("a", "a")
		known("a", "b")
		require.Equal(t, "c", e.sendAgain("c", 3))
		known("c", "c")
		require.Equal(t, "c", e.sendAgain("d", 4))
		known("c", "d")
		known("c", "c")
		require.Equal(t, "c", e.sendAgain("b", 5), "another put came between, so that this one counts as later")
		require.NoError(t, job.Complete(t.Context()))
		job = e.Pop("q")
		known("c", "b")
		require.NoError(t, job.Complete(t.Context()))
		known("c", "c")
		require.Equal(t, "b", e.sendAgain("b", 6), "the job that it has changed is no longer known")
	})
}

func TestPutsThatReplaceAreSentAgain(t *testing.T) {
	puts := map[string]func(client *qless.Client) (string, error){
		"put": func(client *qless.Client) (string, error) {
			return client.Queue("q").Put(t.Context(), "K", 2, again(), qless.Delay(time.Hour))
		},
		"put.many": func(client *qless.Client) (string, error) {
			jids, err := client.Queue("q").PutMany(t.Context(), []qless.JobSpec{
				{Klass: "K", Data: 1, Options: []qless.PutOption{again()}},
				{Klass: "K", Data: 2, Options: []qless.PutOption{again(), qless.Delay(time.Hour)}},
			})
			return jids[len(jids)-1], err
		},
	}
	for where, c := range cuts {
		for command, put := range puts {
			for _, state := range []qless.State{"", qless.StateWaiting, qless.StateRunning} {
				t.Run(fmt.Sprint(command, ", ", where, ", ", state), func(t *testing.T) {
					e, proxy, client := proxied(t)
					jid := ""
					if state != "" {
						jid = e.trigger(1)
					}
					if state == qless.StateRunning {
						e.Pop("q")
						jid = ""
					}
					require.NoError(t, e.Redis.ScriptLoad(t.Context(), scripts.Text()).Err())
					c.cut(proxy, scripts.Sent(command))
					found := must(put(client))(t)
					require.Equal(t, 2, seen(proxy, command))
					if jid != "" {
						require.Equal(t, jid, found)
						require.Equal(t, []string{"put", "put"}, whats(e.Read(found).History))
					} else {
						require.Equal(t, []string{"put"}, whats(e.Read(found).History))
					}
					require.Equal(t, "2", string(e.Read(found).Data))
					e.holder(found)
					counts := e.Counts("q")
					require.Equal(t, 1, counts.Scheduled+counts.Depends+counts.Waiting)
				})
			}
		}
	}
}

// replacing is a model of a queue whose jobs all have the key k.
type replacing struct {
	running, waiting string // jids
	wanted           int    // the number of the last put
	data             map[string]int
}

// In any sequence of puts, runs and failures of jobs with one key, at most one runs and one waits,
// and the last put leads to a run.
func TestJobsThatReplaceOneAnotherAgreeWithAModel(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		seed := time.Now().UnixNano()
		t.Log("seed", seed)
		dice := rand.New(rand.NewPCG(uint64(seed), 0))
		m := replacing{data: map[string]int{}}
		var job *qless.Job
		for range 400 {
			switch dice.IntN(6) {
			case 0, 1:
				m.put(t, e, dice)
			case 2:
				e.Clock.Advance(time.Duration(dice.IntN(8)) * time.Second)
			case 3, 4:
				if job == nil {
					job = m.pop(t, e)
				}
			case 5:
				if job != nil {
					m.end(t, job, dice.IntN(4))
					job = nil
				}
			}
			m.check(t, e)
		}
	})
}

func (m *replacing) put(t *testing.T, e *env, dice *rand.Rand) {
	m.wanted++
	key := again()
	switch dice.IntN(3) {
	case 0:
		key = key.KeepDue()
	case 1:
		key = key.Within(10 * time.Second)
	}
	jid := e.trigger(m.wanted, key, qless.Retries(dice.IntN(3)), qless.Delay(time.Duration(dice.IntN(6))*time.Second))
	if m.waiting != "" {
		require.Equal(t, m.waiting, jid)
	} else {
		require.NotContains(t, m.data, jid)
	}
	m.waiting, m.data[jid] = jid, m.wanted
}

func (m *replacing) pop(t *testing.T, e *env) *qless.Job {
	jobs := e.Pops("q", 5)
	require.LessOrEqual(t, len(jobs), 1)
	if len(jobs) == 0 {
		return nil
	}
	job := jobs[0]
	require.Equal(t, fmt.Sprint(m.data[job.JID]), string(job.Data))
	if m.running == "" { // otherwise it is retried, and the other one follows it
		m.running, m.waiting = m.waiting, ""
	}
	require.Equal(t, m.running, job.JID)
	return job
}

func (m *replacing) end(t *testing.T, job *qless.Job, how int) {
	ctx, remaining := t.Context(), -1
	switch how {
	case 0:
		require.NoError(t, job.Complete(ctx))
	case 1:
		require.NoError(t, job.Fail(ctx, "g", "m"))
	case 2:
		remaining = must(job.Retry(ctx, 0, "", ""))(t)
	case 3:
		require.NoError(t, job.Release(ctx, 0))
		remaining = 0
	}
	switch {
	case remaining < 0:
		m.running = ""
	case m.waiting == "": // it waits again, and can be replaced
		m.running, m.waiting = "", job.JID
	}
}

func (m *replacing) check(t *testing.T, e *env) {
	waiting := m.waiting
	if waiting == "" {
		waiting = m.running
	}
	e.holder(waiting)
	if m.waiting != "" {
		require.Equal(t, fmt.Sprint(m.wanted), string(e.Read(m.waiting).Data))
	}
	counts := e.Counts("q")
	unfinished := 0
	for _, jid := range []string{m.running, m.waiting} {
		if jid != "" {
			unfinished++
		}
	}
	require.Equal(t, unfinished, counts.Waiting+counts.Running+counts.Scheduled+counts.Depends)
}

// A put that replaces a job reads it, with its dependencies, and removes it from its queue. A put
// that follows a running job reads that job, links both, marks the running one, and notes which one
// it follows.
func TestCommandsThatReplacingCosts(t *testing.T) {
	e := newEnv(t)
	put := func(jid string, options ...any) int {
		return len(e.Server.Commands(t, func() {
			e.run("put", append([]any{"w1", "q", jid, "K", "{}", "0", "new", "1"}, options...)...)
		}))
	}
	trigger := func(jid string) int { return put(jid, "o", `u|{"u":{"k":"k"}}`, "replace", "delay") }
	put("first") // the queue is new
	plain := put("a")
	require.Equal(t, plain+3, trigger("b"), "no job holds the key")
	require.Equal(t, plain+10, trigger("c"), "a waiting job does")
	e.Pops("q", 3)
	require.Equal(t, plain+13, trigger("d"), "a running job does")
}

// The score of a job with a turn contains no time.
func TestAJobThatTakesItsTurnIsReplacedWhereItIs(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		jid := e.Put("q", qless.Unique("k"), qless.Fair("x"))
		e.Put("q", qless.JID("y"), qless.Fair("y"))
		place := e.Redis.ZScore(t.Context(), "ql:q:q-work", jid).Val()
		e.Clock.Advance(time.Minute)
		require.Equal(t, jid, e.Put("q", again().KeepDue(), qless.Fair("x")))
		require.Equal(t, qless.StateWaiting, e.Read(jid).State)
		require.Equal(t, place, e.Redis.ZScore(t.Context(), "ql:q:q-work", jid).Val())
		require.Len(t, e.Pops("q", 2), 2)
	})
	onEach(t, func(t *testing.T, e *env) {
		jid := e.Put("q", qless.Unique("k"), qless.Fair("x"))
		e.Clock.Advance(time.Minute)
		e.Put("q")
		require.Equal(t, jid, e.Put("q", again().KeepDue()))
		require.Equal(t, jid, e.Pop("q").JID, "it was put first")
	})
}

// However a following job ends, the job it follows has the key again, and no other run overlaps.
func TestTheKeyOfAFollowerThatEnds(t *testing.T) {
	end := func(how repairs.Ending) func(t *testing.T, e *env, jid string) {
		return func(t *testing.T, e *env, jid string) {
			require.NoError(t, errOf(repairs.End(t.Context(), e.Client, jid, how)))
		}
	}
	over := func(_ *testing.T, e *env, _ string) { e.Clock.Advance(11 * time.Second) }
	expire := func(t *testing.T, e *env, jid string) {
		over(t, e, jid)
		require.NoError(t, errOf(e.Sweep(t.Context())))
	}
	gone := func(t *testing.T, e *env, jid string) { // canceled as by other clients' scripts
		other := e.Read(jid).Dependencies[0]
		for _, command := range [][]any{
			{"del", "ql:j:" + jid, "ql:j:" + jid + "-history", "ql:j:" + jid + "-dependencies"},
			{"srem", "ql:j:" + other + "-dependents", jid}, {"zrem", "ql:q:q-depends", jid},
		} {
			require.NoError(t, e.Redis.Do(t.Context(), command...).Err())
		}
	}
	for name, c := range map[string]struct {
		end     func(t *testing.T, e *env, jid string)
		options []qless.PutOption
	}{
		"canceled": {func(t *testing.T, e *env, jid string) { require.NoError(t, e.Cancel(t.Context(), jid)) }, nil},
		"bulk": {func(t *testing.T, e *env, jid string) {
			require.NoError(t, errOf(e.inspect().JIDs(jid).Cancel(t.Context())))
		}, nil},
		"withdrawn": {func(t *testing.T, e *env, jid string) {
			require.NoError(t, lease.New(e.Client).Withdraw(t.Context(), jid))
		}, nil},
		"complete": {end(repairs.Ending{}), nil},
		"failed":   {end(repairs.Ending{State: qless.StateFailed, Group: "g"}), nil},
		"TTL":      {over, []qless.PutOption{qless.TTL(10 * time.Second)}},
		"StartBy":  {over, []qless.PutOption{qless.StartBy(10 * time.Second)}},
		"swept":    {expire, []qless.PutOption{qless.TTL(10 * time.Second)}},
		"depended on": {func(t *testing.T, e *env, jid string) {
			e.Put("q", qless.JID("child"), qless.DependsOn{jid})
			expire(t, e, jid)
		}, []qless.PutOption{qless.StartBy(10 * time.Second)}},
		"another key": {func(_ *testing.T, e *env, jid string) {
			e.Put("q", qless.JID(jid), qless.Unique("other"), qless.Delay(time.Hour))
		}, nil},
		"put again": {func(t *testing.T, e *env, jid string) {
			e.Put("q", qless.JID(jid), qless.Unique("k"))
			require.NoError(t, e.Cancel(t.Context(), jid))
		}, nil},
		"gone": {gone, nil},
	} {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(t *testing.T, e *env) {
				first := e.trigger(1, qless.LockTime(time.Hour))
				running := e.Pop("q")
				second := e.trigger(2, c.options...)
				require.NotEqual(t, first, second)
				c.end(t, e, second)

				e.holder(first)
				e.held(first, qless.Unique("k"))
				third := e.trigger(3)
				require.NotContains(t, []string{first, second}, third)
				require.Empty(t, e.Pops("q", 5), "they don't overlap")
				require.NoError(t, running.Complete(t.Context()))
				require.Equal(t, third, e.Pop("q").JID)
			})
		})
	}
}
