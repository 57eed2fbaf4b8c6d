package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
	"github.com/qless/qless-go/lease"
	"github.com/qless/qless-go/tests/repairs"
	"github.com/qless/qless-go/tests/scripts"
)

// oddNames are unusual, but valid as names of anything.
var oddNames = []string{
	" ", "a b", "a:b", ":", "é中😀", "a\nb\r\n", "a\x00b", "\x00", "%s%d%n", "*", "[a-z]?", "{tag}", "}{", `"quoted"`, `back\slash`,
	"a/b", "it's", "-work", "q-work", "null", "false", "0", "-1", "nan", "all", "\u2028", "\ufeff", "\ufffd", "<&>", "]]", "--",
	"..", "\t", strings.Repeat("long ", 2000), "$(x)", "`x`", "a\u0301",
}

// Jobs with odd names only go through their whole lives.
func TestOddNames(t *testing.T) {
	e := newEnv(t)
	for i, name := range oddNames {
		ctx := t.Context()
		other := oddNames[(i+1)%len(oddNames)]
		worker := e.As(name)
		q := worker.Queue(name)
		jid, err := q.Put(ctx, name, map[string]string{name: name}, qless.JID(name), qless.Tags{name, other})
		require.NoError(t, err, "%q", name)
		require.Equal(t, name, jid)

		jobs, err := q.Pop(ctx, 1)
		require.NoError(t, err, "%q", name)
		require.Equal(t, []string{name}, jids(jobs))
		job := jobs[0]
		require.Equal(t, name, job.Klass)
		require.Equal(t, name, job.Queue)
		require.Equal(t, name, job.Worker)
		require.Equal(t, qless.Tags{name, other}, job.Tags)
		require.Equal(t, name, job.History[0].Queue)
		require.Equal(t, name, job.History[1].Worker)
		var data map[string]string
		require.NoError(t, job.Unmarshal(&data))
		require.Equal(t, map[string]string{name: name}, data)

		require.NoError(t, job.Log(ctx, name, map[string]string{name: name}))
		require.NoError(t, errOf(job.Heartbeat(ctx)))
		require.NoError(t, job.Fail(ctx, name, name))
		failed := must(e.inspect().Failed(name).JIDs(ctx, inspect.Range{}))(t)
		require.Equal(t, inspect.Page[string]{Total: 1, Items: []string{name}}, failed)
		require.Equal(t, map[string]int{name: 1}, must(e.inspect().FailureGroups(ctx))(t))
		require.Equal(t, name, e.Read(name).Failure.Message)
		require.Equal(t, name, e.Read(name).History[2].What)

		require.Equal(t, 1, must(repairs.UnfailInto(ctx, e.Client, q.Name(), name, 1))(t))
		_, err = e.Queue(name).Put(ctx, "K", nil, qless.JID(name+" child"), qless.DependsOn{name})
		require.NoError(t, err)
		require.Equal(t, []string{name + " child"}, e.Read(name).Dependents)
		jobs = must(q.Pop(ctx, 1))(t)
		require.NoError(t, jobs[0].Complete(ctx))
		require.Equal(t, 1, e.Counts(name).Waiting, "%q", name)

		require.NoError(t, q.Pause(ctx))
		require.True(t, e.Counts(name).Paused)
		require.Contains(t, e.all(e.inspect().Tagged(name)), name)
		_, err = q.Recur(ctx, name, name, time.Hour, qless.JID(name), qless.Tags{name})
		require.NoError(t, err)
		require.Equal(t, name, e.recurring(name).Queue)
		require.NoError(t, errOf(e.Do(ctx, "config.set", name, name)))
		value := must(e.Config().Get(ctx, name))(t)
		require.Equal(t, name, value)
		require.Equal(t, 2, e.stats(name, noon).Wait.Count, "%q", name)
	}

	queues := must(e.Queues(t.Context()))(t)
	for i, queue := range queues {
		require.Equal(t, oddNames[i], queue.Name)
	}
	require.Len(t, queues, len(oddNames))
	require.Len(t, must(e.inspect().Workers(t.Context()))(t), len(oddNames))
	settings := must(e.Config().All(t.Context()))(t)
	for _, name := range oddNames {
		require.Equal(t, name, settings[name])
	}
	completed := must(e.inspect().Completed().JIDs(t.Context(), inspect.Range{Limit: 100}))(t)
	require.ElementsMatch(t, oddNames, completed.Items)
}

