package cli_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
	"github.com/qless/qless-go/internal/testkit"
)

func TestEveryCommandWorksOnARealServer(t *testing.T) {
	e, client := newReal(t)
	scene(t, client)
	stop := follow(t, client)
	_, err := client.NewBatch(t.Context(), "bulk", qless.NewKlass[any]("Sum").Spec(nil, qless.JID("sum")))
	require.NoError(t, err)
	for path, words := range asJSON {
		if strings.HasPrefix(path, "job wait") || !readOnly(path) {
			continue
		}
		e.ok(strings.Fields(path + " " + words)...)
	}
	stop()
	e.ok("batch", "cancel", "sum", "--yes")
	for _, words := range []string{
		"queue pause mail --yes", "queue resume mail", "job put slow Welcome [1] --jid put",
		"job edit put --data [2] --yes", "job tag put --tag x --tag y", "job untag put --tag x",
		"job priority put --to 4", "job track put", "job untrack put", "job log put -m hello",
		"job promote later", "job move waiting-too --to slow --yes", "job timeout running --yes",
		"job depend child --on running", "job undepend child --all --yes", "job unfail failed",
		"queue move mail slow --yes", "failed unfail timeout --retries 0 --yes",
		"recur put reports Daily --every 24h --jid daily", "recur set daily --every 2h --tag x",
		"recur run daily", "recur cancel daily --yes", "schedule run nightly",
		"schedule forget nightly --yes", "limit set shop --rate 5 --per 1m",
		"limit hold shop 1m --yes", "limit unset shop --yes", "queue forget sms --yes",
		"worker forget " + client.WorkerName() + " --yes",
	} {
		e.ok(strings.Fields(words)...)
	}
	job := jobOf(t, client, "put")
	require.Equal(t, "[2]", string(job.Data))
	require.Equal(t, qless.Tags{"y"}, job.Tags)
	require.Equal(t, 4, job.Priority)
	require.False(t, job.Tracked)

	left := e.ok("job", "find", "--limit", "-1", "--jids")
	r := e.run(left, "job", "cancel", "-", "--yes")
	require.Equal(t, 0, r.status, r.errors)
	e.ok("queue", "wait", "slow", "--timeout", "10s")
}

// readOnly reports whether a command changes nothing.
func readOnly(path string) bool {
	_, verb, _ := strings.Cut(path, " ")
	switch verb {
	case "ls", "show", "stats", "peek", "find", "graph", "jobs", "wait":
		return true
	}
	return false
}

func TestThousandsOfFailuresAreRetriedOnARealServer(t *testing.T) {
	e, client := newReal(t)
	specs := make([]qless.JobSpec, 1200)
	for i := range specs {
		specs[i] = qless.JobSpec{Klass: "Welcome", Options: []qless.PutOption{
			qless.JID(fmt.Sprint("j", i)), qless.Retries(0),
		}}
	}
	must(client.Queue("mail").PutMany(t.Context(), specs))(t)
	worker := must(qless.NewWorker(client, qless.WorkerConfig{Queues: []string{"mail"}}))(t)
	worker.Handle("Welcome", func(context.Context, *qless.Job) error {
		return qless.FailWith("timeout", fmt.Errorf("no answer"))
	})
	require.NoError(t, worker.Start(t.Context()))
	testkit.Until(t, "all have failed", func() bool {
		groups := must(inspect.New(client).FailureGroups(t.Context()))(t)
		return groups["timeout"] == len(specs)
	})
	require.NoError(t, worker.Stop(context.WithoutCancel(t.Context())))

	r := e.fields("failed unfail timeout --limit 700 --yes")
	require.Equal(t, run{0, "", "unfailed 700 jobs\n"}, r)
	must(client.Queue("mail").Put(t.Context(), "After", nil,
		qless.JID("after"), qless.DependsOn{"j1199"}))(t)
	var done inspect.Repair
	r = e.fields("failed cancel timeout --yes --json")
	require.Equal(t, 4, r.status, r.errors)
	require.NoError(t, json.Unmarshal([]byte(r.out), &done))
	require.Equal(t, 499, done.Changed)
	require.Equal(t, 1, done.Unchanged)
	jids := e.ok("job", "find", "-q", "mail", "--klass", "Welcome", "--limit", "-1", "--jids")
	require.Equal(t, 701, strings.Count(jids, "\n"))
}
