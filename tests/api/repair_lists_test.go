package api

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
)

func TestMoveWithinAListMeetsEachJobOnce(t *testing.T) {
	e := newEnv(t)
	in, ctx := inspect.New(e.Client), t.Context()
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
	r, err := inspect.New(e.Client).Queue("q", inspect.Waiting).Apply(t.Context(),
		func(ctx context.Context, job *qless.Job) error {
			met[job.JID]++
			return job.SetPriority(ctx, 5)
		})
	does(t, r, err, 1600, left{})
	require.Len(t, met, 1600)
}

// A scene has jobs in a list, which a repair changes while others change some of them.
type scene struct {
	*env
	random *rand.Rand
	jids   []string
}

// lists fill a list with the jobs of a scene.
var lists = map[string]func(s *scene) inspect.Selection{
	"waiting": func(s *scene) inspect.Selection {
		s.putAll()
		return inspect.New(s.Client).Queue("q", inspect.Waiting)
	},
	"scheduled": func(s *scene) inspect.Selection {
		s.putAll(qless.Delay(time.Hour))
		return inspect.New(s.Client).Queue("q", inspect.Scheduled)
	},
	"depends": func(s *scene) inspect.Selection {
		s.Put("other", qless.JID("parent"))
		s.putAll(qless.DependsOn{"parent"})
		return inspect.New(s.Client).Queue("q", inspect.Depends)
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
		s.putAll(qless.Tags{"t"})
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
	"jids": func(s *scene) inspect.Selection {
		s.putAll()
		return inspect.New(s.Client).JIDs(s.jids...)
	},
}

// putAll puts the jobs, with random priorities, and one of two klasses.
func (s *scene) putAll(options ...qless.PutOption) {
	s.T.Helper()
	for i, jid := range s.jids {
		given := append([]qless.PutOption{qless.JID(jid), qless.Priority(s.random.IntN(4))}, options...)
		require.NoError(s.T, errOf(s.Queue("q").Put(s.T.Context(), fmt.Sprint("K", i%2), jid, given...)))
		s.Clock.Advance(time.Millisecond)
	}
}

// changes leave a trace in each job, as often as it is changed.
var changes = map[string]struct {
	run    func(ctx context.Context, s inspect.Selection) (inspect.Result, error)
	traces func(job *qless.Job) int // how often the job was changed
}{
	"move": {
		func(ctx context.Context, s inspect.Selection) (inspect.Result, error) {
			return s.Move(ctx, "q", qless.Delay(time.Minute))
		},
		func(job *qless.Job) int { return puts(job) - 1 },
	},
	"priority": {
		func(ctx context.Context, s inspect.Selection) (inspect.Result, error) {
			return s.SetPriority(ctx, 2_000)
		},
		func(job *qless.Job) int { return job.Priority / 2_000 },
	},
	"lower priority": {
		func(ctx context.Context, s inspect.Selection) (inspect.Result, error) {
			return s.SetPriority(ctx, -2_000)
		},
		func(job *qless.Job) int { return job.Priority / -2_000 },
	},
	"tag": {
		func(ctx context.Context, s inspect.Selection) (inspect.Result, error) {
			return s.Tag(ctx, "new")
		},
		func(job *qless.Job) int {
			for _, tag := range job.Tags {
				if tag == "new" {
					return 1
				}
			}
			return 0
		},
	},
	"cancel": {
		func(ctx context.Context, s inspect.Selection) (inspect.Result, error) { return s.Cancel(ctx) },
		nil,
	},
}

func TestRepairsReportWhatTheyChange(t *testing.T) {
	seed := rand.Uint64()
	if given := os.Getenv("REPAIR_SEED"); given != "" {
		var err error
		seed, err = strconv.ParseUint(given, 10, 64)
		require.NoError(t, err)
	}
	t.Logf("REPAIR_SEED=%d", seed)
	for list, fill := range lists {
		for name, change := range changes {
			t.Run(list+" "+name, func(t *testing.T) {
				s := &scene{env: newEnv(t), random: rand.New(rand.NewPCG(seed, 0))}
				for i := range 150 + s.random.IntN(150) {
					s.jids = append(s.jids, fmt.Sprintf("j%03d", i))
				}
				selection := fill(s)
				others := map[string]bool{} // canceled by another client
				wanted := map[string]bool{}
				filtered := s.random.IntN(2) == 0
				for i, jid := range s.jids {
					wanted[jid] = !filtered || i%2 == 1
				}
				if filtered {
					selection = selection.Where(inspect.Filter{Klass: "K1"})
				}
				// A job that another client takes out of a failure group may hide a newer one there.
				cancels := list != "failed" || name != "move" && name != "cancel"
				steps := 0
				selection = selection.OnStep(func(inspect.Result) error {
					steps++
					for range 3 {
						s.disturb(others, name, cancels)
					}
					require.NoError(t, errOf(s.Queue("q").Put(t.Context(), "K1", 1, qless.Priority(s.random.IntN(9)-4))))
					return nil
				})
				before := s.existing()
				r, err := change.run(t.Context(), selection)
				require.NoError(t, err)
				require.Positive(t, steps)
				changed := 0
				after := s.existing()
				for jid := range before {
					job := after[jid]
					switch {
					case change.traces != nil && job != nil:
						n := change.traces(job)
						require.LessOrEqual(t, n, 1, jid)
						require.Equal(t, wanted[jid], n == 1, "%s in %s", jid, job.State)
						changed += n
					case change.traces == nil && !others[jid]:
						require.Equal(t, wanted[jid], job == nil, jid)
						if job == nil {
							changed++
						}
					}
				}
				require.LessOrEqual(t, r.Left, len(others), "the canceled ones that %v names", selection)
				require.GreaterOrEqual(t, r.Changed, changed)
				require.LessOrEqual(t, r.Changed, changed+len(others))
			})
		}
	}
}

// disturb lets another client cancel one of the jobs, or change its priority.
func (s *scene) disturb(canceled map[string]bool, change string, cancels bool) {
	jid := s.jids[s.random.IntN(len(s.jids))]
	job, err := s.Job(s.T.Context(), jid)
	if errors.Is(err, qless.ErrNotFound) {
		return
	}
	require.NoError(s.T, err)
	if cancels && s.random.IntN(2) == 0 {
		canceled[jid] = true
		require.NoError(s.T, job.Cancel(s.T.Context()))
	} else if change == "move" || change == "tag" || change == "cancel" {
		require.NoError(s.T, job.SetPriority(s.T.Context(), s.random.IntN(8)-4))
	}
}

// existing reads the jobs of the scene that exist.
func (s *scene) existing() map[string]*qless.Job {
	all := map[string]*qless.Job{}
	for job, err := range inspect.New(s.Client).JIDs(s.jids...).Jobs(s.T.Context()) {
		require.NoError(s.T, err)
		all[job.JID] = job
	}
	return all
}
