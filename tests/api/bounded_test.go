package api

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
	"github.com/qless/qless-go/internal/testkit"
	"github.com/qless/qless-go/lease"
	"github.com/qless/qless-go/tests/repairs"
	"github.com/qless/qless-go/tests/scripts"
)

// Other clients wait while the server runs a script. These tests run commands at sizes too large
// for a single short script, and count each script's commands.

// scriptsOf returns the commands of each script during a function.
func (e *env) scriptsOf(run func()) [][]testkit.Monitored {
	e.T.Helper()
	var ran [][]testkit.Monitored
	for _, command := range e.Server.Monitored(e.T, run) {
		switch {
		case strings.HasPrefix(strings.ToLower(command.Words[0]), "eval"):
			ran = append(ran, nil)
		case command.Caller == "lua":
			ran[len(ran)-1] = append(ran[len(ran)-1], command)
		}
	}
	return slices.DeleteFunc(ran, func(script []testkit.Monitored) bool {
		return len(script) == 0 // the server lacked the script, and was sent its text next
	})
}

// requireShort requires that no script during a function exceeds a limit of commands.
func (e *env) requireShort(limit int, run func()) {
	e.T.Helper()
	for _, script := range e.scriptsOf(run) {
		require.LessOrEqual(e.T, len(script), limit)
	}
}

// failGroup fails jobs in a group, like a group after a long time.
func (e *env) failGroup(count int, group string) []string {
	e.T.Helper()
	pipe, failed := e.Redis.Pipeline(), make([]string, count)
	for i := range failed {
		jid := fmt.Sprintf("%s-%06d", group, i)
		failed[i] = jid
		pipe.HSet(e.T.Context(), "ql:j:"+jid, "jid", jid, "klass", "K", "queue", "q", "state", "failed",
			"priority", "0", "retries", "5", "remaining", "5", "data", "{}", "tags", "[]", "worker", "",
			"failure", fmt.Sprintf(`{"group":%q,"message":"m","when":%d,"worker":"w"}`, group,
				noon.Unix()-int64(count)+int64(i)))
		pipe.LPush(e.T.Context(), "ql:f:"+group, jid)
	}
	pipe.SAdd(e.T.Context(), "ql:failures", group)
	require.NoError(e.T, errOf(pipe.Exec(e.T.Context())))
	return failed
}

func TestAnUnfailOfManyGoesInSteps(t *testing.T) {
	for what, unfail := range map[string]func(e *env, count int) (int, error){
		"into a queue": func(e *env, count int) (int, error) {
			done, err := e.inspect().Failed("g").AtMost(count).Move(e.T.Context(), "q")
			return done.Changed, err
		},
		"into their own queues": func(e *env, count int) (int, error) {
			return repairs.Unfail(e.T.Context(), e.Client, "g", count, qless.Retries(7))
		},
	} {
		runEnv(t, what, func(t *testing.T, e *env) {
			failed := e.failGroup(1300, "g")
			e.requireShort(500*8+20, func() { require.Equal(t, 1200, must(unfail(e, 1200))(t)) })
			require.Equal(t, 1200, e.Counts("q").Waiting)
			require.Equal(t, qless.StateWaiting, e.Read(failed[1199]).State, "oldest failures first")
			require.Equal(t, qless.StateFailed, e.Read(failed[1200]).State)

			require.Equal(t, 100, must(unfail(e, 5000))(t))
			require.Empty(t, e.Redis.SMembers(t.Context(), "ql:failures").Val())
		})
	}
}

// Jobs that fail again are not put back endlessly.
func TestAnUnfailPutsBackNoMoreThanTheGroupHad(t *testing.T) {
	e := newEnv(t)
	e.failGroup(650, "g")
	steps := 0
	client := e.observing(func(call qless.Command) {
		if call.Name == "repair" {
			steps++
			e.failGroup(250, "g")
		}
	})
	require.Equal(t, 650, must(repairs.Unfail(t.Context(), client, "g", 1_000_000))(t))
	require.Equal(t, 7, steps)
}

// Another client's script may be long. Calls refused by the server meanwhile have not run.
func TestABusyServerIsAskedAgain(t *testing.T) {
	e := newEnv(t)
	require.NoError(t, errOf(e.Queue("q").Put(t.Context(), "K", nil)))
	allow := e.Server.Refuse(t, "BUSY")
	t.Cleanup(func() { allow() })
	requireCode(t, qless.ErrUnavailable, errOf(e.Queue("q").Pop(t.Context(), 1)))

	allow()
	allow = func() {}
	testkit.Until(t, "a pop", func() bool {
		err := errOf(e.Queue("q").Pop(t.Context(), 1))
		require.True(t, err == nil || errors.Is(err, qless.ErrUnavailable), err)
		return err == nil
	})
}

func TestTheFirstJobOfADayLooksAtFewHistograms(t *testing.T) {
	e := newEnv(t)
	hkeys := func() int {
		count := 0
		for _, name := range e.Server.Commands(t, func() {
			require.NoError(t, e.start("q").Complete(t.Context()))
		}) {
			if name == "hkeys" {
				count++
			}
		}
		return count
	}
	require.Zero(t, hkeys(), "of a new queue")
	for range 29 {
		e.Clock.Advance(24 * time.Hour)
		require.LessOrEqual(t, hkeys(), 4)
	}
	e.Clock.Advance(3 * 24 * time.Hour)
	require.LessOrEqual(t, hkeys(), 2*(3+2))
	for age, hasBuckets := range map[int]bool{3: true, 7: true, 8: false, 9: false, 20: false} {
		day := e.Clock.Now().Add(-time.Duration(age) * 24 * time.Hour)
		stats := must(e.Queue("q").Stats(t.Context(), day))(t)
		if age != 1 && age != 2 {
			require.Equal(t, 1, stats.Run.Count, age)
		}
		key := fmt.Sprintf("ql:s:run:%d:q", day.Unix()-day.Unix()%86400)
		require.Equal(t, hasBuckets, e.Redis.HExists(t.Context(), key, "s0").Val(), age)
	}
}

