package workqueue_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go/compat/workqueue"
	"github.com/qless/qless-go/internal/testkit"
)

func TestKeysAndTypesFromAddToComplete(t *testing.T) {
	e := newEnv(t)
	e.add("a", "b")
	require.Equal(t, map[string]any{
		"P:queue":  []string{"b", "a"},
		"P:item:a": "data of a",
		"P:item:b": "data of b",
	}, e.dump())
	require.Equal(t, int64(-1), e.cli("TTL P:item:a"), "data never expires")

	a := e.taken("a")
	require.Equal(t, map[string]any{
		"P:queue":      []string{"b"},
		"P:processing": []string{"a"},
		"P:item:a":     "data of a",
		"P:item:b":     "data of b",
		"P:lease:a":    e.cli("GET P:lease:a"),
	}, e.dump())

	require.True(t, must(e.Complete(t.Context(), e.rdb, a))(t))
	require.Equal(t, map[string]any{
		"P:queue":  []string{"b"},
		"P:item:b": "data of b",
	}, e.dump())

	e.taken("b")
	require.True(t, e.complete("b"))
	require.Empty(t, e.dump(), "no key is left")
}

func TestAddOfAKnownIDIsFalseAndKeepsTheData(t *testing.T) {
	e := newEnv(t)
	e.add("a")
	for range 2 { // once in the queue, once leased
		before := e.dump()
		added, err := e.AddItem(t.Context(), e.rdb, workqueue.Item{ID: "a", Data: []byte("other")})
		require.NoError(t, err)
		require.False(t, added)
		require.Equal(t, before, e.dump())
		e.take()
	}
	require.True(t, e.complete("a"))
	e.add("a") // new again
}

func TestAddUniqueOverwritesAndQueuesAgain(t *testing.T) {
	e := newEnv(t)
	e.add("a")
	require.NoError(t, e.AddUniqueItem(t.Context(), e.rdb, workqueue.Item{ID: "a", Data: []byte("other")}))
	require.Equal(t, map[string]any{"P:queue": []string{"a", "a"}, "P:item:a": "other"}, e.dump())

	require.Equal(t, "other", string(e.take().Data))
	require.True(t, e.complete("a"))
	require.False(t, e.complete("a"))
	require.Nil(t, e.take(), "the other id has no data")
	e.light()
	require.Empty(t, e.dump())
}

func TestAddUniqueIsOneTransaction(t *testing.T) {
	e := newEnv(t)
	var names []string
	for _, command := range e.server.Monitored(t, func() {
		require.NoError(t, e.AddUniqueItem(t.Context(), e.rdb, item("a")))
	}) {
		if name := command.Words[0]; name != "hello" && name != "client" { // the handshake
			names = append(names, name)
		}
	}
	require.Equal(t, []string{"multi", "set", "lpush", "exec"}, names, "data first")
}

func TestAddIntoPipelines(t *testing.T) {
	for name, pipeline := range map[string]func(*redis.Client) redis.Pipeliner{
		"pipeline":    (*redis.Client).Pipeline,
		"transaction": (*redis.Client).TxPipeline,
	} {
		t.Run(name, func(t *testing.T) {
			e := newEnv(t) // has no script yet
			pipe := pipeline(e.rdb)
			first := e.AddItemToPipeline(t.Context(), pipe, item("a"))
			second := e.AddItemToPipeline(t.Context(), pipe, item("a"))
			e.AddUniqueItemToPipeline(t.Context(), pipe, item("b"))
			must(pipe.Exec(t.Context()))(t)
			require.True(t, first.Val())
			require.False(t, second.Val())
			require.Equal(t, map[string]any{
				"P:queue":  []string{"b", "a"},
				"P:item:a": "data of a",
				"P:item:b": "data of b",
			}, e.dump())
		})
	}
}

func TestOfConcurrentAddsOfOneIDOneIsTrue(t *testing.T) {
	e := newEnv(t)
	for round := range 20 {
		var added atomic.Int32
		var adders sync.WaitGroup
		for range 8 {
			adders.Go(func() {
				ok, err := e.AddItem(t.Context(), e.rdb, item(fmt.Sprint(round)))
				if err == nil && ok {
					added.Add(1)
				}
			})
		}
		adders.Wait()
		require.Equal(t, int32(1), added.Load())
	}
	require.Len(t, e.list("P:queue"), 20)
}

