package chaos

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
)

// Jobs with shared limits of one slot each run at workers being killed. No two jobs of a limit run
// at the same time, each slot becomes free again after the lock and grace period, and no slot stays
// taken.
func TestSlotsOfKilledWorkers(t *testing.T) {
	const limits, each, kills = 20, 20, 10
	a := newArena(t, plan{concurrency: 10, shutdown: 5 * time.Second})
	require.NoError(t, a.client.Limit("key").Set(a.ctx, qless.LimitConfig{Concurrency: 1}))
	limitOf := map[string]int{}
	var jids []string
	for range each {
		for i := range limits {
			jid, err := a.client.Queue(queueName).Put(a.ctx, "Work", work{Micros: 1 + a.random.IntN(40_000)},
				qless.Limits{fmt.Sprint("key/", i)}, qless.Retries(jobRetries))
			require.NoError(t, err)
			limitOf[jid] = i
			jids = append(jids, jid)
		}
	}
	var all []settings
	for range processes {
		all = append(all, a.worker(a.server.Addr()))
	}
	a.start(all...)

	ends := make(chan bool, len(jids))
	var waits sync.WaitGroup
	for _, jid := range jids {
		waits.Go(func() {
			result, err := a.client.Wait(a.ctx, jid)
			assert.NoError(t, err, "the wait for %s", jid)
			assert.Equal(t, qless.StateComplete, result.State, "state of %s", jid)
			ends <- true
		})
	}
	killed := 0
	for done := 1; done <= len(jids); done++ {
		<-ends
		if done*kills/len(jids) > killed {
			a.replaceAny(a.kill)
			killed++
		}
	}
	waits.Wait()
	require.Equal(t, kills, killed)
	a.stop()

	requireWell(t, a.rdb)
	left, err := a.rdb.Keys(a.ctx, "ql:x:limit:*").Result()
	require.NoError(t, err)
	assert.Empty(t, left, "slots and parked jobs, though all are complete")
	for i := range a.records {
		r := &a.records[i]
		r.JID = fmt.Sprint("of limit ", limitOf[r.JID])
	}
	assert.Empty(t, overlaps(lives(a.records, a.ends)), "runs of one limit at the same time")
	t.Logf("%d jobs of %d limits, %d kills, in %v", len(jids), limits, kills, time.Since(a.began))
}
