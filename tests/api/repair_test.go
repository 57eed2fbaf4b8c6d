package api

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
	"github.com/qless/qless-go/internal/testkit"
	"github.com/qless/qless-go/lease"
	"github.com/qless/qless-go/tests/repairs"
)

// codes returns the codes of the jobs skipped by a call, by jid.
func codes(r inspect.Repair) map[string]qless.Code {
	all := map[string]qless.Code{}
	for jid, err := range r.Reasons {
		all[jid] = err.Code
	}
	return all
}

// left holds the codes of the jobs skipped by a call.
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
func (e *env) waiting(queue string) []string { return e.all(e.inspect().Queue(queue, inspect.Waiting)) }

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

// The methods of repairOnEach are tests on a real server, and on miniredis.
type repairOnEach struct{}

func TestRepairsOnEachServer(t *testing.T) { runEach(t, repairOnEach{}) }

func (repairOnEach) WhatIsInAFailureGroupByMistakeLeavesIt(t *testing.T, e *env) {
	do := func(run func() (inspect.Repair, error), count int) {
		t.Helper()
		e.fail("q", "g", qless.JID("failed"))
		e.Put("q", qless.JID("waiting"))
		require.NoError(t, e.Redis.Set(t.Context(), "ql:j:damaged", 1, 0).Err())
		require.NoError(t, e.Redis.LPush(t.Context(), "ql:f:g", "gone", "waiting", "damaged").Err())
		r, err := run()
		does(t, r, err, count, left{"gone": qless.ErrNotFound, "waiting": qless.ErrNotFailed, "damaged": qless.ErrServer})
		require.Equal(t, []string{"damaged"}, e.Redis.LRange(t.Context(), "ql:f:g", 0, -1).Val())
		require.NoError(t, e.Redis.Del(t.Context(), "ql:f:g").Err())
		require.Equal(t, qless.StateWaiting, e.Read("waiting").State)
	}
	do(func() (inspect.Repair, error) { return e.inspect().Failed("g").Unfail(t.Context()) }, 1)
	do(func() (inspect.Repair, error) { return e.inspect().Failed("g").Cancel(t.Context()) }, 1)
}

func (repairOnEach) CancelFailedDeletesTheOldestFirst(t *testing.T, e *env) {
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

func (repairOnEach) PromoteLetsScheduledJobsBePoppedNow(t *testing.T, e *env) {
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
}

func (repairOnEach) PromoteOfAParkedJobMakesItDue(t *testing.T, e *env) {
	e.slots("api", 1)
	e.putLimited("q", "holder j", "api")
	require.Equal(t, "holder", e.popped("q", 2))
	r, err := e.inspect().JIDs("j").Promote(t.Context())
	does(t, r, err, 1, left{})
	page := must(e.inspect().Queue("q", inspect.Scheduled).List(t.Context(), inspect.Range{}))(t)
	require.Len(t, page.Items, 1)
	require.True(t, page.Items[0].IsDue)
	require.Equal(t, "api", page.Items[0].Parked)
	require.Empty(t, e.Pops("q", 1))
	require.Equal(t, "api", e.Read("j").Parked, "it is parked again")
	require.NoError(t, e.Read("j").Reschedule(t.Context(), time.Hour))
	require.Empty(t, e.Read("j").Parked, "it waits for its time only")
}

func (repairOnEach) RescheduleChangesOnlyWhenAJobIsDue(t *testing.T, e *env) {
	ctx := t.Context()
	require.NoError(t, errOf(e.Queue("q").Put(ctx, "K", "data", qless.JID("j"), qless.Retries(3), qless.TTL(5*time.Hour))))
	require.NoError(t, errOf(e.Pop("q").Retry(ctx, 0, "", "")))
	before := e.Read("j")
	due := func() time.Time {
		page := must(e.inQueue(inspect.Scheduled).List(ctx, inspect.Range{}))(t)
		return page.Items[0].Due.Round(time.Second).UTC()
	}
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
}

func (repairOnEach) BulkDoesTheSameWithManyJobs(t *testing.T, e *env) {
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
	r, err = e.inspect().JIDs("a", "c").Timeout(ctx)
	does(t, r, err, 1, left{"c": qless.ErrNotRunning})
	require.Equal(t, qless.StateTimedOut, e.Read("a").State)
	require.Equal(t, "a", e.Pop("q2").JID)
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
		errOf(bulk.Move(ctx, "")), errOf(bulk.Move(ctx, "q", nil)), errOf(bulk.Unfail(ctx, nil)), errOf(bulk.Unfail(ctx, qless.Retries(-1))),
		errOf(bulk.Move(ctx, "q", qless.Delay(time.Hour), qless.TTL(time.Minute))),
	} {
		requireCode(t, qless.ErrInvalid, err)
	}
}

