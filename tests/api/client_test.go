package api

import (
	"net"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/events"
	"github.com/qless/qless-go/inspect"
)

func TestNamespacesDoNotSeeOneAnother(t *testing.T) {
	e := newEnv(t)
	one := e.NewClient(e.Redis, qless.ClientConfig{Namespace: "{one}:ql:"})
	two := e.NewClient(e.Redis, qless.ClientConfig{Namespace: "{two}:ql:"})
	require.Equal(t, "{one}:ql:", one.Namespace())
	require.Equal(t, "ql:", e.Namespace())

	_, err := one.Queue("q").Put(t.Context(), "K", nil, qless.JID("j"), qless.Tags{"a"})
	require.NoError(t, err)
	require.NoError(t, one.Config().Set(t.Context(), "heartbeat", 5))
	heard := must(events.Listen(t.Context(), two))(t)
	require.NoError(t, must(one.Queue("q").Pop(t.Context(), 1))(t)[0].Fail(t.Context(), "g", "m"))

	for key := range e.Dump() {
		require.Regexp(t, `^\{one\}:ql:`, key)
	}
	for _, other := range []*qless.Client{two, e.Client} {
		require.Empty(t, must(other.Queues(t.Context()))(t))
		requireCode(t, qless.ErrNotFound, errOf(other.Job(t.Context(), "j")))
		require.Empty(t, must(inspect.New(other).Workers(t.Context()))(t))
		require.Empty(t, must(inspect.New(other).FailureGroups(t.Context()))(t))
		require.Equal(t, "60", must(other.Config().Get(t.Context(), "heartbeat"))(t))
	}
	require.NoError(t, errOf(two.Queue("q").Put(t.Context(), "K", nil, qless.JID("own"))))
	require.Equal(t, "own", (<-heard).JID, "the first event is its own")
}

func TestAClusterNeedsAHashTag(t *testing.T) {
	cluster := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"127.0.0.1:1"}})
	defer cluster.Close()
	for _, prefix := range []string{"ql:", "{}ql:", "}{", "{ql:", "ql:}"} {
		_, err := qless.New(cluster, &qless.ClientConfig{Namespace: prefix})
		requireCode(t, qless.ErrInvalid, err)
	}
	for _, prefix := range []string{"{tenant}:ql:", "x{t}", "{a}{}"} {
		require.NoError(t, errOf(qless.New(cluster, &qless.ClientConfig{Namespace: prefix})))
	}
}

func TestNewRefusesARing(t *testing.T) {
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"one": "127.0.0.1:1", "two": "127.0.0.1:2"}})
	defer ring.Close()
	for _, config := range []*qless.ClientConfig{nil, {Namespace: "{tenant}:ql:"}} {
		_, err := qless.New(ring, config)
		require.Contains(t, requireCode(t, qless.ErrInvalid, err).Message, "package shards")
	}
}

func TestNewRefusesWhatCannotBeUsed(t *testing.T) {
	rdb := redis.NewClient(&redis.Options{})
	defer rdb.Close()
	requireCode(t, qless.ErrInvalid, errOf(qless.New(nil, nil)))
	for _, config := range []*qless.ClientConfig{
		{Namespace: "\xff"}, {WorkerName: "\xff"}, {MaxData: -2}, {Replicas: -2}, {ReplicaTimeout: -1},
	} {
		requireCode(t, qless.ErrInvalid, errOf(qless.New(rdb, config)))
	}
}

func TestFieldsOfAConfigHaveDefaults(t *testing.T) {
	rdb := redis.NewClient(&redis.Options{})
	defer rdb.Close()
	for _, config := range []*qless.ClientConfig{nil, {}, {MaxData: -1, Replicas: -1}} {
		client := must(qless.New(rdb, config))(t)
		require.Equal(t, qless.DefaultNamespace, client.Namespace())
		require.NotEmpty(t, client.WorkerName())
	}
}

func TestAConfigStaysAsItIs(t *testing.T) {
	rdb := redis.NewClient(&redis.Options{})
	defer rdb.Close()
	config := qless.ClientConfig{Namespace: "one:"}
	one := must(qless.New(rdb, &config))(t)
	require.Equal(t, qless.ClientConfig{Namespace: "one:"}, config)
	config.Namespace = "two:"
	require.Equal(t, "one:", one.Namespace())
}

func TestWorkerNamesAreUnique(t *testing.T) {
	rdb := redis.NewClient(&redis.Options{})
	defer rdb.Close()
	one := must(qless.New(rdb, nil))(t)
	two := must(qless.New(rdb, nil))(t)
	require.NotEqual(t, one.WorkerName(), two.WorkerName())
	require.Regexp(t, `^.+-\d+-[0-9a-f]{8}$`, one.WorkerName())
	named := must(qless.New(rdb, &qless.ClientConfig{WorkerName: "me"}))(t)
	require.Equal(t, "me", named.WorkerName())
}

func TestDialOwnsItsConnections(t *testing.T) {
	e := newEnv(t)
	client := must(qless.Dial(t.Context(), "redis://"+e.Server.Addr()+"/0", &qless.ClientConfig{WorkerName: "dialed"}))(t)
	require.Equal(t, "dialed", client.WorkerName())
	require.NoError(t, errOf(client.Queue("q").Put(t.Context(), "K", nil)))
	require.NoError(t, client.Close())
	_, err := client.Queue("q").Put(t.Context(), "K", nil)
	requireCode(t, qless.ErrUnavailable, err)
	require.ErrorIs(t, err, redis.ErrClosed)

	require.NoError(t, e.Close())
	require.NoError(t, e.Redis.Ping(t.Context()).Err(), "a client made by New leaves them open")
}

