package api

import (
	"context"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/testkit"
)

// shards creates n shards on the env's server.
func (e *env) shards(key qless.ShardBy, n int) *qless.Shards {
	e.T.Helper()
	var clients []*qless.Client
	for i := range n {
		clients = append(clients, e.NewClient(e.Redis, qless.ClientConfig{Namespace: fmt.Sprintf("s%d:", i)}))
	}
	shards, err := qless.NewShards(key, clients...)
	require.NoError(e.T, err)
	return shards
}

func TestShardsSpreadJobsEvenly(t *testing.T) {
	e := newEnv(t)
	const names = 20000
	for _, n := range []int{2, 3, 5, 16} {
		shares := map[*qless.Client]int{}
		shards := e.shards(qless.ShardByJID, n)
		for i := range names {
			shares[shards.ClientFor("q", fmt.Sprintf("%032d", i))]++
		}
		for _, c := range shards.Clients() {
			even := float64(names) / float64(n)
			require.InDelta(t, even, shares[c], 5*math.Sqrt(even), "%d shards", n)
		}
	}
}

func TestAnAddedShardMovesLittle(t *testing.T) {
	e := newEnv(t)
	for _, key := range []qless.ShardBy{qless.ShardByJID, qless.ShardByQueue} {
		before, after := e.shards(key, 4), e.shards(key, 5)
		moved := 0
		for i := range 10000 {
			name := fmt.Sprintf("name-%d", i)
			was, is := before.ClientFor(name, name).Namespace(), after.ClientFor(name, name).Namespace()
			if was != is {
				moved++
				require.Equal(t, "s4:", is, "jobs that move go to the new shard")
			}
		}
		require.InDelta(t, 2000, moved, 200)
	}
}

// Other processes must find the same places, in whatever order they list the shards.
func TestPlacesStayWhereTheyAre(t *testing.T) {
	e := newEnv(t)
	shards := e.shards(qless.ShardByJID, 3)
	clients := shards.Clients()
	other, err := qless.NewShards(qless.ShardByJID, clients[2], clients[0], clients[1])
	require.NoError(t, err)
	places := ""
	for i := range 20 {
		jid := fmt.Sprint("job-", i)
		require.Same(t, shards.ClientFor("q", jid), other.ClientFor("q", jid))
		places += shards.ClientFor("q", jid).Namespace()[1:2]
	}
	require.Equal(t, "22001011010121222200", places, "known places: a change strands jobs that are put twice")
	require.Same(t, shards.ClientFor("a", "{order-7}-pack"), shards.ClientFor("b", "{order-7}-pick"))
	byQueue := e.shards(qless.ShardByQueue, 3)
	require.Same(t, byQueue.ClientFor("q", "1"), byQueue.ClientFor("q", "2"))
}

func TestShardsThatCantBe(t *testing.T) {
	e := newEnv(t)
	a := e.NewClient(e.Redis, qless.ClientConfig{Namespace: "a:"})
	_, err := qless.NewShards(qless.ShardByJID)
	requireCode(t, qless.ErrInvalid, err)
	_, err = qless.NewShards(qless.ShardByJID, a, e.NewClient(e.Redis, qless.ClientConfig{Namespace: "a:"}))
	requireCode(t, qless.ErrInvalid, err)
	_, err = qless.NewShards("klass", a)
	require.EqualError(t, err, `qless: shard: the key "klass" is unknown`)
	_, err = qless.NewShards(qless.ShardByJID, a, nil)
	require.EqualError(t, err, "qless: shard: clients[1] is nil")
	shards, err := qless.NewShards("", a)
	require.NoError(t, err, "by jid")
	require.Same(t, a, shards.ClientFor("q", "j"))
	_, err = qless.NewWorkerGroup(nil, qless.WorkerConfig{Queues: []string{"q"}})
	requireCode(t, qless.ErrInvalid, err)
}

func TestAShardedQueueIsOneQueue(t *testing.T) {
	for _, key := range []qless.ShardBy{qless.ShardByJID, qless.ShardByQueue} {
		e := newEnv(t)
		ctx := t.Context()
		shards := e.shards(key, 3)
		queue := shards.Queue("q")
		wanted := map[string]bool{}
		for range 20 {
			jid, err := queue.Put(ctx, "K", nil)
			require.NoError(t, err)
			wanted[jid] = true
		}
		var many []qless.JobSpec
		for i := range 40 {
			many = append(many, qless.JobSpec{Klass: "K", Options: []qless.PutOption{qless.JID(fmt.Sprint("m", i))}})
		}
		jids, err := queue.PutMany(ctx, many)
		require.NoError(t, err)
		for i, jid := range jids {
			require.Equal(t, fmt.Sprint("m", i), jid)
			wanted[jid] = true
		}
		counts, err := queue.Counts(ctx)
		require.NoError(t, err)
		require.Equal(t, qless.QueueCounts{Name: "q", Waiting: 60}, counts)

		jobs, err := queue.Pop(ctx, 50)
		require.NoError(t, err)
		counts, err = queue.Counts(ctx)
		require.NoError(t, err)
		require.Equal(t, qless.QueueCounts{Name: "q", Waiting: 10, Running: 50}, counts)
		all, err := shards.Queues(ctx)
		require.NoError(t, err)
		require.Equal(t, []qless.QueueCounts{counts}, all)

		rest, err := queue.Pop(ctx, 50)
		require.NoError(t, err)
		homes := map[string]bool{}
		for _, job := range append(jobs, rest...) {
			require.True(t, wanted[job.JID])
			delete(wanted, job.JID)
			homes[shards.ClientFor("q", job.JID).Namespace()] = true
			found, err := shards.Job(ctx, job.JID)
			require.NoError(t, err)
			require.Equal(t, qless.StateRunning, found.State)
			require.NoError(t, job.Complete(ctx))
		}
		require.Empty(t, wanted)
		require.Len(t, homes, map[qless.ShardBy]int{qless.ShardByJID: 3, qless.ShardByQueue: 1}[key])
		_, err = shards.Job(ctx, "nobody")
		requireCode(t, qless.ErrNotFound, err)
	}
}