// The key of such a job would be the key of another job's list.
func TestJIDsThatAreKeysOfOtherJobs(t *testing.T) {
	e := newEnv(t)
	e.Put("q", qless.JID("a"))
	job := e.Read(e.Put("q", qless.JID("b"), qless.DependsOn{"a"}))
	e.Unchanged(func() {
		for _, jid := range []string{"a-history", "a-dependents", "b-dependencies", "c-history", "-history"} {
			_, err := e.Queue("q").Put(t.Context(), "K", nil, qless.JID(jid))
			require.Equal(t, jid, requireCode(t, qless.ErrInvalid, err).JID)
			_, err = e.Queue("q").PutMany(t.Context(), []qless.JobSpec{spec(qless.JID(jid))})
			requireCode(t, qless.ErrInvalid, err)
		}
		requireCode(t, qless.ErrServer, errOf(e.Job(t.Context(), "a-history")))
		requireCode(t, qless.ErrInvalid, job.Depend(t.Context(), "a-dependents"))
	})
}

// oddData is data accepted by Lua but not by Go. Other clients may put it.
var oddData = []string{
	`{"a": NaN}`, `{"a": [-Infinity, 0x10]}`, "{\"a\": \"x\ny\x01\"}",
}

// oddJob returns a running job with data from another client.
func (e *env) oddJob(data string) *qless.Job {
	e.T.Helper()
	jid := e.Put("q")
	require.NoError(e.T, e.Redis.HSet(e.T.Context(), "ql:j:"+jid, "data", data).Err())
	job := e.Pop("q")
	require.Equal(e.T, jid, job.JID)
	require.Equal(e.T, data, string(job.Data))
	return job
}

// Jobs are changed in every way, and their data stays the same.
func TestOddData(t *testing.T) {
	e := newEnv(t)
	for name, change := range map[string]func(ctx context.Context, job *qless.Job) error{
		"complete": jobMethods["Complete"], "heartbeat": jobMethods["Heartbeat"], "retry": jobMethods["Retry"],
		"release": jobMethods["Release"], "fail": jobMethods["Fail"], "next": jobMethods["Next"], "move": jobMethods["Move"],
		"timeout": func(ctx context.Context, job *qless.Job) error { return repairs.TimeOut(ctx, e.Client, job.JID) },
		"many": func(ctx context.Context, job *qless.Job) error {
			return errOf(e.inspect().JIDs(job.JID).Move(ctx, "r"))
		},
		"again": func(ctx context.Context, job *qless.Job) error {
			if err := e.Cancel(ctx, job.JID); err != nil {
				return err
			}
			return errOf(e.Queue("r").PutMany(ctx, []qless.JobSpec{job.Spec()}))
		},
		"edited": func(ctx context.Context, job *qless.Job) error {
			if err := job.SetData(map[string]int{"a": 1}); err != nil {
				return err
			}
			return job.Complete(ctx)
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, data := range oddData {
				job := e.oddJob(data)
				require.NoError(t, change(t.Context(), job), "%q", data)
				want := data
				if name == "edited" {
					want = `{"a":1}`
				}
				require.Equal(t, want, e.Redis.HGet(t.Context(), "ql:j:"+job.JID, "data").Val())
				require.NoError(t, e.Redis.FlushDB(t.Context()).Err())
			}
		})
	}
}

func TestOddDataAsJSON(t *testing.T) {
	e := newEnv(t)
	for _, data := range oddData {
		job := e.oddJob(data)
		text := jsonOf(t, []*qless.Job{job})
		require.True(t, json.Valid([]byte(text)))
		var read []qless.Job
		require.NoError(t, json.Unmarshal([]byte(text), &read))
		require.Equal(t, job.JID, read[0].JID)
		job.Data = json.RawMessage(data + " ") // differs from the data read
		requireCode(t, qless.ErrInvalid, job.Complete(t.Context()))
		requireCode(t, qless.ErrInvalid, job.Move(t.Context(), "r"))
		require.IsType(t, json.RawMessage{}, job.Spec().Data)

		recurring := e.recur(time.Hour)
		require.NoError(t, e.Redis.HSet(t.Context(), "ql:r:r", "data", data).Err())
		require.NoError(t, recurring.Refresh(t.Context()))
		require.NoError(t, errOf(json.Marshal(*recurring)))
		require.NoError(t, e.Redis.FlushDB(t.Context()).Err())
	}
}

