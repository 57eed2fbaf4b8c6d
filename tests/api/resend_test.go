package api

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/testkit"
	"github.com/qless/qless-go/shards"
	"github.com/qless/qless-go/tests/repairs"
	"github.com/qless/qless-go/tests/scripts"
	"github.com/qless/qless-go/tests/tour"
)

// proxied returns an env with a server that knows the script, and a client behind a proxy.
func proxied(t *testing.T) (*env, *testkit.Proxy, *qless.Client) {
	e := newEnv(t)
	proxy := testkit.NewProxy(t, e.Server.Addr())
	require.NoError(t, e.Redis.ScriptLoad(t.Context(), scripts.Text()).Err())
	return e, proxy, e.through(proxy, qless.ClientConfig{})
}

// through returns a client that connects through a proxy.
func (e *env) through(proxy *testkit.Proxy, config qless.ClientConfig) *qless.Client {
	rdb := redis.NewClient(testkit.Options(proxy.Addr()))
	e.T.Cleanup(func() { _ = rdb.Close() })
	return e.NewClient(rdb, config)
}

// seen returns how often a command was sent, by its digest or its text.
func seen(proxy *testkit.Proxy, command string) int { return proxy.Seen(scripts.Sent(command)) }

// cuts are the two ways to lose a connection before the reply to a command.
var cuts = map[string]struct {
	cut func(proxy *testkit.Proxy, text string)
	ran bool // the server received the command
}{
	"after the request": {(*testkit.Proxy).CutAfterRequest, false},
	"before the reply":  {(*testkit.Proxy).CutBeforeReply, true},
}

// A sending makes a client send a command, perhaps for a running job.
type sending = func(c *qless.Client, running *qless.Job) error

// onRunning returns a call of a method of a running job.
func onRunning(t *testing.T, method string) sending {
	return func(_ *qless.Client, j *qless.Job) error { return jobMethods[method](t.Context(), j) }
}

// sendings returns calls by their commands, and further words. The calls in again leave everything
// as after being sent once. This holds for a put with a new jid, unless the job may be forgotten by
// then.
func sendings(t *testing.T) (again, once map[string]sending) {
	ctx := t.Context()
	put := func(options ...qless.PutOption) sending {
		return func(c *qless.Client, _ *qless.Job) error { return errOf(c.Queue("q").Put(ctx, "K", nil, options...)) }
	}
	putMany := func(options ...qless.PutOption) sending {
		return func(c *qless.Client, _ *qless.Job) error {
			return errOf(c.Queue("q").PutMany(ctx, []qless.JobSpec{spec(), spec(options...)}))
		}
	}
	again = map[string]sending{
		"get":        func(c *qless.Client, _ *qless.Job) error { return errOf(c.Job(ctx, "running")) },
		"peek":       func(c *qless.Client, _ *qless.Job) error { return errOf(c.Queue("q").Peek(ctx, 1)) },
		"config.set": func(c *qless.Client, _ *qless.Job) error { return c.Config().Set(ctx, "heartbeat", 5) },
		"queues":     func(c *qless.Client, _ *qless.Job) error { return errOf(c.Queues(ctx)) },
		"heartbeat":  onRunning(t, "Heartbeat"),
		"tag":        onRunning(t, "Tag"),
		"put for long": put(qless.KeepFor(time.Hour), qless.TTL(time.Hour), qless.StartBy(time.Second),
			qless.KeepFailedFor(qless.Forever)),
	}
	once = map[string]sending{
		"pop":     func(c *qless.Client, _ *qless.Job) error { return errOf(c.Queue("q").Pop(ctx, 2)) },
		"timeout": func(c *qless.Client, j *qless.Job) error { return repairs.TimeOut(ctx, c, j.JID) },
		"unfail":  func(c *qless.Client, _ *qless.Job) error { return errOf(repairs.UnfailInto(ctx, c, "q", "g", 1)) },
		"recur":   func(c *qless.Client, _ *qless.Job) error { return errOf(c.Queue("q").Recur(ctx, "K", nil, time.Hour)) },
		"put jid": put(qless.JID("new")), "put.many jid": putMany(qless.JID("j"), qless.IfAbsent),
		"put KeepFor": put(qless.KeepFor(0)), "put.many KeepFor": putMany(qless.KeepFor(0)),
		"put KeepFailedFor": put(qless.KeepFailedFor(time.Second)), "put.many KeepFailedFor": putMany(qless.KeepFailedFor(time.Second)),
		"put TTL": put(qless.TTL(time.Second)), "put.many TTL": putMany(qless.TTL(time.Second)),
		"complete": onRunning(t, "Complete"), "retry": onRunning(t, "Retry"), "release": onRunning(t, "Release"),
		"fail": onRunning(t, "Fail"), "log": onRunning(t, "Log"), "cancel": onRunning(t, "Cancel"), "requeue": onRunning(t, "Move"),
	}
	return again, once
}

