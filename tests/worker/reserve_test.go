package worker

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/testkit"
	"github.com/qless/qless-go/tests/repairs"
)

// A reservation is the reply of the command reserve.
type reservation struct {
	cursor string
	wait   float64
	claim  string
	jids   []string
}

// reserve calls the command for a worker.
func (e *env) reserve(worker string, count int, order, cursor, claim string, queues ...string) reservation {
	e.T.Helper()
	args := []any{worker, strconv.Itoa(count), "3600", "6", "order", order, "cursor", cursor, "claim", claim}
	for _, queue := range queues {
		args = append(args, queue)
	}
	reply := must(e.Run(e.T.Context(), "reserve", "", args...))(e.T)
	items := reply.([]any)
	wait := must(strconv.ParseFloat(items[1].(string), 64))(e.T)
	r := reservation{cursor: fmt.Sprint(items[0]), wait: wait, claim: items[2].(string)}
	r.jids = reservedJIDs(reply)
	return r
}

// reservedJIDs returns the jids in a reply of the command reserve.
func reservedJIDs(reply any) (all []string) {
	items := reply.([]any)
	if len(items) == 4 {
		return nil
	}
	for _, item := range items[5:] {
		if values, ok := item.([]any); ok {
			item = values[0]
		}
		jid, _, _ := strings.Cut(item.(string), "\x01")
		all = append(all, jid)
	}
	return all
}

// inOrders runs a test for both orders of queues that are not random, each in a newEnv.
func inOrders(t *testing.T, test func(t *testing.T, e *env, order string)) {
	for _, order := range []string{"ordered", "round-robin"} {
		t.Run(order, func(t *testing.T) { test(t, newEnv(t), order) })
	}
}

func TestAWorkerWithAJobPollsOrAsksAtLockExpiry(t *testing.T) {
	for poll, wait := range map[string]float64{"10": 10, "3600": 60} {
		for _, pairs := range [][]any{{"brief", "1", "ahead", "0"}, {"ahead", "0", "polls", "0"}} {
			e := newEnv(t)
			e.Put("q")
			for taken, count := range []string{"2", "1"} {
				args := append([]any{"w", count, poll, "4"}, pairs...)
				reply := must(e.Run(t.Context(), "reserve", "", append(args, "q")...))(t).([]any)
				require.Len(t, reservedJIDs(reply), 1-taken)
				got := must(strconv.ParseFloat(reply[1].(string), 64))(t)
				require.InDelta(t, wait, got, 1, "%d taken before, %v", taken, pairs)
			}
		}
	}
}

func TestACallTakesAJobOfEachDueRecurringJob(t *testing.T) {
	e := newEnv(t)
	for _, jid := range []qless.JID{"a", "b"} {
		_, err := e.Client.Queue("q").Recur(t.Context(), "K", nil, time.Hour, jid)
		require.NoError(t, err)
	}
	require.ElementsMatch(t, []string{"a-1", "b-1"}, e.reserve("w", 2, "ordered", "0", "", "q").jids)
}

// fill puts jobs A1, A2 and so on into queue A, and likewise for the others.
func (e *env) fill(counts map[string]int) {
	e.T.Helper()
	for queue, count := range counts {
		for i := range count {
			e.Put(queue, qless.JID(queue+strconv.Itoa(i+1)))
		}
	}
}

const (
	inOrder  = "C1 C2 C3 B1 B2 A1 A2 A3 A4 A5"
	inTurns  = "C1 B1 A1 C2 B2 A2 C3 A3 A4 A5"
	abcCount = 10
)

var abc = map[string]int{"A": 5, "B": 2, "C": 3}

// worksInOrder lets one worker run all jobs of abc, and returns the jids in the order of their
// runs.
func worksInOrder(t *testing.T, config qless.WorkerConfig) []string {
	e := newLiveEnv(t)
	e.fill(abc)
	handler, worked := passes()
	w := e.worker(config, handler)
	require.NoError(t, w.Start(t.Context()))
	var got []string
	for range abcCount {
		got = append(got, soon(t, "a job", worked).JID)
	}
	w.stop()
	require.Equal(t, abcCount, w.Stats().Completed)
	return got
}