// A scene has jobs in a list, changed by a repair while other clients change some of them.
type scene struct {
	*env
	random *rand.Rand
	jids   []string
	all    []string // and the jids of jobs added meanwhile
}

// lists fill a list with the jobs of a scene.
var lists = map[string]func(s *scene) inspect.Selection{
	"waiting": func(s *scene) inspect.Selection { s.putAll(); return s.inQueue(inspect.Waiting) },
	"unique": func(s *scene) inspect.Selection {
		s.putAll(qless.Unique("k"), qless.Limits{"l"})
		return s.inQueue(inspect.Waiting)
	},
	"scheduled": func(s *scene) inspect.Selection {
		s.putAll(qless.Delay(time.Hour))
		return s.inQueue(inspect.Scheduled)
	},
	"parked": func(s *scene) inspect.Selection {
		s.slots("l", 1)
		s.putAll(qless.Limits{"l"})
		s.Pops("q", len(s.jids))
		return s.inQueue(inspect.Scheduled)
	},
	"depends": func(s *scene) inspect.Selection {
		s.putAll(qless.DependsOn{s.Put("other", qless.JID("parent"))})
		return s.inQueue(inspect.Depends)
	},
	"batches": func(s *scene) inspect.Selection {
		for _, jid := range s.jids {
			_, err := s.NewBatch(s.T.Context(), "q",
				qless.NewKlass[any](klassOf(jid)).Spec(nil, qless.JID(jid), qless.Tags{"old"}))
			require.NoError(s.T, err)
		}
		return s.inQueue(inspect.Depends).Where(inspect.Filter{Batch: true})
	},
	"running": func(s *scene) inspect.Selection { s.runAll(); return s.inQueue(inspect.Running) },
	"stalled": func(s *scene) inspect.Selection {
		s.runAll()
		s.Clock.Advance(time.Hour)
		return s.inQueue(inspect.Stalled)
	},
	"held": func(s *scene) inspect.Selection { return s.inspect().HeldBy(s.runAll()[0].Worker) },
	"tagged": func(s *scene) inspect.Selection {
		s.putAll(qless.Tags{"t", "old"})
		return s.inspect().Tagged("t")
	},
	"chained": func(s *scene) inspect.Selection { // each odd job waits for the job before it
		for i, jid := range s.jids {
			options := []qless.PutOption{qless.JID(jid), qless.Tags{"t", "old"}}
			if i%2 == 1 {
				options = append(options, qless.DependsOn{s.jids[i-1]})
			}
			require.NoError(s.T, errOf(s.Queue("q").Put(s.T.Context(), klassOf(jid), nil, options...)))
		}
		return s.inspect().Tagged("t")
	},
	"tracked": func(s *scene) inspect.Selection {
		s.putAll()
		require.NoError(s.T, errOf(s.inspect().JIDs(s.jids...).Track(s.T.Context())))
		return s.inspect().Tracked()
	},
	"failed": func(s *scene) inspect.Selection {
		for _, job := range s.runAll() {
			require.NoError(s.T, job.Fail(s.T.Context(), "g", "m"))
		}
		return s.inspect().Failed("g")
	},
	"completed": func(s *scene) inspect.Selection {
		for _, job := range s.runAll() {
			require.NoError(s.T, job.Complete(s.T.Context()))
		}
		return s.inspect().Completed()
	},
	"jids": func(s *scene) inspect.Selection { s.putAll(); return s.inspect().JIDs(s.jids...) },
}

// runAll puts the jobs, and pops them.
func (s *scene) runAll() []*qless.Job {
	s.putAll()
	return s.Pops("q", len(s.jids))
}