func TestWhichCommandsAreSentAgain(t *testing.T) {
	again, once := sendings(t)
	for where, c := range cuts {
		for isAgain, calls := range map[bool]map[string]sending{true: again, false: once} {
			for name, call := range calls {
				t.Run(name+", "+where, func(t *testing.T) {
					command, _, _ := strings.Cut(name, " ")
					e, proxy, client := proxied(t)
					for _, jid := range []string{"running", "a", "b", "c", "d", "e"} {
						e.Put("q", qless.JID(jid))
					}
					jobs := must(client.Queue("q").Pop(t.Context(), 1))(t)
					running := *jobs[0]
					before, sent := e.Dump(), seen(proxy, command)
					c.cut(proxy, scripts.Sent(command))
					err := call(client, &running)
					if isAgain {
						require.NoError(t, err)
						require.Equal(t, sent+2, seen(proxy, command))
						return
					}
					requireCode(t, qless.ErrUnavailable, err)
					require.Equal(t, sent+1, seen(proxy, command))
					require.Equal(t, *jobs[0], running, "the outcome is unknown")
					if c.ran && command != "unfail" {
						require.NotEqual(t, before, e.Dump())
					} else {
						require.Equal(t, before, e.Dump())
					}
					if command == "pop" && c.ran {
						require.Equal(t, 3, e.Counts("q").Running, "one batch is locked")
					}
				})
			}
		}
	}
}

// newPuts are calls that put jobs with new jids.
var newPuts = map[string]func(ctx context.Context, client *qless.Client) ([]string, error){
	"put": func(ctx context.Context, client *qless.Client) ([]string, error) {
		jid, err := client.Queue("q").Put(ctx, "K", nil, qless.Priority(1), qless.Headers{"a": "1"})
		return []string{jid}, err
	},
	"put.many": func(ctx context.Context, client *qless.Client) ([]string, error) {
		return client.Queue("q").PutMany(ctx, []qless.JobSpec{{Klass: "K"}, spec(qless.Delay(time.Hour))})
	},
}

func TestPutsOfNewJobsAreSentAgainAndPutThemOnce(t *testing.T) {
	for where, c := range cuts {
		for command, put := range newPuts {
			for waits, replicas := range map[string]int{"": 0, ", with replicas": 1} {
				t.Run(command+", "+where+waits, func(t *testing.T) {
					e, proxy, client := proxied(t)
					if replicas > 0 {
						config := qless.ClientConfig{Replicas: replicas, ReplicaTimeout: time.Millisecond}
						client = e.through(proxy, config)
					}
					c.cut(proxy, scripts.Sent(command))
					jids, err := put(t.Context(), client)
					if replicas > 0 {
						requireCode(t, qless.ErrNotReplicated, err)
					} else {
						require.NoError(t, err)
					}
					require.Equal(t, 2, seen(proxy, command))
					counts := e.Counts("q")
					require.Equal(t, len(jids), counts.Waiting+counts.Scheduled)
					for _, jid := range jids {
						require.Equal(t, []string{"put"}, whats(e.Read(jid).History))
					}
				})
			}
		}
	}
}