func TestAWorkerTakesQueuesInOrder(t *testing.T) {
	for order, wanted := range map[qless.Order]string{qless.OrderStrict: inOrder, qless.OrderRoundRobin: inTurns} {
		got := worksInOrder(t, qless.WorkerConfig{Concurrency: 1, Order: order, Queues: []string{"C", "B", "A"}})
		require.Equal(t, wanted, strings.Join(got, " "))
	}
}

func TestAShuffledWorkerTakesAllInAnyOrder(t *testing.T) {
	firsts := map[string]bool{}
	for try := 0; try < 50 && len(firsts) < 3; try++ {
		got := worksInOrder(t, qless.WorkerConfig{
			Concurrency: 1, Order: qless.OrderShuffled, Queues: []string{"C", "B", "A"},
		})
		require.ElementsMatch(t, strings.Fields(inOrder), got)
		firsts[got[0][:1]] = true
	}
	require.Len(t, firsts, 3, "each queue is the first at times")
}

// Reserves are compared with a simple model.
func TestReservesKeepTheirOrderWhateverTheCount(t *testing.T) {
	random := rand.New(rand.NewPCG(testkit.Seed(t), 0))
	inOrders(t, func(t *testing.T, e *env, order string) {
		for range 30 {
			e.Redis.FlushAll(t.Context())
			queues := []string{"D", "C", "B", "A"}[:1+random.IntN(4)]
			counts := map[string]int{}
			for _, queue := range queues {
				counts[queue] = random.IntN(6)
			}
			e.fill(counts)
			var wanted, got []string
			for turn := range 5 {
				for _, queue := range queues {
					if turn < counts[queue] {
						wanted = append(wanted, queue+strconv.Itoa(turn+1))
					}
				}
			}
			if order == "ordered" { // by the names of the queues, then by number
				slices.SortFunc(wanted, func(a, b string) int {
					return cmp.Or(cmp.Compare(b[0], a[0]), cmp.Compare(a, b))
				})
			}
			for cursor := "0"; len(got) < len(wanted); {
				count := 1 + random.IntN(8)
				r := e.reserve("w", count, order, cursor, "", queues...)
				require.Len(t, r.jids, min(count, len(wanted)-len(got)))
				got, cursor = append(got, r.jids...), r.cursor
			}
			require.Equal(t, wanted, got)
			require.Empty(t, e.reserve("w", 9, order, "0", "", queues...).jids)
		}
	})
}

func TestExpiredLocksComeFirst(t *testing.T) {
	inOrders(t, func(t *testing.T, e *env, order string) {
		e.Set("grace-period", 0)
		e.Put("b", qless.JID("lost"))
		e.reserve("dead", 1, "ordered", "0", "", "b")
		e.Put("a", qless.JID("a1"))
		e.Put("b", qless.JID("b1"), qless.Priority(100))
		e.Clock.Advance(61 * time.Second)
		if order == "ordered" {
			require.Equal(t, []string{"lost", "b1", "a1"}, e.reserve("w", 3, order, "0", "", "b", "a").jids)
		} else {
			require.Equal(t, []string{"lost", "a1", "b1"}, e.reserve("w", 3, order, "0", "", "a", "b").jids)
		}
		require.Equal(t, 4, e.Read("lost").Remaining)
		require.Equal(t, "w", e.Read("lost").Worker)
	})
}

func TestDueJobsAreReserved(t *testing.T) {
	inOrders(t, func(t *testing.T, e *env, order string) {
		e.Put("q", qless.JID("later"), qless.Delay(10*time.Second))
		must(e.Queue("q").Recur(t.Context(), "K", nil, 10*time.Second, qless.JID("r"), qless.Offset(5*time.Second)))(t)
		r := e.reserve("w", 5, order, "0", "", "q")
		require.Empty(t, r.jids)
		require.InDelta(t, 5, r.wait, 0.001)
		require.Equal(t, "q", r.claim)
		e.Clock.Advance(11 * time.Second)
		require.ElementsMatch(t, []string{"later", "r-1"}, e.reserve("w", 5, order, "0", "q", "q").jids)
	})
}

