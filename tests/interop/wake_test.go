//go:build interop

package interop

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/testkit"
)

// A wake is a way for the other side to make the job j of the queue q ready.
type wake struct {
	how    string
	before []action
	step   action
	silent bool // a script that is not ours does it without a message
}

// An action is an operation of the other side with its arguments.
type action struct {
	op   string
	args args
}

var wakes = []wake{
	{how: "put", step: action{"put", args{"queue": "q", "jid": "j"}}},
	{how: "delayed put", step: action{"put", args{"queue": "q", "jid": "j", "delay": 1.0}}},
	{
		how:    "next queue",
		before: []action{{"put", args{"queue": "other", "jid": "j"}}, {"pop", args{"queue": "other"}}},
		step:   action{"complete", args{"jid": "j", "next": "q"}},
	},
	{
		how:    "move",
		before: []action{{"put", args{"queue": "other", "jid": "j"}}},
		step:   action{"move", args{"jid": "j", "queue": "q"}},
	},
	{
		how: "dependency",
		before: []action{
			{"put", args{"queue": "other", "jid": "first"}}, {"pop", args{"queue": "other"}},
			{"put", args{"queue": "q", "jid": "j", "depends": []any{"first"}}},
		},
		step:   action{"complete", args{"jid": "first"}},
		silent: true,
	},
	{
		how: "unfail",
		before: []action{
			{"put", args{"queue": "other", "jid": "j"}}, {"pop", args{"queue": "other"}},
			{"fail", args{"jid": "j", "group": "g", "message": "m"}},
		},
		step:   action{"unfail", args{"group": "g", "queue": "q"}},
		silent: true,
	},
	{
		how:    "unpause",
		before: []action{{"pause", args{"queue": "q"}}, {"put", args{"queue": "q", "jid": "j"}}},
		step:   action{"unpause", args{"queue": "q"}},
		silent: true,
	},
	{how: "recurring job", step: action{"recur", args{"queue": "q", "jid": "j", "interval": 3600.0}}, silent: true},
}

// The actions of the other side wake our idle worker. Silent changes are found by polling.
func TestOthersWakeOurWorker(t *testing.T) {
	withOthers(t, func(t *testing.T, server *testkit.Server, them side) {
		_, isStock := them.(*stock)
		for _, w := range wakes {
			pollInterval := time.Hour
			if w.silent && isStock {
				pollInterval = 50 * time.Millisecond
			}
			t.Run(w.how, func(t *testing.T) {
				rdb := server.Client(t)
				require.NoError(t, rdb.FlushAll(t.Context()).Err())
				must(t, them, "begin", args{"worker": "theirs"})
				for _, s := range w.before {
					must(t, them, s.op, s.args)
				}
				ran := idleWorker(t, rdb, pollInterval)
				must(t, them, w.step.op, w.step.args)
				select {
				case jid := <-ran:
					assert.Contains(t, []string{"j", "j-1"}, jid)
				case <-time.After(patience):
					require.Fail(t, "the worker was not woken")
				}
			})
		}
	})
}

// idleWorker starts a worker, and waits until it is idle. The channel receives the jids of its
// jobs.
func idleWorker(t *testing.T, rdb *redis.Client, pollInterval time.Duration) <-chan string {
	client := newClient(t, rdb)
	ran := make(chan string, 1)
	worker, err := qless.NewWorker(client, qless.WorkerConfig{Queues: []string{"q"}, PollInterval: pollInterval, Concurrency: 1})
	require.NoError(t, err)
	worker.Handle("*", func(_ context.Context, job *qless.Job) error {
		ran <- job.JID
		return nil
	})
	require.NoError(t, worker.Start(t.Context()))
	t.Cleanup(func() { _ = worker.Stop(context.Background()) })
	require.NoError(t, until(func() error {
		idle := rdb.SIsMember(t.Context(), "ql:x:idle", worker.Name()).Val()
		heard := rdb.PubSubNumSub(t.Context(), "ql:x:listen").Val()["ql:x:listen"]
		if !idle || heard == 0 {
			return fmt.Errorf("idle %v, received by %d", idle, heard)
		}
		return nil
	}))
	return ran
}

// newClient returns a client with workers that do not log lost locks.
func newClient(t *testing.T, rdb *redis.Client) *qless.Client {
	client, err := qless.New(rdb, &qless.ClientConfig{Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	return client
}

// Actions of the other side on a job run by our worker end its handler's context.
func TestOthersTakeJobsFromOurWorker(t *testing.T) {
	for _, theft := range []struct {
		op   string
		args args
		want error
	}{
		{"timeout", args{"jid": "j"}, qless.ErrLockLost},
		{"put", args{"queue": "other", "jid": "j"}, qless.ErrLockLost},
		{"cancel", args{"jid": "j"}, qless.ErrCanceled},
	} {
		t.Run(theft.op, func(t *testing.T) {
			withOthers(t, func(t *testing.T, server *testkit.Server, them side) {
				must(t, them, "begin", args{"worker": "theirs"})
				must(t, them, "put", args{"queue": "q", "jid": "j"})
				client := newClient(t, server.Client(t))
				worker, err := qless.NewWorker(client, qless.WorkerConfig{Queues: []string{"q"}})
				require.NoError(t, err)
				began, ended := make(chan struct{}, 2), make(chan error, 2)
				worker.Handle("K", func(ctx context.Context, _ *qless.Job) error {
					began <- struct{}{}
					<-ctx.Done()
					ended <- context.Cause(ctx)
					return nil
				})
				require.NoError(t, worker.Start(t.Context()))
				t.Cleanup(func() { _ = worker.Stop(context.Background()) })
				<-began
				must(t, them, "pause", args{"queue": "q"}) // to keep the worker from taking it again
				must(t, them, theft.op, theft.args)
				select {
				case cause := <-ended:
					assert.ErrorIs(t, cause, theft.want)
				case <-time.After(patience):
					require.Fail(t, "the handler was not notified")
				}
			})
		})
	}
}

// A script that is not ours wakes no worker: a relay recognizes its messages by their beginnings,
// which differ from ours.
func TestMessagesOfAnotherScriptDoNotBeginAsOurs(t *testing.T) {
	server := testkit.Start(t)
	rdb := server.Client(t)
	log := rdb.Subscribe(t.Context(), "ql:log")
	t.Cleanup(func() { _ = log.Close() })
	_, err := log.Receive(t.Context())
	require.NoError(t, err)
	messages := log.Channel()
	message := func() string { return testkit.Soon(t, "a message", messages).Payload }

	theirs := startStock(t, server)
	must(t, theirs, "begin", args{"worker": "theirs"})
	must(t, theirs, "put", args{"queue": "q", "jid": "j"})
	require.Equal(t, `{"jid":"j","event":"put","queue":"q"}`, message())
	must(t, theirs, "pop", args{"queue": "q"})
	must(t, theirs, "complete", args{"jid": "j", "next": "q2"})
	require.Equal(t, `{"jid":"j","to":"q2","event":"advanced","queue":"q"}`, message())

	ours := newClient(t, rdb)
	_, err = ours.Queue("q").Put(t.Context(), "K", nil, qless.JID("k"))
	require.NoError(t, err)
	require.Equal(t, `{"queue":"q","event":"put","jid":"k"}`, message())
	jobs, err := ours.Queue("q").Pop(t.Context(), 1)
	require.NoError(t, err)
	require.Len(t, jobs, 1)
	require.NoError(t, jobs[0].Next(t.Context(), "q2"))
	require.Equal(t, `{"queue":"q","to":"q2","event":"advanced","jid":"k"}`, message())
}
