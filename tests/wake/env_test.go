package wake

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/testkit"
	"github.com/qless/qless-go/tests/testbed"
)

func TestMain(m *testing.M) {
	testkit.Main(m)
}

const (
	// poll is how long a worker sleeps without a wake-up: far longer than patience.
	poll = 10 * time.Minute

	// patience turns a missing wake-up into a failure. A healthy wake-up takes milliseconds.
	patience = testkit.Patience
)

// An env is a namespace with a client, and a record of its workers' jobs.
type env struct {
	*testbed.Env
	ran chan string
}

// newEnv creates an env in a separate namespace, on a server shared by all scenarios of a test.
func newEnv(t *testing.T, server *testkit.Server, namespace string) *env {
	t.Helper()
	e := &env{testbed.NewOn(t, server), make(chan string, 100)}
	e.Live = true
	e.Client = e.client(namespace)
	e.Set("heartbeat", int(2*poll/time.Second)) // a queue is quiet if no lock ends before the poll
	return e
}

// client creates a client for a namespace, with separate connections.
func (e *env) client(namespace string) *qless.Client {
	e.T.Helper()
	client, err := qless.New(e.Server.Client(e.T), &qless.ClientConfig{Logger: testkit.Quiet(), Namespace: namespace})
	require.NoError(e.T, err)
	return client
}

// worker starts a worker that records its jobs, and waits until it is idle. It is stopped with the
// test.
func (e *env) worker(config qless.WorkerConfig) *qless.Worker {
	e.T.Helper()
	return e.workerThat(config, func(context.Context) {})
}

// workerThat starts a worker that calls do for each job after recording it.
func (e *env) workerThat(config qless.WorkerConfig, do func(ctx context.Context)) *qless.Worker {
	e.T.Helper()
	config.PollInterval = poll
	w, err := qless.NewWorker(e.client(e.Namespace()), config)
	require.NoError(e.T, err)
	w.Handle("*", func(ctx context.Context, job *qless.Job) error {
		e.ran <- job.JID
		do(ctx)
		return nil
	})
	require.NoError(e.T, w.Start(context.Background()))
	e.T.Cleanup(func() {
		if err := w.Stop(context.Background()); err != nil {
			require.ErrorIs(e.T, err, qless.ErrStopped, "its handlers are busy until the test ends")
		}
	})
	e.idle(w)
	return w
}

// idle waits until a worker sleeps: the server counts it as idle, and it is subscribed.
func (e *env) idle(w *qless.Worker) {
	e.T.Helper()
	until(e.T, "the worker is idle", func() bool {
		idle, err := e.Redis.SIsMember(e.T.Context(), e.Namespace()+"x:idle", w.Name()).Result()
		require.NoError(e.T, err)
		heard, err := e.Redis.PubSubNumSub(e.T.Context(), e.Namespace()+"x:wake:"+w.Name()).Result()
		require.NoError(e.T, err)
		return idle && heard[e.Namespace()+"x:wake:"+w.Name()] == 1
	})
}

// runs waits until a worker has run a job.
func (e *env) runs(jid string) {
	e.T.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	for {
		select {
		case got := <-e.ran:
			if got == jid {
				return
			}
		case <-deadline.C:
			job, err := e.Job(e.T.Context(), jid)
			e.T.Fatalf("%s was not run: %+v, %v", jid, job, err)
		}
	}
}

// put puts a job.
func (e *env) put(queue, jid string, options ...qless.PutOption) {
	e.T.Helper()
	e.Put(queue, append(options, qless.JID(jid))...)
}

// pop locks a job for the env's own client, which is not a worker.
func (e *env) pop(queue, jid string) *qless.Job {
	e.T.Helper()
	job := e.Pop(queue)
	require.Equal(e.T, jid, job.JID)
	return job
}

var until = testkit.Until

// foreignPut puts a job like another client's script, without waking workers.
func (e *env) foreignPut(queue, jid string) {
	e.T.Helper()
	e.silentPut(queue, jid)
	told := fmt.Sprintf(`{"jid":%q,"event":"put","queue":%q}`, jid, queue)
	require.NoError(e.T, e.Redis.Publish(e.T.Context(), e.Namespace()+"log", told).Err())
}

// silentPut makes a job ready without publishing anything. It may make other jobs ready at the same
// time: more has their queues and jids.
func (e *env) silentPut(queue, jid string, more ...string) {
	e.T.Helper()
	ns, ctx := e.Namespace(), e.T.Context()
	pipe := e.Redis.TxPipeline()
	for put := range slices.Chunk(append([]string{queue, jid}, more...), 2) {
		queue, jid := put[0], put[1]
		pipe.HSet(ctx, ns+"j:"+jid, "jid", jid, "klass", "K", "data", "{}", "priority", "0",
			"tags", "[]", "state", "waiting", "worker", "", "expires", "0", "queue", queue,
			"retries", "5", "remaining", "5", "time", "0")
		pipe.ZAdd(ctx, ns+"q:"+queue+"-work", redis.Z{Member: jid})
		pipe.ZAdd(ctx, ns+"queues", redis.Z{Member: queue})
	}
	_, err := pipe.Exec(ctx)
	require.NoError(e.T, err)
}

// errOf returns the error of a call that also returns a value.
func errOf[T any](_ T, err error) error { return err }