func TestPausedQueuesGiveNothing(t *testing.T) {
	inOrders(t, func(t *testing.T, e *env, order string) {
		e.fill(abc)
		require.NoError(t, e.Queue("A").Pause(t.Context()))
		require.NoError(t, e.Queue("C").Pause(t.Context()))
		require.Equal(t, []string{"B1", "B2"}, e.reserve("w", 5, order, "0", "", "C", "B", "A").jids)
		require.NoError(t, e.Queue("C").Resume(t.Context()))
		require.Equal(t, []string{"C1", "C2", "C3"}, e.reserve("w", 5, order, "0", "", "C", "B", "A").jids)
	})
}

func TestMaxConcurrencyHoldsForAllWorkersTogether(t *testing.T) {
	inOrders(t, func(t *testing.T, e *env, order string) {
		e.Set("A-max-concurrency", 3)
		e.fill(abc)
		require.Equal(t, []string{"A1", "A2"}, e.reserve("w1", 2, order, "0", "", "A").jids)
		require.Equal(t, []string{"A3"}, e.reserve("w2", 2, order, "0", "", "A").jids)
		r := e.reserve("w3", 4, order, "0", "", "A", "B")
		require.Equal(t, []string{"B1", "B2"}, r.jids)
		require.Positive(t, r.wait, "it is idle until a job ends")
		require.NoError(t, e.Read("A1").Complete(t.Context()), "the client is w1")
		require.Equal(t, []string{"A4"}, e.reserve("w3", 4, order, "0", "", "A", "B").jids)
	})
}

// A waiting jid without a job, perhaps left by other clients, is skipped.
func TestAJobThatIsGoneHoldsUpNothing(t *testing.T) {
	inOrders(t, func(t *testing.T, e *env, order string) {
		e.fill(map[string]int{"A": 4, "B": 4})
		e.Redis.Del(t.Context(), "ql:j:A1", "ql:j:A2", "ql:j:B1")
		var got []string
		for cursor := "0"; len(got) < 5; {
			r := e.reserve("w", 2, order, cursor, "", "A", "B")
			require.NotEmpty(t, r.jids, "after %v", got)
			got, cursor = append(got, r.jids...), r.cursor
		}
		require.ElementsMatch(t, []string{"A3", "A4", "B2", "B3", "B4"}, got)

		e.Put("A", qless.JID("A5"))
		e.Put("B", qless.JID("B5"))
		e.Redis.Del(t.Context(), "ql:j:A5")
		require.Equal(t, []string{"B5"}, e.reserve("w", 1, order, "0", "", "A", "B").jids)
	})
}

// Queues without a turn cost nothing.
func TestNoMoreQueuesAreLookedIntoThanItTakes(t *testing.T) {
	inOrders(t, func(t *testing.T, e *env, order string) {
		var queues []string
		for i := range 50 {
			queues = append(queues, fmt.Sprintf("q%d", i))
			for n := range 10 {
				e.Put(queues[i], qless.JID(fmt.Sprintf("%s.%d.", queues[i], n)))
			}
		}
		e.reserve("w", 50, "round-robin", "0", "", queues...) // the first call of a day costs more
		for _, count := range []int{1, 2} {
			reserve := func(from int, queues []string) int {
				return len(e.Server.Commands(t, func() {
					require.Len(t, e.reserve("w", count, order, strconv.Itoa(from), "", queues...).jids, count)
				}))
			}
			require.Equal(t, reserve(0, queues[:10]), reserve(10, queues), order)
		}
	})
}

func TestWhichQueuesAreReady(t *testing.T) {
	e := newEnv(t)
	e.Put("waiting")
	e.Put("locked")
	e.Pop("locked")
	e.Put("scheduled", qless.Delay(time.Hour))
	e.Put("depends", qless.DependsOn{e.Put("other")})
	must(e.Queue("recurring").Recur(t.Context(), "K", nil, time.Hour, qless.Offset(time.Hour)))(t)
	e.Unchanged(func() {
		reply, err := e.Run(t.Context(), "queues.ready", "",
			"unknown", "scheduled", "recurring", "depends", "waiting", "locked")
		require.NoError(t, err)
		require.Equal(t, []any{"scheduled", "recurring", "waiting", "locked"}, reply)
		reply = must(e.Run(t.Context(), "queues.ready", ""))(t)
		require.Empty(t, reply)
	})
}