// klassOf returns the klass of a job of a scene: one of two.
func klassOf(jid string) string { return "K" + strconv.Itoa(int(jid[len(jid)-1])%2) }

// putAll puts the jobs, with random priorities. A unique key is followed by the jid.
func (s *scene) putAll(options ...qless.PutOption) {
	s.T.Helper()
	specs := make([]qless.JobSpec, len(s.jids))
	for i, jid := range s.jids {
		given := []qless.PutOption{qless.JID(jid), qless.Priority(s.random.IntN(4)), qless.Tags{"old"}}
		for _, option := range options {
			if _, ok := option.(qless.UniqueOption); ok {
				option = qless.Unique(jid)
			}
			given = append(given, option)
		}
		specs[i] = qless.JobSpec{Klass: klassOf(jid), Options: given}
	}
	require.NoError(s.T, errOf(s.Queue("q").PutMany(s.T.Context(), specs)))
}

// A change is a repair of a selection.
type change struct {
	run func(s inspect.Selection) (inspect.Repair, error)
	// allows reports whether a job allows the change.
	allows func(job *qless.Job) bool
	// hides reports whether the change may leave the visible parts of a job unchanged.
	hides func(job *qless.Job) bool
}

func always(*qless.Job) bool { return true }
func never(*qless.Job) bool  { return false }

// in reports whether a job is in a state.
func in(state qless.State) func(*qless.Job) bool {
	return func(job *qless.Job) bool { return job.State == state }
}

func tracked(job *qless.Job) bool   { return job.Tracked }
func untracked(job *qless.Job) bool { return !job.Tracked }

// uncomplete, due and unmoved are for cancelable and promotable jobs, and for jobs that a promotion
// may leave in place: a parked job stays scheduled.
func uncomplete(job *qless.Job) bool { return job.State != qless.StateComplete }
func due(job *qless.Job) bool        { return isWaiting(job) || in(qless.StateScheduled)(job) }
func unmoved(job *qless.Job) bool    { return isWaiting(job) || len(job.Options.Limits) > 0 }
func isWaiting(job *qless.Job) bool  { return job.State == qless.StateWaiting }

func changes(ctx context.Context) map[string]change {
	type all = inspect.Selection
	type repair = inspect.Repair
	failed, running, later := in(qless.StateFailed), in(qless.StateRunning), qless.Delay(time.Minute)
	return map[string]change{
		"cancel":         {func(s all) (repair, error) { return s.Cancel(ctx) }, uncomplete, never},
		"unfail":         {func(s all) (repair, error) { return s.Unfail(ctx) }, failed, never},
		"move":           {func(s all) (repair, error) { return s.Move(ctx, "q", later) }, always, never},
		"move last":      {func(s all) (repair, error) { return s.Move(ctx, "q") }, always, never},
		"promote":        {func(s all) (repair, error) { return s.Promote(ctx) }, due, unmoved},
		"timeout":        {func(s all) (repair, error) { return s.Timeout(ctx) }, running, never},
		"priority":       {func(s all) (repair, error) { return s.SetPriority(ctx, 2_000) }, always, never},
		"lower priority": {func(s all) (repair, error) { return s.SetPriority(ctx, -2_000) }, always, never},
		"tag":            {func(s all) (repair, error) { return s.Tag(ctx, "new") }, always, never},
		"untag":          {func(s all) (repair, error) { return s.Untag(ctx, "old") }, always, never},
		"track":          {func(s all) (repair, error) { return s.Track(ctx) }, always, tracked},
		"untrack":        {func(s all) (repair, error) { return s.Untrack(ctx) }, always, untracked},
	}
}

func TestRepairsReportWhatTheyChange(t *testing.T) {
	seed := rand.Uint64()
	if given := os.Getenv("REPAIR_SEED"); given != "" {
		seed = must(strconv.ParseUint(given, 10, 64))(t)
	}
	t.Logf("REPAIR_SEED=%d", seed)
	for i, name := range slices.Sorted(maps.Keys(changes(t.Context()))) {
		all := slices.Sorted(maps.Keys(lists))
		for _, n := range rand.New(rand.NewPCG(seed, uint64(i))).Perm(len(all))[:5] {
			list := all[n]
			t.Run(list+" "+name, func(t *testing.T) {
				own := fnv.New64()
				_, _ = own.Write([]byte(t.Name()))
				s := &scene{env: newEnv(t), random: rand.New(rand.NewPCG(seed, own.Sum64()))}
				for i := range 101 + s.random.IntN(60) {
					s.jids = append(s.jids, fmt.Sprintf("j%03d", i))
				}
				s.all = slices.Clone(s.jids)
				s.repairs(changes(t.Context())[name], lists[list](s))
			})
		}
	}
}

