package api

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/testkit"
	"github.com/qless/qless-go/shards"
	"github.com/qless/qless-go/tests/repairs"
)

// shards creates n shards on the env's server.
func (e *env) sharded(key shards.By, n int) *shards.Shards {
	e.T.Helper()
	return e.shardedWith(key, n, func(string) qless.ClientConfig { return qless.ClientConfig{} })
}

// shardedWith does so with a config for each, by its namespace.
func (e *env) shardedWith(
	key shards.By, n int, config func(namespace string) qless.ClientConfig,
) *shards.Shards {
	e.T.Helper()
	var clients []*qless.Client
	for i := range n {
		own := config(fmt.Sprintf("s%d:", i))
		own.Namespace = fmt.Sprintf("s%d:", i)
		clients = append(clients, e.NewClient(e.Redis, own))
		e.T.Cleanup(func() { _ = clients[i].Close() })
	}
	return must(shards.New(key, clients...))(e.T)
}

// Other processes must find the same places, in whatever order they list the shards.
func TestPlacesStayWhereTheyAre(t *testing.T) {
	e := newEnv(t)
	sharded := e.sharded(shards.ByJID, 3)
	clients := sharded.Clients()
	other := must(shards.New(shards.ByJID, clients[2], clients[0], clients[1]))(t)
	places := ""
	for i := range 20 {
		jid := fmt.Sprint("job-", i)
		require.Same(t, sharded.Client("q", jid), other.Client("q", jid))
		places += sharded.Client("q", jid).Namespace()[1:2]
	}
	require.Equal(t, "22001011010121222200", places, "known places: a change strands jobs that are put twice")
	require.Same(t, sharded.Client("a", "{order-7}-pack"), sharded.Client("b", "{order-7}-pick"))
	byQueue := e.sharded(shards.ByQueue, 3)
	require.Same(t, byQueue.Client("q", "1"), byQueue.Client("q", "2"))
}

func TestShardsThatCantBe(t *testing.T) {
	e := newEnv(t)
	a := e.NewClient(e.Redis, qless.ClientConfig{Namespace: "a:"})
	requireCode(t, qless.ErrInvalid, errOf(shards.New(shards.ByJID)))
	_, err := shards.New(shards.ByJID, a, e.NewClient(e.Redis, qless.ClientConfig{Namespace: "a:"}))
	requireCode(t, qless.ErrInvalid, err)
	require.EqualError(t, errOf(shards.New("klass", a)), `qless: shard: the key "klass" is unknown`)
	require.EqualError(t, errOf(shards.New(shards.ByJID, a, nil)), "qless: shard: clients[1] is nil")
	sharded, err := shards.New("", a)
	require.NoError(t, err, "by jid")
	require.Same(t, a, sharded.Client("q", "j"))
	_, err = qless.NewWorkerGroup(nil, qless.WorkerConfig{Queues: []string{"q"}})
	requireCode(t, qless.ErrInvalid, err)
}

func TestAShardedQueueIsOneQueue(t *testing.T) {
	for _, key := range []shards.By{shards.ByJID, shards.ByQueue} {
		e := newEnv(t)
		ctx := t.Context()
		sharded := e.sharded(key, 3)
		queue := sharded.Queue("q")
		wanted := map[string]bool{}
		for range 20 {
			wanted[must(queue.Put(ctx, "K", nil))(t)] = true
		}
		var many []qless.JobSpec
		for i := range 40 {
			many = append(many, spec(qless.JID(fmt.Sprint("m", i))))
		}
		for i, jid := range must(queue.PutMany(ctx, many))(t) {
			require.Equal(t, fmt.Sprint("m", i), jid)
			wanted[jid] = true
		}
		counts := must(queue.Counts(ctx))(t)
		require.Equal(t, qless.QueueCounts{Name: "q", Waiting: 60}, counts)

		jobs := must(queue.Pop(ctx, 50))(t)
		counts = must(queue.Counts(ctx))(t)
		require.Equal(t, qless.QueueCounts{Name: "q", Waiting: 10, Running: 50}, counts)
		require.Equal(t, []qless.QueueCounts{counts}, must(sharded.Queues(ctx))(t))

		rest := must(queue.Pop(ctx, 50))(t)
		homes := map[string]bool{}
		for _, job := range append(jobs, rest...) {
			require.True(t, wanted[job.JID])
			delete(wanted, job.JID)
			homes[sharded.Client("q", job.JID).Namespace()] = true
			require.Equal(t, qless.StateRunning, must(sharded.Job(ctx, job.JID))(t).State)
			require.NoError(t, job.Complete(ctx))
		}
		require.Empty(t, wanted)
		require.Len(t, homes, map[shards.By]int{shards.ByJID: 3, shards.ByQueue: 1}[key])
		requireCode(t, qless.ErrNotFound, errOf(sharded.Job(ctx, "nobody")))
	}
}