// lose deletes the hashes of jobs without a script, and leaves their jids.
func (e *env) lose(jids ...string) {
	e.T.Helper()
	for _, jid := range jids {
		require.NoError(e.T, e.Redis.Del(e.T.Context(), "ql:j:"+jid).Err())
	}
}

func TestJIDsOfLostJobsDoNotWedgeAQueue(t *testing.T) {
	e := newEnv(t)
	e.Set("grace-period", 0)
	e.start("q", qless.JID("locked"))
	e.start("q", qless.JID("locked too"))
	e.Clock.Advance(2 * time.Minute)
	e.Put("q", qless.JID("scheduled"), qless.Delay(time.Second))
	e.Put("q", qless.JID("waiting"), qless.Priority(10))
	e.Put("q", qless.JID("parent"), qless.Priority(-1))
	e.Put("q", qless.JID("depends"), qless.DependsOn{"parent"})
	e.Put("q", qless.JID("good"))
	require.NoError(t, errOf(e.Queue("q").Recur(t.Context(), "K", nil, time.Second, qless.JID("r"))))
	e.lose("locked", "locked too", "scheduled", "waiting", "depends")
	require.NoError(t, e.Redis.Del(t.Context(), "ql:r:r").Err())
	e.Clock.Advance(2 * time.Second)

	require.Equal(t, []string{"good", "parent"}, jids(must(e.Queue("q").Peek(t.Context(), 5))(t)))
	e.Counts("q")
	require.NoError(t, errOf(e.Queues(t.Context())))
	for _, list := range []inspect.List{
		inspect.Waiting, inspect.Running, inspect.Stalled, inspect.Scheduled, inspect.Depends,
	} {
		require.NoError(t, errOf(e.inspect().Queue("q", list).JIDs(t.Context(), inspect.Range{})))
	}
	jobs := e.Pops("q", 5)
	require.Equal(t, []string{"good", "parent"}, jids(jobs))
	require.NoError(t, jobs[1].Complete(t.Context()))
	require.Empty(t, e.Pops("q", 5))
	counts := e.Counts("q")
	require.Equal(t, qless.QueueCounts{Name: "q", Running: 1, Depends: counts.Depends}, counts)
}

func TestLostJobsElsewhere(t *testing.T) {
	e := newEnv(t)
	for _, jid := range []string{"a", "b", "c"} {
		require.NoError(t, e.start("q", qless.JID(jid), qless.Tags{"tag"}).Fail(t.Context(), "g", "m"))
	}
	require.NoError(t, e.Read("a").Track(t.Context()))
	e.lose("a", "b")
	require.Equal(t, []string{"a"}, e.all(e.inspect().Tracked()))
	require.NoError(t, errOf(repairs.UnfailInto(t.Context(), e.Client, "q", "g", 5)))
	require.Equal(t, "c", e.Pop("q").JID)
	require.Empty(t, must(e.inspect().FailureGroups(t.Context()))(t))

	require.NoError(t, e.start("q", qless.JID("done")).Complete(t.Context()))
	e.lose("done")
	e.Set("jobs-history-count", 0)
	last := e.start("q", qless.JID("last"))
	require.NoError(t, last.Complete(t.Context()), "it deletes old complete jobs")
	require.NoError(t, e.Cancel(t.Context(), "a", "b"))
}

