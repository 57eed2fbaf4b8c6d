package worker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/testkit"
	"github.com/qless/qless-go/tests/repairs"
)

const mebibyte = 1 << 20

// putLarge puts a job with size bytes of JSON data.
func (e *env) putLarge(queue, jid string, size int) {
	e.T.Helper()
	client := e.NewClient(e.Redis, qless.ClientConfig{MaxData: 2 * size})
	must(client.Queue(queue).Put(e.T.Context(), "K", strings.Repeat("x", size-2), qless.JID(jid)))(e.T)
}

// A reply has a bounded number of bytes, regardless of the worker's slots, but at least one job.
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

// Small jobs do not overtake lost jobs that do not fit.
func TestAReserveHandsOutLostJobsFirst(t *testing.T) {
	inOrders(t, func(t *testing.T, e *env, order string) {
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
			return
		}
		require.Equal(t, []string{"large0", "other"}, replies[0])
		require.Equal(t, []string{"large1"}, replies[1])
	})
}

// The same holds for a reply with children of a recurring job.
func TestReserveOfRecurringJobsStopsAtTwoMebibytes(t *testing.T) {
	e := newEnv(t)
	must(e.Queue("q").Recur(t.Context(), "K", strings.Repeat("x", mebibyte-2), time.Minute))(t)
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

// reserveAll reserves jobs of queues, by default q and r, until none are left, and returns the jids
// of each reply.
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
	handler, running, _ := hold()
	require.NoError(t, e.worker(qless.WorkerConfig{Concurrency: jobs}, handler).Start(t.Context()))
	for range jobs {
		soon(t, "a job beside the others", running)
	}
}

