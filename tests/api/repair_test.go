package api

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/testkit"
)

// codes returns the codes of what a call has left, by jid.
func codes(r qless.BulkResult) map[string]qless.Code {
	all := map[string]qless.Code{}
	for jid, err := range r.Errors {
		all[jid] = err.Code
	}
	return all
}

// left is what a call says of jobs that it has left.
type left = map[string]qless.Code

// does requires that a call has changed a number of jobs and left others.
func does(t *testing.T, r qless.BulkResult, err error, count int, others left) {
	t.Helper()
	require.NoError(t, err)
	require.Equal(t, count, r.Count)
	require.Equal(t, others, codes(r))
	require.Equal(t, len(others), r.Left)
	for jid, err := range r.Errors {
		require.Equal(t, jid, err.JID)
		require.NotEmpty(t, err.Op)
		require.NotEmpty(t, err.Message)
	}
}

// waiting returns the jids of what waits in a queue, in order.
func (e *env) waiting(queue string) []string { return e.lists(qless.ListWaiting, queue) }

func TestRetryPutsJobsBackIntoTheQueuesInWhichTheyFailed(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		for i := range 5 {
			e.fail(fmt.Sprint("q", i%2), "g", qless.JID(fmt.Sprint("j", i)), qless.Retries(2))
			e.clock.Advance(time.Second)
		}
		r, err := e.Retry(t.Context(), "g", 3)
		does(t, r, err, 3, left{})
		require.ElementsMatch(t, []string{"j0", "j2"}, e.waiting("q0"))
		require.Equal(t, []string{"j1"}, e.waiting("q1"))
		require.Equal(t, 2, e.job("j0").Remaining)
		r, err = e.Retry(t.Context(), "g", -1, qless.Retries(7), qless.TTL(time.Hour))
		does(t, r, err, 2, left{})
		require.Equal(t, 7, e.job("j3").Remaining)
		require.Equal(t, 7, e.job("j3").Retries)
		require.WithinDuration(t, e.clock.Now().Add(time.Hour), e.job("j4").Until, time.Second)
		groups, err := e.FailureGroups(t.Context())
		require.NoError(t, err)
		require.Empty(t, groups)
		e.clock.Advance(2 * time.Hour)
		require.Equal(t, []string{"j1"}, jids(e.pops("q1", 9)), "j3 has lived for too long")
		r, err = e.Retry(t.Context(), "g", -1)
		does(t, r, err, 0, left{})
		for _, count := range []int{0, -2} {
			requireCode(t, qless.ErrInvalid, errOf(e.Retry(t.Context(), "g", count)))
			requireCode(t, qless.ErrInvalid, errOf(e.CancelFailed(t.Context(), "g", count)))
		}
		requireCode(t, qless.ErrInvalid, errOf(e.Retry(t.Context(), "", 1)))
		requireCode(t, qless.ErrInvalid, errOf(e.Retry(t.Context(), "g", 1, qless.Retries(-1))))
		requireCode(t, qless.ErrInvalid, errOf(e.Retry(t.Context(), "g", 1, qless.TTL(0))))
		requireCode(t, qless.ErrInvalid, errOf(e.Retry(t.Context(), "g", 1, nil)))
	})
}

func TestRetryKeepsTheOrderOfTheFailures(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		want := []string{"b", "d", "a", "c"}
		e.failIn("q", want...)
		_, err := e.Retry(t.Context(), "g", -1)
		require.NoError(t, err)
		require.Equal(t, want, jids(e.pops("q", 9)))
	})
}

