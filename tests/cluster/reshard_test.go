package cluster

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
)

// A crew continuously puts and runs jobs of a namespace, and keeps track of acknowledged jobs.
type crew struct {
	t      testing.TB
	client *qless.Client
	worker *qless.Worker
	cancel context.CancelFunc
	ended  sync.WaitGroup

	mu     sync.Mutex
	acked  []string
	worked map[string]int
	signal chan struct{} // closed when something changes
}

// startCrew starts putting and running jobs.
func startCrew(t testing.TB, client *qless.Client) *crew {
	t.Helper()
	k := &crew{t: t, client: client, worked: map[string]int{}, signal: make(chan struct{})}
	require.NoError(t, client.Config().Set(t.Context(), "heartbeat", 2*time.Second))
	require.NoError(t, client.Config().Set(t.Context(), "grace-period", 0))
	var err error
	k.worker, err = qless.NewWorker(client, qless.WorkerConfig{Queues: []string{"q"}, PollInterval: time.Second})
	require.NoError(t, err)
	k.worker.Handle("K", func(_ context.Context, job *qless.Job) error {
		k.change(func() { k.worked[job.JID]++ })
		return nil
	})
	require.NoError(t, k.worker.Start(context.Background()))
	ctx, cancel := context.WithCancel(context.Background())
	k.cancel = cancel
	k.ended.Go(func() { k.put(ctx) })
	t.Cleanup(func() {
		cancel()
		k.ended.Wait()
		_ = k.worker.Stop(ctx)
	})
	return k
}

func (k *crew) change(do func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	do()
	close(k.signal)
	k.signal = make(chan struct{})
}

// put puts jobs one by one. A failed put is repeated with the same jid, because the first try may
// have succeeded. A job missing in all replicas is put, but not acknowledged.
func (k *crew) put(ctx context.Context) {
	for i := 0; ctx.Err() == nil; i++ {
		jid := strconv.Itoa(i)
		for ctx.Err() == nil {
			_, err := k.client.Queue("q").Put(ctx, "K", nil, qless.JID(jid))
			if err == nil {
				k.change(func() { k.acked = append(k.acked, jid) })
				break
			} else if errors.Is(err, qless.ErrNotReplicated) {
				break
			}
		}
	}
}

// await waits until that many more jobs have run.
func (k *crew) await(more int) {
	k.t.Helper()
	k.mu.Lock()
	worked := len(k.worked) + more
	k.mu.Unlock()
	k.until("more jobs", func() bool { return len(k.worked) >= worked })
}

func (k *crew) until(what string, condition func() bool) {
	k.t.Helper()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for {
		k.mu.Lock()
		met, signal := condition(), k.signal
		k.mu.Unlock()
		if met {
			return
		}
		select {
		case <-signal:
		case <-timer.C:
			k.mu.Lock()
			defer k.mu.Unlock()
			require.FailNow(k.t, "it did not come to pass", "%s: %d put, %d worked; worker: %v",
				what, len(k.acked), len(k.worked), k.worker.Healthy())
		}
	}
}

// done stops putting, and requires that every acknowledged job has run and is complete.
func (k *crew) done() {
	k.t.Helper()
	k.cancel()
	k.ended.Wait()
	k.until("all acknowledged jobs are worked", func() bool {
		for _, jid := range k.acked {
			if k.worked[jid] == 0 {
				return false
			}
		}
		return true
	})
	require.NoError(k.t, k.worker.Drain(context.Background()))
	ctx := k.t.Context()
	twice := 0
	for _, jid := range k.acked {
		if k.worked[jid] > 1 {
			twice++
		}
	}
	jobs, err := k.client.Jobs(ctx, k.acked...)
	require.NoError(k.t, err)
	require.Len(k.t, jobs, len(k.acked))
	for _, job := range jobs {
		require.Equal(k.t, qless.StateComplete, job.State, job.JID)
	}
	counts, err := k.client.Queue("q").Counts(ctx)
	require.NoError(k.t, err)
	require.Equal(k.t, qless.QueueCounts{Name: "q"}, counts)
	k.t.Logf("%d jobs were acknowledged and completed, %d of them worked twice", len(k.acked), twice)
}

func TestMovingASlotLosesNothing(t *testing.T) {
	c := startNodes(t, false)
	k := startCrew(t, client(t, c.client(), "{moves}:ql:"))
	slot := c.slotOf("moves")
	for range 3 {
		k.await(200)
		c.moveSlot(slot, c.otherMaster(slot), func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, err := k.client.Queue("q").Put(ctx, "K", nil)
			require.ErrorIs(t, err, qless.ErrUnavailable)
			_, err = k.client.Queues(ctx)
			require.ErrorIs(t, err, qless.ErrUnavailable)
		})
	}
	k.await(200)
	k.done()
}

// A put that waits for replicas goes to the master of its slot like any other, even if the client
// last knew a different master.
func TestPutsThatWaitForReplicasFollowASlot(t *testing.T) {
	c := startNodes(t, true)
	rdb := c.client()
	ql := replicated(t, rdb, "{follows}:ql:", 5*time.Second)
	slot := c.slotOf("follows")
	for range 5 {
		_, err := ql.Queue("q").Put(t.Context(), "K", nil)
		require.NoError(t, err)
		rdb.ReloadState(t.Context()) // the next reload waits for a moment
		c.moveSlot(slot, c.otherMaster(slot), func() {})
	}
	_, err := ql.Queue("q").Put(t.Context(), "K", nil)
	require.NoError(t, err)
}
