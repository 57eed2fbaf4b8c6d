package api

import (
	"encoding/json"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/lease"
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

// A subscription that another script wrote is found when its queue is known.
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
	"pop":     func(e *env) { e.Pops("q", 5) },
	"reserve": func(e *env) { e.run("reserve", "w1", "5", "10", "0", "q") },
	"round-robin": func(e *env) {
		e.run("reserve", "w1", "5", "10", "2", "order", "round-robin", "p", "q")
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
	require.NoError(t, job.Complete(t.Context()))
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