// repairs repairs a selection, and compares the result with the changes of each step.
func (s *scene) repairs(c change, selection inspect.Selection) {
	if s.random.IntN(3) == 0 {
		selection = selection.Where(inspect.Filter{Klass: "K1"})
	}
	all, atMost := selection, math.MaxInt
	if s.random.IntN(4) == 0 {
		atMost = 1 + s.random.IntN(len(s.jids))
		selection = selection.AtMost(atMost)
	}
	before, wanted := s.existing(), s.listed(all)
	listed := wanted
	start, soFar := before, inspect.Repair{}
	changed, disturbed := map[string]bool{}, map[string]bool{}
	r := must(c.run(selection.OnStep(func(r inspect.Repair) error {
		after := s.existing()
		shown, hidden := s.differ(before, after), 0
		for _, jid := range shown {
			require.False(s.T, changed[jid], "%s is changed twice", jid)
			require.True(s.T, wanted[jid], "%s was not selected", jid)
			require.True(s.T, listed[jid], "%s had left the list", jid)
			changed[jid] = true
		}
		for _, job := range before {
			if c.hides(job.Job) {
				hidden++
			}
		}
		require.GreaterOrEqual(s.T, r.Changed-soFar.Changed, len(shown))
		require.LessOrEqual(s.T, r.Changed-soFar.Changed, len(shown)+hidden)
		left := s.listed(all)
		for range 3 {
			s.disturb()
		}
		before, listed, soFar = s.existing(), s.listed(all), r
		for jid := range left {
			disturbed[jid] = disturbed[jid] || !listed[jid] // a limit may let a parked job go
		}
		for _, jid := range s.differ(after, before) {
			disturbed[jid] = true
		}
		return nil
	})))(s.T)
	require.Equal(s.T, soFar.Changed, r.Changed)
	require.LessOrEqual(s.T, r.Changed, min(atMost, len(wanted)))
	require.Len(s.T, r.Reasons, r.Unchanged)
	for jid := range wanted {
		job, why := start[jid].Job, r.Reasons[jid]
		switch {
		case changed[jid] || why != nil:
			require.False(s.T, changed[jid] && why != nil, "%s is both changed and left: %v", jid, why)
			if why == nil || !errors.Is(why, qless.ErrHasDependents) || r.Changed < atMost {
				require.True(s.T, disturbed[jid] || c.allows(job) == changed[jid], "%s: %v", jid, why)
			}
		case !disturbed[jid] && !c.hides(job) && r.Changed < atMost:
			s.T.Errorf("%s is forgotten", jid)
		}
	}
}

// listed returns which jobs are selected now.
func (s *scene) listed(selection inspect.Selection) map[string]bool {
	all := map[string]bool{}
	for row, err := range selection.Each(s.T.Context()) {
		require.NoError(s.T, err)
		all[row.JID] = true
	}
	return all
}

// differ returns the jobs that differ between two readings.
func (s *scene) differ(a, b map[string]sight) []string {
	var jids []string
	for _, jid := range s.all {
		if a[jid].looks != b[jid].looks {
			jids = append(jids, jid)
		}
	}
	return jids
}

// A sight is a job, and the looks of its parts, but not of its dependencies.
type sight struct {
	*qless.Job
	looks string
}

