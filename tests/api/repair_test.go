package api

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
	"github.com/qless/qless-go/internal/testkit"
	"github.com/qless/qless-go/tests/repairs"
)

// codes returns the codes of the jobs that a call has skipped, by jid.
func codes(r inspect.Repair) map[string]qless.Code {
	all := map[string]qless.Code{}
	for jid, err := range r.Reasons {
		all[jid] = err.Code
	}
	return all
}

// left holds the codes of the jobs that a call has skipped.
type left = map[string]qless.Code

// does requires that a call has changed a number of jobs and skipped others.
func does(t *testing.T, r inspect.Repair, err error, count int, others left) {
	t.Helper()
	require.NoError(t, err)
	require.Equal(t, count, r.Changed)
	require.Equal(t, others, codes(r))
	require.Equal(t, len(others), r.Unchanged)
	for jid, err := range r.Reasons {
		require.Equal(t, jid, err.JID)
		require.NotEmpty(t, err.Op)
		require.NotEmpty(t, err.Message)
	}
}

// waiting returns the jids of the waiting jobs of a queue, in order.
func (e *env) waiting(queue string) []string { return e.lists(inspect.Waiting, queue) }

func TestRetryPutsJobsBackWhereTheyFailed(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		for i := range 5 {
			e.fail(fmt.Sprint("q", i%2), "g", qless.JID(fmt.Sprint("j", i)), qless.Retries(2))
			e.Clock.Advance(time.Second)
		}
		r, err := e.inspect().Failed("g").AtMost(3).Unfail(t.Context())
		does(t, r, err, 3, left{})
		require.ElementsMatch(t, []string{"j0", "j2"}, e.waiting("q0"))
		require.Equal(t, []string{"j1"}, e.waiting("q1"))
		require.Equal(t, 2, e.Read("j0").Remaining)
		r, err = e.inspect().Failed("g").Unfail(t.Context(), qless.Retries(7), qless.TTL(time.Hour))
		does(t, r, err, 2, left{})
		require.Equal(t, 7, e.Read("j3").Remaining)
		require.Equal(t, 7, e.Read("j3").Retries)
		require.WithinDuration(t, e.Clock.Now().Add(time.Hour), e.Read("j4").Until, time.Second)
		require.Empty(t, must(e.inspect().FailureGroups(t.Context()))(t))
		e.Clock.Advance(2 * time.Hour)
		require.Equal(t, []string{"j1"}, jids(e.Pops("q1", 9)), "j3 has lived for too long")
		r, err = e.inspect().Failed("g").Unfail(t.Context())
		does(t, r, err, 0, left{})
		for _, count := range []int{0, -2} {
			requireCode(t, qless.ErrInvalid, errOf(e.inspect().Failed("g").AtMost(count).Unfail(t.Context())))
			requireCode(t, qless.ErrInvalid, errOf(e.inspect().Failed("g").AtMost(count).Cancel(t.Context())))
		}
		requireCode(t, qless.ErrInvalid, errOf(e.inspect().Failed("").AtMost(1).Unfail(t.Context())))
		requireCode(t, qless.ErrInvalid, errOf(e.inspect().Failed("g").AtMost(1).Unfail(t.Context(), qless.Retries(-1))))
		requireCode(t, qless.ErrInvalid, errOf(e.inspect().Failed("g").AtMost(1).Unfail(t.Context(), qless.TTL(0))))
		requireCode(t, qless.ErrInvalid, errOf(e.inspect().Failed("g").AtMost(1).Unfail(t.Context(), nil)))
	})
}

func TestRetryKeepsTheOrderOfTheFailures(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		want := []string{"b", "d", "a", "c"}
		e.failIn("q", want...)
		require.NoError(t, errOf(e.inspect().Failed("g").Unfail(t.Context())))
		require.Equal(t, want, jids(e.Pops("q", 9)))
	})
}

