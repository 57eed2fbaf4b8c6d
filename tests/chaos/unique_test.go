package chaos

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
)

// keyed puts jobs with one unique key, and waits for each.
type keyed struct {
	*arena
	key  int
	mu   *sync.Mutex
	keys map[string]int // the keys of jobs, by jid
}

// put puts a job. The key must be free.
func (k keyed) put(micros int) (string, error) {
	jid, err := k.client.Queue(queueName).Put(k.ctx, "Work", work{Micros: micros},
		qless.Unique("key", k.key), qless.Retries(jobRetries))
	if err == nil {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.keys[jid] = k.key
	}
	return jid, err
}

// wait waits until a job is complete.
func (k keyed) wait(jid string) {
	result, err := k.client.Wait(k.ctx, jid)
	assert.NoError(k.t, err, "the wait for %s", jid)
	assert.Equal(k.t, qless.StateComplete, result.State, "state of %s", jid)
}

// round puts a job, tries to put another one, and waits.
func (k keyed) round(micros int) {
	jid, err := k.put(micros)
	if !assert.NoError(k.t, err, "the key %d is free: its job was complete", k.key) {
		return
	}
	other, err := k.put(micros)
	if errors.Is(err, qless.ErrExists) {
		assert.Equal(k.t, jid, other, "the job that has the key %d", k.key)
	} else if assert.NoError(k.t, err) {
		_, err := k.client.Result(k.ctx, jid)
		assert.NoError(k.t, err, "%s was complete when %s was put", jid, other)
		k.wait(other)
	}
	k.wait(jid)
}

// Jobs with unique keys and waiting clients run at workers being killed. Each key becomes free when
// its job is complete, never before, and each wait is answered.
func TestKeysAndWaitsOfKilledWorkers(t *testing.T) {
	const keys, rounds, kills = 20, 20, 10
	a := newArena(t, plan{concurrency: 10, shutdown: 5 * time.Second})
	var all []settings
	for range processes {
		all = append(all, a.worker(a.server.Addr()))
	}
	a.start(all...)

	var mu sync.Mutex
	keyOf := map[string]int{}
	ends := make(chan bool, keys*rounds)
	var putters sync.WaitGroup
	for i := range keys {
		k := keyed{arena: a, key: i, mu: &mu, keys: keyOf}
		micros := 1 + a.random.IntN(40_000)
		putters.Go(func() {
			for range rounds {
				k.round(micros)
				ends <- true
			}
		})
	}
	go func() {
		putters.Wait()
		close(ends)
	}()
	done, killed := 0, 0
	for range ends {
		done++
		if done*kills/(keys*rounds) > killed {
			a.replaceAny(a.kill)
			killed++
		}
	}
	require.Equal(t, kills, killed)
	a.stop()
	requireWell(t, a.rdb)

	left, err := a.rdb.Keys(a.ctx, "ql:x:unique:*").Result()
	require.NoError(t, err)
	assert.Empty(t, left, "claims of jobs that are complete")
	for i := range a.records {
		r := &a.records[i]
		if key, ok := keyOf[r.JID]; ok {
			r.JID = fmt.Sprint("of key ", key)
		}
	}
	assert.Empty(t, overlaps(lives(a.records, a.ends)), "runs of one key at the same time")
	t.Logf("%d jobs of %d keys, %d kills, in %v", len(keyOf), keys, kills, time.Since(a.began))
}
