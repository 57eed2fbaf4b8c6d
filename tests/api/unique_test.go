package api

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/shards"
	"github.com/qless/qless-go/tests/scripts"
)

// held requires that a put with the key is refused because a job holds it, and writes nothing but
// a note that a scheduled one does.
func (e *env) held(jid string, unique qless.UniqueOption) {
	e.T.Helper()
	e.Unchanged(func() {
		found, err := e.Queue("others").Put(e.T.Context(), "K", nil, unique, qless.Tags{"t"})
		own := requireCode(e.T, qless.ErrExists, err)
		require.Equal(e.T, jid, found)
		require.Equal(e.T, jid, own.JID)
		require.Contains(e.T, own.Message, "holds the unique key")
		require.NoError(e.T, e.Redis.Del(e.T.Context(), "ql:x:refused").Err())
	})
}

// holder requires that a job, or none if jid is empty, holds the key k.
func (e *env) holder(jid string) {
	e.T.Helper()
	require.Equal(e.T, jid, must(e.Holder(e.T.Context(), "k"))(e.T))
}

// Leftovers of another script hold no key.
func TestUniqueKeyOfAJobThatStockScriptsEndedIsFree(t *testing.T) {
	for what, left := range map[string][]any{
		"complete": {"hset", "ql:j:j", "state", "complete"},
		"failed":   {"hset", "ql:j:j", "state", "failed"},
		"canceled": {"del", "ql:j:j"},
		"another":  {"hset", "ql:j:j", "x:o", `u|{"u":{"k":"other"}}`},
		"damaged":  {"hset", "ql:j:j", "x:o", `u|{"u":`},
		"text":     {"set", `ql:x:unique:["k"]`, "nonsense"},
		"list":     {"lpush", `ql:x:unique:["k"]`, "nonsense"},
	} {
		runOnEach(t, what, func(t *testing.T, e *env) {
			e.Put("q", qless.JID("j"), qless.Unique("k"))
			if what == "list" {
				require.NoError(t, e.Redis.Del(t.Context(), `ql:x:unique:["k"]`).Err())
			}
			require.NoError(t, e.Redis.Do(t.Context(), left...).Err())
			e.holder("")
			e.Put("q", qless.JID("new"), qless.Unique("k"))
			e.holder("new")
		})
	}
}

// Of failed jobs that had the same key one after another, the oldest failure gets it back. The
// model has the ways to unfail a group.
func TestTheFirstOfManyUnfailedJobsClaimsTheUniqueKey(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		for _, jid := range []string{"z", "m", "a"} {
			e.fail("q", "g", qless.JID(jid), qless.Unique("k"))
			e.Clock.Advance(time.Second)
		}
		require.NoError(t, errOf(e.inspect().JIDs("z", "m", "a").Unfail(e.T.Context())))
		e.holder("z")
		e.held("z", qless.Unique("k"))
	})
}

func TestUniqueKeysAmongManyPuts(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		e.Put("q", qless.JID("there"), qless.Unique("a"))
		jids, err := e.Queue("q").PutMany(t.Context(), []qless.JobSpec{
			spec(qless.Unique("a")),
			spec(qless.JID("b1"), qless.Unique("b"), qless.Delay(time.Minute)),
			spec(qless.Unique("b")),
			spec(qless.JID("plain")),
		})
		own := requireCode(t, qless.ErrExists, err)
		require.Equal(t, []int{0, 2}, own.Indices)
		require.Equal(t, []string{"there", "b1", "b1", "plain"}, jids)

		_, err = e.Queue("q").PutMany(t.Context(), []qless.JobSpec{spec(qless.Unique("b"))})
		require.Contains(t, err.Error(), "jobs[0]: the job holds the unique key and is scheduled")
		require.Equal(t, 2, e.Counts("q").Waiting)
	})
}

func TestWithoutPartsTheKlassAndTheDataAreUnique(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		put := func(klass string, data any) error {
			return errOf(e.Queue("q").Put(t.Context(), klass, data, qless.Unique()))
		}
		require.NoError(t, put("A", map[string]int{"b": 1, "a": 2}))
		requireCode(t, qless.ErrExists, put("A", map[string]int{"a": 2, "b": 1}))
		require.NoError(t, put("B", map[string]int{"a": 2, "b": 1}))
		require.NoError(t, put("A", nil))
		requireCode(t, qless.ErrExists, put("A", nil))
	})
}

