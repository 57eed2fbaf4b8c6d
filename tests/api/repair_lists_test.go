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
)

func TestMoveWithinAListMeetsEachJobOnce(t *testing.T) {
	e := newEnv(t)
	in, ctx := e.inspect(), t.Context()
	for i := range 900 {
		e.Put("q", qless.JID(fmt.Sprintf("j%03d", i)), qless.Priority(i%4))
	}
	waiting := in.Queue("q", inspect.Waiting)
	r, err := waiting.Move(ctx, "q", qless.Tags{"moved"})
	does(t, r, err, 900, left{})
	for job, err := range waiting.Jobs(ctx) {
		require.NoError(t, err)
		require.Equal(t, qless.Tags{"moved"}, job.Tags)
		require.Equal(t, 2, puts(job))
	}
	r, err = waiting.Where(inspect.Filter{JID: "j1"}).SetPriority(ctx, 1)
	does(t, r, err, 100, left{})
	r, err = waiting.AtMost(7).SetPriority(ctx, -1)
	does(t, r, err, 7, left{})
}

// puts returns how often a job was put.
func puts(job *qless.Job) int {
	count := 0
	for _, entry := range job.History {
		if entry.What == "put" {
			count++
		}
	}
	return count
}

func TestALoopThatReordersAListMissesNone(t *testing.T) {
	e := newEnv(t)
	for i := range 1600 {
		e.Put("q", qless.JID(fmt.Sprintf("j%04d", i)), qless.Priority(i%2*10))
	}
	met := map[string]int{}
	r, err := e.inspect().Queue("q", inspect.Waiting).Apply(t.Context(),
		func(ctx context.Context, job *qless.Job) error {
			met[job.JID]++
			return job.SetPriority(ctx, 5)
		})
	does(t, r, err, 1600, left{})
	require.Len(t, met, 1600)
}

// A scene has jobs in a list, which a repair changes while other clients change some of them.
type scene struct {
	*env
	random *rand.Rand
	jids   []string
	all    []string // and the jids of jobs that have come meanwhile
}

// lists fill a list with the jobs of a scene.
var lists = map[string]func(s *scene) inspect.Selection{
	"waiting": func(s *scene) inspect.Selection {
		s.putAll()
		return inspect.New(s.Client).Queue("q", inspect.Waiting)
	},
	"unique": func(s *scene) inspect.Selection {
		s.putAll(qless.Unique("k"), qless.Limits{"l"})
		return inspect.New(s.Client).Queue("q", inspect.Waiting)
	},
	"scheduled": func(s *scene) inspect.Selection {
		s.putAll(qless.Delay(time.Hour))
		return inspect.New(s.Client).Queue("q", inspect.Scheduled)
	},
	"parked": func(s *scene) inspect.Selection {
		s.limit("l", qless.LimitConfig{Concurrency: 1})
		s.putAll(qless.Limits{"l"})
		s.Pops("q", len(s.jids))
		return inspect.New(s.Client).Queue("q", inspect.Scheduled)
	},
	"depends": func(s *scene) inspect.Selection {
		s.Put("other", qless.JID("parent"))
		s.putAll(qless.DependsOn{"parent"})
		return inspect.New(s.Client).Queue("q", inspect.Depends)
	},
	"batches": func(s *scene) inspect.Selection {
		for _, jid := range s.jids {
			_, err := s.NewBatch(s.T.Context(), "q",
				qless.NewKlass[any](klassOf(jid)).Spec(nil, qless.JID(jid), qless.Tags{"old"}))
			require.NoError(s.T, err)
		}
		return inspect.New(s.Client).Queue("q", inspect.Depends).Where(inspect.Filter{Batch: true})
	},
	"running": func(s *scene) inspect.Selection {
		s.putAll()
		s.Pops("q", len(s.jids))
		return inspect.New(s.Client).Queue("q", inspect.Running)
	},
	"stalled": func(s *scene) inspect.Selection {
		s.putAll()
		s.Pops("q", len(s.jids))
		s.Clock.Advance(time.Hour)
		return inspect.New(s.Client).Queue("q", inspect.Stalled)
	},
	"held": func(s *scene) inspect.Selection {
		s.putAll()
		return inspect.New(s.Client).HeldBy(s.Pops("q", len(s.jids))[0].Worker)
	},
	"tagged": func(s *scene) inspect.Selection {
		s.putAll(qless.Tags{"t", "old"})
		return inspect.New(s.Client).Tagged("t")
	},
	"chained": func(s *scene) inspect.Selection { // each odd job waits for the one before it
		for i, jid := range s.jids {
			options := []qless.PutOption{qless.JID(jid), qless.Tags{"t", "old"}}
			if i%2 == 1 {
				options = append(options, qless.DependsOn{s.jids[i-1]})
			}
			require.NoError(s.T, errOf(s.Queue("q").Put(s.T.Context(), klassOf(jid), nil, options...)))
		}
		return inspect.New(s.Client).Tagged("t")
	},
	"tracked": func(s *scene) inspect.Selection {
		s.putAll()
		_, err := inspect.New(s.Client).JIDs(s.jids...).Track(s.T.Context())
		require.NoError(s.T, err)
		return inspect.New(s.Client).Tracked()
	},
	"failed": func(s *scene) inspect.Selection {
		s.putAll()
		for _, job := range s.Pops("q", len(s.jids)) {
			require.NoError(s.T, job.Fail(s.T.Context(), "g", "m"))
		}
		return inspect.New(s.Client).Failed("g")
	},
	"completed": func(s *scene) inspect.Selection {
		s.putAll()
		for _, job := range s.Pops("q", len(s.jids)) {
			require.NoError(s.T, job.Complete(s.T.Context()))
		}
		return inspect.New(s.Client).Completed()
	},
	"jids": func(s *scene) inspect.Selection {
		s.putAll()
		return inspect.New(s.Client).JIDs(s.jids...)
	},
}

