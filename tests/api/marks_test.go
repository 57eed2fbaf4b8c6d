package api

import (
	"fmt"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/testkit"
	"github.com/qless/qless-go/internal/testkit/memory"
)

// waking is the beginning of a message that also wakes a worker.
const waking = `{"queue":`

// heard subscribes to a channel until the test ends, and returns a function that waits for its next
// message.
func heard(t *testing.T, rdb *redis.Client, channel string) func() string {
	t.Helper()
	subscription := rdb.Subscribe(t.Context(), channel)
	t.Cleanup(func() { _ = subscription.Close() })
	require.NoError(t, errOf(subscription.Receive(t.Context())))
	messages := subscription.Channel()
	return func() string { return testkit.Soon(t, "a message on "+channel, messages).Payload }
}

func TestMessagesOfReadyJobsShowThatTheScriptWakes(t *testing.T) {
	e := newEnv(t)
	message := heard(t, e.Redis, "ql:log")
	e.Put("q", qless.JID("j"))
	require.Equal(t, `{"queue":"q","event":"put","jid":"j"}`, message())
	require.NoError(t, e.Pop("q").Next(t.Context(), "q2"))
	require.Equal(t, `{"queue":"q","to":"q2","event":"advanced","jid":"j"}`, message())
	_, err := e.Queue("q").PutMany(t.Context(), []qless.JobSpec{spec(qless.JID("k"))})
	require.NoError(t, err)
	require.Equal(t, `{"queue":"q","event":"put","jid":"k"}`, message())
}

// Its messages are the same as those of other clients' scripts, unless there is a worker to wake.
func TestTheDropInMarksAMessageOnlyIfItWakesAWorker(t *testing.T) {
	e := newEnv(t)
	message, wake := heard(t, e.Redis, "ql:log"), heard(t, e.Redis, "ql:x:wake:w1")
	isUnmarked := func(want string) { // cjson determines the order, which differs between servers
		got := message()
		require.JSONEq(t, want, got)
		require.False(t, strings.HasPrefix(got, waking), got)
	}
	require.NoError(t, e.dropIn("put|w|q|j|K|{}|0"))
	isUnmarked(`{"jid":"j","event":"put","queue":"q"}`)
	require.NoError(t, e.dropIn("pop|q|w|1"))
	require.NoError(t, e.dropIn("complete|j|w|q|{}|next|q2"))
	isUnmarked(`{"jid":"j","to":"q2","event":"advanced","queue":"q"}`)

	becomeIdle := func() {
		require.NoError(t, errOf(e.Run(t.Context(), "reserve", "", "w1", 1, 10, 0, "idle")))
	}
	becomeIdle()
	require.NoError(t, e.dropIn("put|w|idle|k|K|{}|0"))
	require.Equal(t, `{"queue":"idle","event":"put","jid":"k"}`, message())
	require.Equal(t, "idle", wake())
	require.NoError(t, e.dropIn("pop|idle|w|1"))
	becomeIdle()
	require.NoError(t, e.dropIn("complete|k|w|idle|{}|next|idle"))
	require.Equal(t, `{"queue":"idle","to":"idle","event":"advanced","jid":"k"}`, message())
	require.Equal(t, "idle", wake())
}

// Other scripts publish tables encoded by cjson. Whatever the order of fields in their source, the
// text does not begin like ours.
func TestMessagesOfOtherScriptsAreNotTakenForOurs(t *testing.T) {
	for name, rdb := range map[string]*redis.Client{
		"a server":  testkit.Start(t).Client(t),
		"miniredis": memory.Client(t),
	} {
		t.Cleanup(func() { _ = rdb.Close() })
		for _, fields := range append(
			orders("jid = 'j'", "event = 'put'", "queue = 'q'"),
			orders("jid = 'j'", "event = 'advanced'", "queue = 'q'", "to = 'q2'")...,
		) {
			script := fmt.Sprintf("return cjson.encode({%s})", strings.Join(fields, ", "))
			text := must(rdb.Eval(t.Context(), script, nil).Text())(t)
			require.False(t, strings.HasPrefix(text, waking), "%s: %s: %s", name, script, text)
		}
	}
}

// orders returns the texts in every order.
func orders(texts ...string) [][]string {
	if len(texts) == 0 {
		return [][]string{nil}
	}
	var all [][]string
	for i, first := range texts {
		others := append(append([]string{}, texts[:i]...), texts[i+1:]...)
		for _, rest := range orders(others...) {
			all = append(all, append([]string{first}, rest...))
		}
	}
	return all
}

// A subscriber to a pattern receives only the messages of other clients' scripts about a new queue,
// unless there is a subscriber to new queues.
func TestDropInPublishesNewQueuesOnlyToListeners(t *testing.T) {
	e := newEnv(t)
	all := e.Redis.PSubscribe(t.Context(), "*")
	defer all.Close()
	require.NoError(t, errOf(all.Receive(t.Context())))
	messages := all.Channel()
	next := func() string { return testkit.Soon(t, "a message", messages).Channel }

	require.NoError(t, e.dropIn("put|w|q1|j|K|{}|0"))
	require.NoError(t, e.dropIn("put|w|q1|j|K|{}|0"))
	require.Equal(t, []string{"ql:log", "ql:log"}, []string{next(), next()})
	queue := heard(t, e.Redis, "ql:x:queues")
	require.NoError(t, e.dropIn("put|w|q2|k|K|{}|0"))
	require.Equal(t, "q2", queue())
}

// A dropped list is empty in the replies of a single command and of the drop-in.
func TestOnlyTheDropInHasObjectsForEmptyLists(t *testing.T) {
	e := newEnv(t)
	e.Put("q", qless.JID("j"))
	for line, want := range map[string]string{
		"get|j":          `"tags":[]`,
		"tag|remove|j|a": "[]",
		"tag|get|none":   `{"total":0,"jobs":[]}`,
		"tag|top":        "[]",
		"pop|none|w|1":   "[]",
		"peek|none|1":    "[]",
		"multiget|none":  "[]",
		"track":          `{"jobs":[],"expired":[]}`,
		"failed|none":    `{"total":0,"jobs":[]}`,
		"workers|none":   `{"jobs":[],"stalled":[]}`,
	} {
		command, args := arguments(line)
		reply := must(e.Run(t.Context(), command, "", args...))(t)
		require.Contains(t, reply, want, line)
		reply = must(e.dropInReply(line))(t)
		require.Contains(t, reply, strings.ReplaceAll(want, "[]", "{}"), line)
		require.NotContains(t, reply, "[]", line)
	}
}
