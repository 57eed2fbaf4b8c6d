package outbox

import (
	"database/sql"
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

var randomJobs = flag.Int("outbox.jobs", 800, "how many jobs TestRandomTransactions puts")

// Transactions with dependencies are committed, sometimes much later, or rolled back, at different
// levels of isolation. Meanwhile, four relays die at any step, connections to Redis break, and
// Redis refuses writes during passes. In the end, each job of a committed transaction was put once,
// and waits for all its parents: none was put before them.
func TestRandomTransactions(t *testing.T) {
	onEach(t, func(s *shop) {
		random := rand.New(rand.NewPCG(testkit.Seed(s), 0))
		proxy := testkit.NewProxy(s, s.redis.Addr())
		s.client = s.connect(proxy.Addr())
		relays := make([]*Relay, 4)
		for i := range relays {
			relays[i] = s.relay(func(c *RelayConfig) { c.Batch = 1 + random.IntN(30) })
		}
		w := &gambler{shop: s, random: random, needs: map[string][]string{}}
		needs := w.needs
		for len(needs) < *randomJobs {
			w.transaction()
			if random.IntN(3) == 0 {
				continue
			}
			r := relays[random.IntN(len(relays))]
			switch random.IntN(7) {
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
			case 4:
				refusal := []string{"MISCONF", "NOREPLICAS", "OOM", "READONLY"}[random.IntN(4)]
				step, allow := []string{"put", "settle"}[random.IntN(2)], func() {}
				r.step = func(name string) {
					if name == step {
						allow = s.redis.Refuse(s.T, refusal)
						r.step = func(string) {}
					}
				}
				r.Pass(s.Context())
				r.step = func(string) {}
				allow()
			default:
				r.Pass(s.Context())
			}
		}
		w.commitAll()
		for i := 0; !s.isEmpty(); i++ {
			require.Less(s, i, 10**randomJobs)
			s.expireLeases()
			relays[i%len(relays)].Pass(s.Context())
		}
		jobs := must(s.client.Jobs(s.Context(), s.jids...))(s)
		require.Len(s, jobs, len(needs))
		for _, job := range jobs {
			require.Len(s, job.History, 1, "it was put once")
			require.ElementsMatch(s, needs[job.JID], job.Dependencies)
		}
	})
}

// A gambler makes transactions at random.
type gambler struct {
	*shop
	random *rand.Rand
	needs  map[string][]string // the parents of each committed job
	open   []openGamble
}

// An openGamble is a transaction with rows that appear after those of later transactions.
type openGamble struct {
	tx    *sql.Tx
	needs map[string][]string
}

// transaction puts some jobs that depend on earlier jobs.
func (g *gambler) transaction() {
	g.Helper()
	levels := map[Dialect][]sql.IsolationLevel{
		SQLite:   {sql.LevelDefault},
		Postgres: {sql.LevelReadCommitted, sql.LevelRepeatableRead, sql.LevelSerializable},
		MySQL:    {sql.LevelReadCommitted, sql.LevelRepeatableRead},
	}[g.dialect]
	level := levels[g.random.IntN(len(levels))]
	tx := must(g.db.BeginTx(g.Context(), &sql.TxOptions{Isolation: level}))(g)
	own, all := map[string][]string{}, g.jids
	for range 1 + g.random.IntN(5) {
		var parents qless.DependsOn
		for range g.random.IntN(3) {
			if len(all) == 0 {
				break
			}
			if jid := all[g.random.IntN(len(all))]; !slices.Contains(parents, jid) {
				parents = append(parents, jid)
			}
		}
		queue := []string{"q", "p", "r"}[g.random.IntN(3)]
		jid := must(g.box.Queue(tx, queue).Put(g.Context(), "K", nil, parents))(g)
		own[jid], all = parents, append(all, jid)
	}
	switch g.random.IntN(5) {
	case 0:
		require.NoError(g, tx.Rollback())
		return
	case 1:
		if g.dialect != SQLite { // where one transaction writes at a time
			g.open = append(g.open, openGamble{tx, own})
			if len(g.open) == 10 {
				g.commit(g.open[0])
				g.open = g.open[1:]
			}
			return
		}
	}
	g.commit(openGamble{tx, own})
}

// commit commits a transaction, which the database may refuse if serializable. Later transactions
// may then depend on its jobs.
func (g *gambler) commit(one openGamble) {
	if one.tx.Commit() != nil {
		return
	}
	maps.Copy(g.needs, one.needs)
	g.jids = slices.AppendSeq(g.jids, maps.Keys(one.needs))
}

func (g *gambler) commitAll() {
	for _, one := range g.open {
		g.commit(one)
	}
	g.open = nil
}