func TestAThousandQueuesAreAskedAtTheMost(t *testing.T) {
	e := newEnv(t)
	var known []string
	for i := range 1001 {
		known = append(known, "q"+strconv.Itoa(i))
	}
	queues := known[:1000]
	last := e.Put("q999")
	require.Equal(t, []string{last}, e.reserve("w", 2, "round-robin", "0", "", queues...).jids)
	args := []any{"w", "1", "10", "0"}
	for _, queue := range known {
		args = append(args, queue)
	}
	e.Unchanged(func() {
		_, err := e.Run(t.Context(), "reserve", "", args...)
		requireCode(t, qless.ErrInvalid, err)
	})
}

func TestAQueueThatAppearsIsWorkedAtOnce(t *testing.T) {
	e := newLiveEnv(t)
	e.Put("mail-a", qless.JID("first"))
	w := e.working(qless.WorkerConfig{Queues: []string{"mail-*", "!mail-slow"}}, nothing)
	require.Equal(t, "complete", w.outcome("first").action)
	e.Put("mail-slow", qless.JID("slow"))
	require.Equal(t, "complete", w.outcome(e.Put("mail-new")).action)
	require.Equal(t, "complete", w.outcome(e.Put("mail-newer")).action)
	w.stop()
	require.Equal(t, qless.StateWaiting, e.Read("slow").State)
	require.Equal(t, []string{"mail-a", "mail-new", "mail-newer"}, w.Stats().Queues)
}

func TestAWorkerWithoutAnyQueueYetWaitsForOne(t *testing.T) {
	e := newLiveEnv(t)
	w := e.worker(qless.WorkerConfig{Queues: []string{"mail-*"}, PollInterval: 100 * time.Millisecond})
	w.Handle("K", nothing)
	require.NoError(t, w.Start(t.Context()))
	require.Equal(t, "complete", w.outcome(e.Put("mail-a")).action)
}

func TestPatternFindsAQueueThatGetsJobsByUnfail(t *testing.T) {
	e := newLiveEnv(t)
	e.Put("q", qless.JID("j"))
	require.NoError(t, e.Pop("q").Fail(t.Context(), "g", "m"))
	_, running, end := e.busyWorker(qless.WorkerConfig{Queues: []string{"other", "repair-*"}})
	must(repairs.UnfailInto(t.Context(), e.Client, "repair-1", "g", 5))(t)
	soon(t, "the job", running)
	end <- nil
}

func TestQueueThatAppearsDuringALookIsWorkedAtOnce(t *testing.T) {
	e := newLiveEnv(t)
	e.Put("q", qless.JID("new"))
	require.NoError(t, e.Pop("q").Fail(t.Context(), "g", "m"))
	var armed atomic.Bool // hold back the answer to the next look-up of the queues
	looked, opened := make(chan bool, 1), make(chan struct{})
	proceed := sync.OnceFunc(func() { close(opened) })
	config := qless.WorkerConfig{Concurrency: 4, Queues: []string{"other", "repair-*"}}
	w := e.workerAt(e.Server.Addr(), config, qless.ClientConfig{
		Observer: func(_ context.Context, call qless.Command) {
			if call.Name == "queues.count" && armed.CompareAndSwap(true, false) {
				looked <- true
				<-opened
			}
		},
	})
	running, canceled, end := make(chan string, 3), make(chan bool, 3), make(chan struct{})
	t.Cleanup(func() { proceed(); close(end) }) // before the worker is stopped
	w.Handle("K", func(ctx context.Context, job *qless.Job) error {
		running <- job.JID
		select {
		case <-ctx.Done():
			canceled <- true
		case <-end:
		}
		<-end
		return nil
	})
	w.start()
	for _, jid := range []string{"kept", "canceled"} { // kept, so that the worker's claim stays
		e.Put("other", qless.JID(jid))
		require.Equal(t, jid, soon(t, "a job", running))
	}
	e.relaysAre(1)

	armed.Store(true)
	require.NoError(t, e.Redis.ClientKillByFilter(t.Context(), "TYPE", "pubsub").Err())
	soon(t, "a look-up of the queues, when the worker listens again", looked)

	// A queue appears. A worker that receives the later cancel has received the appearance as well.
	require.Equal(t, 1, must(repairs.UnfailInto(t.Context(), e.Client, "repair-1", "g", 5))(t))
	require.NoError(t, e.Cancel(t.Context(), "canceled"))
	soon(t, "the cancel", canceled)
	proceed()
	require.Equal(t, "new", soon(t, "the job of the new queue", running))
}