func TestTrackedJobsThatAreGoneDoNotBecomeMoreAndMore(t *testing.T) {
	for what, track := range map[string]func(e *env, jid string) error{
		"a job":     func(e *env, jid string) error { return e.Read(jid).Track(e.T.Context()) },
		"many jobs": func(e *env, jid string) error { return errOf(e.inspect().JIDs(jid).Track(e.T.Context())) },
		"a sweep": func(e *env, jid string) error {
			if err := e.Redis.ZAdd(e.T.Context(), "ql:tracked", zmember(1, jid)).Err(); err != nil {
				return err
			}
			return errOf(e.Sweep(e.T.Context()))
		},
	} {
		runEnv(t, what, func(t *testing.T, e *env) {
			for i := range 30 {
				jid := e.Put("q", qless.JID(fmt.Sprintf("kept%02d", i)))
				require.NoError(t, e.Read(jid).Track(t.Context()))
			}
			for i := range 100 {
				jid := e.Put("q", qless.JID(fmt.Sprintf("gone%02d", i)))
				e.requireShort(40, func() { require.NoError(t, track(e, jid)) })
				require.NoError(t, e.Cancel(t.Context(), jid))
			}
			tracked := must(e.inspect().Tracked().JIDs(t.Context(), inspect.Range{Limit: -1}))(t)
			require.Subset(t, tracked.Items, []string{"kept00", "kept29"})
			require.Less(t, tracked.Total, 30+60)

			r := must(e.inspect().JIDs(append(tracked.Items, "never tracked")...).Untrack(t.Context()))(t)
			require.Equal(t, tracked.Total, r.Changed, "jobs that are gone count, too")
			require.Equal(t, left{"never tracked": qless.ErrNotFound}, codes(r))
			require.Empty(t, e.Redis.ZRange(t.Context(), "ql:tracked", 0, -1).Val())
		})
	}
}

func TestALongListOfJidsIsReadInSteps(t *testing.T) {
	e := newEnv(t)
	e.pipe(12_000, func(p redis.Pipeliner, i int) {
		p.ZAdd(t.Context(), "ql:tracked", zmember(float64(i), fmt.Sprintf("j%05d", i)))
	})
	for _, c := range []struct {
		part          inspect.Range
		scripts, want int
	}{{inspect.Range{}, 1, 25}, {inspect.Range{Limit: -1}, 3, 12_000}, {inspect.Range{Offset: 1500, Limit: 10_000}, 2, 10_000}} {
		scripts := e.scriptsOf(func() {
			tracked := must(e.inspect().Tracked().JIDs(t.Context(), c.part))(t)
			require.Equal(t, 12_000, tracked.Total)
			require.Len(t, tracked.Items, c.want)
			require.Equal(t, fmt.Sprintf("j%05d", c.part.Offset), tracked.Items[0])
			require.Equal(t, fmt.Sprintf("j%05d", c.part.Offset+c.want-1), tracked.Items[c.want-1])
		})
		require.Len(t, scripts, c.scripts)
		for _, shown := range []int{0, 10} {
			rows := must(e.inspect().Tracked().WithData(shown).List(t.Context(), c.part))(t)
			require.Equal(t, 12_000, rows.Total)
			require.Len(t, rows.Items, c.want)
			require.True(t, slices.IsSorted(jidsOf(rows.Items)))
		}
	}
}

func TestAListOfScheduledJobsMovesAThousandThatAreDue(t *testing.T) {
	e := newEnv(t)
	e.puts("q", specs(1500, qless.Delay(time.Minute))...)
	later := []string{e.Put("q", qless.Delay(time.Hour)), e.Put("q", qless.Delay(2*time.Hour))}
	e.Clock.Advance(2 * time.Minute)
	e.requireShort(1000*3+20, func() {
		jids, err := e.Do(t.Context(), "jobs", "scheduled", "q", 0, 25) // like classic clients
		require.NoError(t, err)
		require.Equal(t, []any{later[0], later[1]}, jids)
	})
	require.EqualValues(t, 502, e.Redis.ZCard(t.Context(), "ql:q:q-scheduled").Val())
	require.Equal(t, []any{later[1]}, must(e.Do(t.Context(), "jobs", "scheduled", "q", 1, 1))(t))
	require.EqualValues(t, 2, e.Redis.ZCard(t.Context(), "ql:q:q-scheduled").Val())
}

// base returns a running job, and its dependents.
func (e *env) base(dependents int) (job *qless.Job, others []string) {
	e.T.Helper()
	base, specs := e.Put("base", qless.JID("base")), make([]qless.JobSpec, dependents)
	for i := range specs {
		specs[i] = spec(qless.DependsOn{base})
	}
	others = e.puts("q", specs...)
	return e.Pop("base"), others
}

// completions are the ways to complete a job in Go.
var completions = map[string]func(e *env, job *qless.Job) error{
	"complete": func(e *env, job *qless.Job) error { return job.Complete(e.T.Context()) },
	"complete many": func(e *env, job *qless.Job) error {
		return lease.New(e.Client).Complete(e.T.Context(), job.Queue, job.JID)[0]
	},
	"end": func(e *env, job *qless.Job) error {
		state, err := repairs.End(e.T.Context(), e.Client, job.JID, repairs.Ending{State: qless.StateComplete})
		require.Equal(e.T, qless.StateComplete, state)
		return err
	},
}

func TestCompletingReleasesAllDependentsInSteps(t *testing.T) {
	for what, complete := range completions {
		for _, dependents := range []int{250, 251, 650} {
			runEnv(t, fmt.Sprint(what, " ", dependents), func(t *testing.T, e *env) {
				job, _ := e.base(dependents)
				e.requireShort(250*8+40, func() { require.NoError(t, complete(e, job)) })
				require.Equal(t, dependents, e.Counts("q").Waiting)
				require.Zero(t, e.Counts("q").Depends)
				require.Empty(t, e.Redis.Keys(t.Context(), "ql:x:rest*").Val())
				require.Empty(t, e.Redis.Keys(t.Context(), "ql:*-depend*").Val())
			})
		}
	}
}

// firstSteps are the first scripts of completions. A program may end before the next script.
var firstSteps = map[string]func(e *env, job *qless.Job) error{
	"complete": func(e *env, job *qless.Job) error {
		return errOf(e.Run(e.T.Context(), "complete", "", job.JID, "w1", job.Queue, "{}", "checked", "1"))
	},
	"finish": func(e *env, job *qless.Job) error {
		return errOf(e.Run(e.T.Context(), "finish", "", "w1", "complete", job.JID, job.Queue, "", "0"))
	},
	"end": func(e *env, job *qless.Job) error {
		return errOf(e.Run(e.T.Context(), "end", "", job.JID, "complete", "", "", "0"))
	},
}

