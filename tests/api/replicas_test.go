package api

import (
	"errors"
	"net"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/testkit"
	"github.com/qless/qless-go/shards"
)

// oneReplica waits for a replica that is not there.
var oneReplica = qless.ClientConfig{Replicas: 1, ReplicaTimeout: time.Millisecond}

func TestPutsThatNoReplicaHas(t *testing.T) {
	e := newEnv(t)
	ctx := t.Context()
	c := e.NewClient(e.Redis, oneReplica)
	jid, err := c.Queue("q").Put(ctx, "K", nil)
	require.Equal(t, jid, requireCode(t, qless.ErrNotReplicated, err).JID)
	require.Equal(t, qless.StateWaiting, e.Read(jid).State, "it is put nevertheless")

	jids := must(c.Queue("q").PutMany(ctx, make([]qless.JobSpec, 0)))(t)
	require.Empty(t, jids)
	many := specs(2500)
	jids, err = c.Queue("q").PutMany(ctx, many)
	requireCode(t, qless.ErrNotReplicated, err)
	require.Len(t, jids, len(many))
	require.Equal(t, 1+len(many), e.Counts("q").Waiting)

	jid, err = c.Queue("q").Recur(ctx, "K", nil, time.Hour)
	requireCode(t, qless.ErrNotReplicated, err)
	require.NoError(t, errOf(c.RecurringJob(ctx, jid)))
}

func TestPutsOfManyGoroutinesThatTooFewReplicasHave(t *testing.T) {
	e := newEnv(t)
	c := e.NewClient(e.Redis, oneReplica)
	together(50, func(int) {
		jid, err := c.Queue("q").Put(t.Context(), "K", nil)
		var own *qless.Error
		if !errors.As(err, &own) || own.Code != qless.ErrNotReplicated || own.JID != jid {
			t.Errorf("put of %s: %v", jid, err)
		}
	})
	require.Equal(t, 50, e.Counts("q").Waiting, "they are put nevertheless")
}

func TestAPutThatFailsIsNoPut(t *testing.T) {
	e := newEnv(t)
	c := e.connectsWith(oneReplica, once)
	e.Server.Kill()
	requireCode(t, qless.ErrUnavailable, errOf(c.Queue("q").Put(t.Context(), "K", nil)))
}

func TestAPutWhoseConnectionIsRefusedIsNoPut(t *testing.T) {
	e := newEnv(t)
	c := e.connectsWith(qless.ClientConfig{Replicas: 1, ReplicaTimeout: time.Second}, func(options *redis.Options) {
		options.Username, options.Password = "app", "wrong"
	})
	_, err := c.Queue("q").Put(t.Context(), "K", nil)
	require.ErrorContains(t, err, "WRONGPASS")
	require.NotErrorIs(t, err, qless.ErrNotReplicated)
}

// The client waits longer for a slow replica than for other replies.
func TestTheWaitOutlastsTheReadTimeout(t *testing.T) {
	e := newEnv(t)
	config := qless.ClientConfig{Replicas: 1, ReplicaTimeout: 600 * time.Millisecond}
	c := e.connectsWith(config, func(options *redis.Options) { options.ReadTimeout = 500 * time.Millisecond })
	_, err := c.Queue("q").Put(t.Context(), "K", nil)
	require.Contains(t, requireCode(t, qless.ErrNotReplicated, err).Message, "the job was put, but only 0 of 1 replicas confirmed it")
}

func TestReplicasThatCantBeWaitedFor(t *testing.T) {
	rdb := redis.NewClient(&redis.Options{})
	defer func() { _ = rdb.Close() }()
	for _, config := range []*qless.ClientConfig{
		{Replicas: -2}, {Replicas: 1, ReplicaTimeout: time.Microsecond}, {Replicas: 1, ReplicaTimeout: -time.Second},
	} {
		requireCode(t, qless.ErrInvalid, errOf(qless.New(rdb, config)))
	}
	ring := redis.NewRing(&redis.RingOptions{})
	defer func() { _ = ring.Close() }()
	_, err := qless.New(ring, &qless.ClientConfig{Replicas: 1, ReplicaTimeout: time.Second})
	requireCode(t, qless.ErrInvalid, err)
}

// A put that is refused because the job exists returns just that error only if replicas have the
// job.
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
