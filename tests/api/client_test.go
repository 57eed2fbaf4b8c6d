package api

import (
	"net"
	"testing"

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