func TestOptionsOfAnUnfail(t *testing.T) {
	for name, unfail := range map[string]func(e *env, options ...qless.UnfailOption) error{
		"a job": func(e *env, options ...qless.UnfailOption) error {
			return e.Read("j").Unfail(e.T.Context(), options...)
		},
		"a group": func(e *env, options ...qless.UnfailOption) error {
			return errOf(repairs.Unfail(e.T.Context(), e.Client, "g", 1, options...))
		},
		"many jobs": func(e *env, options ...qless.UnfailOption) error {
			return errOf(e.inspect().JIDs("j").Unfail(e.T.Context(), options...))
		},
	} {
		runOnEach(t, name, func(t *testing.T, e *env) {
			e.fail("q", "g", qless.JID("j"), qless.StartBy(time.Hour), qless.Unique("k"), qless.Headers{"a": "b"})
			requireCode(t, qless.ErrInvalid, unfail(e, qless.TTL(-5)))
			require.NoError(t, unfail(e, qless.Retries(0), qless.TTL(time.Minute)))
			job := e.Read("j")
			require.Equal(t, qless.StateWaiting, job.State)
			require.Zero(t, job.Retries)
			require.Zero(t, job.Remaining)
			require.Equal(t, qless.Headers{"a": "b"}, job.Headers)
			require.WithinDuration(t, e.Clock.Now().Add(time.Minute), job.Until, time.Second)
			require.Equal(t, "j", must(e.Holder(t.Context(), "k"))(t))
			e.Clock.Advance(2 * time.Minute)
			require.Empty(t, e.Pops("q", 1))

			e.fail("q", "g", qless.JID("j"), qless.TTL(time.Hour))
			require.NoError(t, unfail(e))
			require.Zero(t, e.Read("j").Until, "the earlier TTL no longer counts")
			require.Equal(t, 5, e.Read("j").Remaining)
		})
	}
}

func TestWhatIsInAFailureGroupByMistakeLeavesIt(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		do := func(run func() (inspect.Repair, error), count int) {
			t.Helper()
			e.fail("q", "g", qless.JID("failed"))
			e.Put("q", qless.JID("waiting"))
			require.NoError(t, e.Redis.LPush(t.Context(), "ql:f:g", "gone", "waiting").Err())
			r, err := run()
			does(t, r, err, count, left{"gone": qless.ErrNotFound, "waiting": qless.ErrNotFailed})
			require.Zero(t, e.Redis.Exists(t.Context(), "ql:f:g").Val())
			require.Equal(t, qless.StateWaiting, e.Read("waiting").State)
		}
		do(func() (inspect.Repair, error) { return e.inspect().Failed("g").Unfail(t.Context()) }, 1)
		do(func() (inspect.Repair, error) { return e.inspect().Failed("g").Cancel(t.Context()) }, 1)
	})
}

func TestCancelFailedDeletesTheOldestFirst(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		for i := range 6 {
			e.fail("q", "g", qless.JID(fmt.Sprint("j", i)), qless.Tags{"t"})
		}
		e.Put("q", qless.JID("child"), qless.DependsOn{"j1"})
		r, err := e.inspect().Failed("g").AtMost(3).Cancel(t.Context())
		does(t, r, err, 3, left{"j1": qless.ErrHasDependents})
		require.Equal(t, []string{"j5", "j4", "j1"}, e.all(e.inspect().Failed("g")))
		r, err = e.inspect().Failed("g").Cancel(t.Context())
		does(t, r, err, 2, left{"j1": qless.ErrHasDependents})
		require.Equal(t, []string{"j1"}, e.all(e.inspect().Tagged("t")))
	})
}