func TestAnyBytesAndAnyIDs(t *testing.T) {
	e := newEnv(t)
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	for _, id := range []string{"", " ", "a b", "a:b", "ünïcödé 🦀", "*?[]\\", "{x}", "0", "\x00\xff", string(every), "line\r\nbreak"} {
		for _, data := range [][]byte{{}, every, []byte("1.0"), []byte(strings.Repeat("x", 1<<20))} {
			added := must(e.AddItem(t.Context(), e.rdb, workqueue.Item{ID: id, Data: data}))(t)
			require.True(t, added)
			require.Equal(t, workqueue.Item{ID: id, Data: data}, e.take().Plain())
			e.endLease(id)
			require.Equal(t, []string{id}, e.light().Reset)
			require.Equal(t, workqueue.Item{ID: id, Data: data}, e.take().Plain())
			e.endLease(id)
			require.NoError(t, e.rdb.Del(t.Context(), "P:processing").Err())
			require.Equal(t, []string{id}, e.deep().Reset)
			require.Equal(t, workqueue.Item{ID: id, Data: data}, e.take().Plain())
			require.True(t, e.complete(id))
			require.Empty(t, e.dump())
		}
	}
}

func TestCounts(t *testing.T) {
	e := newEnv(t)
	e.add("a", "b", "c")
	e.take()
	counts := workqueue.Counts{Processing: 1, Queued: 2}
	require.Equal(t, counts, must(e.Counts(t.Context(), e.rdb))(t))
	require.Equal(t, counts.Queued, must(e.QueueLen(t.Context(), e.rdb))(t))
	require.Equal(t, counts.Processing, must(e.Processing(t.Context(), e.rdb))(t))
}

// An item moved back and forth is always in one of the lists.
func TestCountsAreOfOneMoment(t *testing.T) {
	e := newEnv(t)
	e.add("a")
	ctx, stop := context.WithCancel(t.Context())
	var mover sync.WaitGroup
	mover.Go(func() {
		for ctx.Err() == nil {
			if leased, _ := e.Lease(ctx, e.rdb, false, 0, lease); leased != nil {
				_, _ = e.Release(ctx, e.rdb, leased)
			}
		}
	})
	for range 1000 {
		counts := must(e.Counts(t.Context(), e.rdb))(t)
		require.Equal(t, int64(1), counts.Queued+counts.Processing)
	}
	stop()
	mover.Wait()
}

func TestTypedItems(t *testing.T) {
	type thumbnail struct {
		Of    string `json:"of"`
		Width int    `json:"width"`
	}
	made := must(workqueue.NewItemJSON(thumbnail{"cat", 80}))(t)
	require.Regexp(t, "^[0-9a-f]{32}$", made.ID)
	require.JSONEq(t, `{"of":"cat","width":80}`, string(made.Data))
	require.Equal(t, thumbnail{"cat", 80}, must(workqueue.ItemJSON[thumbnail](&made))(t))

	require.ErrorIs(t, errOf(workqueue.ItemJSON[int](&made)), workqueue.ErrInvalid)
	require.ErrorIs(t, errOf(workqueue.NewItemJSON(make(chan int))), workqueue.ErrInvalid)
	require.NotEqual(t, workqueue.NewItem(nil).ID, workqueue.NewItem(nil).ID)
}

func TestScriptsAreFoundAgainAfterAFlush(t *testing.T) {
	e := newEnv(t)
	for _, id := range []string{"a", "b"} {
		e.add(id)
		leased := e.taken(id)
		must(e.Renew(t.Context(), e.rdb, leased, lease))(t)
		e.light()
		e.deep()
		must(e.Release(t.Context(), e.rdb, leased))(t)
		e.taken(id)
		require.True(t, e.complete(id))
		e.cli("SCRIPT FLUSH")
	}
}