// A worker may have taken and ended the job before it is put for the second time.
func TestANewJobThatIsPutForTheSecondTimeIsLeftAsItIs(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		again := func() {
			e.Unchanged(func() {
				require.Equal(t, "j", e.run("put", "w1", "q", "j", "K", "{}", "0", "new", "1"))
				require.Nil(t, e.run("put.many", "w1", "new", "q", "j", "K", "{}", "0", "0"))
				require.Nil(t, e.run("put.many", "w1", "1", "q", "j", "K", "{}", "0", "2", "new", "1"))
			})
		}
		require.Equal(t, "j", e.run("put", "w1", "q", "j", "K", "{}", "0", "new", "1"))
		again()
		job := e.Pop("q")
		again()
		require.NoError(t, errOf(job.Retry(t.Context(), 0, "", "")))
		again()
		require.NoError(t, e.Pop("q").Complete(t.Context()))
		again()
		require.Nil(t, e.run("put.many", "w1", "new", "q", "j", "K", "{}", "0", "0", "q", "k", "K", "{}", "0", "0"))
		require.Equal(t, qless.StateComplete, e.Read("j").State)
		require.Equal(t, qless.StateWaiting, e.Read("k").State, "the others are put")
	})
}

// The caller may repeat such a put, and learns whether the first one took effect.
func TestAPutIfAbsentThatIsRepeated(t *testing.T) {
	for where, c := range cuts {
		t.Run(where, func(t *testing.T) {
			e, proxy, client := proxied(t)
			c.cut(proxy, scripts.Sent("put"))
			put := func() (string, error) {
				return client.Queue("q").Put(t.Context(), "K", nil, qless.JID("j"), qless.IfAbsent)
			}
			jid, err := put()
			require.Equal(t, "j", jid)
			requireCode(t, qless.ErrUnavailable, err)
			_, err = put()
			if c.ran {
				requireCode(t, qless.ErrExists, err)
			} else {
				require.NoError(t, err)
			}
			require.Equal(t, []string{"put"}, whats(e.Read("j").History))
		})
	}
}

func TestACallEndsWithItsContext(t *testing.T) {
	e := newEnv(t)
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	late, cancel := context.WithDeadline(t.Context(), testkit.Noon)
	defer cancel()
	for _, ctx := range []context.Context{canceled, late} {
		err := errOf(e.Queue("q").Pop(ctx, 1))
		requireCode(t, qless.ErrUnavailable, err)
		require.ErrorIs(t, err, ctx.Err())
	}

	client := must(qless.Dial(t.Context(), "redis://"+e.Server.Addr()+"?read_timeout=-1", nil))(t)
	defer client.Close()
	e.Server.Suspend()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	requireCode(t, qless.ErrUnavailable, errOf(client.Queue("q").Pop(ctx, 1)))
}

func TestAServerThatForgotTheScriptsIsGivenThem(t *testing.T) {
	e := newEnv(t)
	rdb := e.Server.Client(t)
	var sent sync.Map
	rdb.AddHook(hook{func(cmd redis.Cmder) {
		if !isScript(cmd) {
			return
		}
		command := cmd.Args()[4] // after the digest, and a key
		if _, again := sent.LoadOrStore(command, true); !again {
			assert.NoError(t, e.Redis.ScriptFlush(t.Context()).Err())
		}
	}, ignore})
	tour.Client(t, e.NewLiveClient(rdb, qless.ClientConfig{}))
}

func TestErrorsOfAScriptThatWasForgotten(t *testing.T) {
	e := newEnv(t)
	require.NoError(t, e.Redis.ScriptFlush(t.Context()).Err())
	requireCode(t, qless.ErrNotFound, repairs.TimeOut(t.Context(), e.Client, "unknown"))
	require.NoError(t, e.Redis.ScriptFlush(t.Context()).Err())
	requireCode(t, qless.ErrNotFound, errOf(e.Job(t.Context(), "unknown")))
}