func TestDependenciesStayWithinAShard(t *testing.T) {
	e := newEnv(t)
	ctx := t.Context()
	sharded := e.sharded(shards.ByJID, 3)
	queue := sharded.Queue("q")
	first := must(queue.Put(ctx, "K", nil, qless.JID("{order-7}-pick")))(t)
	second := must(queue.Put(ctx, "K", nil, qless.JID("{order-7}-pack"), qless.DependsOn{first}))(t)
	require.Equal(t, qless.StateDepends, must(sharded.Job(ctx, second))(t).State)

	elsewhere := ""
	for i := 0; elsewhere == ""; i++ {
		if jid := fmt.Sprint("other-", i); sharded.Client("q", jid) != sharded.Client("q", first) {
			elsewhere = jid
		}
	}
	_, err := queue.Put(ctx, "K", nil, qless.JID(elsewhere), qless.DependsOn{first})
	requireCode(t, shards.ErrWrongShard, err)
	requireCode(t, qless.ErrNotFound, errOf(sharded.Job(ctx, elsewhere)))

	depending := spec(qless.JID(elsewhere), qless.DependsOn{"{order-7}-new"})
	_, err = queue.PutMany(ctx, []qless.JobSpec{spec(qless.JID("{order-7}-new")), depending})
	failure := requireCode(t, shards.ErrWrongShard, err)
	require.Equal(t, elsewhere, failure.JID)
	require.Contains(t, failure.Message, "jobs[1]: ")
	requireCode(t, qless.ErrNotFound, errOf(sharded.Job(ctx, "{order-7}-new")))

	_, err = queue.Put(ctx, "K", nil, qless.JID(elsewhere), qless.DependsOn{"nobody"})
	require.NoError(t, err, "a job that does not exist is not waited for")
}

func TestAShardThatIsAwayFailsWhatNeedsIt(t *testing.T) {
	e := newEnv(t)
	away := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1, DialerRetries: 1})
	defer func() { _ = away.Close() }()
	sharded := must(shards.New(shards.ByJID,
		e.NewClient(e.Redis, qless.ClientConfig{Namespace: "here:"}), e.NewClient(away, qless.ClientConfig{Namespace: "away:"})))(t)
	jobs := make([]qless.JobSpec, 50)
	for i := range jobs {
		jobs[i] = spec(qless.JID(fmt.Sprint(i)))
	}
	put, err := sharded.Queue("q").PutMany(t.Context(), jobs)
	requireCode(t, qless.ErrUnavailable, err)
	counts, countsErr := sharded.Clients()[0].Queue("q").Counts(t.Context())
	require.NoError(t, countsErr)
	require.Len(t, put, counts.Waiting)
	require.NotEmpty(t, put)
	require.Less(t, len(put), 50)
	requireCode(t, qless.ErrUnavailable, errOf(sharded.Queue("q").Counts(t.Context())))
}

// A silent shard does not delay the replies of others.
func TestASilentShardDelaysNoOther(t *testing.T) {
	e := newEnv(t)
	silent := testkit.Start(t)
	options := testkit.Options(silent.Addr())
	options.ReadTimeout = time.Hour
	patient := redis.NewClient(options)
	defer func() { _ = patient.Close() }()
	sharded := must(shards.New(shards.ByJID,
		e.NewClient(patient, qless.ClientConfig{Namespace: "silent:"}), e.NewClient(e.Redis, qless.ClientConfig{Namespace: "living:"})))(t)
	living := sharded.Clients()[1].Queue("q")
	for _, jid := range []string{"done", "later", "called"} {
		require.NoError(t, errOf(living.Put(t.Context(), "K", nil, qless.JID(jid), qless.Unique(jid))))
	}
	end := func(jid string) {
		require.NoError(t, errOf(repairs.End(t.Context(), sharded.Clients()[1], jid, repairs.Ending{})))
	}
	end("done")
	silent.Suspend()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	require.Equal(t, "done", must(sharded.Job(ctx, "done"))(t).JID)
	require.NoError(t, errOf(sharded.Result(ctx, "done")))
	require.Equal(t, "later", must(sharded.Holder(ctx, "later"))(t))
	require.NoError(t, errOf(sharded.WaitAll(ctx, "done")))
	waited := make(chan error, 1)
	go func() {
		_, err := sharded.Wait(ctx, "later")
		waited <- err
	}()
	end("later")
	require.NoError(t, testkit.Soon(t, "the end of a job", waited))
	silentsOwn := jidOf(sharded, sharded.Clients()[0])
	_, err := sharded.Queue("q").Put(ctx, "K", nil, qless.JID(silentsOwn), qless.DependsOn{"called"})
	requireCode(t, shards.ErrWrongShard, err)
	require.NoError(t, ctx.Err())
}

// jidOf returns a jid whose shard is the client's.
func jidOf(sharded *shards.Shards, c *qless.Client) string {
	for i := 0; ; i++ {
		if jid := fmt.Sprint(i); sharded.Client("q", jid) == c {
			return jid
		}
	}
}