// garbage lists bad values of a job's field, as written by a person or another program.
var garbage = map[string][]string{
	"tags":             {"", "x", "5", `"a"`, "{}", "[{}]", "[1,2.5]", "[null]", `{"a":1}`, "[nan]", "[[]]", "null"},
	"remaining":        {"", "x", "nan", "inf", "-inf", "1e400", "1.5", "{}", "0x10"},
	"retries":          {"", "x", "nan", "inf", "1.5"},
	"priority":         {"", "x", "nan", "inf", "1.5", "1e300"},
	"expires":          {"", "x", "nan", "inf", "1e300", "-1"},
	"time":             {"", "x", "nan", "inf", "-inf", "1e300", "-1e300"},
	"failure":          {"", "x", "[]", "[1]", "5", "null", `{"group":5}`, `{"group":{}}`, `{"when":"x","group":"g"}`, `{"when":1e300}`, `{"when":nan}`, `{"message":[]}`},
	"history":          {"", "x", "5", "{}", "[]", "[1]", `["a"]`, "[null]", `[{"put":null}]`, `[{"put":"x","popped":{},"q":[]}]`, `[{"put":1e300,"done":nan}]`},
	"grace":            {"", "x", "0", "nan"},
	"spawned_from_jid": {"", "x"},
	"worker":           {"", "x"},
	"scheduled":        {"", "x", "nan"},
	"data":             {"", "x", "\xff", "{"},
	"klass":            {"", "\xff\x00"},
}

// ran requires that a script ran to its end, with any outcome for its job.
func ran(t *testing.T, err error, what string) {
	t.Helper()
	if err != nil {
		require.False(t, errors.Is(err, qless.ErrServer), "%s: %v", what, err)
	}
}

// Each piece of garbage is written to jobs in every state, and then every operation is tried.
func TestGarbageInTheFieldsOfAJob(t *testing.T) {
	ctx := t.Context()
	e := newEnv(t)
	for field, values := range garbage {
		for _, value := range values {
			what := fmt.Sprintf("%s = %q", field, value)
			spoil := func(jid string) { require.NoError(t, e.Redis.HSet(ctx, "ql:j:"+jid, field, value).Err()) }
			require.NoError(t, e.Redis.FlushDB(ctx).Err())
			e.Set("grace-period", 0)

			e.Put("q", qless.JID("j"), qless.Tags{"a"})
			spoil("j")
			read, err := e.Job(ctx, "j")
			require.NoError(t, err, what)
			peeked, err := e.Queue("q").Peek(ctx, 1)
			require.NoError(t, err, what)
			require.Equal(t, []*qless.Job{read}, peeked, what)
			jobs, err := e.Queue("q").Pop(ctx, 1)
			require.NoError(t, err, what)
			require.Equal(t, []string{"j"}, jids(jobs), what)
			job := jobs[0]

			spoil("j")
			ran(t, e.Read("j").Tag(ctx, "b"), what)
			spoil("j")
			ran(t, e.Read("j").Untag(ctx, "a"), what)
			spoil("j")
			ran(t, job.Log(ctx, "m", nil), what)
			spoil("j")
			ran(t, job.SetPriority(ctx, 3), what)
			require.NoError(t, job.SetData(nil))
			spoil("j")
			ran(t, errOf(job.Heartbeat(ctx)), what)

			spoil("j")
			e.Clock.Advance(2 * time.Minute)
			ran(t, errOf(e.Queue("q").Pop(ctx, 1)), what+", lost")
			require.NoError(t, errOf(e.Queue("q").Put(ctx, "K", nil, qless.JID("j"))), what)

			for _, end := range []func(*qless.Job) error{
				func(j *qless.Job) error { return errOf(j.Retry(ctx, 0, "", "")) },
				func(j *qless.Job) error { return repairs.TimeOut(ctx, e.Client, j.JID) },
				func(j *qless.Job) error { return j.Release(ctx, time.Hour) },
				func(j *qless.Job) error {
					ran(t, j.Fail(ctx, "g", "m"), what)
					return j.Unfail(ctx)
				},
				func(j *qless.Job) error { return j.Next(ctx, "q", qless.Tags{"c"}, qless.Priority(2)) },
				func(j *qless.Job) error { return j.Fail(ctx, "g", "m") },
				func(j *qless.Job) error { return j.Next(ctx, "q") },
				func(j *qless.Job) error { return j.Complete(ctx) },
				func(j *qless.Job) error { return j.Move(ctx, "q") },
				func(j *qless.Job) error { return j.Cancel(ctx) },
			} {
				spoil("j")
				_, err := e.Queue("q").Put(ctx, "K", nil, qless.JID("j"), qless.Retries(5))
				require.NoError(t, err, what)
				jobs, err := e.Queue("q").Pop(ctx, 1)
				require.NoError(t, err, what)
				require.Equal(t, []string{"j"}, jids(jobs), what)
				spoil("j")
				ran(t, end(jobs[0]), what)
				ran(t, errOf(repairs.UnfailInto(ctx, e.Client, "q", "g", 1)), what)
			}
			requireCode(t, qless.ErrNotFound, errOf(e.Job(ctx, "j")))

			e.Put("q", qless.JID("good"))
			require.Equal(t, "good", e.Pop("q").JID, what)
			require.NoError(t, errOf(e.Jobs(ctx, "j", "good")), what)
		}
	}
}

