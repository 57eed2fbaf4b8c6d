package cluster

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/events"
	"github.com/qless/qless-go/internal/testkit"
)

// soonAfter is less than a poll interval, and far more than the millisecond or two that a wake-up
// takes.
const soonAfter = 500 * time.Millisecond

// listens waits until a worker is idle on a master and has subscribed there.
func listens(t testing.TB, on *redis.Client, namespace, worker string) {
	t.Helper()
	until(t, "an idle worker that listens", func(ctx context.Context) bool {
		channel := namespace + "x:wake:" + worker
		return on.PubSubNumSub(ctx, channel).Val()[channel] == 1 &&
			on.PubSubNumSub(ctx, namespace+"x:listen").Val()[namespace+"x:listen"] == 1 &&
			on.SIsMember(ctx, namespace+"x:idle", worker).Val()
	})
}

// wakes puts jobs, each when the worker is idle, and requires that the worker takes each soon.
func wakes(t testing.TB, c *qless.Client, on *redis.Client, w *qless.Worker, worked <-chan string) {
	t.Helper()
	var took []time.Duration
	for range 20 {
		listens(t, on, c.Namespace(), w.Name())
		began := time.Now()
		jid, err := c.Queue("q").Put(t.Context(), "K", nil)
		require.NoError(t, err)
		require.Equal(t, jid, testkit.Soon(t, "a job", worked))
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	t.Logf("from put to work: %v at the median, %v at the most", took[len(took)/2], took[len(took)-1])
	require.Less(t, took[len(took)/2], soonAfter, "most do not wait for a poll")
}

// startWorker starts a worker that sends the jids of its jobs to a channel.
func startWorker(t testing.TB, c *qless.Client, poll time.Duration) (*qless.Worker, <-chan string) {
	t.Helper()
	return startWorkerOf(t, c, "q", poll)
}

// startWorkerOf is startWorker for another queue.
func startWorkerOf(
	t testing.TB, c *qless.Client, queue string, poll time.Duration,
) (*qless.Worker, <-chan string) {
	t.Helper()
	worked := make(chan string, 1000)
	w, err := qless.NewWorker(c, qless.WorkerConfig{Queues: []string{queue}, PollInterval: poll})
	require.NoError(t, err)
	w.Handle("K", func(_ context.Context, job *qless.Job) error { worked <- job.JID; return nil })
	require.NoError(t, w.Start(context.Background()))
	t.Cleanup(func() { _ = w.Stop(context.Background()) })
	return w, worked
}

func TestWorkersAreWokenOnEveryMaster(t *testing.T) {
	c := startNodes(t, false)
	for i, master := range c.all {
		t.Run(fmt.Sprint("master", i), func(t *testing.T) {
			ql := client(t, c.client(), "{"+c.tag(master, 0)+"}:ql:")
			w, worked := startWorker(t, ql, time.Hour)
			wakes(t, ql, master.rdb, w, worked)
		})
	}
}

// A master that becomes a replica keeps its subscribers, and PUBLISH on the new master does not
// count them. So no worker is woken before it has asked again.
func TestWorkersAreWokenAfterAFailover(t *testing.T) {
	c := startNodes(t, true)
	const poll = 2 * time.Second
	ql := client(t, c.client(), "{wakes}:ql:")
	w, worked := startWorker(t, ql, poll)
	other, _ := startWorkerOf(t, ql, "other", time.Hour) // they share a connection
	before := c.masterOf(c.slotOf("wakes"))
	listens(t, before.rdb, ql.Namespace(), other.Name())
	wakes(t, ql, before.rdb, w, worked)
	after := c.failOver(before)
	jid, err := ql.Queue("q").Put(t.Context(), "K", nil)
	require.NoError(t, err)
	require.Equal(t, jid, testkit.Soon(t, "a job", worked))
	wakes(t, ql, after.rdb, w, worked)
	listens(t, after.rdb, ql.Namespace(), other.Name())
}

func TestWorkersAreWokenAfterTheirSlotMoved(t *testing.T) {
	c := startNodes(t, false)
	ql := client(t, c.client(), "{wakes}:ql:")
	slot := c.slotOf("wakes")
	w, worked := startWorker(t, ql, 2*time.Second)
	wakes(t, ql, c.masterOf(slot).rdb, w, worked)
	to := c.otherMaster(slot)
	c.moveSlot(slot, to, func() {})
	wakes(t, ql, to.rdb, w, worked)
}

func TestEventsArriveFromEveryMaster(t *testing.T) {
	c := startNodes(t, true)
	ql := client(t, c.client(), "{told}:ql:")
	heard, err := events.Listen(t.Context(), ql)
	require.NoError(t, err)
	told := func() {
		t.Helper()
		jid, err := ql.Queue("q").Put(t.Context(), "K", nil)
		require.NoError(t, err)
		for {
			event := testkit.Soon(t, "an event", heard)
			if event.Kind != events.Gap {
				require.Equal(t, jid, event.JID)
				return
			}
		}
	}
	told()
	c.failOver(c.masterOf(c.slotOf("told")))
	c.settled()
	told() // the nodes pass on messages, whichever is the master
}