// Outcomes are sent in steps, too, if jobs change large data.
func TestAWorkerReportsTwoMebibytesOfDataAtATime(t *testing.T) {
	e, w := workerEnv(t, qless.WorkerConfig{Concurrency: 5})
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

// putDependents puts a job into one queue, and its dependents into another queue, without our
// workers.
func (e *env) putDependents(dependents int, options ...qless.PutOption) (base string) {
	e.T.Helper()
	base = e.Put("q")
	e.putBacklog("theirs", dependents, append(options, qless.DependsOn{base})...)
	return base
}

// awaitReleased waits until all dependents can be popped.
func (e *env) awaitReleased(dependents int) {
	e.T.Helper()
	testkit.Until(e.T, "all dependents are released", func() bool {
		return e.Counts("theirs").Waiting == dependents
	})
	require.Empty(e.T, e.Redis.Keys(e.T.Context(), "ql:x:rest*").Val())
}

func TestAWorkerReleasesAllDependentsOfAJob(t *testing.T) {
	e, w := workingEnv(t, qless.WorkerConfig{}, nothing)
	require.Equal(t, "complete", w.outcome(e.putDependents(1300)).action)
	e.awaitReleased(1300)
}

func TestAWorkerNotifiesAllDependentsOfAFailure(t *testing.T) {
	e, w := workerEnv(t, qless.WorkerConfig{})
	w.Handle("K", func(context.Context, *qless.Job) error { return qless.FailWith("g", errors.New("no")) })
	base := e.putDependents(900, qless.OnFailureRun)
	w.start()
	require.Equal(t, "fail", w.outcome(base).action)
	e.awaitReleased(900)
}

// A program completed a job, and ended before releasing all dependents.
func TestAWorkerReleasesWhatOthersHaveLeft(t *testing.T) {
	e := newLiveEnv(t)
	base := e.putDependents(1300)
	require.Equal(t, []string{base}, jids(must(e.As("ended").Queue("q").Pop(t.Context(), 1))(t)))
	answer := must(e.Run(t.Context(), "finish", "", "ended", "complete", base, "q", "", "0"))(t)
	require.Equal(t, []any{"complete+"}, answer)
	require.Equal(t, 250, e.Counts("theirs").Waiting)
	e.working(qless.WorkerConfig{}, nothing)
	e.awaitReleased(1300)
}

// maxText is the bound of each text of a failure, in bytes.
const maxText = 16 << 10

// longTexts are texts too long to be kept whole by a job.
func longTexts() map[string]string {
	return map[string]string{
		"one line": "first " + strings.Repeat("ä", 3<<20) + " last",
		"lines":    "first\n" + strings.Repeat("<p>\n", 1<<20) + "last",
		"no UTF-8": "first " + strings.Repeat("\xff", 1<<20) + " last",
	}
}

// requireCut checks the stored text of a failure.
func requireCut(t *testing.T, f *qless.Failure) {
	t.Helper()
	require.NotNil(t, f)
	require.LessOrEqual(t, len(f.Message), maxText)
	require.LessOrEqual(t, len(f.Group), maxText)
	require.True(t, utf8.ValidString(f.Message))
	require.True(t, utf8.ValidString(f.Group))
	require.Contains(t, f.Message, "first")
}

func TestTheLongTextOfAFailureIsCut(t *testing.T) {
	ways := map[string]func(ctx context.Context, job *qless.Job, text string) error{
		"error": func(_ context.Context, _ *qless.Job, text string) error { return errors.New(text) },
		"FailWith": func(_ context.Context, _ *qless.Job, text string) error {
			return qless.FailWith(text, errors.New(text))
		},
		"panic": func(_ context.Context, _ *qless.Job, text string) error { panic(text) },
		"Fail":  func(ctx context.Context, job *qless.Job, text string) error { return job.Fail(ctx, group(text), text) },
		"Retry": func(ctx context.Context, job *qless.Job, text string) error {
			_, err := job.Retry(ctx, 0, group(text), text)
			return err
		},
	}
	for what, text := range longTexts() {
		for way, fail := range ways {
			t.Run(way+"/"+what, func(t *testing.T) {
				e := newLiveEnv(t)
				w := e.working(qless.WorkerConfig{}, func(ctx context.Context, job *qless.Job) error { return fail(ctx, job, text) })
				jid := e.Put("q", qless.Retries(0))
				until(t, "it has failed", func() bool { return e.state(jid) == "failed" })
				requireCut(t, e.Read(jid).Failure)
				size := must(e.Redis.MemoryUsage(t.Context(), "ql:j:"+jid, 0).Result())(t)
				require.Less(t, size, int64(8*maxText), "nothing else keeps it")
				w.stop()
			})
		}
	}
}

// group returns a text as the name of a group, which must be UTF-8.
func group(text string) string { return strings.ToValidUTF8(text, "?") }

func TestALongTextThatEndsAJobIsCut(t *testing.T) {
	e := newLiveEnv(t)
	for what, text := range longTexts() {
		jid := e.Put("q")
		_, err := repairs.End(t.Context(), e.Client, jid, repairs.Ending{
			State: qless.StateFailed, Group: group(text), Message: text,
		})
		require.NoError(t, err, what)
		requireCut(t, e.Read(jid).Failure)
	}
}

// The stack of a panic is stored even if its value is long.
func TestAPanicWithALongValueKeepsItsStack(t *testing.T) {
	e := newLiveEnv(t)
	job, _ := e.works(qless.WorkerConfig{}, func(context.Context, *qless.Job) error {
		explode("first " + strings.Repeat("x", 1<<20))
		return nil
	})
	requireCut(t, job.Failure)
	require.Contains(t, job.Failure.Message, "explode")
	require.Contains(t, job.Failure.Message, " bytes are left out]")
}

func TestALogEntryIsBounded(t *testing.T) {
	e := newLiveEnv(t)
	job := e.Read(e.Put("q"))
	require.NoError(t, job.Log(t.Context(), "first "+strings.Repeat("x", 1<<20), nil))
	require.NoError(t, job.Refresh(t.Context()))
	what := job.History[len(job.History)-1].What
	require.LessOrEqual(t, len(what), maxText)
	require.Contains(t, what, "first")
	tooLong := map[string]string{"k": strings.Repeat("x", 8<<20)}
	requireCode(t, qless.ErrInvalid, job.Log(t.Context(), "message", tooLong))
}