// disturb lets another client put a job, and change one in some way, if that is possible.
func (s *scene) disturb() {
	ctx, q := s.T.Context(), s.Queue("q")
	jid := must(q.Put(ctx, "K1", 1, qless.Priority(s.random.IntN(9)-4), qless.Tags{"old"}))(s.T)
	s.all = append(s.all, jid)
	job, err := s.Job(ctx, s.all[s.random.IntN(len(s.all))])
	if err == nil {
		switch s.random.IntN(4) {
		case 0:
			err = job.Cancel(ctx)
		case 1:
			err = job.SetPriority(ctx, s.random.IntN(8)-4)
		case 2:
			err = job.Unfail(ctx)
		case 3:
			err = job.Move(ctx, "elsewhere")
		}
	}
	s.tolerate(err)
	if s.random.IntN(2) == 0 {
		return
	}
	for _, job := range s.Pops("q", 1) {
		switch s.random.IntN(3) {
		case 0:
			_, err = job.Retry(ctx, time.Hour, "g", "m")
		case 1:
			err = job.Fail(ctx, "g", "m")
		case 2:
			err = job.Complete(ctx)
		}
		s.tolerate(err)
	}
}

// tolerate allows a job to refuse another client's change.
func (s *scene) tolerate(err error) {
	s.T.Helper()
	var own *qless.Error
	if err != nil && (!errors.As(err, &own) || errors.Is(err, qless.ErrServer)) {
		s.T.Errorf("unexpected: %v", err)
	}
}

// existing reads the existing jobs of the scene.
func (s *scene) existing() map[string]sight {
	all := map[string]sight{}
	for job, err := range inspect.New(s.Client).JIDs(s.all...).Jobs(s.T.Context()) {
		require.NoError(s.T, err)
		state := job.State
		if state == qless.StateScheduled && len(job.Options.Limits) > 0 {
			state = qless.StateWaiting // any step may return a parked job to work
		}
		own := fmt.Sprint(state, job.Queue, job.Worker, job.Priority, job.Remaining, job.Tags, job.Tracked,
			job.Failure, job.Expires, len(job.History))
		all[job.JID] = sight{job, own}
	}
	return all
}

func TestRecurringJobsAreNotRepaired(t *testing.T) {
	e := newEnv(t)
	require.NoError(t, errOf(e.Queue("q").Recur(t.Context(), "K", nil, time.Hour, qless.JID("r"))))
	e.Unchanged(func() {
		for name, c := range changes(t.Context()) {
			_, err := c.run(e.inQueue(inspect.Recurring))
			require.ErrorIs(t, err, qless.ErrInvalid, name)
		}
	})
}

// These tests cancel several jobs by Client.Cancel, which proceeds in steps.

// canceledAtOnce is the number of jobs canceled by a script. cancelCost is the number of its
// commands, for jobs that have not failed and do not depend on others, including the check of each
// of 500 jobs.
const (
	canceledAtOnce = 100
	cancelCost     = canceledAtOnce*15 + 500 + 20
)

// putAll puts jobs, and returns their jids.
func (e *env) putAll(count int, options ...qless.PutOption) []string {
	e.T.Helper()
	specs := specs(count, options...)
	var all []string
	for part := range slices.Chunk(specs, 1000) {
		all = append(all, e.puts("q", part...)...)
	}
	return all
}

// putChain puts jobs, each waiting for the job before.
func (e *env) putChain(count int) []string {
	e.T.Helper()
	specs := make([]qless.JobSpec, count)
	for i := range specs {
		specs[i] = qless.NewKlass[any]("K").Spec(nil, qless.JID(fmt.Sprintf("link%04d", i)))
		if i > 0 {
			specs[i].Options = append(specs[i].Options, qless.DependsOn{fmt.Sprintf("link%04d", i-1)})
		}
	}
	return e.puts("q", specs...)
}

func TestACancelOfHundredsGoesInSteps(t *testing.T) {
	for _, count := range []int{2, 99, 100, 101, 500} {
		runEnv(t, fmt.Sprint(count), func(t *testing.T, e *env) {
			all := e.putAll(count)
			e.requireShort(cancelCost, func() { require.NoError(t, e.Cancel(t.Context(), all...)) })
			require.Equal(t, qless.QueueCounts{Name: "q"}, e.Counts("q"))
			require.Empty(t, e.Redis.Keys(t.Context(), "ql:j:*").Val())
		})
	}
}