func TestAUniqueKeyHoldsInAllShards(t *testing.T) {
	e := newEnv(t)
	sharded := e.sharded(shards.ByJID, 3)
	queue := sharded.Queue("q")
	for i := range 20 {
		jid := must(queue.Put(t.Context(), "K", nil, qless.Unique("k", i)))(t)
		found, err := queue.Put(t.Context(), "K", nil, qless.Unique("k", i), qless.JID(fmt.Sprint("j", i)))
		requireCode(t, qless.ErrExists, err)
		require.Equal(t, jid, found)
		jids, err := queue.PutMany(t.Context(), []qless.JobSpec{spec(qless.Unique("k", i))})
		requireCode(t, qless.ErrExists, err)
		require.Equal(t, []string{jid}, jids)
		jids = must(queue.PutMany(t.Context(), []qless.JobSpec{spec(qless.Unique("k", i).Replace())}))(t)
		require.Equal(t, []string{jid}, jids)
		require.Equal(t, jid, must(sharded.Holder(t.Context(), "k", i))(t))
	}
	require.Empty(t, must(sharded.Holder(t.Context(), "free"))(t))
}

// A job that is put again without the option gets its key back, just as if the jobs of the call had
// been put one by one.
func TestAJobOfTheSameCallMayGetItsKeyBack(t *testing.T) {
	again := spec(qless.JID("j"))
	other := spec(qless.JID("n"), qless.Unique("k"))
	complete := func(e *env) {
		require.NoError(e.T, e.start("q", qless.JID("j"), qless.Unique("k")).Complete(e.T.Context()))
	}
	onEach(t, func(t *testing.T, e *env) {
		complete(e)
		jids, err := e.Queue("q").PutMany(t.Context(), []qless.JobSpec{again, other})
		require.Equal(t, []int{1}, requireCode(t, qless.ErrExists, err).Indices)
		require.Equal(t, []string{"j", "j"}, jids)
		e.holder("j")
	})
	onEach(t, func(t *testing.T, e *env) {
		complete(e)
		e.puts("q", other, again)
		e.holder("n")
		require.NoError(t, e.Cancel(t.Context(), "n"))
		e.holder("")
	})
}

func TestRunningJobPutAgainGetsItsKeyBeforeLaterPuts(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		require.NoError(t, e.start("q", qless.JID("old"), qless.Unique("k")).Complete(t.Context()))
		e.start("q", qless.JID("j"), qless.Unique("k").UntilStarted())
		_, err := e.Queue("q").PutMany(t.Context(), []qless.JobSpec{
			spec(qless.JID("j")),
			spec(qless.JID("old")),
		})
		require.NoError(t, err)
		e.holder("j")
	})
}

// again returns the option for puts that replace the holder of the key k.
func again() qless.UniqueOption { return qless.Unique("k").Replace() }

// trigger puts a job with data that replaces the holder of the key k.
func (e *env) trigger(data any, options ...qless.PutOption) string {
	e.T.Helper()
	jid := must(e.Queue("q").Put(e.T.Context(), "K", data, append([]qless.PutOption{again()}, options...)...))(e.T)
	return jid
}

// The model has all other ways in which a job with a key waits.
func TestKeepDueWithoutADelayKeepsThePlaceInTheQueue(t *testing.T) {
	for name, key := range map[string]qless.UniqueOption{
		"parked": again().KeepDue(), "after Within": again().Within(500 * time.Millisecond),
	} {
		runOnEach(t, name, func(t *testing.T, e *env) {
			e.Put("q", qless.JID("a"))
			e.Clock.Advance(time.Second)
			e.Put("j", qless.JID("j"), qless.Unique("k"))
			e.Clock.Advance(time.Second)
			if name == "parked" {
				require.NoError(t, e.Limit("api").Hold(t.Context(), time.Hour))
				e.Put("j", again().KeepDue(), qless.Limits{"api"})
				require.Empty(t, e.Pops("j", 1))
				require.Equal(t, "api", e.Read("j").Parked)
			}
			e.Put("q", qless.JID("b"))
			e.Clock.Advance(time.Second)
			require.Equal(t, "j", e.Put("q", key))
			require.Equal(t, []string{"a", "j", "b"}, jids(e.Pops("q", 5)))
		})
	}
}

