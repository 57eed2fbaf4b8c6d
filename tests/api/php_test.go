package api

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/events"
	"github.com/qless/qless-go/inspect"
	"github.com/qless/qless-go/tests/repairs"
	"github.com/qless/qless-go/tests/scripts"
)

// asPHP runs a line with the drop-in script, like a client in another language: a command and its
// arguments after NOW, separated by bars.
func (e *env) asPHP(line string) any {
	e.T.Helper()
	command, args := arguments(line)
	args = append([]any{command, scripts.Time(e.Clock.Now())}, args...)
	reply, err := scripts.RunDropIn(e.T.Context(), e.Redis, args...)
	require.NoError(e.T, err, line)
	return reply
}

// list runs a line whose reply is a list, in JSON or not.
func (e *env) list(line string) []string {
	e.T.Helper()
	list := []string{}
	switch reply := e.asPHP(line).(type) {
	case string:
		if reply != "{}" {
			require.NoError(e.T, json.Unmarshal([]byte(reply), &list), "%s: %s", line, reply)
		}
	case []any:
		for _, item := range reply {
			list = append(list, item.(string))
		}
	}
	return list
}

// exists reports whether a job exists.
func (e *env) exists(jid string) bool {
	e.T.Helper()
	return e.Redis.Exists(e.T.Context(), "ql:j:"+jid).Val() == 1
}

func TestAJobIsPoppedByItsID(t *testing.T) {
	e := newEnv(t)
	e.Put("q", qless.JID("first"), qless.Priority(9))
	e.Put("q", qless.JID("second"))
	require.NoError(t, e.Queue("q").SetMaxConcurrency(t.Context(), 1))
	e.Pop("q")

	reply := e.asPHP("popByJid|q|second|w2").(string)
	var jobs []struct{ JID, State, Worker string }
	require.NoError(t, json.Unmarshal([]byte(reply), &jobs))
	require.Len(t, jobs, 1)
	require.Equal(t, "second running w2", strings.Join([]string{jobs[0].JID, jobs[0].State, jobs[0].Worker}, " "))
	require.Equal(t, []string{"put", "popped"}, whats(e.Read("second").History))
	require.Equal(t, []string{"second"}, e.list("workerJobs|w2"))
	require.Equal(t, 2, e.Counts("q").Running)
}

func TestOnlyJobsWaitingInTheQueueArePoppedByID(t *testing.T) {
	e := stage(t)
	e.Put("other", qless.JID("elsewhere"))
	e.Put("q", qless.JID("later"), qless.Delay(time.Minute))
	e.Clock.Advance(time.Hour)
	for _, jid := range []string{"running", "theirs", "nowhere", "lost in failure", "child", "later", "elsewhere", "unknown"} {
		e.Unchanged(func() { require.Equal(t, "[{}]", e.asPHP("popByJid|q|"+jid+"|w9"), jid) })
	}
	require.NoError(t, e.Queue("q").Pause(t.Context()))
	e.Unchanged(func() { require.Equal(t, "[{}]", e.asPHP("popByJid|q|waiting|w9")) })
}

func TestTrackedLeavesOutWhatWasTrackedLongAgo(t *testing.T) {
	e := newEnv(t)
	e.Set("jobs-history", time.Minute)
	for i := range 3 {
		e.Put("q", qless.JID(fmt.Sprint(i)))
		require.NoError(t, e.Read(fmt.Sprint(i)).Track(t.Context()))
		e.Clock.Advance(20 * time.Second)
	}
	require.Equal(t, []string{"1", "2"}, e.list("tracked"))
	e.Clock.Advance(20 * time.Second)
	require.Equal(t, []string{"2"}, e.list("tracked"))
	require.True(t, e.Read("0").Tracked, "it is tracked all the same")
}