func TestDependentsThatAreLeftAreReleasedLater(t *testing.T) {
	for what, complete := range firstSteps {
		for later, releaseMore := range map[string]func(e *env) error{
			"a sweep": func(e *env) error { return errOf(e.Sweep(e.T.Context())) },
			"another completion": func(e *env) error {
				e.Put("more")
				return complete(e, e.Pop("more"))
			},
			"a client of another language": func(e *env) error {
				job := e.start("more")
				return errOf(scripts.RunDropIn(e.T.Context(), e.Redis, "complete", scripts.Time(e.Clock.Now()),
					job.JID, "w1", "more", "{}"))
			},
			"a worker that says that it runs": func(e *env) error {
				return errOf(e.Run(e.T.Context(), "worker.register", "", "w2", "1", "{}"))
			},
		} {
			if what != "complete" && later != "a sweep" {
				continue // all ways leave the same behind
			}
			runEnv(t, what+", then "+later, func(t *testing.T, e *env) {
				job, _ := e.base(650)
				e.requireShort(250*8+40, func() { require.NoError(t, complete(e, job)) })
				require.Equal(t, 250, e.Counts("q").Waiting)
				for _, waiting := range []int{500, 650, 650} {
					e.requireShort(250*8+40, func() { require.NoError(t, releaseMore(e)) })
					require.Equal(t, waiting, e.Counts("q").Waiting)
				}
				require.Zero(t, e.Counts("q").Depends)
				require.Empty(t, e.Redis.Keys(t.Context(), "ql:x:rest*").Val())
				require.Empty(t, e.Redis.Keys(t.Context(), "ql:*-depend*").Val())
			})
		}
	}
}

// Meanwhile other clients change jobs not released yet.
func TestJobsThatAreToBeReleasedAreAsOthers(t *testing.T) {
	e := newEnv(t)
	job, others := e.base(700)
	require.NoError(t, firstSteps["complete"](e, job))
	var left []string
	for _, jid := range others {
		if e.Redis.SIsMember(t.Context(), "ql:x:rest:base", jid).Val() {
			left = append(left, jid)
		}
	}
	require.Len(t, left, 450)
	require.NoError(t, e.Cancel(t.Context(), left[0]))
	require.NoError(t, e.Read(left[1]).Undepend(t.Context(), "base"))
	require.NoError(t, e.Read(left[2]).Depend(t.Context(), e.Put("other", qless.JID("second"))))
	e.Put("base", qless.JID("base"))
	require.NoError(t, e.Read(left[3]).Depend(t.Context(), "base"))
	for range 3 {
		e.sweep()
	}
	require.Equal(t, qless.StateWaiting, e.Read(left[1]).State)
	require.Equal(t, []string{"second"}, e.Read(left[2]).Dependencies)
	require.Equal(t, []string{"base"}, e.Read(left[3]).Dependencies)
	require.Equal(t, qless.StateDepends, e.Read(left[3]).State)
	counts := e.Counts("q")
	require.Equal(t, [2]int{697, 2}, [2]int{counts.Waiting, counts.Depends})
	require.NoError(t, e.Pop("base").Complete(t.Context()))
	require.NoError(t, e.Pop("other").Complete(t.Context()))
	require.Equal(t, 699, e.Counts("q").Waiting)
}

// Other clients fail jobs without notifying their dependents.
func TestASweepAnnouncesFewFailuresAtATime(t *testing.T) {
	const jobs, dependents = 5, 100
	e, ctx := newEnv(t), t.Context()
	for i := range jobs {
		base := e.Put("base", qless.JID(fmt.Sprintf("g-%06d", i)))
		e.puts("q", specs(dependents, qless.DependsOn{base}, qless.OnFailureRun)...)
	}
	require.NoError(t, e.Redis.Del(ctx, "ql:q:base-work").Err())
	e.failGroup(jobs, "g")
	for _, waiting := range []int{100, 200, 300, 400, 500} {
		e.requireShort(dependents*12+50, func() { e.sweep() })
		require.Equal(t, waiting, e.Counts("q").Waiting)
	}
}

// failing returns a running job with that many dependents for each of the policies wait, run and
// fail. Each dependent with the last policy has another dependent.
func (e *env) failing(dependents int) *qless.Job {
	e.T.Helper()
	base := e.Put("base", qless.JID("base"))
	for _, policy := range []qless.OnFailure{qless.OnFailureWait, qless.OnFailureRun, qless.OnFailureFail} {
		specs, next := make([]qless.JobSpec, dependents), make([]qless.JobSpec, dependents)
		for i := range specs {
			jid := fmt.Sprint(policy, i)
			specs[i] = spec(qless.JID(jid), qless.DependsOn{base}, policy)
			next[i] = spec(qless.DependsOn{jid}, qless.OnFailureFail)
		}
		e.puts(string(policy), specs...)
		if policy == qless.OnFailureFail {
			e.puts("next", next...)
		}
	}
	return e.Pop("base")
}

// notified returns the numbers of jobs reached by a failure: waiting, running and failed.
func (e *env) notified() (waits, runs, fails int) {
	e.T.Helper()
	groups := must(e.inspect().FailureGroups(e.T.Context()))(e.T)
	return e.Counts("wait").Depends, e.Counts("run").Waiting, groups["failed-dependency"]
}

// requireAllNotified requires that a failure has reached all concerned jobs.
func (e *env) requireAllNotified(dependents int) {
	e.T.Helper()
	waits, runs, fails := e.notified()
	require.Equal(e.T, [3]int{dependents, dependents, 2 * dependents}, [3]int{waits, runs, fails})
	require.Empty(e.T, e.Redis.Keys(e.T.Context(), "ql:x:rest*").Val())
	require.EqualValues(e.T, dependents, e.Redis.SCard(e.T.Context(), "ql:j:base-dependents").Val())
	require.Len(e.T, e.Redis.Keys(e.T.Context(), "ql:*-dependents").Val(), 1)
}

// notifyCost is the maximum number of commands for failing a job and notifying its dependents.
const notifyCost = 250*20 + 100