func TestOptionsOfAnUnfail(t *testing.T) {
	for name, unfail := range map[string]func(e *env, options ...qless.UnfailOption) error{
		"a job": func(e *env, options ...qless.UnfailOption) error { return e.job("j").Unfail(e.t.Context(), options...) },
		"a group": func(e *env, options ...qless.UnfailOption) error {
			return errOf(e.Unfail(e.t.Context(), "g", 1, options...))
		},
		"into a queue": func(e *env, options ...qless.UnfailOption) error {
			return errOf(e.Queue("q").Unfail(e.t.Context(), "g", 1, options...))
		},
		"many jobs": func(e *env, options ...qless.UnfailOption) error {
			return errOf(e.Bulk("j").Retry(e.t.Context(), options...))
		},
	} {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(t *testing.T, e *env) {
				e.fail("q", "g", qless.JID("j"), qless.StartBy(time.Hour), qless.Unique("k"), qless.Header("a", "b"))
				requireCode(t, qless.ErrInvalid, unfail(e, qless.TTL(-5)))
				require.NoError(t, unfail(e, qless.Retries(0), qless.TTL(time.Minute)))
				job := e.job("j")
				require.Equal(t, qless.StateWaiting, job.State)
				require.Zero(t, job.Retries)
				require.Zero(t, job.Remaining)
				require.Equal(t, map[string]string{"a": "b"}, job.Headers)
				require.WithinDuration(t, e.clock.Now().Add(time.Minute), job.Until, time.Second)
				holder, err := e.Holder(t.Context(), "k")
				require.NoError(t, err)
				require.Equal(t, "j", holder)
				e.clock.Advance(2 * time.Minute)
				require.Empty(t, e.pops("q", 1))

				e.fail("q", "g", qless.JID("j"), qless.TTL(time.Hour))
				require.NoError(t, unfail(e))
				require.Zero(t, e.job("j").Until, "what it had has ended")
				require.Equal(t, 5, e.job("j").Remaining)
			})
		})
	}
}

func TestWhatIsInAFailureGroupByMistakeLeavesIt(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		do := func(run func() (qless.BulkResult, error), count int) {
			t.Helper()
			e.fail("q", "g", qless.JID("failed"))
			e.put("q", qless.JID("waiting"))
			require.NoError(t, e.rdb.LPush(t.Context(), "ql:f:g", "gone", "waiting").Err())
			r, err := run()
			does(t, r, err, count, left{"gone": qless.CodeNotFound, "waiting": qless.CodeNotFailed})
			require.Zero(t, e.rdb.Exists(t.Context(), "ql:f:g").Val())
			require.Equal(t, qless.StateWaiting, e.job("waiting").State)
		}
		do(func() (qless.BulkResult, error) { return e.Retry(t.Context(), "g", -1) }, 1)
		do(func() (qless.BulkResult, error) { return e.CancelFailed(t.Context(), "g", -1) }, 1)
	})
}

func TestCancelFailedDeletesTheOldestFirst(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		for i := range 6 {
			e.fail("q", "g", qless.JID(fmt.Sprint("j", i)), qless.Tags("t"))
		}
		e.put("q", qless.JID("child"), qless.DependsOn("j1"))
		r, err := e.CancelFailed(t.Context(), "g", 3)
		does(t, r, err, 3, left{"j1": qless.CodeHasDependents})
		failed, err := e.FailedIn(t.Context(), "g", qless.Range{})
		require.NoError(t, err)
		require.Equal(t, []string{"j5", "j4", "j1"}, failed.Items)
		r, err = e.CancelFailed(t.Context(), "g", -1)
		does(t, r, err, 2, left{"j1": qless.CodeHasDependents})
		tagged, err := e.Tagged(t.Context(), "t", qless.Range{})
		require.NoError(t, err)
		require.Equal(t, []string{"j1"}, tagged.Items)
	})
}

// failMany makes jobs fail without a pop of each.
func (e *env) failMany(count int) {
	e.t.Helper()
	pipe := e.rdb.Pipeline()
	for i := range count {
		jid := fmt.Sprintf("j%04d", i)
		pipe.HSet(e.t.Context(), "ql:j:"+jid, "jid", jid, "klass", "K", "state", "failed", "queue", "q", "priority", "0",
			"retries", "5", "remaining", "-1", "tags", "[]", "data", "{}", "failure", `{"group":"g","message":"m","when":1}`)
		pipe.LPush(e.t.Context(), "ql:f:g", jid)
	}
	pipe.SAdd(e.t.Context(), "ql:failures", "g")
	_, err := pipe.Exec(e.t.Context())
	require.NoError(e.t, err)
}