func TestCompletedJobsAreListedByQueue(t *testing.T) {
	e := newEnv(t)
	require.Empty(t, e.list("jobs|complete|"))
	require.Empty(t, e.list("jobs|complete|q|0|25"))
	for i := range 250 {
		queue := "q"
		if i%2 == 1 {
			queue = "p"
		}
		e.Put(queue, qless.JID(fmt.Sprint(i)))
		e.Clock.Advance(time.Second)
		require.NoError(t, e.Pop(queue).Complete(t.Context()))
	}
	require.Len(t, e.list("jobs|complete|"), 25)
	require.Equal(t, []string{"249", "248"}, e.list("jobs|complete||0|2"))
	require.Equal(t, []string{"248", "247"}, e.list("jobs|complete|1|2"), "as clients in Ruby ask")
	require.Equal(t, []string{"248", "246", "244"}, e.list("jobs|complete|q|0|3"))
	require.Equal(t, []string{"246", "244"}, e.list("jobs|complete|q|1|2"))
	require.Len(t, e.list("jobs|complete|q"), 25)
	require.Len(t, e.list("jobs|complete|p|5"), 25)
	require.Len(t, e.list("jobs|complete|p|0|500"), 125)
	require.Empty(t, e.list("jobs|complete|q|0|0"))
	require.Empty(t, e.list("jobs|complete|nowhere|0|25"))

	e.Put("3", qless.JID("numeric"))
	require.NoError(t, e.Pop("3").Complete(t.Context()))
	require.Equal(t, []string{"numeric"}, e.list("jobs|complete|3|0|5"))
	e.Put("q", qless.JID("moved"))
	require.NoError(t, e.Pop("q").Next(t.Context(), "r"))
	require.NoError(t, e.Pop("r").Complete(t.Context()))
	require.Equal(t, []string{"moved"}, e.list("jobs|complete|r"))
}

// In a long history, the put is not among the last entries.
func TestTheQueueOfACompletedJobIsFoundInALongHistory(t *testing.T) {
	e := newEnv(t)
	e.Put("q", qless.JID("j"))
	job := e.Pop("q")
	for range 30 {
		require.NoError(t, job.Log(t.Context(), "step", nil))
	}
	require.NoError(t, job.Complete(t.Context()))
	require.Equal(t, []string{"j"}, e.list("jobs|complete|q"))
}

func TestNoWaitingJobsAreListedWhenNoneAreAskedFor(t *testing.T) {
	e := newEnv(t)
	e.Put("q", qless.JID("j"))
	require.Empty(t, e.list("jobs|waiting|q|0|0"))
	require.Equal(t, []string{"j"}, e.list("jobs|waiting|q|0|1"))
}

func TestQueuesSubscribeToTopics(t *testing.T) {
	e := newEnv(t)
	require.Equal(t, "{}", e.asPHP("subscription||all|"))
	require.Empty(t, e.list("subscription|q|get"))
	require.Equal(t, []string{"q"}, e.list("subscription|q|add|q"))
	require.Equal(t, []string{"q", "q"}, e.list("subscription|q|add|"))
	require.Equal(t, []string{"q", "q"}, e.list("subscription|q|add|q"))
	require.Equal(t, []string{"ql:topicsq"}, e.list("subscription|q|get|"))
	want := map[string][]string{"q": {"q"}, "": {"q"}}
	for i := range 25 {
		queue := fmt.Sprintf("q%02d", i)
		e.list("subscription|" + queue + "|add|a.*")
		want["a.*"] = append(want["a.*"], queue)
	}
	all := map[string][]string{}
	require.NoError(t, json.Unmarshal([]byte(e.asPHP("subscription|default|all").(string)), &all))
	require.Equal(t, want, all)
	require.Equal(t, "true", e.asPHP("subscription|q|exists|"))
	require.Equal(t, "false", e.asPHP("subscription|q|exists|a.*"))
	require.Equal(t, "true", e.asPHP("subscription|q|remove|q"))
	require.Equal(t, "false", e.asPHP("subscription|q|remove|q"))
	require.Equal(t, "true", e.asPHP("subscription|q|remove|"))
	require.Empty(t, e.list("subscription|q|get"))
	require.False(t, e.Redis.SIsMember(t.Context(), "ql:x:topics", "q").Val())
}

// A subscription that another script wrote is found when its queue is known.
func TestSubscriptionsOfAnotherScriptAreFound(t *testing.T) {
	e := newEnv(t)
	require.NoError(t, e.Redis.HSet(t.Context(), "ql:topicsq", "a.b", "q").Err())
	require.Equal(t, "{}", e.asPHP("subscription|x|all"))
	e.Put("q")
	require.Equal(t, `{"a.b":["q"]}`, e.asPHP("subscription|x|all"))
}