func TestDialErrors(t *testing.T) {
	e := newEnv(t)
	requireCode(t, qless.ErrInvalid, errOf(qless.Dial(t.Context(), "not a url", nil)))
	_, err := qless.Dial(t.Context(), "redis://"+e.Server.Addr(), &qless.ClientConfig{Namespace: "\xff"})
	requireCode(t, qless.ErrInvalid, err)
	e.Server.Kill()
	_, err = qless.Dial(t.Context(), "redis://"+e.Server.Addr()+"?max_retries=-1", nil)
	requireCode(t, qless.ErrUnavailable, err)
	var refused *net.OpError
	require.ErrorAs(t, err, &refused)
}

func TestEachSettingHasItsDefault(t *testing.T) {
	e := newEnv(t)
	defaults := map[string]string{
		"application":           "qless",
		"backoff-factor":        "3",
		"backoff-initial-delay": "0",
		"grace-period":          "10",
		"heartbeat":             "60",
		"histogram-history":     "7",
		"jobs-history":          "604800",
		"jobs-history-count":    "50000",
		"max-job-history":       "100",
		"max-worker-age":        "86400",
		"stats-history":         "30",
	}
	require.Equal(t, defaults, must(e.Config().All(t.Context()))(t))
	for name, want := range defaults {
		require.Equal(t, want, must(e.Config().Get(t.Context(), name))(t))
	}
	for _, name := range []string{"unknown", "jobs-failed-history", "sync-enabled"} {
		require.Empty(t, must(e.Config().Get(t.Context(), name))(t))
	}
}

// Package settings has the values that settings can have.
func TestSettingsAreSetAndUnset(t *testing.T) {
	e := newEnv(t)
	ctx, config := t.Context(), e.Config()
	for _, c := range []struct {
		name  string
		value any
		want  string
	}{
		{"heartbeat", 1500 * time.Millisecond, "1.5"}, {"heartbeat", "75", "75"}, {"sync-enabled", true, "1"},
		{"application", "mine é \"x\"", "mine é \"x\""}, {"a queue-heartbeat", 2.5, "2.5"},
	} {
		require.NoError(t, config.Set(ctx, c.name, c.value))
		require.Equal(t, c.want, must(config.Get(ctx, c.name))(t))
	}
	require.NoError(t, errOf(e.Do(ctx, "config.set", "anything", "at all")))
	all := must(config.All(ctx))(t)
	require.Equal(t, []string{"75", "at all", "604800"}, []string{all["heartbeat"], all["anything"], all["jobs-history"]})
	e.Unchanged(func() {
		for _, bad := range []any{"", "\xff", 5} {
			require.ErrorIs(t, config.Set(ctx, "application", bad), qless.ErrInvalid)
		}
		err := requireCode(t, qless.ErrInvalid, config.Set(ctx, "my-mail-hartbeat", 1))
		require.Equal(t, `no setting "my-mail-hartbeat"; did you mean "my-mail-heartbeat"?`, err.Message)
	})

	require.NoError(t, config.Unset(ctx, "heartbeat"))
	require.NoError(t, config.Unset(ctx, "unknown"))
	require.Equal(t, "60", must(config.Get(ctx, "heartbeat"))(t))
}

func TestAQueuesHeartbeat(t *testing.T) {
	e := newEnv(t)
	ctx, q := t.Context(), e.Queue("q")
	requireHeartbeat := func(want time.Duration) {
		t.Helper()
		require.Equal(t, qless.QueueSettings{Heartbeat: want}, must(q.Settings(ctx))(t))
		e.Put("q")
		require.WithinDuration(t, e.Clock.Now().Add(want), e.Pop("q").Expires, time.Second)
	}
	requireHeartbeat(time.Minute)
	e.Set("heartbeat", 90)
	requireHeartbeat(90 * time.Second)
	require.NoError(t, q.SetHeartbeat(ctx, 2500*time.Millisecond))
	requireHeartbeat(2500 * time.Millisecond)
	require.NoError(t, errOf(e.Do(ctx, "config.set", "q-heartbeat", "-5")))
	requireHeartbeat(-5 * time.Second)
	require.NoError(t, errOf(e.Do(ctx, "config.set", "q-heartbeat", "soon")))
	requireHeartbeat(90 * time.Second)
	require.NoError(t, q.SetHeartbeat(ctx, 0))
	requireHeartbeat(90 * time.Second)
	require.NoError(t, errOf(e.Do(ctx, "config.set", "heartbeat", "soon")))
	requireHeartbeat(time.Minute)
	requireCode(t, qless.ErrInvalid, q.SetHeartbeat(ctx, -1))
	require.NotContains(t, e.Dump()["ql:config"], "q-heartbeat")
}

func TestAQueuesMaxConcurrency(t *testing.T) {
	e := newEnv(t)
	ctx, q := t.Context(), e.Queue("q")
	requireLimit := func(want int) {
		t.Helper()
		require.Equal(t, want, must(q.Settings(ctx))(t).MaxConcurrency)
	}
	requireLimit(0)
	require.NoError(t, q.SetMaxConcurrency(ctx, 2))
	requireLimit(2)
	for range 3 {
		e.Put("q")
	}
	require.Len(t, e.Pops("q", 3), 2)
	require.NoError(t, q.SetMaxConcurrency(ctx, -1))
	requireLimit(0)
	require.Len(t, e.Pops("q", 3), 1)
	require.NoError(t, q.SetMaxConcurrency(ctx, 1))
	require.NoError(t, q.SetMaxConcurrency(ctx, 0))
	requireLimit(0)
	requireCode(t, qless.ErrInvalid, q.SetMaxConcurrency(ctx, -2))
	require.NotContains(t, e.Dump(), "ql:config")
	require.NoError(t, errOf(e.Do(ctx, "config.set", "q-max-concurrency", "-5")))
	requireLimit(0)
}
