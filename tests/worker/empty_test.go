package worker

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/testkit"
)

var orders = []string{"ordered", "round-robin", "shuffled"}

// A reserve over several queues skips queues found empty before, and still finds the same jobs as a
// reserve that checks all queues.
func TestReservesThatPassOverEmptyQueuesFindTheSame(t *testing.T) {
	t.Parallel()
	seed := testkit.Seed(t)
	for _, order := range orders {
		random := rand.New(rand.NewPCG(seed, 0))
		looks, passes := newEnv(t), newEnv(t)
		lists := [][]string{{"A", "B", "C", "D", "E"}, {"E", "C"}, {"B"}, {"D", "A", "B"}}
		cursor, jobs := "0", 0
		for range 300 {
			for range random.IntN(3) {
				jobs++
				queue, jid := string(rune('A'+random.IntN(5))), fmt.Sprint("j", jobs)
				for _, e := range []*env{looks, passes} {
					e.Put(queue, qless.JID(jid))
				}
			}
			queues, count := lists[random.IntN(len(lists))], 1+random.IntN(3)
			require.NoError(t, looks.Redis.Del(t.Context(), "ql:x:empty").Err())
			want := looks.reserve("w1", count, order, cursor, "", queues...)
			got := passes.reserve("w1", count, order, cursor, "", queues...)
			require.Equal(t, want.jids, got.jids, "%s of %v", order, queues)
			for _, jid := range got.jids {
				require.NoError(t, looks.Read(jid).Complete(t.Context()))
				require.NoError(t, passes.Read(jid).Complete(t.Context()))
			}
			cursor = strconv.Itoa(random.IntN(5))
		}
	}
}

// manyQueues returns the names of a hundred queues. Only the last one has jobs.
func (e *env) manyQueues(jobs int) []string {
	e.T.Helper()
	queues := make([]string, 100)
	for i := range queues {
		queues[i] = fmt.Sprint("q", i)
	}
	for range jobs {
		e.Put(queues[99])
	}
	return queues
}

func TestAQueueThatWasFoundEmptyCostsNoCommand(t *testing.T) {
	for order, more := range map[string]int{"ordered": 5, "round-robin": 6} {
		e := newEnv(t)
		queues := e.manyQueues(100)
		cost := func(queues ...string) int {
			return len(e.Server.Commands(t, func() {
				require.Len(t, e.reserve("w", 1, order, "0", "", queues...).jids, 1)
			}))
		}
		cost(queues[99]) // the first call of a day costs more
		one := cost(queues[99])
		cost(queues...)
		until(t, "a cheap reserve", func() bool { return cost(queues...) <= one+more }) // a new second may have begun
	}
}

// keepEmpty makes the knowledge about empty queues last until the test ends.
func (e *env) keepEmpty() {
	e.T.Helper()
	until(e.T, "empty queues are known", func() bool {
		e.reserve("w", 1, "ordered", "0", "", "A", "B", "C")
		return e.Redis.Persist(e.T.Context(), "ql:x:empty").Val()
	})
}

func TestForeignJobIsFoundBeforeTheWorkerIsIdle(t *testing.T) {
	for _, order := range orders {
		e := newEnv(t)
		e.keepEmpty()
		e.Put("C", qless.JID("ours"))
		e.quietPut("A", "of another client")
		require.Equal(t, []string{"ours"}, e.reserve("w", 1, "ordered", "0", "", "A", "B", "C").jids)
		e.Put("C", qless.JID("ours too"))
		r := e.reserve("w", 3, order, "0", "", "A", "B", "C")
		require.ElementsMatch(t, []string{"ours too", "of another client"}, r.jids)
	}
}

func TestBusyWorkerFindsAForeignJobWithinASecond(t *testing.T) {
	e := newEnv(t)
	e.Put("C")
	until(t, "empty queues are known", func() bool {
		e.reserve("w", 1, "ordered", "0", "", "A", "B", "C")
		left := e.Redis.PTTL(t.Context(), "ql:x:empty").Val()
		return left > 0 && left <= time.Second
	})
	e.quietPut("A", "of another client")
	until(t, "it is found", func() bool {
		e.Put("C") // keeps the worker busy
		return e.reserve("w", 1, "ordered", "0", "", "A", "B", "C").jids[0] == "of another client"
	})
}

// However often the workers of a namespace ask, their knowledge expires.
func TestKnowledgeOfEmptyQueuesIsNotProlonged(t *testing.T) {
	e := newEnv(t)
	const hour = time.Hour
	until(t, "empty queues are known", func() bool {
		e.reserve("w", 1, "ordered", "0", "", "A", "B", "C")
		return e.Redis.PExpire(t.Context(), "ql:x:empty", hour).Val()
	})
	for _, queue := range []string{"A", "B", "C"} {
		e.Put(queue)
		e.Put("C")
		e.reserve("w", 1, "ordered", "0", "", "A", "B", "C")
		e.reserve("w", 1, "ordered", "0", "", "C", "B")
	}
	require.InDelta(t, hour, e.Redis.PTTL(t.Context(), "ql:x:empty").Val(), float64(10*time.Minute))
}

func TestAQueueThatIsEmptyAgainIsPassedOverAgain(t *testing.T) {
	e := newEnv(t)
	e.fill(map[string]int{"C": 10})
	e.keepEmpty()
	jid := e.Put("A")
	e.Redis.Persist(t.Context(), "ql:x:filled")
	require.Equal(t, []string{jid}, e.reserve("w1", 1, "ordered", "0", "", "A", "B", "C").jids)
	require.NoError(t, e.Read(jid).Complete(t.Context()))
	e.reserve("w1", 1, "ordered", "0", "", "A", "B", "C")
	for _, command := range e.Server.Monitored(t, func() { e.reserve("w1", 1, "ordered", "0", "", "A", "B", "C") }) {
		require.NotContains(t, command.Words, "ql:q:A-work")
	}
}