func TestWorkersAreListedInPart(t *testing.T) {
	e := newEnv(t)
	for i := range 4 {
		require.NoError(t, errOf(e.As(fmt.Sprint("w", i)).Queue("q").Pop(t.Context(), 1)))
		e.Clock.Advance(time.Second)
	}
	names := func(line string) []string {
		var workers []struct{ Name string }
		require.NoError(t, json.Unmarshal([]byte(strings.ReplaceAll(e.asPHP(line).(string), "{}", "[]")), &workers))
		all := []string{}
		for _, worker := range workers {
			all = append(all, worker.Name)
		}
		return all
	}
	for line, want := range map[string][]string{
		"workers":       {"w3", "w2", "w1", "w0"},
		"workers|":      {"w3", "w2", "w1", "w0"},
		"workers|||":    {"w3", "w2", "w1", "w0"},
		"workers||1|2":  {"w2", "w1"},
		"workers||2|":   {"w1", "w0"},
		"workers|||1":   {"w3", "w2"},
		"workers||-1":   {"w0"},
		"workers||9|12": {},
	} {
		require.Equal(t, want, names(line), line)
	}
	require.Equal(t, int64(4), e.asPHP("workersCount"))
}

func TestAWorkersJobsAreListedByTheEndsOfTheirLocks(t *testing.T) {
	e := newEnv(t)
	for _, jid := range []string{"a", "b", "c"} {
		e.Put("q", qless.JID(jid))
		e.Pop("q")
		e.Clock.Advance(time.Second)
	}
	ends := e.Read("b").Expires.Unix()
	for line, want := range map[string][]string{
		"workerJobs|w1":                             {"a", "b", "c"},
		"workerJobs|w1|0":                           {"a", "b", "c"},
		"workerJobs|w1|-inf":                        {"a", "b", "c"},
		fmt.Sprintf("workerJobs|w1|%d", ends):       {"b", "c"},
		fmt.Sprintf("workerJobs|w1|(%d.5", ends):    {"c"},
		fmt.Sprintf("workerJobs|w1|%d.5", ends+100): {},
		"workerJobs|":                               {},
	} {
		require.Equal(t, want, e.list(line), line)
	}
	require.Equal(t, "null", e.asPHP("workerJobs"))
	require.Error(t, e.dropIn("workerJobs|w1|soon"))
}

func TestTagsAreListedInPart(t *testing.T) {
	e := newEnv(t)
	require.Empty(t, e.list("tags|0|100"))
	e.Put("q", qless.JID("j"), qless.Tags{"a", "b", "c"})
	require.ElementsMatch(t, []string{"a", "b", "c"}, e.list("tags|0|100"))
	require.Len(t, e.list("tags|1|1"), 1)
	require.NoError(t, e.Read("j").Cancel(t.Context()))
	require.Empty(t, e.list("tags|0|100"))
}

// takeLost lets a worker's lock on the job j of the queue q end, and takes jobs again.
var takeLost = map[string]func(e *env){
	"pop": func(e *env) { e.Pops("q", 5) },
	"reserve": func(e *env) {
		require.NoError(e.T, errOf(e.Run(e.T.Context(), "reserve", "", "w1", "5", "10", "0", "q")))
	},
	"round-robin": func(e *env) {
		_, err := e.Run(e.T.Context(), "reserve", "", "w1", "5", "10", "2", "order", "round-robin", "p", "q")
		require.NoError(e.T, err)
	},
}

func TestALostJobWaitsForItsBackoff(t *testing.T) {
	for how, take := range takeLost {
		for _, c := range []struct {
			backoff, initial, factor string
			first, second            time.Duration // 0 if the job is handed out at once
		}{
			{"", "", "", 0, 0},
			{"[]", "", "", 0, 0},
			{"[]", "2", "", 6 * time.Second, 18 * time.Second},
			{`{"initial_delay":10,"factor":2}`, "", "", 20 * time.Second, 40 * time.Second},
			{`{"initial_delay":10}`, "5", "1.5", 15 * time.Second, 22500 * time.Millisecond},
			{`{"factor":2}`, "5", "1.5", 10 * time.Second, 20 * time.Second},
			{`{"initial_delay":0}`, "5", "1.5", 0, 0},
			{"", "5", "2", 10 * time.Second, 20 * time.Second},
			{"not JSON", "", "", 0, 0},
			{"not JSON", "5", "2", 10 * time.Second, 20 * time.Second},
			{`{"initial_delay":"soon","factor":[]}`, "1", "x", 3 * time.Second, 9 * time.Second},
			{`{"initial_delay":1e300,"factor":1e300}`, "", "", 0, 0},
			{`"text"`, "soon", "", 0, 0},
		} {
			t.Run(fmt.Sprintf("%s %v", how, c), func(t *testing.T) {
				e := newEnv(t)
				e.Set("grace-period", 0)
				for name, value := range map[string]string{"backoff-initial-delay": c.initial, "backoff-factor": c.factor} {
					if value != "" {
						require.NoError(t, errOf(e.Do(t.Context(), "config.set", name, value)))
					}
				}
				line := "put||q|j|K|{}|0|retries|5"
				if c.backoff != "" {
					line += "|backoff|" + c.backoff
				}
				e.asPHP(line)
				take(e)
				for _, delay := range []time.Duration{c.first, c.second} {
					e.Clock.Advance(61 * time.Second)
					take(e)
					job := e.Read("j")
					if delay == 0 {
						require.Equal(t, qless.StateRunning, job.State)
						continue
					}
					require.Equal(t, qless.StateScheduled, job.State)
					require.Empty(t, job.Worker)
					require.Zero(t, e.Counts("q").Running)
					e.Clock.Advance(delay - time.Millisecond)
					take(e)
					require.Equal(t, qless.StateScheduled, e.Read("j").State)
					e.Clock.Advance(time.Millisecond)
					take(e)
					require.Equal(t, qless.StateRunning, e.Read("j").State)
				}
			})
		}
	}
}