func TestARealServerOutOfMemoryOrReadOnly(t *testing.T) {
	e := newEnv(t)
	jid := e.Put("q")
	require.NoError(t, e.Redis.ConfigSet(t.Context(), "maxmemory", "1").Err())
	e.Unchanged(func() {
		_, err := e.Queue("q").Put(t.Context(), "K", nil)
		requireCode(t, qless.ErrServer, err)
		require.ErrorContains(t, err, "OOM ")
	})
	require.Equal(t, jid, e.Read(jid).JID, "it can be read")
	require.NoError(t, e.Redis.ConfigSet(t.Context(), "maxmemory", "0").Err())

	require.NoError(t, e.Redis.Do(t.Context(), "replicaof", "127.0.0.1", "1").Err())
	e.Unchanged(func() {
		_, err := e.Queue("q").Put(t.Context(), "K", nil)
		requireCode(t, qless.ErrUnavailable, err)
		require.ErrorContains(t, err, "READONLY ")
	})
}

// copiesScripts makes any server treat the script like Redis 6.2 with "lua-replicate-commands no",
// which refuses a write after a command such as TIME unless it copies writes to its replicas.
const copiesScripts = `
local server, random, copies_writes = redis, false, false
local function guarded(run)
  return function(name, ...)
    if name == 'hset' and random and not copies_writes then
      error('Write commands not allowed after non deterministic commands')
    end
    random = random or name == 'time'
    return run(name, ...)
  end
end
local redis = setmetatable({
  call = guarded(server.call), pcall = guarded(server.pcall), acl_check_cmd = false,
  replicate_commands = function()
    copies_writes = not server.replicate_commands or server.replicate_commands()
  end,
}, {__index = server})
`

func TestServersThatCopyScriptsToReplicas(t *testing.T) {
	rdb := testkit.Start(t).Client(t)
	_, err := rdb.Eval(t.Context(), copiesScripts+qless.DropInScript(), []string{"ql:"},
		"put", "", "", "q", "a", "K", "{}", 0).Result()
	require.NoError(t, err)
	require.EqualValues(t, 1, rdb.Exists(t.Context(), "ql:j:a").Val())
}

// oneReplica waits for a missing replica.
var oneReplica = qless.ClientConfig{Replicas: 1, ReplicaTimeout: time.Millisecond}

func TestPutsThatNoReplicaHas(t *testing.T) {
	e := newEnv(t)
	ctx := t.Context()
	c := e.NewClient(e.Redis, oneReplica)
	jid, err := c.Queue("q").Put(ctx, "K", nil)
	require.Equal(t, jid, requireCode(t, qless.ErrNotReplicated, err).JID)
	require.Equal(t, qless.StateWaiting, e.Read(jid).State, "it is put nevertheless")
	together(50, func(int) {
		jid, err := c.Queue("q").Put(ctx, "K", nil)
		var own *qless.Error
		assert.ErrorAs(t, err, &own)
		assert.Equal(t, qless.Error{Code: qless.ErrNotReplicated, JID: jid}, qless.Error{Code: own.Code, JID: own.JID})
	})

	jids := must(c.Queue("q").PutMany(ctx, make([]qless.JobSpec, 0)))(t)
	require.Empty(t, jids)
	many := specs(2500)
	jids, err = c.Queue("q").PutMany(ctx, many)
	requireCode(t, qless.ErrNotReplicated, err)
	require.Len(t, jids, len(many))
	require.Equal(t, 51+len(many), e.Counts("q").Waiting)

	jid, err = c.Queue("q").Recur(ctx, "K", nil, time.Hour)
	requireCode(t, qless.ErrNotReplicated, err)
	require.NoError(t, errOf(c.RecurringJob(ctx, jid)))
}

func TestAPutThatFailsIsNoPut(t *testing.T) {
	e := newEnv(t)
	c := e.connectsWith(oneReplica, func(o *redis.Options) { o.Username, o.Password = "app", "wrong" })
	_, err := c.Queue("q").Put(t.Context(), "K", nil)
	require.ErrorContains(t, err, "WRONGPASS")
	require.NotErrorIs(t, err, qless.ErrNotReplicated)
	c = e.connectsWith(oneReplica, once)
	e.Server.Kill()
	requireCode(t, qless.ErrUnavailable, errOf(c.Queue("q").Put(t.Context(), "K", nil)))
}

