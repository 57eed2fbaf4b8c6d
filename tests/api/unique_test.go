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

// dropKey deletes the claim on the key k.
func (e *env) dropKey() {
	e.T.Helper()
	require.NoError(e.T, e.Redis.Del(e.T.Context(), `ql:x:unique:["k"]`).Err())
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
		t.Run(what, func(t *testing.T) {
			onEach(t, func(t *testing.T, e *env) {
				e.Put("q", qless.JID("j"), qless.Unique("k"))
				if what == "list" {
					e.dropKey()
				}
				require.NoError(t, e.Redis.Do(t.Context(), left...).Err())
				e.holder("")
				e.Put("q", qless.JID("new"), qless.Unique("k"))
				e.holder("new")
			})
		})
	}
}

func TestAnotherClientsJobGivesUpItsUniqueKey(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		e.Put("q", qless.JID("j"), qless.Unique("k"))
		run := func(args ...any) {
			args = append([]any{args[0], scripts.Time(e.Clock.Now())}, args[1:]...)
			require.NoError(t, errOf(scripts.RunDropIn(t.Context(), e.Redis, args...)))
		}
		run("pop", "q", "w2", "1")
		e.held("j", qless.Unique("k"))
		run("complete", "j", "w2", "q", "{}")
		e.holder("")
		require.Zero(t, e.Redis.Exists(t.Context(), `ql:x:unique:["k"]`).Val())
	})
}

// Of failed jobs that had the same key one after another, the oldest failure gets it back, however
// many are unfailed in one call.
func TestTheOldestOfManyUnfailedJobsClaimsTheUniqueKey(t *testing.T) {
	for what, again := range map[string]func(e *env) error{
		"of a group": func(e *env) error {
			return errOf(repairs.Unfail(e.T.Context(), e.Client, "g", 3))
		},
		"into a queue": func(e *env) error {
			return errOf(repairs.UnfailInto(e.T.Context(), e.Client, "q", "g", 3))
		},
		"named, oldest first": func(e *env) error { return errOf(e.inspect().JIDs("z", "m", "a").Unfail(e.T.Context())) },
	} {
		t.Run(what, func(t *testing.T) {
			onEach(t, func(t *testing.T, e *env) {
				for _, jid := range []string{"z", "m", "a"} {
					e.fail("q", "g", qless.JID(jid), qless.Unique("k"))
					e.Clock.Advance(time.Second)
				}
				require.NoError(t, again(e))
				e.holder("z")
				e.held("z", qless.Unique("k"))
			})
		})
	}
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

		_, err = e.Queue("q").PutMany(t.Context(), []qless.JobSpec{
			spec(qless.Unique("b")),
		})
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

func TestOfManyPutsAtOnceOneClaimsTheUniqueKey(t *testing.T) {
	e := newEnv(t)
	alone := e.NewClient(e.Redis, qless.ClientConfig{Unbatched: true})
	for i, client := range []*qless.Client{e.Client, alone} {
		var all sync.WaitGroup
		var put atomic.Int32
		for range 50 {
			all.Go(func() {
				_, err := client.Queue("q").Put(t.Context(), "K", nil, qless.Unique("k", i))
				if err == nil {
					put.Add(1)
				} else if !errors.Is(err, qless.ErrExists) {
					t.Error(err)
				}
			})
		}
		all.Wait()
		require.EqualValues(t, 1, put.Load())
	}
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
		jids, err := queue.PutMany(t.Context(), []qless.JobSpec{
			spec(qless.Unique("k", i)),
		})
		requireCode(t, qless.ErrExists, err)
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
		e.Put("q", qless.JID("j"), qless.Unique("k"))
		require.NoError(e.T, e.Pop("q").Complete(e.T.Context()))
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
		e.Put("q", qless.JID("old"), qless.Unique("k"))
		require.NoError(t, e.Pop("q").Complete(t.Context()))
		e.Put("q", qless.JID("j"), qless.Unique("k").UntilStarted())
		e.Pop("q")
		_, err := e.Queue("q").PutMany(t.Context(), []qless.JobSpec{
			spec(qless.JID("j")),
			spec(qless.JID("old")),
		})
		require.NoError(t, err)
		e.holder("j")
	})
}