// Another job is handed out instead of one that waits for its backoff.
func TestABackoffLeavesRoomForOtherJobs(t *testing.T) {
	e := newEnv(t)
	e.Set("grace-period", 0)
	e.asPHP(`put||q|lost|K|{}|0|backoff|{"initial_delay":10}`)
	e.Pop("q")
	e.Put("q", qless.JID("next"))
	e.Clock.Advance(time.Minute)
	require.Equal(t, "next", e.Pop("q").JID)
	require.Equal(t, qless.StateScheduled, e.Read("lost").State)
}

func TestABackoffIsKeptByAPutWithoutOne(t *testing.T) {
	e := newEnv(t)
	backoff := func() string { return e.Redis.HGet(t.Context(), "ql:j:j", "backoff").Val() }
	e.asPHP(`put||q|j|K|{}|0|backoff|{"initial_delay":10}`)
	e.Put("q", qless.JID("j"))
	require.Equal(t, `{"initial_delay":10}`, backoff())
	e.asPHP("requeue||q|j|K|{}|0|backoff|[]")
	require.Equal(t, "[]", backoff())
}

func TestABackoffIsNotForJobsThatAreRetried(t *testing.T) {
	e := newEnv(t)
	e.asPHP(`put||q|j|K|{}|0|backoff|{"initial_delay":10}`)
	require.NoError(t, errOf(e.Pop("q").Retry(t.Context(), 0, "", "")))
	require.Equal(t, qless.StateWaiting, e.Read("j").State)
	require.NoError(t, repairs.TimeOut(t.Context(), e.Client, e.Pop("q").JID))
	require.Equal(t, "j", e.Pop("q").JID)
}

// failing makes the running job j fail.
var failing = map[string]func(e *env, job *qless.Job){
	"fail": func(e *env, job *qless.Job) { require.NoError(e.T, job.Fail(e.T.Context(), "g", "m")) },
	"retry": func(e *env, job *qless.Job) {
		require.Negative(e.T, must(job.Retry(e.T.Context(), 0, "", ""))(e.T))
	},
	"finish": func(e *env, job *qless.Job) {
		_, err := e.Run(e.T.Context(), "finish", "", "w1", "fail", job.JID, "q", "", "4", "group", "g", "message", "m")
		require.NoError(e.T, err)
	},
	"finish by retry": func(e *env, job *qless.Job) {
		_, err := e.Run(e.T.Context(), "finish", "", "w1", "retry", job.JID, "q", "", "0")
		require.NoError(e.T, err)
	},
	"lost": func(e *env, _ *qless.Job) {
		e.Clock.Advance(time.Hour)
		e.Pops("q", 9)
	},
	"lost to a worker": func(e *env, _ *qless.Job) {
		e.Clock.Advance(time.Hour)
		takeLost["reserve"](e)
	},
}