func TestGarbageInTheHistoryOfAJob(t *testing.T) {
	e := newEnv(t)
	for _, entry := range []string{
		"", "x", "5", "{}", "[]", "[1]", "[null]", `[1,"a",5]`, `[1,"a",[1,2]]`, `[1,"a",null]`, `["x",{},{}]`,
		`[1,"a",{"when":"x","what":2,"q":[],"worker":null}]`, `[1.5,"a"]`, `[1e300,"a"]`, `[nan,"a"]`, `[1,"a",[nan]]`, `[1,"\ud83d"]`,
	} {
		require.NoError(t, e.Redis.FlushDB(t.Context()).Err())
		jid := e.Put("q")
		require.NoError(t, e.Redis.RPush(t.Context(), "ql:j:"+jid+"-history", entry).Err())
		job, err := e.Job(t.Context(), jid)
		require.NoError(t, err, entry)
		require.Equal(t, "put", job.History[0].What)
		jobs, err := e.Queue("q").Pop(t.Context(), 1)
		require.NoError(t, err, entry)
		require.Len(t, jobs, 1)
		require.NoError(t, jobs[0].Complete(t.Context()), entry)
	}
}

func TestGarbageInTheSettings(t *testing.T) {
	e := newEnv(t)
	for _, option := range []string{
		"heartbeat", "q-heartbeat", "q-max-concurrency", "grace-period", "max-job-history", "jobs-history",
		"jobs-history-count", "stats-history", "histogram-history", "max-worker-age",
	} {
		for _, value := range []string{"", "x", "nan", "inf", "-inf", "1e400", "{}"} {
			require.NoError(t, e.Redis.FlushDB(t.Context()).Err())
			what := fmt.Sprintf("%s = %q", option, value)
			require.NoError(t, e.Redis.HSet(t.Context(), "ql:config", option, value).Err())
			for _, jid := range []string{"a", "b", "c"} {
				e.Put("q", qless.JID(jid))
			}
			jobs, err := e.Queue("q").Pop(t.Context(), 2)
			require.NoError(t, err, what)
			require.Len(t, jobs, 2, what)
			require.NoError(t, errOf(jobs[0].Heartbeat(t.Context())), what)
			require.NoError(t, jobs[0].Complete(t.Context()), what)
			e.Clock.Advance(time.Hour)
			for range 2 {
				require.NoError(t, errOf(e.Queue("q").Pop(t.Context(), 5)), what)
				e.Clock.Advance(time.Hour)
			}
			require.NoError(t, e.Read("b").Log(t.Context(), "m", nil))
			require.NoError(t, errOf(e.inspect().Workers(t.Context())), what)
			require.NoError(t, errOf(e.Queue("q").Stats(t.Context(), noon)), what)
			e.Counts("q")
		}
	}
}

func TestGarbageInARecurringJob(t *testing.T) {
	const deleted = "deleted"
	e := newEnv(t)
	for field, values := range map[string][]string{
		"interval": {"", "x", "nan", "inf", "0", "-1", "1e-300", "1e300", deleted},
		"priority": {"", "x", "nan", "inf", deleted},
		"retries":  {"", "x", "nan", deleted},
		"backlog":  {"", "x", "nan", "inf", "-5", deleted},
		"tags":     {"", "x", "{}", "[{}]", "null"},
		"data":     {"", "x", deleted},
	} {
		for _, value := range values {
			what := fmt.Sprintf("%s = %q", field, value)
			require.NoError(t, e.Redis.FlushDB(t.Context()).Err())
			job := e.recur(time.Second)
			if value == deleted {
				require.NoError(t, e.Redis.HDel(t.Context(), "ql:r:r", field).Err())
			} else {
				require.NoError(t, e.Redis.HSet(t.Context(), "ql:r:r", field, value).Err())
			}
			e.Put("q", qless.JID("good"), qless.Priority(1))
			e.Clock.Advance(10 * time.Second)
			popped, err := e.Queue("q").Pop(t.Context(), 50)
			require.NoError(t, err, what)
			require.Contains(t, jids(popped), "good", what)
			require.NoError(t, errOf(e.RecurringJob(t.Context(), "r")), what)
			job.Interval, job.Tags = time.Hour, []string{"b"}
			require.NoError(t, job.Update(t.Context()), what)
			require.NoError(t, errOf(e.Do(t.Context(), "recur.tag", "r", "c")), what)
			require.NoError(t, job.Cancel(t.Context()), what)
		}
	}
}