// Data of 512 bytes or more is sent beside the other values.
func TestAJobHasItsDataWhateverItsLength(t *testing.T) {
	for _, n := range []int{509, 510, 511, 100_000} {
		t.Run(strconv.Itoa(n), func(t *testing.T) {
			e := newLiveEnv(t)
			data := strings.Repeat("x", n) // which has two quotes besides
			jid, err := e.Queue("q").Put(t.Context(), "K", data, qless.Tags{"a"}, qless.Headers{"h": "v"})
			require.NoError(t, err)
			handler, got := passes()
			e.working(qless.WorkerConfig{}, handler)
			job := soon(t, "the job", got)
			require.Equal(t, `"`+data+`"`, string(job.Data))
			require.Equal(t, []any{jid, "K", qless.Tags{"a"}, 5, qless.Headers{"h": "v"}},
				[]any{job.JID, job.Klass, job.Tags, job.Remaining, job.Headers})
		})
	}
}

func TestValuesOfAJobAreReadWhateverTheyContain(t *testing.T) {
	for name, data := range map[string]any{"plain": "text", "separator": "a\x01b", "newline": "a\nb"} {
		t.Run(name, func(t *testing.T) {
			e := newLiveEnv(t)
			e.Put("q\x01", qless.JID("plain"))
			jid, err := e.Queue("q\x01").Put(t.Context(), "K", data, qless.Tags{"a", "b"}, qless.JID("j\x01"))
			require.NoError(t, err)
			if name == "separator" { // never in JSON, but a client may have put it
				e.Redis.HSet(t.Context(), "ql:j:"+jid, "data", "a\x01b")
			}
			e.Redis.HDel(t.Context(), "ql:j:plain", "tags")
			handler, got := passes()
			e.working(qless.WorkerConfig{Queues: []string{"q\x01"}}, handler)
			jobs := map[string]*qless.Job{}
			for range 2 {
				job := soon(t, "a job", got)
				jobs[job.JID] = job
			}
			require.Contains(t, jobs, "plain")
			job := jobs[jid]
			require.Equal(t, []any{jid, "q\x01", "K", qless.Tags{"a", "b"}, 5},
				[]any{job.JID, job.Queue, job.Klass, job.Tags, job.Remaining})
		})
	}
}

// A reserve finds the first of its queues empty. In the last queue, it finds a job without retries
// and with an expired lock: the parent of a job in the first queue.
func TestReserveThatFailsAJobFindsItsOnFailureRun(t *testing.T) {
	t.Parallel()
	for _, order := range []qless.Order{qless.OrderStrict, qless.OrderRoundRobin, qless.OrderShuffled} {
		for _, between := range []int{0, 300} {
			t.Run(fmt.Sprint(order, " ", between), func(t *testing.T) {
				e := newLiveEnv(t)
				e.Set("grace-period", "0")
				e.Set("last-heartbeat", "0.3")
				lost := e.Put("last", qless.Retries(0))
				require.Len(t, e.Pops("last", 1), 1)
				next := e.Put("first", qless.DependsOn{lost}, qless.OnFailureRun)
				queues := []string{"first"}
				for i := range between {
					queues = append(queues, fmt.Sprint("between", i))
				}
				w := e.working(qless.WorkerConfig{Queues: append(queues, "last"), Order: order}, nothing)
				require.Equal(t, "complete", w.outcome(next).action)
			})
		}
	}
}

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