// Commands that are not repeatable are sent once, even if the connection breaks before the reply.
func TestALostAnswerIsNotAskedForAgain(t *testing.T) {
	for name, act := range map[string]func(e *env, db *redis.Client) error{
		"add": func(e *env, db *redis.Client) error {
			return errOf(e.AddItem(e.t.Context(), db, item("new")))
		},
		"add unique": func(e *env, db *redis.Client) error {
			return e.AddUniqueItem(e.t.Context(), db, item("new"))
		},
		"complete": func(e *env, db *redis.Client) error {
			return errOf(e.Complete(e.t.Context(), db, &workqueue.Item{ID: "a"}))
		},
		"lease": func(e *env, db *redis.Client) error {
			return errOf(e.Lease(e.t.Context(), db, true, 0, lease))
		},
		"release": func(e *env, db *redis.Client) error {
			return errOf(e.Release(e.t.Context(), db, &workqueue.Item{ID: "a"}))
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEnv(t)
			e.add("a", "b", "c")
			e.taken("a")
			require.False(t, e.complete("x")) // loads the last script
			e.release(e.Queue, &workqueue.Item{ID: "x"})
			proxy := testkit.NewProxy(t, e.server.Addr())
			client := redis.NewClient(&redis.Options{Addr: proxy.Addr()})
			defer client.Close()
			require.NoError(t, client.Ping(t.Context()).Err())

			proxy.CutBeforeReply("P:")
			require.ErrorIs(t, act(e, client), workqueue.ErrUnavailable)
			require.Equal(t, 1, proxy.Seen("P:"), "requests")
		})
	}
}

func TestErrorsDescribeTheProblem(t *testing.T) {
	e := newEnv(t)
	e.cli("SET P:queue text")
	_, err := e.AddItem(t.Context(), e.rdb, item("a"))
	require.ErrorIs(t, err, workqueue.ErrServer)
	var own *workqueue.Error
	require.ErrorAs(t, err, &own)
	require.Equal(t, "add", own.Op)
	require.Equal(t, "a", own.ID)
	require.ErrorContains(t, err, "workqueue: add a: ")
	require.Equal(t, map[string]any{"P:queue": "text"}, e.dump(), "no orphan is left")

	require.ErrorIs(t, errOf(e.QueueLen(t.Context(), e.rdb)), workqueue.ErrServer)
	require.ErrorIs(t, errOf(e.Lease(t.Context(), e.rdb, false, 0, lease)), workqueue.ErrServer)

	e.server.Kill()
	_, err = e.LightClean(t.Context(), e.rdb)
	require.ErrorIs(t, err, workqueue.ErrUnavailable)
	require.NotErrorIs(t, err, workqueue.ErrServer)

	for _, d := range []time.Duration{0, -1, 1 << 62} {
		require.ErrorIs(t, errOf(e.Lease(t.Context(), e.rdb, false, 0, d)), workqueue.ErrInvalid)
		err = errOf(e.Renew(t.Context(), e.rdb, &workqueue.Item{}, d))
		require.ErrorIs(t, err, workqueue.ErrInvalid)
	}
	require.ErrorIs(t, errOf(e.Lease(t.Context(), e.rdb, true, -1, lease)), workqueue.ErrInvalid)
}

// In a cluster, a queue with a part of its prefix in braces is in one slot.
func TestInACluster(t *testing.T) {
	server := testkit.Start(t, "--cluster-enabled", "yes")
	one := server.Client(t)
	slots := []any{"CLUSTER", "ADDSLOTS"}
	for slot := range 16384 {
		slots = append(slots, slot)
	}
	require.NoError(t, one.Do(t.Context(), slots...).Err())
	cluster := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{server.Addr()}})
	defer cluster.Close()
	require.Eventually(t, func() bool {
		return strings.Contains(cluster.ClusterInfo(t.Context()).Val(), "cluster_state:ok")
	}, patience, 5*time.Millisecond)

	queue := workqueue.New("{P}*")
	require.True(t, must(queue.AddItem(t.Context(), cluster, item("a")))(t))
	require.NoError(t, queue.AddUniqueItem(t.Context(), cluster, item("b")))
	for _, id := range []string{"a", "b"} {
		require.Equal(t, id, must(queue.Lease(t.Context(), cluster, true, 0, lease))(t).ID)
	}
	require.NoError(t, cluster.Del(t.Context(), "{P}*:processing", "{P}*:lease:a").Err())
	require.Equal(t, []string{"a"}, must(queue.DeepClean(t.Context(), cluster))(t).Reset)
	for _, id := range []string{"a", "b"} {
		require.True(t, must(queue.Complete(t.Context(), cluster, &workqueue.Item{ID: id}))(t))
	}
}