// waysToFail are the ways for a job to fail. Scripts are the first step of a program that may end
// before the next step.
var waysToFail = map[string]func(e *env, job *qless.Job) error{
	"fail": func(e *env, job *qless.Job) error { return job.Fail(e.T.Context(), "g", "m") },
	"retry": func(e *env, job *qless.Job) error {
		e.Redis.HSet(e.T.Context(), "ql:j:"+job.JID, "remaining", "0")
		return errOf(job.Retry(e.T.Context(), 0, "", ""))
	},
	"finish": func(e *env, job *qless.Job) error {
		reply, err := e.Run(e.T.Context(), "finish", "", "w1", "fail", job.JID, "base", "", "4", "group", "g", "message", "m")
		require.Equal(e.T, []any{"5+"}, reply)
		return err
	},
	"finish a retry": func(e *env, job *qless.Job) error {
		e.Redis.HSet(e.T.Context(), "ql:j:"+job.JID, "remaining", "0")
		reply, err := e.Run(e.T.Context(), "finish", "", "w1", "retry", job.JID, "base", "", "0")
		require.Equal(e.T, []any{"-1+"}, reply)
		return err
	},
	"end": func(e *env, job *qless.Job) error {
		reply, err := e.Run(e.T.Context(), "end", "", job.JID, "failed", "g", "m", "0")
		require.Equal(e.T, "failed+", reply)
		return err
	},
	"a lost lock": func(e *env, job *qless.Job) error {
		e.Redis.HSet(e.T.Context(), "ql:j:"+job.JID, "remaining", "0")
		e.Set("grace-period", "0")
		e.Clock.Advance(2 * time.Minute)
		return errOf(e.Queue("base").Pop(e.T.Context(), 1))
	},
}

func TestAFailureNotifiesFewJobsAtATime(t *testing.T) {
	for what, fail := range waysToFail {
		for later, notifyMore := range map[string]func(e *env) error{
			"sweeps": func(e *env) error { return errOf(e.Sweep(e.T.Context())) },
			"completions": func(e *env) error {
				e.Put("more")
				return e.Pop("more").Complete(e.T.Context())
			},
			"workers": func(e *env) error {
				return errOf(e.Run(e.T.Context(), "worker.register", "", "w2", "1", "{}"))
			},
		} {
			if what != "fail" && later != "sweeps" {
				continue // all ways leave the same behind
			}
			runEnv(t, what+", then "+later, func(t *testing.T, e *env) {
				job := e.failing(150)
				e.requireShort(notifyCost, func() { require.NoError(t, fail(e, job)) })
				_, runs, fails := e.notified()
				require.NotZero(t, runs+fails)
				require.LessOrEqual(t, runs+fails, 250)
				for e.Redis.Exists(t.Context(), "ql:x:rest").Val() == 1 {
					e.requireShort(notifyCost, func() { require.NoError(t, notifyMore(e)) })
				}
				e.requireAllNotified(150)
			})
		}
	}
}

func TestEndContinuesUntilAllKnowOfAFailure(t *testing.T) {
	e := newEnv(t)
	job := e.failing(300)
	state := e.end(job.JID, repairs.Ending{State: qless.StateFailed, Group: "g"})
	require.Equal(t, qless.StateFailed, state)
	e.requireAllNotified(300)
}

// Once a failed job runs again, no further dependents are notified of its failure.
func TestAnUnfailedJobNotifiesNoOthers(t *testing.T) {
	e := newEnv(t)
	job := e.failing(300)
	require.NoError(t, job.Fail(t.Context(), "g", "m"))
	_, runs, _ := e.notified()
	require.Less(t, runs, 300)
	require.NoError(t, e.Read("base").Unfail(t.Context()))
	for e.Redis.Exists(t.Context(), "ql:x:rest").Val() == 1 {
		e.sweep()
	}
	_, later, _ := e.notified()
	require.Equal(t, runs, later)
	require.NoError(t, e.Pop("base").Complete(t.Context()))
	waits, runs, _ := e.notified()
	require.Equal(t, [2]int{0, 300}, [2]int{waits, runs})
	require.Zero(t, e.Counts("fail").Depends)
}

// Two lives of a job end before the dependents of the first are released.
func TestTwoLivesWithManyDependents(t *testing.T) {
	e := newEnv(t)
	job, _ := e.base(700)
	require.NoError(t, firstSteps["complete"](e, job))
	job, _ = e.base(700)
	require.NoError(t, firstSteps["complete"](e, job))
	for range 5 {
		e.sweep()
	}
	require.Equal(t, 1400, e.Counts("q").Waiting)
	require.Empty(t, e.Redis.Keys(t.Context(), "ql:*-depend*").Val())
}

// passedOver returns the maximum number of jobs of failure groups that a script has scanned.
func passedOver(script []testkit.Monitored, length int) int {
	count := 0
	for _, command := range script {
		if strings.EqualFold(command.Words[0], "lrem") {
			count += length
		}
	}
	return count
}

// lengthen makes a failure group longer.
func (e *env) lengthen(group string, length int) {
	e.T.Helper()
	pad := make([]any, 1_000)
	for i := range length / len(pad) {
		for k := range pad {
			pad[k] = fmt.Sprint("pad", i, "-", k)
		}
		require.NoError(e.T, e.Redis.LPush(e.T.Context(), "ql:f:"+group, pad...).Err())
	}
}

// leaveGroup are the ways for jobs to leave their failure group.
var leaveGroup = map[string]func(e *env, jids []string) error{
	"cancel": func(e *env, jids []string) error { return e.Cancel(e.T.Context(), jids...) },
	"cancel of a selection": func(e *env, jids []string) error {
		return errOf(e.inspect().JIDs(jids...).Cancel(e.T.Context()))
	},
	"move":   func(e *env, jids []string) error { return errOf(e.inspect().JIDs(jids...).Move(e.T.Context(), "q")) },
	"unfail": func(e *env, jids []string) error { return errOf(e.inspect().JIDs(jids...).Unfail(e.T.Context())) },
}

func TestFewJobsAreTakenOutOfALongGroupAtATime(t *testing.T) {
	for what, do := range leaveGroup {
		for length, passed := range map[int]int{9_000: 9_050, 100_000: 100_050} { // the limit for each length
			runEnv(t, fmt.Sprint(what, " ", length), func(t *testing.T, e *env) {
				failed := e.failGroup(40, "g")
				e.lengthen("g", length)
				for _, script := range e.scriptsOf(func() { require.NoError(t, do(e, failed)) }) {
					require.LessOrEqual(t, passedOver(script, passed), 310_000)
				}
				require.Equal(t, int64(length), e.Redis.LLen(t.Context(), "ql:f:g").Val())
			})
		}
	}
}

// Jobs in the middle of a long group are found by the times of their failures, and removed in one
// pass.
func TestJobsAmidALongGroupLeaveItInOnePass(t *testing.T) {
	for what, do := range leaveGroup {
		runEnv(t, what, func(t *testing.T, e *env) {
			failed := e.failGroup(12_000, "g")
			leave := slices.Concat(failed[4000:4040], failed[9000:9009], failed[1:2])
			passes := 0
			scripts := e.scriptsOf(func() { require.NoError(t, do(e, leave)) })
			for _, script := range scripts {
				passes += passedOver(script, 1)
			}
			require.Equal(t, [2]int{1, 1}, [2]int{len(scripts), passes})
			slices.Reverse(failed)
			left := slices.DeleteFunc(failed, func(jid string) bool { return slices.Contains(leave, jid) })
			require.Equal(t, left, e.Redis.LRange(t.Context(), "ql:f:g", 0, -1).Val())
		})
	}
}