// The client waits longer for a slow replica than for other replies.
func TestTheWaitOutlastsTheReadTimeout(t *testing.T) {
	e := newEnv(t)
	config := qless.ClientConfig{Replicas: 1, ReplicaTimeout: 600 * time.Millisecond}
	c := e.connectsWith(config, func(o *redis.Options) { o.ReadTimeout = 500 * time.Millisecond })
	_, err := c.Queue("q").Put(t.Context(), "K", nil)
	require.Contains(t, requireCode(t, qless.ErrNotReplicated, err).Message, "the job was put, but only 0 of 1 replicas confirmed it")
}

// A put refused because the job exists returns just that error only if replicas have the job.
func TestARefusalThatTooFewReplicasConfirm(t *testing.T) {
	e := newEnvOn(t, testkit.Start(t, "--repl-diskless-sync-delay", "0"))
	ctx := t.Context()
	c := e.NewClient(e.Redis, oneReplica)
	q := c.Queue("q")
	options := []qless.PutOption{qless.JID("a"), qless.IfAbsent}
	requireCode(t, qless.ErrNotReplicated, errOf(q.Put(ctx, "K", nil, options...)))
	refused := func(err error, jid string) {
		t.Helper()
		require.Equal(t, jid, requireCode(t, qless.ErrExists, err).JID)
		require.ErrorIs(t, err, qless.ErrNotReplicated)
	}
	jid, err := q.Put(ctx, "K", nil, options...)
	require.Equal(t, "a", jid)
	refused(err, "a")
	_, err = q.PutMany(ctx, []qless.JobSpec{{Klass: "K", Options: options}, {Klass: "K"}})
	refused(err, "a")
	require.Equal(t, []int{0}, requireCode(t, qless.ErrExists, err).Indices)
	_, err = q.Put(ctx, "K", nil, qless.JID("b"), qless.Unique("key"))
	requireCode(t, qless.ErrNotReplicated, err)
	refused(errOf(q.Put(ctx, "K", nil, qless.Unique("key"))), "b")
	sharded := must(shards.New(shards.ByJID, c))(t)
	_, err = sharded.Queue("q").PutMany(ctx, []qless.JobSpec{{Klass: "K", Options: options}, {Klass: "K"}})
	refused(err, "a")

	replica := testkit.Start(t)
	host, port, err := net.SplitHostPort(e.Server.Addr())
	require.NoError(t, err)
	require.NoError(t, replica.Client(t).ReplicaOf(ctx, host, port).Err())
	testkit.Until(t, "the replica has the job", func() bool {
		_, err = q.Put(ctx, "K", nil, options...)
		return !errors.Is(err, qless.ErrNotReplicated)
	})
	requireCode(t, qless.ErrExists, err)
	require.NoError(t, replica.Client(t).ReplicaOf(ctx, "no", "one").Err())
}

func TestABatchThatTooFewReplicasHave(t *testing.T) {
	e := newEnv(t)
	ctx := t.Context()
	c := e.NewClient(e.Redis, oneReplica)
	sharded := must(shards.New(shards.ByJID, c))(t)
	for _, open := range []func() (*qless.Batch, error){
		func() (*qless.Batch, error) {
			return c.NewBatch(ctx, "q", qless.NewKlass[any]("K").Spec(nil, qless.Unique("key")))
		},
		func() (*qless.Batch, error) {
			b, err := sharded.NewBatch(ctx, "q", qless.JobSpec{Klass: "K"})
			return b.Batch, err
		},
	} {
		b, err := open()
		require.Equal(t, requireCode(t, qless.ErrNotReplicated, err).JID, b.ID)
		require.NoError(t, b.Commit(ctx))
		require.Equal(t, qless.StateWaiting, e.Read(b.ID).State)
	}
	b, err := c.NewBatch(ctx, "q", qless.NewKlass[any]("K").Spec(nil, qless.Unique("key")))
	requireCode(t, qless.ErrExists, err)
	require.Nil(t, b, "the job is another one")
}