func TestABrokenConnectionLeavesWholeStepsDone(t *testing.T) {
	for name, c := range map[string]struct {
		run  func(e *env, c *qless.Client) (inspect.Repair, error)
		last string // the beginning of the jids of the second step
	}{
		"retry": {func(e *env, c *qless.Client) (inspect.Repair, error) {
			return inspect.New(c).Failed("g").Unfail(e.T.Context())
		}, `["g-000100"`},
		"cancel": {func(e *env, c *qless.Client) (inspect.Repair, error) {
			return inspect.New(c).Failed("g").Cancel(e.T.Context())
		}, `["g-000100"`},
		"cancel of a list": {func(e *env, c *qless.Client) (inspect.Repair, error) {
			require.NoError(e.T, errOf(e.inspect().Failed("g").Unfail(e.T.Context())))
			return inspect.New(c).Queue("q", inspect.Waiting).Where(inspect.Filter{Klass: "K"}).Cancel(e.T.Context())
		}, `["g-000050"`},
	} {
		for _, ran := range []bool{false, true} {
			runEnv(t, fmt.Sprint(name, ran), func(t *testing.T, e *env) {
				e.failGroup(150, "g")
				proxy := testkit.NewProxy(t, e.Server.Addr())
				if ran {
					proxy.CutBeforeReply(c.last)
				} else {
					proxy.CutAfterRequest(c.last)
				}
				r, err := c.run(e, e.through(proxy, qless.ClientConfig{}))
				requireCode(t, qless.ErrUnavailable, err)
				require.Equal(t, 100, r.Changed)
				remain := func() int {
					n := must(e.Redis.LLen(t.Context(), "ql:f:g").Result())(t)
					if name == "cancel of a list" {
						n = must(e.Redis.ZCard(t.Context(), "ql:q:q-work").Result())(t)
					}
					return int(n)
				}
				want := 50
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
		ctx := t.Context()
		for i := range 3 {
			e.Put("q", qless.JID(fmt.Sprint("run", i)))
		}
		e.Pops("q", 3)
		for i := range 4 {
			e.Put("q", qless.JID(fmt.Sprint("wait", i)), qless.Tags{fmt.Sprint("t", i%2)})
			e.Put("q", qless.JID(fmt.Sprint("later", i)), qless.Delay(time.Hour))
		}
		e.Put("q", qless.JID("child"), qless.DependsOn{"wait0"})
		e.Put("q", qless.JID("grandchild"), qless.DependsOn{"child"})

		in := e.inspect()
		requireCode(t, qless.ErrInvalid, errOf(in.Queue("q", inspect.Waiting).Where(inspect.Filter{}).Cancel(ctx)))
		requireCode(t, qless.ErrInvalid, errOf(in.Queue("q", inspect.Recurring).Cancel(ctx)))
		requireCode(t, qless.ErrInvalid, errOf(in.Queue("q", "failed").Cancel(ctx)))
		requireCode(t, qless.ErrInvalid, errOf(in.Queue("q", inspect.Waiting).Where(inspect.Filter{Klass: "\xff"}).Cancel(ctx)))
		r, err := in.Queue("q", inspect.Waiting).Where(inspect.Filter{Klass: "other"}).Cancel(ctx)
		does(t, r, err, 0, left{})
		r, err = in.Queue("q", inspect.Waiting).Where(inspect.Filter{Tag: "t0"}).Cancel(ctx)
		does(t, r, err, 1, left{"wait0": qless.ErrHasDependents})
		r, err = in.Queue("q", inspect.Scheduled).Where(inspect.Filter{JID: "later"}).AtMost(3).Cancel(ctx)
		does(t, r, err, 3, left{})
		r, err = in.Queue("q", inspect.Depends).Cancel(ctx)
		does(t, r, err, 2, left{})
		r, err = in.Queue("q", inspect.Waiting).Cancel(ctx)
		does(t, r, err, 3, left{})
		require.Equal(t, 3, e.Counts("q").Running)
		r, err = in.Queue("q", inspect.Running).Where(inspect.Filter{Data: "{}", Klass: "K"}).Cancel(ctx)
		does(t, r, err, 3, left{})
		require.Equal(t, 1, e.Counts("q").Scheduled)
	})
}

func TestPromoteLetsScheduledJobsBePoppedNow(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		e.start("q", qless.JID("running"))
		e.fail("q", "g", qless.JID("failed"))
		e.Put("q", qless.JID("child"), qless.DependsOn{"running"})
		e.Put("q", qless.JID("later"), qless.Delay(time.Hour), qless.Priority(3))
		e.Put("q", qless.JID("now"))
		e.Put("q2", qless.JID("elsewhere"), qless.Delay(time.Hour))
		r, err := e.inspect().JIDs("later", "now", "running", "failed", "child", "none", "elsewhere", "later").Promote(t.Context())
		does(t, r, err, 3, left{
			"running": qless.ErrRunning, "failed": qless.ErrNotScheduled, "child": qless.ErrNotScheduled,
			"none": qless.ErrNotFound,
		})
		require.Equal(t, []string{"later", "now"}, e.waiting("q"))
		require.Equal(t, qless.StateWaiting, e.Read("later").State)
		require.Equal(t, []string{"later", "now"}, jids(e.Pops("q", 9)))
		require.Equal(t, []string{"elsewhere"}, e.waiting("q2"))
		requireCode(t, qless.ErrInvalid, errOf(e.inspect().JIDs().Promote(t.Context())))
	})
}