func TestACancelOfTooManyChangesNothing(t *testing.T) {
	e := newEnv(t)
	all := e.putAll(501)
	before := e.Dump()
	err := e.Cancel(t.Context(), all...)
	requireCode(t, qless.ErrInvalid, err)
	require.ErrorContains(t, err, "501 jobs are more than 500")
	require.Equal(t, before, e.Dump())
	twice := slices.Concat(all[:500], all[:500])
	require.NoError(t, e.Cancel(t.Context(), twice...), "each is counted once")
	require.Equal(t, 1, e.Counts("q").Waiting)
}

// All jobs are checked before the first step.
func TestACancelOfHundredsIsRefusedAsAWhole(t *testing.T) {
	e := newEnv(t)
	all := e.putAll(400)
	outside := e.Put("q", qless.DependsOn{all[399]})
	before := e.Dump()
	err := e.Cancel(t.Context(), all...)
	requireCode(t, qless.ErrHasDependents, err)
	require.EqualError(t, err, fmt.Sprintf(
		"qless: cancel: %s is a dependency of %s but is not mentioned to be canceled", all[399], outside))
	require.Equal(t, before, e.Dump())
	require.NoError(t, e.Cancel(t.Context(), append(all, outside)...))
	require.Zero(t, e.Counts("q").Waiting)
}

func TestACancelOfHundredsIgnoresWhatIsGoneOrComplete(t *testing.T) {
	e := newEnv(t)
	all := e.putAll(300)
	job := e.Pop("q")
	require.NoError(t, job.Complete(t.Context()))
	require.NoError(t, e.Cancel(t.Context(), append([]string{"unknown", "unknown too"}, all...)...))
	require.Equal(t, qless.StateComplete, e.Read(job.JID).State)
	require.Zero(t, e.Counts("q").Waiting)
}

// Checking all dependencies would take too long. Dependents can be canceled first.
func TestACancelOfJobsWithVeryManyDependencies(t *testing.T) {
	e := newEnv(t)
	var all []string
	for i := range 201 {
		options := []qless.PutOption{qless.JID(fmt.Sprint("j", i))}
		if i > 0 {
			options = append(options, qless.DependsOn(all))
		}
		all = append(all, e.Put("q", options...))
	}
	before := e.Dump()
	err := e.Cancel(t.Context(), all...)
	requireCode(t, qless.ErrInvalid, err)
	require.EqualError(t, err, "qless: cancel: The jobs have more than 20000 dependents")
	require.Equal(t, before, e.Dump())
	require.NoError(t, e.Cancel(t.Context(), all[150:]...))
	require.NoError(t, e.Cancel(t.Context(), all...))
	require.Equal(t, qless.QueueCounts{Name: "q"}, e.Counts("q"))
}

// Whatever the order of the jids, no job ever waits for a missing job.
func TestACancelThatBreaksLeavesNoJobWaitingForNothing(t *testing.T) {
	for what, arrange := range map[string]func(all []string){
		"the first comes first": func([]string) {},
		"the last comes first":  slices.Reverse[[]string],
		"mixed": func(all []string) {
			slices.SortFunc(all, func(a, b string) int { return int(a[7]) - int(b[7]) })
		},
	} {
		runEnv(t, what, func(t *testing.T, e *env) {
			all := e.putChain(400)
			given := slices.Clone(all)
			arrange(given)
			ctx, client := e.cutAfter("")
			requireCode(t, qless.ErrUnavailable, client.Cancel(ctx, given...))
			left := must(e.Jobs(t.Context(), all...))(t)
			require.Equal(t, all[:300], jids(left), "the last ones are gone")
			require.NoError(t, e.Cancel(t.Context(), given...))
			require.Equal(t, qless.QueueCounts{Name: "q"}, e.Counts("q"))
			require.Empty(t, e.Redis.Keys(t.Context(), "ql:j:*").Val())
		})
	}
}

// Jobs that wait for each other can't be ordered, but are canceled anyway.
func TestJobsThatWaitForEachOtherAreCanceled(t *testing.T) {
	e := newEnv(t)
	all := e.putChain(300)
	first := e.Put("other", qless.JID("first"))
	require.NoError(t, e.Read(all[1]).Depend(t.Context(), first))
	require.NoError(t, e.Redis.SAdd(t.Context(), "ql:j:"+all[0]+"-dependencies", all[299]).Err())
	require.NoError(t, e.Redis.SAdd(t.Context(), "ql:j:"+all[299]+"-dependents", all[0]).Err())
	require.NoError(t, e.Cancel(t.Context(), all...))
	require.Equal(t, qless.QueueCounts{Name: "q"}, e.Counts("q"))
	require.Empty(t, e.Read(first).Dependents)
}

