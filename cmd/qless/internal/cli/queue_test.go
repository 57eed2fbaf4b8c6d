package cli_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
)

func TestQueuesAreListed(t *testing.T) {
	e := newStill(t)
	require.Equal(t, "no queues\n", e.ok("queue", "ls"))
	must(e.Client().Queue("mail").Put(t.Context(), "Welcome", nil))(t)
	require.NoError(t, e.Client().Queue("sms").Pause(t.Context()))
	golden(t, "queue_ls.txt", e.ok("queue", "ls"))
	var queues []qless.QueueCounts
	require.NoError(t, json.Unmarshal([]byte(e.ok("queue", "ls", "--json")), &queues))
	require.Equal(t, 1, queues[0].Waiting)
}

func TestAQueueThatIsPausedMayBeMisspelt(t *testing.T) {
	e := newEnv(t)
	must(e.Client().Queue("mail").Put(t.Context(), "Welcome", nil))(t)
	r := e.fields("queue pause mail --dry-run")
	require.Equal(t, run{0, "", "would pause 1 queue\n"}, r)
	r = e.fields("queue pause mail mial --yes")
	require.Equal(t, run{0, "", "warning: the queue \"mial\" is unknown so far\n" +
		"paused mail\npaused mial\n"}, r)
	require.True(t, e.counts("mail").Paused)
}

func TestAPatternStandsForTheQueuesThatMatch(t *testing.T) {
	e := newEnv(t)
	for _, queue := range []string{"mail-a", "mail-b", "sms"} {
		require.NoError(t, e.Client().Cancel(t.Context(), e.put(queue, "Welcome", 0)))
	}
	for _, command := range []string{
		"queue pause", "queue resume", "queue forget", "queue wait", "queue stats", "recur ls", "sweep",
	} {
		r := e.fields(command + " sms nosuch* --yes")
		require.Equal(t, run{3, "", "qless: no queue matches \"nosuch*\"\n"}, r, command)
	}
	r := e.fields("queue pause mail-* sms --yes")
	require.Equal(t, run{0, "", "paused mail-a\npaused mail-b\npaused sms\n"}, r)
	require.JSONEq(t, `{"queues": ["mail-a", "mail-b"], "jobs": 0}`, e.ok("queue", "wait", "mail-*", "--json"))
	r = e.fields("queue forget *-b --yes")
	require.Equal(t, run{0, "", "forgot mail-b\n"}, r)
}

func TestADamagedKeyHarmsItsOwnQueue(t *testing.T) {
	e := newStill(t)
	for _, queue := range []string{"crm", "mail"} {
		must(e.Client().Queue(queue).Put(t.Context(), "Welcome", nil))(t)
	}
	key := "ql:q:mail-scheduled"
	e.redis("set " + key + " boom")

	r := e.fields("queue ls")
	require.Equal(t, 1, r.status)
	require.Regexp(t, `crm +1 +0 +0 +0 +0 +0 +<?[0-9]`, r.out)
	require.Regexp(t, `mail +1 +0 +0 +\? +0 +0 +\?`, r.out)
	require.Contains(t, r.errors, "which qless doctor examines: "+key)
	e.exits(0, "queue show crm")
	r = e.fields("queue show mail")
	require.Equal(t, 1, r.status)
	require.Regexp(t, `scheduled +\?\n`, r.out)
	require.Regexp(t, `oldest waits for +\?\n`, r.out)
	require.Contains(t, r.errors, key)
	require.Contains(t, e.fields("why mail").errors, "hint: a key is damaged: qless doctor says which")
}

func TestTheHoldersOfALimitAreCounted(t *testing.T) {
	e := newStill(t)
	require.NoError(t, e.Client().Limit("api").Set(t.Context(), qless.LimitConfig{Concurrency: 5}))
	for _, klass := range []string{"Send", "Send", "Bounce"} {
		must(e.Client().Queue("mail").Put(t.Context(), klass, nil, qless.Limits{"api"}))(t)
	}
	e.pop("mail", 3)
	text := e.ok("limit", "show", "api")
	require.Regexp(t, `klasses +Send 2,Bounce 1\n`, text)
	require.Regexp(t, `queues +mail 3\n`, text)
	require.Contains(t, e.ok("limit", "show", "api", "--json"), `"examined": 3`)
}