// A job is searched from the nearer end of its group.
func TestAJobIsTakenOutOfItsLongGroupFromTheNearerEnd(t *testing.T) {
	e := newEnv(t)
	failed := e.failGroup(12_000, "g")
	for jid, count := range map[string]string{
		failed[0]: "-1", failed[4000]: "-1", failed[9000]: "1", failed[11_999]: "1",
	} {
		scripts := e.scriptsOf(func() { require.NoError(t, e.Cancel(t.Context(), jid)) })
		require.Contains(t, scripts[0], testkit.Monitored{
			Caller: "lua", Words: []string{"lrem", "ql:f:g", count, jid},
		})
	}
	require.Equal(t, int64(11_996), e.Redis.LLen(t.Context(), "ql:f:g").Val())
}

func TestManyQueuesAreReadInSteps(t *testing.T) {
	e := newEnv(t)
	var want []string
	for i := range 450 {
		name := fmt.Sprintf("q%03d", i)
		want = append(want, name)
		key, since := "ql:queues", float64(i/7) // several were first seen at the same time
		if i >= 430 {
			key = "ql:x:queues"
		}
		require.NoError(t, e.Redis.ZAdd(t.Context(), key, zmember(since, name)).Err())
	}
	var queues []qless.QueueCounts
	e.requireShort(200*9+20, func() { queues = must(e.Queues(t.Context()))(t) })
	var names []string
	for _, q := range queues {
		names = append(names, q.Name)
	}
	require.Equal(t, want, names)
	require.NoError(t, e.Redis.Del(t.Context(), "ql:queues").Err())
	queues = must(e.Queues(t.Context()))(t)
	require.Len(t, queues, 20)
}

// When a worker begins to relay, it checks all queues with jobs. Here each queue has workers that
// are gone, which takes longest.
func TestWorkersOfManyQueuesAreWokenInSteps(t *testing.T) {
	e, ctx := newEnv(t), t.Context()
	const queues, gone = 1200, 2
	pipe := e.Redis.Pipeline()
	for i := range queues {
		name, key := fmt.Sprintf("q%04d", i), "ql:queues"
		if i >= queues-50 {
			key = "ql:x:queues"
		}
		pipe.ZAdd(ctx, key, zmember(float64(i/7), name))
		for k := range gone {
			pipe.SAdd(ctx, "ql:x:idle", fmt.Sprint("w", k, name))
			pipe.ZAdd(ctx, "ql:x:idle:"+name, zmember(float64(k), fmt.Sprint("w", k, name)))
		}
		if i%10 != 0 {
			pipe.ZAdd(ctx, "ql:q:"+name+"-work", zmember(0, "j"))
		}
	}
	require.NoError(t, errOf(pipe.Exec(ctx)))
	steps := 0
	e.requireShort(500*5+500*4+30, func() {
		for cursor := ""; steps == 0 || cursor != ""; steps++ {
			reply := e.run("wake", "", cursor)
			cursor = reply.(string)
		}
	})
	require.Equal(t, 5, steps, "of 500 workers that are gone each")
	require.Len(t, e.Redis.Keys(ctx, "ql:x:idle:*").Val(), queues/10, "those without jobs")
	require.EqualValues(t, gone*queues/10, e.Redis.SCard(ctx, "ql:x:idle").Val())
}

func TestCountsMoveFewOfTheJobsThatAreDue(t *testing.T) {
	e := newEnv(t)
	for q := range 3 {
		var specs []qless.JobSpec
		for range 800 {
			specs = append(specs, spec(qless.Delay(time.Minute)))
		}
		e.puts(fmt.Sprint("q", q), specs...)
		e.Put(fmt.Sprint("q", q), qless.Delay(time.Hour))
	}
	e.Clock.Advance(time.Minute)
	for range 2 {
		e.requireShort(1000*5+100, func() {
			for i, q := range must(e.Queues(t.Context()))(t) {
				require.Equal(t, qless.QueueCounts{Name: fmt.Sprint("q", i), Waiting: 800, Scheduled: 1}, q)
			}
		})
	}
	require.Len(t, e.Pops("q2", 800), 800)
}

func TestManyWorkersAreReadInSteps(t *testing.T) {
	e := newEnv(t)
	var want []string
	e.pipe(1200, func(p redis.Pipeliner, i int) {
		name := fmt.Sprintf("w%04d", i)
		want = append(want, name)
		p.ZAdd(t.Context(), "ql:workers", zmember(float64(noon.Unix()-1200+int64(i)), name))
	})
	slices.Reverse(want)
	names := func(client *qless.Client) (all []string) {
		for _, w := range must(inspect.New(client).Workers(t.Context()))(t) {
			all = append(all, w.Name)
		}
		return all
	}
	e.requireShort(500*3+20, func() { require.Equal(t, want, names(e.Client)) })

	// A worker that is seen meanwhile is neither missed nor listed twice.
	seen := 0
	client := e.observing(func(qless.Command) {
		seen++
		if seen == 1 {
			for _, name := range []string{"w0000", "w0700"} {
				require.NoError(t, e.Redis.ZAdd(t.Context(), "ql:workers", zmember(float64(noon.Unix()), name)).Err())
			}
		}
	})
	again := names(client)
	require.Equal(t, []string{"w0700", "w0000", "w1199"}, again[:3])
	require.ElementsMatch(t, want, again)
}

// putLarge puts jobs, every third with a megabyte of data, and returns their data.
func (e *env) putLarge(count int) map[string]string {
	e.T.Helper()
	want := map[string]string{}
	for i := range count {
		jid, data := fmt.Sprintf("j%02d", i), `"small"`
		if i%3 == 0 {
			data = `"` + strings.Repeat("é\\u0001", 100_000) + strings.Repeat("x", 300_000+i) + `"`
		}
		require.NoError(e.T, errOf(e.Queue("q").Put(e.T.Context(), "K", raw(data), qless.JID(jid))))
		want[jid] = data
	}
	return want
}