// asPHP runs a line with the drop-in script, like a classic client: a command and its arguments
// after NOW, separated by bars.
func (e *env) asPHP(line string) any {
	e.T.Helper()
	command, args := arguments(line)
	args = append([]any{command, scripts.Time(e.Clock.Now())}, args...)
	reply, err := scripts.RunDropIn(e.T.Context(), e.Redis, args...)
	require.NoError(e.T, err, line)
	return reply
}

// list runs a line with a list as reply, in JSON or not.
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

// The traces in tests/conformance have more, but none of these.
func TestLinesOfClientsInPHP(t *testing.T) {
	e := newEnv(t)
	require.NoError(t, e.start("3", qless.JID("numeric")).Complete(t.Context()))
	require.Equal(t, []string{"numeric"}, e.list("jobs|complete|3|0|5"))
	e.Put("other", qless.JID("elsewhere"))
	e.Unchanged(func() { require.Equal(t, "[{}]", e.asPHP("popByJid|q|elsewhere|w9")) })
	require.Error(t, e.dropIn("workerJobs|w1|soon"))
	e.Set("jobs-history", time.Minute)
	for _, jid := range []string{"old", "new"} {
		require.NoError(t, e.Read(e.Put("q", qless.JID(jid))).Track(t.Context()))
		e.Clock.Advance(40 * time.Second)
	}
	require.Equal(t, []string{"new"}, e.list("tracked"))
	require.True(t, e.Read("old").Tracked, "it is tracked all the same")
}

// In a long history, the put is not among the last entries.
func TestTheQueueOfACompletedJobIsFoundInALongHistory(t *testing.T) {
	e := newEnv(t)
	job := e.start("q", qless.JID("j"))
	for range 30 {
		require.NoError(t, job.Log(t.Context(), "step", nil))
	}
	require.NoError(t, job.Complete(t.Context()))
	require.Equal(t, []string{"j"}, e.list("jobs|complete|q"))
}

// A subscription written by another script is found when its queue is known.
func TestSubscriptionsOfAnotherScriptAreFound(t *testing.T) {
	e := newEnv(t)
	require.Equal(t, "{}", e.asPHP("subscription|q|get"))
	require.NoError(t, e.Redis.HSet(t.Context(), "ql:topicsq", "a.b", "q").Err())
	require.Equal(t, `["ql:topicsq"]`, e.asPHP("subscription|q|get"))
	require.Equal(t, "{}", e.asPHP("subscription|x|all"))
	e.Put("q")
	require.Equal(t, `{"a.b":["q"]}`, e.asPHP("subscription|x|all"))
}