// The model has jobs that are replaced among many puts.
func TestAReplacedJobIsNamedTwiceByAPutMany(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		waiting := e.Put("q", again())
		by, replacing := spec(qless.JID(waiting)), spec(again())
		e.Unchanged(func() {
			requireCode(t, qless.ErrInvalid, errOf(e.Queue("q").PutMany(t.Context(), []qless.JobSpec{by, replacing})))
			_, err := e.Queue("q").PutMany(t.Context(), []qless.JobSpec{replacing, by})
			require.Contains(t, requireCode(t, qless.ErrInvalid, err).Message, "is named twice")
		})
		again := e.puts("q", replacing, replacing, spec(again().KeepDue()))
		require.Equal(t, []string{waiting, waiting, waiting}, again)
	})
}

// A job that another put of the same call depends on is replaced as well.
func TestReplacingAJobOfTheSameCallThatOthersWaitFor(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		jids := e.puts("q",
			spec(qless.JID("parent"), qless.Unique("k"), qless.DependsOn{e.Put("x")}),
			spec(qless.JID("child"), qless.DependsOn{"parent"}, qless.OnFailureRun),
			qless.JobSpec{Klass: "K", Data: 2, Options: []qless.PutOption{again()}},
		)
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
		runOnEach(t, name, func(t *testing.T, e *env) {
			e.Put("q", qless.JID("j"), qless.Unique("k"))
			e.Put("q", qless.JID("child"), qless.DependsOn{"j"}, qless.OnFailureRun)
			require.NoError(t, e.Pop("q").Fail(t.Context(), "g", "m"))
			require.NoError(t, e.Pop("q").Complete(t.Context()))
			e.Put("q", qless.JID("second"), qless.DependsOn{"j"}, qless.OnFailureFail)
			require.Equal(t, qless.StateFailed, e.Read("second").State)
			ids := e.puts("q",
				qless.JobSpec{Klass: "K", Options: option},
				spec(qless.JID("third"), qless.DependsOn{"j"}, qless.OnFailureRun),
				qless.JobSpec{Klass: "K", Data: 2, Options: []qless.PutOption{again()}},
			)
			require.Equal(t, []string{"j", "third", "j"}, ids)
			e.holder("j")
			job := e.Pop("q")
			require.Equal(t, "2", string(job.Data))
			require.NoError(t, job.Fail(t.Context(), "g", "m"))
			require.Equal(t, "third", e.Pop("q").JID)
		})
	}
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

// A put that replaces a job reads it, with its dependencies, and removes it from its queue. A put
// that follows a running job reads that job, links both, marks the running one, and notes which one
// it follows.
func TestCommandsThatReplacingCosts(t *testing.T) {
	e := newEnv(t)
	put := func(jid string, options ...any) int {
		return e.cost(func() {
			e.run("put", append([]any{"w1", "q", jid, "K", "{}", "0", "new", "1"}, options...)...)
		})
	}
	trigger := func(jid string) int { return put(jid, "o", `u|{"u":{"k":"k"}}`, "replace", "delay") }
	put("first") // the queue is new
	plain := put("a")
	require.Equal(t, plain+3, trigger("b"), "no job holds the key")
	require.Equal(t, plain+10, trigger("c"), "a waiting job does")
	e.Pops("q", 3)
	require.Equal(t, plain+13, trigger("d"), "a running job does")
}

// The job that it follows has the key again, and no other run overlaps. The model has the other
// ends.
func TestTheKeyOfAFollowerThatAnotherScriptCancels(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		first := e.trigger(1, qless.LockTime(time.Hour))
		running := e.Pop("q")
		second := e.trigger(2)
		require.NotEqual(t, first, second)
		for _, command := range [][]any{
			{"del", "ql:j:" + second, "ql:j:" + second + "-history", "ql:j:" + second + "-dependencies"},
			{"srem", "ql:j:" + first + "-dependents", second}, {"zrem", "ql:q:q-depends", second},
		} {
			require.NoError(t, e.Redis.Do(t.Context(), command...).Err())
		}
		e.held(first, qless.Unique("k"))
		third := e.trigger(3)
		require.NotContains(t, []string{first, second}, third)
		require.Empty(t, e.Pops("q", 5), "they don't overlap")
		require.NoError(t, running.Complete(t.Context()))
		last := e.Pop("q")
		require.Equal(t, third, last.JID)
		require.NoError(t, last.Complete(t.Context()))
		e.holder("")
	})
}
