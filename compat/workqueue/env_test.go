package workqueue_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go/compat/workqueue"
	"github.com/qless/qless-go/internal/testkit"
)

func TestMain(m *testing.M) {
	if os.Getenv("WORKQUEUE_PEER") != "" {
		actAsPeer()
		return
	}
	testkit.Main(m)
}

// actAsPeer runs the test program as a peer of an interop test.
var actAsPeer func()

var quiet = testkit.Quiet()

// patience turns a hang into a failure.
const patience = testkit.Patience

// lease is a lease that does not expire during a test, unless ended by the test.
const lease = 100 * time.Second

// An env is the environment of a test: a separate real server and a queue with the prefix P.
type env struct {
	*workqueue.Queue
	t      testing.TB
	server *testkit.Server
	rdb    *redis.Client
}

func newEnv(t testing.TB, options ...workqueue.Option) *env {
	t.Helper()
	server := testkit.Start(t)
	return &env{Queue: workqueue.New("P", options...), t: t, server: server, rdb: server.Client(t)}
}

// add adds items with the ids, and the data "data of <id>".
func (e *env) add(ids ...string) {
	e.t.Helper()
	for _, id := range ids {
		added := must(e.AddItem(e.t.Context(), e.rdb, item(id)))(e.t)
		require.True(e.t, added, id)
	}
}

func item(id string) workqueue.Item {
	return workqueue.Item{ID: id, Data: []byte("data of " + id)}
}

// errOf returns the error of a call, without its value.
func errOf[T any](_ T, err error) error { return err }

// must returns the value of a call that must not fail.
func must[T any](value T, err error) func(t testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		require.NoError(t, err)
		return value
	}
}

// take leases the next item, nil for none, without waiting.
func (e *env) take() *workqueue.Item {
	e.t.Helper()
	return e.takeAs(e.Queue)
}

func (e *env) takeAs(q *workqueue.Queue) *workqueue.Item {
	e.t.Helper()
	return must(q.Lease(e.t.Context(), e.rdb, false, 0, lease))(e.t)
}

// taken leases the next item, which must have the id.
func (e *env) taken(id string) *workqueue.Item {
	e.t.Helper()
	leased := e.take()
	require.NotNil(e.t, leased)
	require.Equal(e.t, item(id), leased.Plain())
	return leased
}

// complete completes an item, and returns the result of Complete.
func (e *env) complete(id string) bool {
	e.t.Helper()
	return must(e.Complete(e.t.Context(), e.rdb, &workqueue.Item{ID: id}))(e.t)
}

func (e *env) renew(q *workqueue.Queue, leased *workqueue.Item) (held bool) {
	e.t.Helper()
	return must(q.Renew(e.t.Context(), e.rdb, leased, 1000*time.Second))(e.t)
}

func (e *env) release(q *workqueue.Queue, leased *workqueue.Item) (released bool) {
	e.t.Helper()
	return must(q.Release(e.t.Context(), e.rdb, leased))(e.t)
}

// expire adds items, leases them, and ends their leases.
func (e *env) expire(ids ...string) {
	e.t.Helper()
	e.add(ids...)
	for _, id := range ids {
		e.taken(id)
		e.endLease(id)
	}
}

// endLease ends the lease of an item.
func (e *env) endLease(id string) {
	e.t.Helper()
	require.NoError(e.t, e.rdb.Del(e.t.Context(), "P:lease:"+id, "P:leased_by_session:"+id).Err())
}

func (e *env) light() workqueue.Cleaned {
	e.t.Helper()
	return must(e.LightClean(e.t.Context(), e.rdb))(e.t)
}

func (e *env) deep() workqueue.Cleaned {
	e.t.Helper()
	return must(e.DeepClean(e.t.Context(), e.rdb))(e.t)
}

// cli sends a command given as words, as another client would.
func (e *env) cli(line string) any {
	e.t.Helper()
	var words []any
	for _, word := range strings.Fields(line) {
		words = append(words, word)
	}
	reply, err := e.rdb.Do(e.t.Context(), words...).Result()
	if err == redis.Nil {
		return nil
	}
	require.NoError(e.t, err, line)
	return reply
}

// list returns a list, left to right.
func (e *env) list(key string) []string {
	e.t.Helper()
	return must(e.rdb.LRange(e.t.Context(), key, 0, -1).Result())(e.t)
}

// dump returns all keys: lists as slices, strings as strings.
func (e *env) dump() map[string]any {
	e.t.Helper()
	all := map[string]any{}
	for _, key := range e.rdb.Keys(e.t.Context(), "*").Val() {
		switch kind := e.rdb.Type(e.t.Context(), key).Val(); kind {
		case "list":
			all[key] = e.list(key)
		case "string":
			all[key] = e.rdb.Get(e.t.Context(), key).Val()
		default:
			all[key] = kind
		}
	}
	return all
}

// awaitBlocked waits until the given number of clients wait for an item.
func (e *env) awaitBlocked(clients int) {
	e.t.Helper()
	e.eventually(func() bool {
		info := e.rdb.Info(e.t.Context(), "clients").Val()
		return strings.Contains(info, fmt.Sprintf("blocked_clients:%d\r", clients))
	}, "no client waits")
}

func (e *env) eventually(condition func() bool, message string) {
	e.t.Helper()
	require.Eventually(e.t, condition, patience, 5*time.Millisecond, message)
}

// hooked returns a client that calls a function with each command, once before sending and once
// after the answer.
func (e *env) hooked(hook func(cmd redis.Cmder, done bool)) *redis.Client {
	e.t.Helper()
	client := e.server.Client(e.t)
	client.AddHook(commandHook(hook))
	return client
}

type commandHook func(cmd redis.Cmder, done bool)

func (h commandHook) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h commandHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (h commandHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		h(cmd, false)
		err := next(ctx, cmd)
		h(cmd, true)
		return err
	}
}

// runs reports whether a command runs the script with a digest.
func runs(cmd redis.Cmder, sha string) bool {
	args := cmd.Args()
	return len(args) > 1 && args[1] == sha
}

// newRand returns a source of random numbers for a test.
func newRand(t testing.TB) *rand.Rand { return rand.New(rand.NewPCG(testkit.Seed(t), 0)) }

// ours requires that a value is the name of a lease of the queue.
func (e *env) ours(lease any) {
	e.t.Helper()
	require.Regexp(e.t, "^"+e.Session()+"-[0-9a-f]{16}$", lease)
}