func TestDependenciesStayWithinAShard(t *testing.T) {
	e := newEnv(t)
	ctx := t.Context()
	shards := e.shards(qless.ShardByJID, 3)
	queue := shards.Queue("q")
	first, err := queue.Put(ctx, "K", nil, qless.JID("{order-7}-pick"))
	require.NoError(t, err)
	second, err := queue.Put(ctx, "K", nil, qless.JID("{order-7}-pack"), qless.DependsOn{first})
	require.NoError(t, err)
	job, err := shards.Job(ctx, second)
	require.NoError(t, err)
	require.Equal(t, qless.StateDepends, job.State)

	elsewhere := ""
	for i := 0; elsewhere == ""; i++ {
		if jid := fmt.Sprint("other-", i); shards.ClientFor("q", jid) != shards.ClientFor("q", first) {
			elsewhere = jid
		}
	}
	_, err = queue.Put(ctx, "K", nil, qless.JID(elsewhere), qless.DependsOn{first})
	requireCode(t, qless.ErrWrongShard, err)
	_, err = shards.Job(ctx, elsewhere)
	requireCode(t, qless.ErrNotFound, err)

	depending := qless.JobSpec{Klass: "K", Options: []qless.PutOption{qless.JID(elsewhere), qless.DependsOn{"{order-7}-new"}}}
	_, err = queue.PutMany(ctx, []qless.JobSpec{
		{Klass: "K", Options: []qless.PutOption{qless.JID("{order-7}-new")}}, depending,
	})
	failure := requireCode(t, qless.ErrWrongShard, err)
	require.Equal(t, elsewhere, failure.JID)
	require.Contains(t, failure.Message, "jobs[1]: ")
	_, err = shards.Job(ctx, "{order-7}-new")
	requireCode(t, qless.ErrNotFound, err)

	_, err = queue.Put(ctx, "K", nil, qless.JID(elsewhere), qless.DependsOn{"nobody"})
	require.NoError(t, err, "a job that does not exist is not waited for")
}

func TestAShardThatIsAwayFailsWhatNeedsIt(t *testing.T) {
	e := newEnv(t)
	away := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1})
	defer func() { _ = away.Close() }()
	shards, err := qless.NewShards(qless.ShardByJID,
		e.NewClient(e.Redis, qless.ClientConfig{Namespace: "here:"}), e.NewClient(away, qless.ClientConfig{Namespace: "away:"}))
	require.NoError(t, err)
	jobs := make([]qless.JobSpec, 50)
	for i := range jobs {
		jobs[i] = qless.JobSpec{Klass: "K", Options: []qless.PutOption{qless.JID(fmt.Sprint(i))}}
	}
	put, err := shards.Queue("q").PutMany(t.Context(), jobs)
	requireCode(t, qless.ErrUnavailable, err)
	counts, countsErr := shards.Clients()[0].Queue("q").Counts(t.Context())
	require.NoError(t, countsErr)
	require.Len(t, put, counts.Waiting)
	require.NotEmpty(t, put)
	require.Less(t, len(put), 50)
	_, err = shards.Queue("q").Counts(t.Context())
	requireCode(t, qless.ErrUnavailable, err)
}

// A silent shard does not delay the replies of others.
func TestASilentShardDelaysNoOther(t *testing.T) {
	e := newEnv(t)
	silent := testkit.Start(t)
	options := testkit.Options(silent.Addr())
	options.ReadTimeout = time.Hour
	patient := redis.NewClient(options)
	defer func() { _ = patient.Close() }()
	shards, err := qless.NewShards(qless.ShardByJID,
		e.NewClient(patient, qless.ClientConfig{Namespace: "silent:"}), e.NewClient(e.Redis, qless.ClientConfig{Namespace: "living:"}))
	require.NoError(t, err)
	living := shards.Clients()[1].Queue("q")
	for _, jid := range []string{"done", "later", "called"} {
		_, err := living.Put(t.Context(), "K", nil, qless.JID(jid), qless.Unique(jid))
		require.NoError(t, err)
	}
	end := func(jid string) {
		_, err := shards.Clients()[1].End(t.Context(), jid, qless.End{})
		require.NoError(t, err)
	}
	end("done")
	silent.Suspend()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	job, err := shards.Job(ctx, "done")
	require.NoError(t, err)
	require.Equal(t, "done", job.JID)
	_, err = shards.Result(ctx, "done")
	require.NoError(t, err)
	holder, err := shards.Holder(ctx, "later")
	require.NoError(t, err)
	require.Equal(t, "later", holder)
	_, err = shards.WaitAll(ctx, "done")
	require.NoError(t, err)
	waited := make(chan error, 1)
	go func() {
		_, err := shards.Wait(ctx, "later")
		waited <- err
	}()
	end("later")
	require.NoError(t, testkit.Soon(t, "the end of a job", waited))
	silentsOwn := jidOf(shards, shards.Clients()[0])
	_, err = shards.Queue("q").Put(ctx, "K", nil, qless.JID(silentsOwn), qless.DependsOn{"called"})
	requireCode(t, qless.ErrWrongShard, err)
	require.NoError(t, ctx.Err())
}

// jidOf returns a jid whose shard is the client's.
func jidOf(shards *qless.Shards, c *qless.Client) string {
	for i := 0; ; i++ {
		if jid := fmt.Sprint(i); shards.ClientFor("q", jid) == c {
			return jid
		}
	}
}
