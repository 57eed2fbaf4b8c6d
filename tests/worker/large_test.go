package worker

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
)

const mebibyte = 1 << 20

// putLarge puts a job with size bytes of JSON data.
func (e *env) putLarge(queue, jid string, size int) {
	e.T.Helper()
	client := e.NewClient(e.Redis, qless.ClientConfig{MaxData: 2 * size})
	_, err := client.Queue(queue).Put(e.T.Context(), "K", strings.Repeat("x", size-2), qless.JID(jid))
	require.NoError(e.T, err)
}

// A reply has a bounded number of bytes, however many slots the worker has, but at least one job.
func TestAReserveStopsAtTwoMebibytesOfData(t *testing.T) {
	wanted := map[string][][]string{
		"ordered":     {{"j0", "j1"}, {"j2"}, {"j3"}, {"j4", "j5"}, {"r"}},
		"round-robin": {{"j0", "j1"}, {"r", "j2"}, {"j3"}, {"j4", "j5"}},
	}
	sizes := map[string]int{"r": mebibyte / 4}
	for i, quarters := range []int{3, 5, 1, 9, 7, 1} {
		sizes[fmt.Sprint("j", i)] = quarters * mebibyte / 4
	}
	for order, want := range wanted {
		e := newEnv(t)
		e.Set("grace-period", "0")
		for i := range 6 {
			jid := fmt.Sprint("j", i)
			e.putLarge("q", jid, sizes[jid])
		}
		e.putLarge("r", "r", sizes["r"])
		require.Equal(t, want, e.reserveAll(order), order)
		e.Clock.Advance(time.Hour)
		var lost []string
		for _, jids := range e.reserveAll(order) {
			bytes := 0
			for _, jid := range jids {
				bytes += sizes[jid]
			}
			if len(jids) > 1 {
				require.LessOrEqual(t, bytes, 2*mebibyte)
			}
			lost = append(lost, jids...)
		}
		require.ElementsMatch(t, slices.Collect(maps.Keys(sizes)), lost, order)
	}
}

// Small jobs do not overtake lost ones that do not fit.
func TestAReserveHandsOutLostJobsFirst(t *testing.T) {
	for _, order := range []string{"ordered", "round-robin"} {
		e := newEnv(t)
		e.Set("grace-period", "0")
		for i := range 3 {
			e.putLarge("q", fmt.Sprint("large", i), 3*mebibyte/2)
		}
		e.reserveAll(order)
		e.Clock.Advance(time.Hour)
		e.Put("q", qless.JID("small"))
		e.Put("r", qless.JID("other"))
		replies := e.reserveAll(order)
		if order == "ordered" {
			require.Equal(t, [][]string{{"large0"}, {"large1"}, {"large2", "small", "other"}}, replies)
			continue
		}
		require.Equal(t, []string{"large0", "other"}, replies[0])
		require.Equal(t, []string{"large1"}, replies[1])
	}
}

// The same holds for a reply with children of a recurring job.
func TestReserveOfRecurringJobsStopsAtTwoMebibytes(t *testing.T) {
	e := newEnv(t)
	data := strings.Repeat("x", mebibyte-2)
	_, err := e.Queue("q").Recur(t.Context(), "K", data, time.Minute)
	require.NoError(t, err)
	e.Clock.Advance(4 * time.Minute)
	var sizes []int
	for _, jids := range e.reserveAll("ordered") {
		sizes = append(sizes, len(jids))
	}
	require.Equal(t, []int{2, 2, 1}, sizes)
}

// A queue costs more than a job, so a reply has jobs from a bounded number of queues.
func TestAReserveTakesJobsOfSixtyQueues(t *testing.T) {
	const queues = 150
	names := make([]string, queues)
	for i := range names {
		names[i] = fmt.Sprintf("q%03d", i)
	}
	for _, order := range []string{"ordered", "round-robin", "shuffled"} {
		for what, delay := range map[string]time.Duration{"waiting": 0, "due": time.Minute} {
			t.Run(order+" "+what, func(t *testing.T) {
				e := newEnv(t)
				for _, name := range names {
					for _, jid := range []string{name + " 1", name + " 2"} {
						e.Put(name, qless.JID(jid), qless.Delay(delay))
					}
				}
				e.Clock.Advance(delay)
				var all, queuesOf []string
				for _, jids := range e.reserveAll(order, names...) {
					from := map[string]bool{}
					for _, jid := range jids {
						queue, _, _ := strings.Cut(jid, " ")
						from[queue] = true
						queuesOf = append(queuesOf, queue)
					}
					require.LessOrEqual(t, len(from), 60)
					all = append(all, jids...)
				}
				require.Len(t, all, 2*queues)
				require.Len(t, slices.Compact(slices.Sorted(slices.Values(all))), 2*queues)
				switch order {
				case "ordered":
					require.True(t, slices.IsSorted(queuesOf))
				case "round-robin":
					require.Equal(t, slices.Concat(names, names), queuesOf)
				}
			})
		}
	}
}

// reserveAll reserves jobs of queues, by default q and r, until there are no more, and returns the
// jids of each reply.
func (e *env) reserveAll(order string, queues ...string) (replies [][]string) {
	e.T.Helper()
	count, cursor := 250, "0"
	if len(queues) == 0 {
		count, queues = 10, []string{"q", "r"}
	}
	for more := true; more; {
		r := e.reserve("w", count, order, cursor, "", queues...)
		replies, more, cursor = append(replies, r.jids), r.wait == 0, r.cursor
	}
	return replies
}

// The worker asks for the rest at once.
func TestAWorkerRunsMoreThanFitsIntoAReply(t *testing.T) {
	e := newLiveEnv(t)
	const jobs = 7
	for i := range jobs {
		e.putLarge("q", fmt.Sprint("j", i), 3*mebibyte)
	}
	w := e.worker(qless.WorkerConfig{Concurrency: jobs})
	var running atomic.Int32
	done := make(chan struct{})
	t.Cleanup(func() { close(done) })
	w.Handle("K", func(ctx context.Context, _ *qless.Job) error {
		running.Add(1)
		select {
		case <-done:
		case <-ctx.Done():
		}
		return nil
	})
	require.NoError(t, w.Start(t.Context()))
	until(t, "they run side by side", func() bool { return running.Load() == jobs })
}

// Outcomes are sent in steps, too, if jobs change large data.
func TestAWorkerReportsTwoMebibytesOfDataAtATime(t *testing.T) {
	e := newLiveEnv(t)
	w := e.worker(qless.WorkerConfig{Concurrency: 5})
	w.Handle("K", func(_ context.Context, job *qless.Job) error {
		return job.SetData(strings.Repeat("y", 900<<10))
	})
	w.instead("finish", func(func() error) error { // until all outcomes wait
		until(t, "no job runs", func() bool {
			s := w.Stats()
			return w.count(of("reserve")) > 0 && len(s.Running) == 0 && e.Counts("q").Waiting == 0
		})
		w.instead("finish", nil)
		return errOffline
	})
	var jids []string
	for range 5 {
		jids = append(jids, e.Put("q"))
	}
	w.start()
	for _, jid := range jids {
		require.Equal(t, "complete", w.ends(jid).action)
	}
	reports := w.count(func(c tapped) bool {
		bytes := 0
		for _, arg := range c.args {
			bytes += len(arg)
		}
		require.LessOrEqual(t, bytes, 2*mebibyte)
		return c.script == "finish" && c.err == nil
	})
	require.GreaterOrEqual(t, reports, 3)
}
