package cluster

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/testkit"
)

func TestAPlannedFailoverLosesNothing(t *testing.T) {
	c := startNodes(t, true)
	k := startCrew(t, client(t, c.client(), "{planned}:ql:"))
	slot := c.slotOf("planned")
	for range 3 {
		k.await(200)
		c.failOver(c.masterOf(slot))
		c.settled()
	}
	k.await(200)
	k.done()
}

func TestAKilledMasterIsReplacedSoon(t *testing.T) {
	c := startNodes(t, true)
	rdb := c.client()
	ql := client(t, rdb, "{soon}:ql:")
	_, err := ql.Queue("q").Put(t.Context(), "K", nil)
	require.NoError(t, err)
	master := c.masterOf(c.slotOf("soon"))
	replica := c.replicaOf(master)
	master.Kill()
	c.promoted(replica)
	promoted := time.Now()
	until(t, "a put", func(ctx context.Context) bool {
		_, err := ql.Queue("q").Put(ctx, "K", nil)
		return err == nil
	})
	t.Logf("a put succeeded %v after the replica had taken over", time.Since(promoted).Round(time.Millisecond))
}

// A stopped master keeps its connections open, like one that has lost its network. Puts, pops and
// workers find the new master anyway, long before a lock of a minute expires.
func TestAStoppedMasterIsReplacedSoon(t *testing.T) {
	c := startNodes(t, true)
	rdb := c.clientThatWaits(time.Second)
	const namespace = "{stopped}:ql:"
	ql := client(t, rdb, namespace)
	safe := replicated(t, rdb, namespace, 50*time.Millisecond)
	_, worked := startWorker(t, ql, time.Second)
	_, err := ql.Queue("q").Put(t.Context(), "K", nil)
	require.NoError(t, err)
	testkit.Soon(t, "a job", worked)
	master := c.masterOf(c.slotOf("stopped"))
	replica := c.replicaOf(master)
	master.Suspend()
	defer master.Resume()
	c.promoted(replica)
	promoted := time.Now()
	var all sync.WaitGroup
	for what, call := range map[string]func(ctx context.Context) error{
		"a put": func(ctx context.Context) error {
			_, err := ql.Queue("other").Put(ctx, "K", nil)
			return err
		},
		"a put that waits for replicas": func(ctx context.Context) error {
			_, err := safe.Queue("other").Put(ctx, "K", nil)
			if errors.Is(err, qless.ErrNotReplicated) {
				return nil // there is no master now
			}
			return err
		},
		"a pop": func(ctx context.Context) error {
			_, err := ql.Queue("other").Pop(ctx, 1)
			return err
		},
	} {
		all.Go(func() {
			until(t, what, func(ctx context.Context) bool { return call(ctx) == nil })
			t.Logf("%s succeeded %v after the promotion", what, time.Since(promoted).Round(time.Millisecond))
		})
	}
	all.Wait()
	_, err = ql.Queue("q").Put(t.Context(), "K", nil)
	require.NoError(t, err)
	testkit.Soon(t, "a job under the new master", worked)
	t.Logf("a worker had a job %v after the promotion", time.Since(promoted).Round(time.Millisecond))
}

// A write acknowledged by a replica outlives its master.
func TestAKilledMasterLosesNothingThatWasReplicated(t *testing.T) {
	c := startNodes(t, true)
	k := startCrew(t, replicated(t, c.client(), "{killed}:ql:", time.Second))
	k.await(200)
	master := c.masterOf(c.slotOf("killed"))
	replica := c.replicaOf(master)
	master.Kill()
	killed := time.Now()
	c.promoted(replica)
	promoted := time.Now()
	k.await(1)
	t.Logf("the replica took over after %v, and work continued %v later",
		promoted.Sub(killed).Round(time.Millisecond), time.Since(promoted).Round(time.Millisecond))
	k.await(3) // without a replica, each put waits and fails
	k.done()
}

// The same holds for a stopped master that returns as a replica.
func TestAStoppedMasterLosesNothingThatWasReplicated(t *testing.T) {
	c := startNodes(t, true)
	k := startCrew(t, replicated(t, c.clientThatWaits(time.Second), "{halted}:ql:", time.Second))
	k.await(200)
	master := c.masterOf(c.slotOf("halted"))
	replica := c.replicaOf(master)
	master.Suspend()
	stopped := time.Now()
	c.promoted(replica)
	promoted := time.Now()
	k.await(1)
	t.Logf("the replica took over after %v, and work continued %v later",
		promoted.Sub(stopped).Round(time.Millisecond), time.Since(promoted).Round(time.Millisecond))
	master.Resume()
	c.settled()
	k.await(200)
	k.done()
}

func TestPutsWaitForReplicas(t *testing.T) {
	c := startNodes(t, true)
	ctx := t.Context()
	ql := replicated(t, c.client(), "{waits}:ql:", 5*time.Second)
	_, err := ql.Queue("q").Put(ctx, "K", nil)
	require.NoError(t, err)
	jids, err := ql.Queue("q").PutMany(ctx, []qless.JobSpec{{Klass: "K"}, {Klass: "K"}})
	require.NoError(t, err)
	require.Len(t, jids, 2)
	master := c.masterOf(c.slotOf("waits"))
	c.replicaOf(master).Suspend()
	impatient := replicated(t, c.client(), "{waits}:ql:", 20*time.Millisecond)
	jid, err := impatient.Queue("q").Put(ctx, "K", nil)
	require.ErrorIs(t, err, qless.ErrNotReplicated)
	job, err := ql.Job(ctx, jid)
	require.NoError(t, err)
	require.Equal(t, qless.StateWaiting, job.State)
	c.replicaOf(master).Resume()
}