func TestABrokenConnectionLeavesWholeStepsDone(t *testing.T) {
	for name, c := range map[string]struct {
		run  func(e *env, c *qless.Client) (qless.BulkResult, error)
		last string // what the request of the second step has
	}{
		"retry": {func(e *env, c *qless.Client) (qless.BulkResult, error) { return c.Retry(e.t.Context(), "g", -1) },
			"\r\n$3\r\n200\r\n"},
		"cancel": {func(e *env, c *qless.Client) (qless.BulkResult, error) { return c.CancelFailed(e.t.Context(), "g", -1) },
			"\r\n$3\r\n200\r\n"},
		"cancel of a list": {func(e *env, c *qless.Client) (qless.BulkResult, error) {
			require.NoError(e.t, errOf(e.Retry(e.t.Context(), "g", -1)))
			return c.Queue("q").Cancel(e.t.Context(), qless.ListWaiting, qless.Filter{Klass: "K"})
		}, " j0"},
	} {
		for _, ran := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ran), func(t *testing.T) {
				e := newEnv(t)
				e.failMany(450)
				proxy := testkit.NewProxy(t, e.server.Addr())
				if ran {
					proxy.CutBeforeReply(c.last)
				} else {
					proxy.CutAfterRequest(c.last)
				}
				rdb := redis.NewClient(&redis.Options{Addr: proxy.Addr()})
				t.Cleanup(func() { _ = rdb.Close() })
				r, err := c.run(e, e.client(rdb))
				requireCode(t, qless.ErrUnavailable, err)
				require.Equal(t, 250, r.Count)
				remain := func() int {
					n, err := e.rdb.LLen(t.Context(), "ql:f:g").Result()
					require.NoError(t, err)
					if name == "cancel of a list" {
						n, err = e.rdb.ZCard(t.Context(), "ql:q:q-work").Result()
						require.NoError(t, err)
					}
					return int(n)
				}
				want := 200
				if ran {
					testkit.Until(t, "the script ran", func() bool { return remain() == 0 })
					want = 0
				}
				require.Equal(t, want, remain())
				r, err = c.run(e, e.Client)
				does(t, r, err, want, left{})
			})
		}
	}
}

func TestQueueCancelMeansOneListAndAFilter(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		ctx, queue := t.Context(), e.Queue("q")
		for i := range 3 {
			e.put("q", qless.JID(fmt.Sprint("run", i)))
		}
		e.pops("q", 3)
		for i := range 4 {
			e.put("q", qless.JID(fmt.Sprint("wait", i)), qless.Tags(fmt.Sprint("t", i%2)))
			e.put("q", qless.JID(fmt.Sprint("later", i)), qless.Delay(time.Hour))
		}
		e.put("q", qless.JID("child"), qless.DependsOn("wait0"))
		e.put("q", qless.JID("grandchild"), qless.DependsOn("child"))

		requireCode(t, qless.ErrInvalid, errOf(queue.Cancel(ctx, qless.ListWaiting, qless.Filter{})))
		requireCode(t, qless.ErrInvalid, errOf(queue.Cancel(ctx, qless.ListWaiting, qless.Filter{Limit: 5})))
		requireCode(t, qless.ErrInvalid, errOf(queue.Cancel(ctx, qless.ListRecurring, qless.Filter{All: true})))
		requireCode(t, qless.ErrInvalid, errOf(queue.Cancel(ctx, "failed", qless.Filter{All: true})))
		requireCode(t, qless.ErrInvalid, errOf(queue.Cancel(ctx, qless.ListWaiting, qless.Filter{Klass: "\xff"})))
		r, err := queue.Cancel(ctx, qless.ListWaiting, qless.Filter{Klass: "other"})
		does(t, r, err, 0, left{})
		r, err = queue.Cancel(ctx, qless.ListWaiting, qless.Filter{Tag: "t0"})
		does(t, r, err, 1, left{"wait0": qless.CodeHasDependents})
		r, err = queue.Cancel(ctx, qless.ListScheduled, qless.Filter{JID: "later", Limit: 3})
		does(t, r, err, 3, left{})
		r, err = queue.Cancel(ctx, qless.ListDepends, qless.Filter{All: true})
		does(t, r, err, 2, left{})
		r, err = queue.Cancel(ctx, qless.ListWaiting, qless.Filter{All: true})
		does(t, r, err, 3, left{})
		require.Equal(t, 3, e.counts("q").Running)
		r, err = queue.Cancel(ctx, qless.ListRunning, qless.Filter{Data: "{}", Klass: "K"})
		does(t, r, err, 3, left{})
		require.Equal(t, 1, e.counts("q").Scheduled)
	})
}