// takeLost lets a worker's lock on the job j of the queue q end, and takes jobs again.
var takeLost = map[string]func(e *env){
	"pop":         func(e *env) { e.Pops("q", 5) },
	"reserve":     func(e *env) { e.run("reserve", "w1", "5", "10", "0", "q") },
	"round-robin": func(e *env) { e.run("reserve", "w1", "5", "10", "2", "order", "round-robin", "p", "q") },
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
			runEnv(t, fmt.Sprintf("%s %v", how, c), func(t *testing.T, e *env) {
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

func TestFailedJobsAreKeptWithoutALimit(t *testing.T) {
	for _, value := range []string{"", "x", "-1"} {
		e := newEnv(t)
		require.NoError(t, errOf(e.Do(t.Context(), "config.set", "jobs-failed-history", value)))
		require.NoError(t, e.start("q", qless.JID("j")).Fail(t.Context(), "g", "m"))
		e.Clock.Advance(1000 * time.Hour)
		require.NoError(t, e.start("q").Fail(t.Context(), "g", "m"))
		require.True(t, e.exists("j"))
		require.Zero(t, e.Redis.Exists(t.Context(), "ql:failed-jobs-list").Val())
	}
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
		require.NoError(t, e.start("q").Fail(t.Context(), "g", "m"))
		require.Equal(t, want, must(e.inspect().FailureGroups(t.Context()))(t)["g"])
	}
}

// Keys written by the stock scripts are read like our own.
func TestJobsOfTheStockScriptsAreRead(t *testing.T) {
	e := newEnv(t)
	require.NoError(t, e.Redis.HSet(t.Context(), "ql:j:old", map[string]any{
		"jid": "old", "klass": "Foo::Bar", "data": `{"a":{}}`, "priority": "0", "tags": "{}", "state": "waiting",
		"worker": "", "expires": "1704196860.123456", "queue": "q", "retries": "5", "remaining": "4.0000000000",
		"time": "1704196800.5", "failure": "{}",
		"history": `[{"q":"first","put":1352075209,"popped":1352075300.5,"worker":"w","done":1352076000},{"q":"q","put":1352076000}]`,
	}).Err())
	require.NoError(t, e.Redis.ZAdd(t.Context(), "ql:q:q-work", zmember(-0.17, "old")).Err())

	job := e.Pop("q")
	require.Equal(t, "Foo::Bar", job.Klass)
	require.Empty(t, job.Tags)
	require.Nil(t, job.Failure)
	require.Equal(t, 4, job.Remaining)
	require.Empty(t, job.SpawnedFrom)
	require.Equal(t, []qless.HistoryEntry{
		{When: time.Unix(1352075209, 0), What: "put", Queue: "first"},
		{When: time.Unix(1352075300, 0), What: "popped", Worker: "w"},
		{When: time.Unix(1352076000, 0), What: "done"},
		{When: time.Unix(1352076000, 0), What: "put", Queue: "q"},
		{When: noon.Local(), What: "popped", Worker: "w1"},
	}, job.History)
	require.Zero(t, e.Redis.HExists(t.Context(), "ql:j:old", "history").Val(), "it has become a list")
	require.NoError(t, e.Redis.HSet(t.Context(), "ql:j:old", "history", `[{"q":"q","put":1}]`).Err())
	require.NoError(t, job.Release(t.Context(), 0))
	require.Zero(t, e.Redis.HExists(t.Context(), "ql:j:old", "history").Val(), "by a release, too")
	require.NoError(t, e.Pop("q").Complete(t.Context()))
}

// Other clients may set any number as a priority.
var foreignPriorities = map[string]int{
	"2147483648": 1 << 31, "-5000000000": -5_000_000_000, "9007199254740991": 1<<53 - 1,
	"123456789012345678": 123456789012345680, "1.2345678901234568e+17": 123456789012345680,
	"9223372036854775807": math.MaxInt, "-1e300": math.MinInt, "1.9": 1, "-1.1": -2, "inf": 0, "nan": 0, "x": 0,
}

func TestPrioritiesOfOtherClientsAreReadInFull(t *testing.T) {
	ctx := t.Context()
	e := newEnv(t)
	defer e.Close()
	for stored, want := range foreignPriorities {
		jid := e.Put("q")
		require.NoError(t, e.Redis.HSet(ctx, "ql:j:"+jid, "priority", stored).Err())

		require.Equal(t, want, e.Read(jid).Priority, stored)
		require.Equal(t, want, must(e.Jobs(ctx, jid))(t)[0].Priority, stored)
		require.Equal(t, want, must(e.Queue("q").Peek(ctx, 1))(t)[0].Priority, stored)
		require.Equal(t, want, e.received(lease.Request{Queues: []string{"q"}})[0].Priority, stored)
		e.Put("q", qless.JID(jid))
		require.NoError(t, e.Redis.HSet(ctx, "ql:j:"+jid, "priority", stored).Err())
		require.Equal(t, want, e.Pop("q").Priority, stored)
	}
}

func TestForeignRecurringPrioritiesAreReadInFull(t *testing.T) {
	e := newEnv(t)
	recurring := e.recur(time.Minute)
	for stored, want := range foreignPriorities {
		require.NoError(t, e.Redis.HSet(t.Context(), "ql:r:"+recurring.JID, "priority", stored).Err())
		require.Equal(t, want, e.recurring(recurring.JID).Priority, stored)
	}
}