func TestPromoteOfAParkedJobMakesItDue(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		e.park("q", "j")
		r, err := e.inspect().JIDs("j").Promote(t.Context())
		does(t, r, err, 1, left{})
		page := must(e.inspect().Queue("q", inspect.Scheduled).List(t.Context(), inspect.Range{}))(t)
		require.Len(t, page.Items, 1)
		require.True(t, page.Items[0].IsDue)
		require.Equal(t, "api", page.Items[0].Parked)
		require.Empty(t, e.Pops("q", 1))
		require.Equal(t, "api", e.Read("j").Parked, "it is parked again")
	})
}

func TestAParkedJobThatIsRescheduledWaitsForItsTimeOnly(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		e.park("q", "j")
		require.NoError(t, e.Read("j").Reschedule(t.Context(), time.Hour))
		require.Empty(t, e.Read("j").Parked)
		require.Zero(t, must(e.inspect().Limit(t.Context(), "api"))(t).Parked)
		require.NoError(t, e.Limit("api").Unset(t.Context()))
		require.Equal(t, qless.StateScheduled, e.Read("j").State)
	})
}

// Only the first parked job of a limit falls due when a slot is free, so another one has to follow.
func TestParkedJobTakesTheRoomOfARescheduledOne(t *testing.T) {
	for name, at := range map[string]time.Duration{
		"before there is room": 5 * time.Second, "when there is": 11 * time.Second,
	} {
		runOnEach(t, name, func(t *testing.T, e *env) {
			e.limit("api", qless.LimitConfig{Rate: 1, Per: 10 * time.Second})
			e.putLimited("q", "first j next", "api")
			require.Equal(t, "first", e.popped("q", 3))
			e.Clock.Advance(at)
			require.NoError(t, e.Read("j").Reschedule(t.Context(), time.Hour))
			e.Clock.Advance(11*time.Second - at)
			require.Equal(t, "next", e.popped("q", 3))
		})
	}
}

func TestRescheduleChangesOnlyWhenAJobIsDue(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		ctx := t.Context()
		require.NoError(t, errOf(e.Queue("q").Put(ctx, "K", "data", qless.JID("j"), qless.Retries(3), qless.TTL(5*time.Hour))))
		require.NoError(t, errOf(e.Pop("q").Retry(ctx, 0, "", "")))
		before := e.Read("j")
		due := func() time.Time { return e.scheduled("q")[0].Due.Round(time.Second).UTC() }
		for _, delay := range []time.Duration{time.Hour, 2 * time.Hour, time.Minute} {
			require.NoError(t, e.Read("j").Reschedule(ctx, delay))
			require.Equal(t, e.Clock.Now().Add(delay).Round(time.Second), due())
			require.Empty(t, e.Pops("q", 1))
		}
		require.NoError(t, e.Read("j").Reschedule(ctx, 0))
		after := e.Read("j")
		after.Worker = before.Worker
		require.Equal(t, before, after)
		e.Put("q", qless.JID("k"))
		require.NoError(t, e.Read("j").Reschedule(ctx, 0))
		require.Equal(t, []string{"k", "j"}, e.waiting("q"), "behind the others")

		requireCode(t, qless.ErrInvalid, e.Read("j").Reschedule(ctx, 6*time.Hour))
		requireCode(t, qless.ErrInvalid, e.Read("j").Reschedule(ctx, -1))
		requireCode(t, qless.ErrInvalid, (&qless.Job{}).Reschedule(ctx, 1))
		gone := e.Read("k")
		require.NoError(t, gone.Cancel(ctx))
		requireCode(t, qless.ErrNotFound, gone.Reschedule(ctx, time.Hour))
		job := e.Pop("q")
		requireCode(t, qless.ErrRunning, job.Reschedule(ctx, time.Hour))
		require.NoError(t, job.Complete(ctx))
		requireCode(t, qless.ErrNotScheduled, job.Reschedule(ctx, time.Hour))
	})
}