func TestLargeDataIsReadInSteps(t *testing.T) {
	for what, read := range map[string]func(e *env) ([]*qless.Job, error){
		"pop":  func(e *env) ([]*qless.Job, error) { return e.Queue("q").Pop(t.Context(), 25) },
		"peek": func(e *env) ([]*qless.Job, error) { return e.Queue("q").Peek(t.Context(), 25) },
		"pop lost jobs": func(e *env) ([]*qless.Job, error) {
			e.Set("grace-period", "0")
			require.Len(t, e.Pops("q", 25), 20)
			e.Clock.Advance(time.Hour)
			return e.Queue("q").Pop(t.Context(), 25)
		},
		"jobs": func(e *env) ([]*qless.Job, error) {
			var all []string
			for i := range 20 {
				all = append(all, fmt.Sprintf("j%02d", i))
			}
			return e.Jobs(t.Context(), all...)
		},
		"job": func(e *env) (jobs []*qless.Job, err error) {
			for i := range 20 {
				jobs = append(jobs, e.Read(fmt.Sprintf("j%02d", i)))
			}
			return jobs, nil
		},
	} {
		runEnv(t, what, func(t *testing.T, e *env) {
			want := e.putLarge(20)
			var jobs []*qless.Job
			for _, script := range e.scriptsOf(func() { jobs = must(read(e))(t) }) {
				bytes := 0
				for _, command := range script {
					if strings.EqualFold(command.Words[0], "hmget") && slices.Contains(command.Words, "data") {
						bytes += len(want[strings.TrimPrefix(command.Words[1], "ql:j:")])
					}
				}
				require.LessOrEqual(t, bytes, 3<<20)
			}
			require.Len(t, jobs, 20)
			for i, job := range jobs {
				require.Equal(t, fmt.Sprintf("j%02d", i), job.JID)
				require.Equal(t, want[job.JID], string(job.Data))
			}
		})
	}
}

func TestAPopOfManyGoesInSteps(t *testing.T) {
	e := newEnv(t)
	want := e.puts("q", specs(1200)...)
	e.requireShort(250*6+60, func() { require.Len(t, e.Pops("q", 2000), len(want)) })
	e.requireShort(250*5+20, func() {
		jobs := must(e.Jobs(t.Context(), want...))(t)
		require.Len(t, jobs, len(want))
		require.True(t, slices.Equal(want, jids(jobs)))
	})
	require.Empty(t, e.Pops("q", 2000))
}

// Jobs that take the server longer are put in smaller steps.
func TestAPutOfManyGoesInSteps(t *testing.T) {
	for what, c := range map[string]struct {
		jobs    int
		data    int
		options []qless.PutOption
		scripts int
	}{
		"plain":        {1200, 0, nil, 3},
		"tags":         {300, 0, []qless.PutOption{qless.Tags{"1", "2", "3", "4", "5", "6", "7", "8"}}, 8},
		"dependencies": {300, 0, []qless.PutOption{qless.DependsOn{"1", "2", "3", "4"}}, 5},
		"data":         {90, 50_000, nil, 3},
		"huge data":    {2, 3 << 20, nil, 2},
	} {
		runEnv(t, what, func(t *testing.T, e *env) {
			for i := range 4 {
				e.Put("first", qless.JID(fmt.Sprint(i+1)))
			}
			specs := make([]qless.JobSpec, c.jobs)
			for i := range specs {
				specs[i] = qless.JobSpec{Klass: "K", Data: strings.Repeat("x", c.data), Options: c.options}
			}
			var jids []string
			ran := e.scriptsOf(func() { jids = e.puts("q", specs...) })
			require.Len(t, ran, c.scripts)
			for _, script := range ran {
				require.LessOrEqual(t, len(script), 500*8)
			}
			waiting := e.Counts("q")
			require.Equal(t, c.jobs, waiting.Waiting+waiting.Depends)
			require.Len(t, jids, c.jobs)
			require.Equal(t, "q", e.Read(jids[c.jobs-1]).Queue)
		})
	}
}

// A pop that fails in the middle returns the jobs popped so far.
func TestAPopThatBreaksReturnsWhatItHas(t *testing.T) {
	e := newEnv(t)
	e.puts("q", specs(700)...)
	ctx, client := e.cutAfter("")
	require.Len(t, must(client.Queue("q").Pop(ctx, 700))(t), 100)
	require.ErrorIs(t, errOf(client.Queue("q").Pop(ctx, 700)), qless.ErrUnavailable)
}

// relate gives an existing job count dependents, and a few more dependencies. All are only names,
// which it returns.
func (e *env) relate(jid string, count int) (dependents, dependencies []string) {
	e.T.Helper()
	for i := range count + 7 {
		dependents = append(dependents, fmt.Sprint("dependent-", i))
		dependencies = append(dependencies, fmt.Sprint("dependency-", i))
	}
	dependents = dependents[:count]
	for part := range slices.Chunk(dependents, 5000) {
		e.addAll("ql:j:"+jid+"-dependents", part)
	}
	for part := range slices.Chunk(dependencies, 5000) {
		e.addAll("ql:j:"+jid+"-dependencies", part)
	}
	return dependents, dependencies
}

// addAll adds members to a set.
func (e *env) addAll(key string, members []string) {
	e.T.Helper()
	all := make([]any, len(members))
	for i, member := range members {
		all[i] = member
	}
	require.NoError(e.T, e.Redis.SAdd(e.T.Context(), key, all...).Err())
}

// membersRead returns the maximum number of members of sets that a script has read, assuming that
// sets read as a whole had the given size.
func membersRead(t testing.TB, script []testkit.Monitored, size int) int {
	t.Helper()
	sum := 0
	for _, command := range script {
		count := "0"
		switch strings.ToLower(command.Words[0]) {
		case "smembers":
			count = strconv.Itoa(size)
		case "sscan":
			count = command.Words[4]
		case "srandmember":
			count = command.Words[2]
		}
		sum += must(strconv.Atoi(count))(t)
	}
	return sum
}

// readers are the ways to read jobs with their relations in Go.
var readers = map[string]func(e *env, client *qless.Client, jid string) (*qless.Job, error){
	"job": func(e *env, client *qless.Client, jid string) (*qless.Job, error) {
		return client.Job(e.T.Context(), jid)
	},
	"jobs": func(e *env, client *qless.Client, jid string) (*qless.Job, error) {
		return only(e.T)(client.Jobs(e.T.Context(), jid))
	},
	"peek": func(e *env, client *qless.Client, _ string) (*qless.Job, error) {
		return only(e.T)(client.Queue("q").Peek(e.T.Context(), 10))
	},
	"pop": func(e *env, client *qless.Client, _ string) (*qless.Job, error) {
		return only(e.T)(client.Queue("q").Pop(e.T.Context(), 10))
	},
	"refresh": func(e *env, client *qless.Client, jid string) (*qless.Job, error) {
		job := e.Read(jid)
		return job, job.Refresh(e.T.Context())
	},
}