// A job put between two steps, and dependent on a job not canceled yet, keeps that job.
func TestAJobThatComesWhileOthersAreCanceled(t *testing.T) {
	e := newEnv(t)
	all := e.putAll(400)
	calls, late := 0, ""
	client := e.observing(func(call qless.Command) {
		if calls++; calls > 1 {
			return
		}
		require.Equal(t, qless.Command{Name: "cancel.all", Count: 100},
			qless.Command{Name: call.Name, Count: call.Count})
		left := must(e.Jobs(t.Context(), all...))(t)
		require.Len(t, left, 300)
		late = e.Put("q", qless.DependsOn{left[7].JID})
	})
	err := client.Cancel(t.Context(), all...)
	requireCode(t, qless.ErrHasDependents, err)
	require.ErrorContains(t, err, late)
	require.Equal(t, 300, e.Counts("q").Waiting)
}

// None of the jobs of a large batch runs, whatever happens between the steps of its cancel.
func TestABatchOfThousandsIsCanceledInSteps(t *testing.T) {
	e := newEnv(t)
	batch := must(e.NewBatch(t.Context(), "q", qless.JobSpec{Klass: "K"}))(t)
	const thousands = 5
	for range thousands {
		require.NoError(t, errOf(batch.Add(t.Context(), "q", specs(1000))))
	}
	require.NoError(t, batch.Commit(t.Context()))
	e.Unchanged(func() { require.NoError(t, batch.Commit(t.Context()), "again") })
	require.Equal(t, thousands*1000, e.status(batch).Pending)
	e.requirePages(batch, thousands*1000)
	for _, err := range batch.Pending(t.Context()) {
		require.NoError(t, err)
		break // ends the iteration
	}
	calls := 0
	client := e.observing(func(call qless.Command) {
		if call.Name == "cancel.all" {
			calls++
			job, err := e.Job(t.Context(), batch.ID)
			if calls <= thousands { // that many members each
				require.NoError(t, err)
				require.Equal(t, qless.StateDepends, job.State)
				require.Contains(t, job.Dependencies, "x:open")
			} else {
				require.ErrorIs(t, err, qless.ErrNotFound, "it is the first to go")
			}
		}
	})
	e.requireShort(1000+2*cancelCost, func() { require.NoError(t, client.Batch(batch.ID).Cancel(t.Context())) })
	require.Greater(t, calls, thousands*1000/canceledAtOnce)
	require.Equal(t, qless.QueueCounts{Name: "q"}, e.Counts("q"))
	require.Empty(t, e.Redis.Keys(t.Context(), "ql:j:*").Val())
}

// requirePages requires that all members of a batch are found in pages.
func (e *env) requirePages(batch *qless.Batch, members int) {
	e.T.Helper()
	for _, script := range e.scriptsOf(func() {
		require.Len(e.T, slices.Compact(must(pending(e.T.Context(), batch))(e.T)), members)
	}) {
		require.LessOrEqual(e.T, membersRead(e.T, script, members), 4000)
	}
}

// singleCancelers are the ways to cancel a single depending job in Go.
var singleCancelers = map[string]func(ctx context.Context, client *qless.Client, jid string) error{
	"cancel": func(ctx context.Context, client *qless.Client, jid string) error { return client.Cancel(ctx, jid) },
	"withdraw": func(ctx context.Context, client *qless.Client, jid string) error {
		return lease.New(client).Withdraw(ctx, jid)
	},
}