// klassOf returns the klass of a job of a scene, which is one of two.
func klassOf(jid string) string {
	return "K" + strconv.Itoa(int(jid[len(jid)-1])%2)
}

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
	run func(ctx context.Context, s inspect.Selection) (inspect.Repair, error)
	// allows reports whether a job allows it.
	allows func(job *qless.Job) bool
	// hides reports whether it may change nothing that a job shows.
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

var changes = map[string]change{
	"cancel": {func(ctx context.Context, s inspect.Selection) (inspect.Repair, error) {
		return s.Cancel(ctx)
	}, func(job *qless.Job) bool { return job.State != qless.StateComplete }, never},
	"unfail": {func(ctx context.Context, s inspect.Selection) (inspect.Repair, error) {
		return s.Unfail(ctx)
	}, in(qless.StateFailed), never},
	"move": {func(ctx context.Context, s inspect.Selection) (inspect.Repair, error) {
		return s.Move(ctx, "q", qless.Delay(time.Minute))
	}, always, never},
	"move to the end": {func(ctx context.Context, s inspect.Selection) (inspect.Repair, error) {
		return s.Move(ctx, "q")
	}, always, never},
	"promote": {func(ctx context.Context, s inspect.Selection) (inspect.Repair, error) {
		return s.Promote(ctx)
	}, func(job *qless.Job) bool {
		return job.State == qless.StateScheduled || job.State == qless.StateWaiting
	}, func(job *qless.Job) bool { // a parked job stays scheduled
		return job.State == qless.StateWaiting || len(job.Options.Limits) > 0
	}},
	"timeout": {func(ctx context.Context, s inspect.Selection) (inspect.Repair, error) {
		return s.Timeout(ctx)
	}, in(qless.StateRunning), never},
	"priority": {func(ctx context.Context, s inspect.Selection) (inspect.Repair, error) {
		return s.SetPriority(ctx, 2_000)
	}, always, never},
	"lower priority": {func(ctx context.Context, s inspect.Selection) (inspect.Repair, error) {
		return s.SetPriority(ctx, -2_000)
	}, always, never},
	"tag": {func(ctx context.Context, s inspect.Selection) (inspect.Repair, error) {
		return s.Tag(ctx, "new")
	}, always, never},
	"untag": {func(ctx context.Context, s inspect.Selection) (inspect.Repair, error) {
		return s.Untag(ctx, "old")
	}, always, never},
	"track": {func(ctx context.Context, s inspect.Selection) (inspect.Repair, error) {
		return s.Track(ctx)
	}, always, tracked},
	"untrack": {func(ctx context.Context, s inspect.Selection) (inspect.Repair, error) {
		return s.Untrack(ctx)
	}, always, untracked},
}

func TestRepairsReportWhatTheyChange(t *testing.T) {
	seed := rand.Uint64()
	if given := os.Getenv("REPAIR_SEED"); given != "" {
		seed = must(strconv.ParseUint(given, 10, 64))(t)
	}
	t.Logf("REPAIR_SEED=%d", seed)
	for i, name := range slices.Sorted(maps.Keys(changes)) {
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
				s.repairs(changes[name], lists[list](s))
			})
		}
	}
}

// repairs repairs a selection, and compares the result with what changes in each step.
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
	r := must(c.run(s.T.Context(), selection.OnStep(func(r inspect.Repair) error {
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

// differ returns the jobs that two readings show differently.
func (s *scene) differ(a, b map[string]sight) []string {
	var jids []string
	for _, jid := range s.all {
		if a[jid].looks != b[jid].looks {
			jids = append(jids, jid)
		}
	}
	return jids
}

// A sight is a job, and the looks of all that is its own, but not of its dependencies.
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

// tolerate allows a job to refuse what another client wants.
func (s *scene) tolerate(err error) {
	s.T.Helper()
	var own *qless.Error
	if err != nil && (!errors.As(err, &own) || errors.Is(err, qless.ErrServer)) {
		s.T.Errorf("unexpected: %v", err)
	}
}

// existing reads the jobs of the scene that exist.
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
		for name, c := range changes {
			_, err := c.run(t.Context(), e.inspect().Queue("q", inspect.Recurring))
			require.ErrorIs(t, err, qless.ErrInvalid, name)
		}
	})
}