func TestFailedJobsAreDeletedWhenTheirTimeIsOver(t *testing.T) {
	for how, fail := range failing {
		t.Run(how, func(t *testing.T) {
			e := newEnv(t)
			e.Set("grace-period", 0)
			one := func(jid string) {
				e.Put("q", qless.JID(jid), qless.Retries(0), qless.Tags{"t"})
				fail(e, e.Pop("q"))
			}
			one("before")
			e.Clock.Advance(30 * 24 * time.Hour)
			e.Set("jobs-failed-history", 24*time.Hour)
			require.True(t, e.exists("before"))
			one("old")
			require.False(t, e.exists("before"), "it failed before there was a limit, in the same group")
			e.Clock.Advance(23 * time.Hour)
			one("young")
			require.True(t, e.exists("old") || strings.HasPrefix(how, "lost"))
			e.Clock.Advance(time.Hour)
			ctx, cancel := context.WithCancel(t.Context())
			before := must(events.Listen(ctx, e.Client))(t)
			cancel()
			requireEnd(t, before)
			one("last")
			require.False(t, e.exists("old"))
			require.False(t, e.Redis.Exists(t.Context(), "ql:j:old-history").Val() == 1)
			for _, jid := range []string{"young", "last"} {
				require.Equal(t, qless.StateFailed, e.Read(jid).State)
			}
			groups := must(e.inspect().FailureGroups(t.Context()))(t)
			require.Len(t, groups, 1)
			for _, count := range groups {
				require.Equal(t, 2, count)
			}
			require.Equal(t, 2, must(e.inspect().Tagged("t").JIDs(t.Context(), inspect.Range{}))(t).Total)
			e.Set("jobs-failed-history", 0)
			one("at once")
			require.False(t, e.exists("at once"))
			require.False(t, e.exists("last"))
		})
	}
}

func TestFailedJobsAreKeptWithoutALimit(t *testing.T) {
	for _, value := range []string{"", "x", "-1"} {
		e := newEnv(t)
		require.NoError(t, errOf(e.Do(t.Context(), "config.set", "jobs-failed-history", value)))
		e.Put("q", qless.JID("j"))
		require.NoError(t, e.Pop("q").Fail(t.Context(), "g", "m"))
		e.Clock.Advance(1000 * time.Hour)
		e.Put("q")
		require.NoError(t, e.Pop("q").Fail(t.Context(), "g", "m"))
		require.True(t, e.exists("j"))
		require.Zero(t, e.Redis.Exists(t.Context(), "ql:failed-jobs-list").Val())
	}
}

func TestAJobThatIsNoLongerFailedIsNotDeleted(t *testing.T) {
	for how, revive := range map[string]func(e *env){
		"put":          func(e *env) { e.Put("q", qless.JID("j")) },
		"unfail":       func(e *env) { require.NoError(e.T, e.Read("j").Unfail(e.T.Context())) },
		"unfail group": func(e *env) { e.asPHP("unfail|q|g|25") },
		"cancel": func(e *env) {
			require.NoError(e.T, e.Read("j").Cancel(e.T.Context()))
			e.Put("q", qless.JID("j"))
		},
	} {
		t.Run(how, func(t *testing.T) {
			e := newEnv(t)
			e.Set("jobs-failed-history", time.Minute)
			e.Put("q", qless.JID("j"))
			require.NoError(t, e.Pop("q").Fail(t.Context(), "g", "m"))
			revive(e)
			require.Zero(t, e.Redis.Exists(t.Context(), "ql:failed-jobs-list").Val())
			e.Clock.Advance(time.Hour)
			e.Put("q", qless.Priority(5))
			require.NoError(t, e.Pop("q").Fail(t.Context(), "g", "m"))
			require.Equal(t, qless.StateWaiting, e.Read("j").State)
		})
	}
}

func TestAFailedJobThatOthersDependOnIsKept(t *testing.T) {
	e := newEnv(t)
	e.Set("jobs-failed-history", time.Minute)
	fail := func(jid string) {
		e.Put("q", qless.JID(jid))
		require.NoError(t, e.Pop("q").Fail(t.Context(), "g", "m"))
	}
	fail("needed")
	e.Put("q", qless.JID("waits"), qless.DependsOn{"needed"})
	e.Clock.Advance(time.Hour)
	fail("second")
	require.True(t, e.exists("needed"))
	require.NoError(t, e.Read("waits").Cancel(t.Context()))
	e.Clock.Advance(time.Hour)
	fail("third")
	require.False(t, e.exists("needed"))
	require.False(t, e.exists("second"))
}

func TestAFailureDeletesNoMoreThanAHundredJobs(t *testing.T) {
	e := newEnv(t)
	e.Set("jobs-failed-history", time.Hour)
	for range 250 {
		e.Put("q")
	}
	for _, job := range e.Pops("q", 250) {
		require.NoError(t, job.Fail(t.Context(), "g", "m"))
	}
	e.Clock.Advance(2 * time.Hour)
	for _, want := range []int{151, 52, 3} {
		e.Put("q")
		require.NoError(t, e.Pop("q").Fail(t.Context(), "g", "m"))
		require.Equal(t, want, must(e.inspect().FailureGroups(t.Context()))(t)["g"])
	}
}