func TestAJobThatWaitsForManyIsCanceledInSteps(t *testing.T) {
	for what, cancel := range singleCancelers {
		runEnv(t, what, func(t *testing.T, e *env) {
			job := e.dependOnMany()
			e.Put("q", qless.JID("dependent"), qless.DependsOn{job.JID})
			before := e.Dump()
			refused := requireCode(t, qless.ErrHasDependents, cancel(t.Context(), e.Client, job.JID))
			require.Equal(t, job.JID, refused.JID)
			require.Equal(t, before, e.Dump())
			require.NoError(t, e.Cancel(t.Context(), "dependent"))

			scripts := e.scriptsOf(func() { require.NoError(t, cancel(t.Context(), e.Client, job.JID)) })
			require.Greater(t, len(scripts), manyDependencies/1000)
			for _, script := range scripts {
				require.LessOrEqual(t, len(script), 1000+30)
				require.LessOrEqual(t, membersRead(t, script, manyDependencies), 1000+20)
			}
			require.Empty(t, e.Redis.Keys(t.Context(), "ql:j:*-depend*").Val())
			require.Equal(t, qless.QueueCounts{Name: "q"}, e.Counts("q"))
			requireCode(t, qless.ErrNotFound, errOf(e.Job(t.Context(), job.JID)))
		})
	}
}

func TestAJobThatWaitsForManyIsEndedInSteps(t *testing.T) {
	for _, state := range []qless.State{qless.StateComplete, qless.StateFailed} {
		e := newEnv(t)
		job, end := e.dependOnMany(), repairs.Ending{State: state}
		if state == qless.StateFailed {
			end.Group = "g"
		}
		scripts := e.scriptsOf(func() { require.Equal(t, state, e.end(job.JID, end)) })
		require.Greater(t, len(scripts), manyDependencies/1000)
		for _, script := range scripts {
			require.LessOrEqual(t, len(script), 2*1000+40)
			require.LessOrEqual(t, membersRead(t, script, 1000), 1000+20)
		}
		require.Empty(t, e.Redis.Keys(t.Context(), "ql:j:*-depend*").Val())
		require.Equal(t, state, e.Read(job.JID).State)
	}
}

// The job waits forever, so as not to run until a caller continues.
func TestACallForAJobThatWaitsForManyBreaks(t *testing.T) {
	calls := maps.Clone(singleCancelers)
	calls["end"] = func(ctx context.Context, client *qless.Client, jid string) error {
		return errOf(repairs.End(ctx, client, jid, repairs.Ending{}))
	}
	for what, cancel := range calls {
		runEnv(t, what, func(t *testing.T, e *env) {
			job := e.dependOnMany()
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			client := e.observing(func(call qless.Command) {
				if call.Name != "cancel" { // a refused cancel has changed nothing
					stop()
				}
			})
			requireCode(t, qless.ErrUnavailable, cancel(ctx, client, job.JID))
			require.NoError(t, job.Refresh(t.Context()))
			require.Equal(t, qless.StateDepends, job.State)
			require.Len(t, job.Dependencies, manyDependencies-1000+1)
			require.Contains(t, job.Dependencies, "x:open")
			require.NoError(t, cancel(t.Context(), e.Client, job.JID))
			require.Empty(t, e.Redis.Keys(t.Context(), "ql:j:*-depend*").Val())
		})
	}
}

func TestManyWorkersAreDeregisteredInSteps(t *testing.T) {
	e := newEnv(t)
	names := make([]string, 1200)
	for i := range names {
		names[i] = fmt.Sprint("w", i)
		require.NoError(t, e.Redis.ZAdd(t.Context(), "ql:workers", zmember(float64(noon.Unix()), names[i])).Err())
	}
	e.requireShort(500*2, func() { require.NoError(t, e.inspect().ForgetWorkers(t.Context(), names...)) })
	require.Zero(t, e.Redis.Exists(t.Context(), "ql:workers").Val())
}

// A single job is canceled by the command used by other clients.
func TestASingleJobIsCanceledAsByOtherClients(t *testing.T) {
	e := newEnv(t)
	jid := e.Put("q")
	commands := e.scriptsOf(func() { require.NoError(t, e.Cancel(t.Context(), jid, jid)) })
	require.Len(t, commands, 1)
	require.Equal(t, testkit.Monitored{Caller: "lua", Words: []string{"srandmember", "ql:j:" + jid + "-dependents", "11"}},
		commands[0][0])
	require.NotContains(t, commands[0], testkit.Monitored{Caller: "lua", Words: []string{"scard", "ql:j:" + jid + "-dependencies"}})
}