// scheduled reads the scheduled jobs of a queue.
func (e *env) scheduled(queue string) []inspect.Row {
	e.T.Helper()
	page, err := e.inspect().Queue(queue, inspect.Scheduled).List(e.T.Context(), inspect.Range{})
	require.NoError(e.T, err)
	return page.Items
}

func TestBulkDoesTheSameWithManyJobs(t *testing.T) {
	onEach(t, func(t *testing.T, e *env) {
		ctx := t.Context()
		names := []string{"a", "b", "c"}
		for _, jid := range names {
			require.NoError(t, errOf(e.Queue("q").Put(ctx, "K", jid, qless.JID(jid), qless.Tags{"old"})))
		}
		bulk := e.inspect().JIDs("a", "b", "none", "a")
		gone := left{"none": qless.ErrNotFound}
		both := func(r inspect.Repair, err error) {
			t.Helper()
			does(t, r, err, 2, gone)
		}
		both(bulk.SetPriority(ctx, 5))
		require.Equal(t, 5, e.Read("a").Priority)
		require.Zero(t, e.Read("c").Priority)
		both(bulk.Tag(ctx, "new", "old"))
		require.Equal(t, qless.Tags{"old", "new"}, e.Read("a").Tags)
		both(bulk.Untag(ctx, "old"))
		require.Equal(t, qless.Tags{"new"}, e.Read("b").Tags)
		require.Equal(t, []string{"c"}, e.all(e.inspect().Tagged("old")))
		both(bulk.Track(ctx))
		require.True(t, e.Read("b").Tracked)
		both(bulk.Untrack(ctx))
		require.False(t, e.Read("b").Tracked)
		both(bulk.Move(ctx, "q2", qless.Delay(time.Hour), qless.TTL(2*time.Hour), qless.Priority(1)))
		require.Equal(t, `"a"`, string(e.Read("a").Data))
		require.Equal(t, qless.StateScheduled, e.Read("a").State)
		require.Equal(t, 1, e.Read("a").Priority)
		require.WithinDuration(t, e.Clock.Now().Add(2*time.Hour), e.Read("b").Until, time.Second)
		r, err := bulk.Unfail(ctx)
		does(t, r, err, 0, left{"none": qless.ErrNotFound, "a": qless.ErrNotFailed, "b": qless.ErrNotFailed})
		both(bulk.Promote(ctx))
		e.Pops("q2", 2)
		r, err = bulk.Move(ctx, "q", qless.IfNotRunning)
		does(t, r, err, 0, left{"none": qless.ErrNotFound, "a": qless.ErrExists, "b": qless.ErrExists})
		e.Put("q", qless.JID("child"), qless.DependsOn{"a"})
		r, err = e.inspect().JIDs("a", "b", "c").Cancel(ctx)
		does(t, r, err, 2, left{"a": qless.ErrHasDependents})
		r, err = e.inspect().JIDs("child", "a", "none").Cancel(ctx)
		does(t, r, err, 2, gone)
		e.fail("q", "g", qless.JID("f"))
		r, err = e.inspect().JIDs("f").Unfail(ctx)
		does(t, r, err, 1, left{})
		done := e.Pop("q")
		require.Equal(t, "f", done.JID)
		require.NoError(t, done.Complete(ctx))
		r, err = e.inspect().JIDs("f").Cancel(ctx)
		does(t, r, err, 0, left{"f": qless.ErrFinished})

		for _, err := range []error{
			errOf(e.inspect().JIDs().Cancel(ctx)), errOf(e.inspect().JIDs("").Cancel(ctx)), errOf(bulk.Tag(ctx)),
			errOf(bulk.Move(ctx, "q", qless.JID("x"))), errOf(bulk.Move(ctx, "q", qless.Unique("x"))),
			errOf(bulk.Move(ctx, "q", qless.IfAbsent)), errOf(bulk.Move(ctx, "q", qless.DependsOn{"x"})),
			errOf(bulk.Move(ctx, "")), errOf(bulk.Move(ctx, "q", nil)), errOf(bulk.Unfail(ctx, nil)),
			errOf(bulk.Move(ctx, "q", qless.Delay(time.Hour), qless.TTL(time.Minute))),
		} {
			requireCode(t, qless.ErrInvalid, err)
		}
	})
}