// only returns a function that extracts the only job from the results of a call.
func only(t testing.TB) func(jobs []*qless.Job, err error) (*qless.Job, error) {
	return func(jobs []*qless.Job, err error) (*qless.Job, error) {
		t.Helper()
		if err != nil {
			return nil, err
		}
		require.Len(t, jobs, 1)
		return jobs[0], nil
	}
}

func TestManyRelationsAreReadInSteps(t *testing.T) {
	const count = 20_000
	for what, read := range readers {
		runEnv(t, what, func(t *testing.T, e *env) {
			jid := e.Put("q")
			dependents, dependencies := e.relate(jid, count)
			var job *qless.Job
			for _, script := range e.scriptsOf(func() { job = must(read(e, e.Client, jid))(t) }) {
				require.LessOrEqual(t, membersRead(t, script, count), 4000)
			}
			require.Equal(t, sorted(dependents), sorted(job.Dependents))
			require.Equal(t, sorted(dependencies), sorted(job.Dependencies))
		})
	}
}

// The jobs of a call share the limit on its relations.
func TestRelationsOfManyJobsAreReadInSteps(t *testing.T) {
	const jobs, count = 12, 900
	e := newEnv(t)
	var all, dependents, dependencies []string
	for i := range jobs {
		all = append(all, e.Put("q", qless.JID(fmt.Sprint("j", i))))
		dependents, dependencies = e.relate(all[i], count)
	}
	for _, script := range e.scriptsOf(func() {
		read := must(e.Jobs(t.Context(), all...))(t)
		require.Equal(t, all, jids(read))
		for _, job := range read {
			require.Equal(t, sorted(dependents), sorted(job.Dependents))
			require.Equal(t, sorted(dependencies), sorted(job.Dependencies))
		}
	}) {
		require.LessOrEqual(t, membersRead(t, script, count), 4000)
	}
}

// The JSON for other clients contains everything.
func TestOtherClientsReadAllRelationsAtOnce(t *testing.T) {
	e := newEnv(t)
	jid := e.Put("q")
	dependents, _ := e.relate(jid, 5000)
	for _, command := range []string{"get", "multiget"} {
		text := strings.TrimSuffix(strings.TrimPrefix(e.run(command, jid).(string), "["), "]")
		require.NotContains(t, text, "left_out")
		var job struct{ Dependents []string }
		require.NoError(t, json.Unmarshal([]byte(text), &job))
		require.Equal(t, sorted(dependents), sorted(job.Dependents))
	}
}

// If a set changes between two steps, the remaining members are read, and none twice.
func TestRelationsThatChangeWhileTheyAreRead(t *testing.T) {
	e := newEnv(t)
	jid := e.Put("q")
	dependents, _ := e.relate(jid, 20_000)
	steps := 0
	client := e.observing(func(call qless.Command) {
		if call.Name != "relations" {
			return
		}
		steps++
		if steps == 2 {
			more := make([]string, 60_000)
			for i := range more {
				more[i] = fmt.Sprint("more-", i)
			}
			e.addAll("ql:j:"+jid+"-dependents", more)
			require.NoError(t, e.Redis.SRem(t.Context(), "ql:j:"+jid+"-dependents", dependents[0]).Err())
		}
	})
	job := must(client.Job(t.Context(), jid))(t)
	require.Greater(t, steps, 2)
	seen := map[string]bool{}
	for _, dependent := range job.Dependents {
		require.False(t, seen[dependent], dependent)
		seen[dependent] = true
	}
	for _, dependent := range dependents[1:] {
		require.True(t, seen[dependent], dependent)
	}
}

// A job that is gone by the next step just has no more dependents, without an error.
func TestAJobThatGoesWhileItsRelationsAreRead(t *testing.T) {
	e := newEnv(t)
	jid := e.Put("q")
	e.relate(jid, 5000)
	client := e.observing(func(call qless.Command) {
		if call.Name == "get" {
			require.NoError(t, e.Redis.FlushDB(t.Context()).Err())
		}
	})
	require.Empty(t, must(client.Job(t.Context(), jid))(t).Dependents)
}

// The jobs of a pop are locked, so it returns them even without reading all of their relations.
func TestAPopReturnsJobsWhoseRelationsItCannotRead(t *testing.T) {
	e := newEnv(t)
	jid := e.Put("q")
	dependents, _ := e.relate(jid, 5000)
	ctx, client := e.cutAfter("")
	requireCode(t, qless.ErrUnavailable, errOf(client.Queue("q").Peek(ctx, 1)))
	ctx, client = e.cutAfter("")
	requireCode(t, qless.ErrUnavailable, errOf(client.Jobs(ctx, jid)))
	ctx, client = e.cutAfter("")
	requireCode(t, qless.ErrUnavailable, errOf(client.Job(ctx, jid)))
	ctx, client = e.cutAfter("")
	job := must(only(t)(client.Queue("q").Pop(ctx, 1)))(t)
	require.Empty(t, job.Dependents)
	require.NoError(t, job.Refresh(t.Context()))
	require.Equal(t, sorted(dependents), sorted(job.Dependents))
}

// cutAfter returns a client, and a context that ends after the client's next command of a name, or
// of any.
func (e *env) cutAfter(name string) (context.Context, *qless.Client) {
	ctx, cancel := context.WithCancel(e.T.Context())
	e.T.Cleanup(cancel)
	return ctx, e.observing(func(call qless.Command) {
		if name == "" || call.Name == name {
			cancel()
		}
	})
}

// observing returns a client with an observer.
func (e *env) observing(see func(call qless.Command)) *qless.Client {
	e.T.Helper()
	return e.NewClient(e.Redis, qless.ClientConfig{
		Observer: func(_ context.Context, call qless.Command) { see(call) },
	})
}

func TestWhatRelationsCost(t *testing.T) {
	e := newEnv(t)
	e.Put("q", qless.JID("alone"))
	e.Put("q", qless.JID("first"))
	e.Put("q", qless.JID("second"), qless.DependsOn{"first"})
	e.Put("q", qless.JID("third"), qless.DependsOn{"second"})
	for jid, want := range map[string]int{
		"alone": 4, "first": 4 + 3, "second": 4 + 4 + 1, "third": 4 + 3 + 1,
	} {
		require.Len(t, e.Server.Commands(t, func() { e.Read(jid) }), want, jid)
	}
}

