package cluster

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
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

// What a replica has acknowledged outlives its master.
func TestAKilledMasterLosesNothingThatWasReplicated(t *testing.T) {
	c := startNodes(t, true)
	k := startCrew(t, client(t, c.client(), "{killed}:ql:", qless.WithReplicas(1, time.Second)))
	k.await(200)
	master := c.masterOf(c.slotOf("killed"))
	replica := c.replicaOf(master)
	master.Kill()
	killed := time.Now()
	c.promoted(replica)
	promoted := time.Now()
	k.await(1)
	t.Logf("the replica took over after %v, and work went on %v later",
		promoted.Sub(killed).Round(time.Millisecond), time.Since(promoted).Round(time.Millisecond))
	k.await(3) // without a replica, each put waits in vain
	k.done()
}

func TestPutsWaitForReplicas(t *testing.T) {
	c := startNodes(t, true)
	ctx := t.Context()
	ql := client(t, c.client(), "{waits}:ql:", qless.WithReplicas(1, 5*time.Second))
	_, err := ql.Queue("q").Put(ctx, "K", nil)
	require.NoError(t, err)
	jids, err := ql.Queue("q").PutMany(ctx, []qless.JobSpec{{Klass: "K"}, {Klass: "K"}})
	require.NoError(t, err)
	require.Len(t, jids, 2)
	master := c.masterOf(c.slotOf("waits"))
	c.replicaOf(master).Suspend()
	impatient := client(t, c.client(), "{waits}:ql:", qless.WithReplicas(1, 20*time.Millisecond))
	jid, err := impatient.Queue("q").Put(ctx, "K", nil)
	require.ErrorIs(t, err, qless.ErrNotReplicated)
	job, err := ql.Job(ctx, jid)
	require.NoError(t, err)
	require.Equal(t, qless.StateWaiting, job.State)
	c.replicaOf(master).Resume()
}
