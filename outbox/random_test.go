package outbox

import (
	"errors"
	"flag"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/testkit"
)

var randomJobs = flag.Int("outbox.jobs", 1500, "how many jobs TestRandomTransactions puts")

// Transactions with dependencies are committed or rolled back, while relays die at any step and
// connections to Redis break during passes. In the end, each job of a committed transaction was put
// once, and waits for all jobs that it depends on: none was put before them.
func TestRandomTransactions(t *testing.T) {
	onEach(t, func(s *shop) {
		random := rand.New(rand.NewPCG(testkit.Seed(s), 0))
		proxy := testkit.NewProxy(s, s.redis.Addr())
		s.client = s.connect(proxy.Addr())
		relays := make([]*Relay, 3)
		for i := range relays {
			relays[i] = s.relay(func(c *RelayConfig) { c.Batch = 1 + random.IntN(30) })
		}
		needs, queues := map[string][]string{}, []string{"q", "p", "r"}
		for len(needs) < *randomJobs {
			s.transaction(random, needs, queues)
			if random.IntN(3) == 0 {
				continue
			}
			r := relays[random.IntN(len(relays))]
			switch random.IntN(6) {
			case 0:
				step := []string{"claim", "put", "delete", "settle"}[random.IntN(4)]
				if err := r.dieAt(s.Context(), step, 1+random.IntN(2)); err != nil && !errors.Is(err, errDied) {
					require.ErrorIs(s, err, qless.ErrUnavailable)
				}
				r.step = func(string) {}
			case 1:
				proxy.CutBeforeReply("put.many")
				r.Pass(s.Context())
			case 2:
				proxy.CutAll()
				r.Pass(s.Context())
			case 3:
				s.expireLeases()
			default:
				r.Pass(s.Context())
			}
		}
		for i := 0; !s.isEmpty(); i++ {
			require.Less(s, i, 10**randomJobs)
			s.expireLeases()
			relays[i%len(relays)].Pass(s.Context())
		}
		jobs, err := s.client.Jobs(s.Context(), s.jids...)
		require.NoError(s, err)
		require.Len(s, jobs, len(needs))
		for _, job := range jobs {
			require.Len(s, job.History, 1, "it was put once")
			require.ElementsMatch(s, needs[job.JID], job.Dependencies)
		}
	})
}

// transaction puts some jobs that depend on earlier ones, and notes them if it is committed.
func (s *shop) transaction(random *rand.Rand, needs map[string][]string, queues []string) {
	s.Helper()
	tx, err := s.db.BeginTx(s.Context(), nil)
	require.NoError(s, err)
	own, all := map[string][]string{}, s.jids
	for range 1 + random.IntN(5) {
		var parents qless.DependsOn
		for range random.IntN(3) {
			if len(all) == 0 {
				break
			}
			if jid := all[random.IntN(len(all))]; !slices.Contains(parents, jid) {
				parents = append(parents, jid)
			}
		}
		jid, err := s.box.Put(s.Context(), tx, queues[random.IntN(len(queues))], "K", nil, parents)
		require.NoError(s, err)
		own[jid], all = parents, append(all, jid)
	}
	if random.IntN(5) == 0 {
		require.NoError(s, tx.Rollback())
		return
	}
	require.NoError(s, tx.Commit())
	maps.Copy(needs, own)
	s.jids = all
}