func TestPromoteLetsScheduledJobsBePoppedNow(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		e.put("q", qless.JID("running"))
		e.pop("q")
		e.fail("q", "g", qless.JID("failed"))
		e.put("q", qless.JID("child"), qless.DependsOn("running"))
		e.put("q", qless.JID("later"), qless.Delay(time.Hour), qless.Priority(3))
		e.put("q", qless.JID("now"))
		e.put("q2", qless.JID("elsewhere"), qless.Delay(time.Hour))
		r, err := e.Queue("q").Promote(t.Context(), "later", "now", "running", "failed", "child", "none", "elsewhere", "later")
		does(t, r, err, 2, left{
			"running": qless.CodeRunning, "failed": qless.CodeNotScheduled, "child": qless.CodeNotScheduled,
			"none": qless.CodeNotFound, "elsewhere": qless.CodeWrongQueue,
		})
		require.Equal(t, []string{"later", "now"}, e.waiting("q"))
		require.Equal(t, qless.StateWaiting, e.job("later").State)
		require.Equal(t, []string{"later", "now"}, jids(e.pops("q", 9)))
		require.NoError(t, e.job("elsewhere").Promote(t.Context()))
		require.Equal(t, []string{"elsewhere"}, e.waiting("q2"))
		requireCode(t, qless.ErrRunning, e.job("running").Promote(t.Context()))
		requireCode(t, qless.ErrInvalid, (&qless.Job{}).Promote(t.Context()))
		requireCode(t, qless.ErrInvalid, errOf(e.Queue("q").Promote(t.Context())))
		requireCode(t, qless.ErrInvalid, errOf(e.Queue("").Promote(t.Context(), "j")))
	})
}

func TestPromoteOfAParkedJobMakesItDue(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		e.park("q", "j")
		r, err := e.Queue("q").Promote(t.Context(), "j")
		does(t, r, err, 1, left{})
		page, err := e.Queue("q").List(t.Context(), qless.ListScheduled, qless.Range{})
		require.NoError(t, err)
		require.Len(t, page.Items, 1)
		require.True(t, page.Items[0].IsDue)
		require.Equal(t, "api", page.Items[0].ParkedBy)
		require.Empty(t, e.pops("q", 1))
		require.Equal(t, "api", e.job("j").Parked, "it is parked again")
	})
}

func TestAParkedJobThatIsRescheduledWaitsForItsTimeOnly(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		e.park("q", "j")
		require.NoError(t, e.job("j").Reschedule(t.Context(), time.Hour))
		require.Empty(t, e.job("j").Parked)
		info, err := e.Limit("api").Info(t.Context())
		require.NoError(t, err)
		require.Zero(t, info.Parked)
		require.NoError(t, e.Limit("api").Delete(t.Context()))
		require.Equal(t, qless.StateScheduled, e.job("j").State)
	})
}

// Only the best parked job of a limit falls due when there is room, so another one has to follow it.
func TestTheNextParkedJobTakesTheRoomOfOneThatIsRescheduled(t *testing.T) {
	for name, at := range map[string]time.Duration{
		"before there is room": 5 * time.Second, "when there is": 11 * time.Second,
	} {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(t *testing.T, e *env) {
				e.limit("api", qless.LimitConfig{Rate: 1, Per: 10 * time.Second})
				e.putLimited("q", "first j next", "api")
				require.Equal(t, "first", e.popped("q", 3))
				e.clock.Advance(at)
				require.NoError(t, e.job("j").Reschedule(t.Context(), time.Hour))
				e.clock.Advance(11*time.Second - at)
				require.Equal(t, "next", e.popped("q", 3))
			})
		})
	}
}

func TestRescheduleChangesOnlyWhenAJobIsDue(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		ctx := t.Context()
		require.NoError(t, errOf(e.Queue("q").Put(ctx, "K", "data", qless.JID("j"), qless.Retries(3), qless.TTL(5*time.Hour))))
		require.NoError(t, errOf(e.pop("q").Retry(ctx)))
		before := e.job("j")
		due := func() time.Time { return e.scheduled("q")[0].Due.Round(time.Second).UTC() }
		for _, delay := range []time.Duration{time.Hour, 2 * time.Hour, time.Minute} {
			require.NoError(t, e.job("j").Reschedule(ctx, delay))
			require.Equal(t, e.clock.Now().Add(delay).Round(time.Second), due())
			require.Empty(t, e.pops("q", 1))
		}
		require.NoError(t, e.job("j").Reschedule(ctx, 0))
		after := e.job("j")
		after.Worker = before.Worker
		require.Equal(t, before, after)
		e.put("q", qless.JID("k"))
		require.NoError(t, e.job("j").Reschedule(ctx, 0))
		require.Equal(t, []string{"k", "j"}, e.waiting("q"), "behind the others")

		requireCode(t, qless.ErrInvalid, e.job("j").Reschedule(ctx, 6*time.Hour))
		requireCode(t, qless.ErrInvalid, e.job("j").Reschedule(ctx, -1))
		requireCode(t, qless.ErrInvalid, (&qless.Job{}).Reschedule(ctx, 1))
		gone := e.job("k")
		require.NoError(t, gone.Cancel(ctx))
		requireCode(t, qless.ErrNotFound, gone.Reschedule(ctx, time.Hour))
		job := e.pop("q")
		requireCode(t, qless.ErrRunning, job.Reschedule(ctx, time.Hour))
		require.NoError(t, job.Complete(ctx))
		requireCode(t, qless.ErrNotScheduled, job.Reschedule(ctx, time.Hour))
	})
}