// cancelers are the ways to cancel jobs in Go.
var cancelers = map[string]func(e *env, jids ...string) error{
	"cancel": func(e *env, jids ...string) error { return e.Cancel(e.T.Context(), jids...) },
	"bulk": func(e *env, jids ...string) error {
		done, err := e.inspect().JIDs(jids...).Cancel(e.T.Context())
		return cmp.Or(err, firstLeft(done, jids))
	},
	"found": func(e *env, jids ...string) error {
		done, err := e.inspect().Queue("q", inspect.Waiting).Cancel(e.T.Context())
		return cmp.Or(err, firstLeft(done, jids))
	},
	"withdraw": func(e *env, jids ...string) error { return lease.New(e.Client).Withdraw(e.T.Context(), jids[0]) },
}

// firstLeft returns the reason why the first of the skipped jobs was skipped.
func firstLeft(done inspect.Repair, jids []string) error {
	for _, jid := range jids {
		if err := done.Reasons[jid]; err != nil {
			return err
		}
	}
	return nil
}

// A job with very many dependents is not canceled. Reading a few dependents is enough to refuse.
func TestRefusingToCancelReadsFewDependents(t *testing.T) {
	const count = 20_000
	for what, cancel := range cancelers {
		runEnv(t, what, func(t *testing.T, e *env) {
			all := []string{e.Put("q"), e.Put("q"), e.Put("q")}
			e.relate(all[0], count)
			require.NoError(t, e.Redis.Del(t.Context(), "ql:j:"+all[0]+"-dependencies").Err())
			for _, script := range e.scriptsOf(func() {
				requireCode(t, qless.ErrHasDependents, cancel(e, all...))
			}) {
				require.LessOrEqual(t, membersRead(t, script, 0), 1000+50)
				require.NotContains(t, script, testkit.Monitored{
					Caller: "lua", Words: []string{"smembers", "ql:j:" + all[0] + "-dependents"},
				})
			}
			require.Equal(t, qless.StateWaiting, e.Read(all[0]).State)
		})
	}
}

// The only dependent not canceled as well is found among any number, in any place.
func TestTheOneDependentThatIsNotCanceledIsFound(t *testing.T) {
	for _, count := range []int{1, 9, 10, 11, 12, 60, 98} {
		for what, cancel := range cancelers {
			if what == "withdraw" {
				continue // it can't cancel several
			}
			runEnv(t, fmt.Sprint(what, " ", count), func(t *testing.T, e *env) {
				family := func() []string {
					all := []string{e.Put("q")}
					for range count {
						all = append(all, e.Put("q", qless.DependsOn{all[0]}))
					}
					return all
				}
				all := family()
				if what == "found" { // it can't skip a job, and the others are in a different list
					require.NoError(t, errOf(e.inspect().Queue("q", inspect.Depends).Cancel(t.Context())))
				} else {
					require.ErrorIs(t, cancel(e, all[0]), qless.ErrHasDependents)
					err := cancel(e, all[:count]...)
					requireCode(t, qless.ErrHasDependents, err)
					require.True(t, count == 1 || strings.Contains(err.Error(), all[count]), err)
					all = family() // some are gone
				}
				require.NoError(t, cancel(e, all...))
				require.Empty(t, must(e.Jobs(t.Context(), all...))(t))
			})
		}
	}
}

// A failure notifies some of the waiting jobs, and reads no others.
func TestAFailureReadsNoMoreDependentsThanItNotifies(t *testing.T) {
	e := newEnv(t)
	base := e.Put("q", qless.JID("base"))
	e.Put("q", qless.DependsOn{base}, qless.OnFailureRun)
	e.relate(base, 20_000)
	job := e.Pop("q")
	for _, script := range e.scriptsOf(func() { require.NoError(t, job.Fail(t.Context(), "g", "m")) }) {
		require.LessOrEqual(t, membersRead(t, script, 0), 1000)
	}
}

// Histories, and data that is not large, are written as JSON, which takes longer.
func TestDataThatIsNotLargeIsReadInSteps(t *testing.T) {
	const count, size = 300, 4000
	data := raw(`"` + strings.Repeat("x", size-2) + `"`)
	e := newEnv(t)
	specs := make([]qless.JobSpec, count)
	for i := range specs {
		specs[i] = qless.JobSpec{Klass: "K", Data: data}
	}
	all := e.puts("q", specs...)
	var jobs []*qless.Job
	e.requireShort(260<<10/size*5, func() { jobs = must(e.Jobs(t.Context(), all...))(t) })
	require.Equal(t, all, jids(jobs))
	require.Equal(t, data, jobs[count-1].Data)
}

func TestLongHistoriesAreReadInSteps(t *testing.T) {
	const count, entries = 200, 100
	e := newEnv(t)
	all := e.putAll(count)
	for _, jid := range all {
		history := make([]any, entries)
		for i := range history {
			history[i] = fmt.Sprintf(`[%d,"popped",{"worker":"a-worker-with-a-name"}]`, noon.Unix()+int64(i))
		}
		require.NoError(t, e.Redis.RPush(t.Context(), "ql:j:"+jid+"-history", history...).Err())
	}
	var jobs []*qless.Job
	e.requireShort(50*5, func() { jobs = must(e.Jobs(t.Context(), all...))(t) })
	require.Equal(t, all, jids(jobs))
	require.Len(t, jobs[count-1].History, 1+entries)
}

// Removing one dependency of a job does not read the others.
func TestOneOfManyDependenciesIsRemoved(t *testing.T) {
	e := newEnv(t)
	first, second := e.Put("q"), e.Put("q")
	job := e.Read(e.Put("q", qless.DependsOn{first, second}))
	_, more := e.relate(job.JID, 5000)
	for _, script := range e.scriptsOf(func() {
		require.NoError(t, job.Undepend(t.Context(), first, first, "unknown"))
	}) {
		require.Zero(t, membersRead(t, script, 5000))
	}
	require.NoError(t, job.Refresh(t.Context()))
	require.Equal(t, sorted(append(more, second)), sorted(job.Dependencies))
	require.Equal(t, qless.StateDepends, job.State)
	require.NoError(t, job.Undepend(t.Context(), more...))
	require.NoError(t, job.Undepend(t.Context(), "unknown"))
	require.NoError(t, job.Refresh(t.Context()))
	require.Equal(t, qless.StateDepends, job.State)
	require.NoError(t, job.Undepend(t.Context(), second, second))
	require.NoError(t, job.Refresh(t.Context()))
	require.Equal(t, qless.StateWaiting, job.State)
}