// scheduled reads the scheduled jobs of a queue.
func (e *env) scheduled(queue string) []qless.JobSummary {
	e.t.Helper()
	page, err := e.Queue(queue).List(e.t.Context(), qless.ListScheduled, qless.Range{})
	require.NoError(e.t, err)
	return page.Items
}

func TestBulkDoesTheSameWithManyJobs(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		ctx := t.Context()
		names := []string{"a", "b", "c"}
		for _, jid := range names {
			require.NoError(t, errOf(e.Queue("q").Put(ctx, "K", jid, qless.JID(jid), qless.Tags("old"))))
		}
		bulk := e.Bulk("a", "b", "none", "a")
		gone := left{"none": qless.CodeNotFound}
		both := func(r qless.BulkResult, err error) {
			t.Helper()
			does(t, r, err, 2, gone)
		}
		both(bulk.SetPriority(ctx, 5))
		require.Equal(t, 5, e.job("a").Priority)
		require.Zero(t, e.job("c").Priority)
		both(bulk.Tag(ctx, "new", "old"))
		require.Equal(t, []string{"old", "new"}, e.job("a").Tags)
		both(bulk.Untag(ctx, "old"))
		require.Equal(t, []string{"new"}, e.job("b").Tags)
		tagged, err := e.Tagged(ctx, "old", qless.Range{})
		require.NoError(t, err)
		require.Equal(t, []string{"c"}, tagged.Items)
		both(bulk.Track(ctx))
		require.True(t, e.job("b").Tracked)
		both(bulk.Untrack(ctx))
		require.False(t, e.job("b").Tracked)
		both(bulk.Move(ctx, "q2", qless.Delay(time.Hour), qless.TTL(2*time.Hour), qless.Priority(1)))
		require.Equal(t, `"a"`, string(e.job("a").Data))
		require.Equal(t, qless.StateScheduled, e.job("a").State)
		require.Equal(t, 1, e.job("a").Priority)
		require.WithinDuration(t, e.clock.Now().Add(2*time.Hour), e.job("b").Until, time.Second)
		r, err := bulk.Retry(ctx)
		does(t, r, err, 0, left{"none": qless.CodeNotFound, "a": qless.CodeNotFailed, "b": qless.CodeNotFailed})
		both(bulk.Promote(ctx))
		e.pops("q2", 2)
		r, err = bulk.Move(ctx, "q", qless.IfNotRunning())
		does(t, r, err, 0, left{"none": qless.CodeNotFound, "a": qless.CodeExists, "b": qless.CodeExists})
		e.put("q", qless.JID("child"), qless.DependsOn("a"))
		r, err = e.Bulk("a", "b", "c").Cancel(ctx)
		does(t, r, err, 2, left{"a": qless.CodeHasDependents})
		r, err = e.Bulk("child", "a", "none").Cancel(ctx)
		does(t, r, err, 2, gone)
		e.fail("q", "g", qless.JID("f"))
		r, err = e.Bulk("f").Retry(ctx)
		does(t, r, err, 1, left{})
		done := e.pop("q")
		require.Equal(t, "f", done.JID)
		require.NoError(t, done.Complete(ctx))
		r, err = e.Bulk("f").Cancel(ctx)
		does(t, r, err, 0, left{"f": qless.CodeFinished})

		for _, err := range []error{
			errOf(e.Bulk().Cancel(ctx)), errOf(e.Bulk("").Cancel(ctx)), errOf(bulk.Tag(ctx)),
			errOf(bulk.Move(ctx, "q", qless.JID("x"))), errOf(bulk.Move(ctx, "q", qless.Unique("x"))),
			errOf(bulk.Move(ctx, "q", qless.IfAbsent())), errOf(bulk.Move(ctx, "q", qless.DependsOn("x"))),
			errOf(bulk.Move(ctx, "")), errOf(bulk.Move(ctx, "q", nil)), errOf(bulk.Retry(ctx, nil)),
			errOf(bulk.Move(ctx, "q", qless.Delay(time.Hour), qless.TTL(time.Minute))),
		} {
			requireCode(t, qless.ErrInvalid, err)
		}
	})
}
