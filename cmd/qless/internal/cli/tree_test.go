package cli_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/cmd/qless/internal/cli"
	"github.com/qless/qless-go/inspect"
	"github.com/qless/qless-go/internal/testkit"
)

// leaves returns the commands without subcommands, except for the commands that cobra adds.
func leaves(command *cobra.Command) []*cobra.Command {
	if !command.HasSubCommands() {
		return []*cobra.Command{command}
	}
	var all []*cobra.Command
	for _, below := range command.Commands() {
		if !slices.Contains([]string{"help", "completion"}, below.Name()) {
			all = append(all, leaves(below)...)
		}
	}
	return all
}

func TestEachCommandHasAnExampleOfItself(t *testing.T) {
	for _, command := range leaves(cli.Root()) {
		path := command.CommandPath()
		require.NotEmpty(t, command.Short, path)
		require.NotContains(t, command.Short, "\n", path)
		require.False(t, strings.HasSuffix(command.Short, "."), path)
		require.Contains(t, command.Example, path, path)
		for line := range strings.SplitSeq(command.Example, "\n") {
			require.True(t, strings.HasPrefix(line, "  "), "%s: %s", path, line)
		}
	}
}

// scene fills a namespace with data of all kinds.
func scene(t *testing.T, client *qless.Client) {
	ctx := t.Context()
	mail := client.Queue("mail")
	put := func(jid string, options ...qless.PutOption) {
		_, err := mail.Put(ctx, "Welcome", map[string]string{"to": "ann"},
			append(options, qless.JID(jid))...)
		require.NoError(t, err)
	}
	put("failed", qless.Priority(9))
	put("failed-too", qless.Priority(9), qless.Retries(1))
	put("running", qless.Priority(8))
	put("done", qless.Priority(7))
	jobs, err := mail.Pop(ctx, 4)
	require.NoError(t, err)
	for _, job := range jobs {
		switch job.JID {
		case "failed", "failed-too":
			require.NoError(t, job.Fail(ctx, "timeout", "no answer\nfrom the server"))
		case "done":
			require.NoError(t, job.SetResult("sent"))
			require.NoError(t, job.Complete(ctx))
		}
	}
	put("waiting", qless.Tags{"urgent", "eu"}, qless.Headers{"trace": "1"})
	put("waiting-too", qless.Tags{"urgent"}, qless.Priority(-1))
	put("later", qless.Delay(time.Hour))
	put("child", qless.DependsOn{"waiting"})
	put("grandchild", qless.DependsOn{"child"})
	job, err := client.Job(ctx, "waiting")
	require.NoError(t, err)
	require.NoError(t, job.Track(ctx))
	_, err = client.Queue("reports").Recur(ctx, "Hourly", nil, time.Hour, qless.JID("hourly"))
	require.NoError(t, err)
	require.NoError(t, client.Queue("sms").Pause(ctx))
	require.NoError(t, client.Limit("shop").Set(ctx, qless.LimitConfig{Concurrency: 2}))
}

// follow starts a worker with a schedule, and returns a function that stops it.
func follow(t *testing.T, client *qless.Client) (stop func()) {
	worker, err := qless.NewWorker(client, qless.WorkerConfig{
		Queues: []string{"nights"}, Name: "night-worker",
		Schedules: []qless.Schedule{{
			ID: "nightly", Spec: "@daily", Queue: "nights", Klass: "Tidy",
		}},
	})
	require.NoError(t, err)
	worker.Handle("Tidy", nothing)
	require.NoError(t, worker.Start(t.Context()))
	testkit.Until(t, "the worker and its schedule are registered", func() bool {
		_, err := inspect.New(client).Schedule(t.Context(), "nightly")
		workers, failed := inspect.New(client).Workers(t.Context())
		require.NoError(t, failed)
		return err == nil && slices.ContainsFunc(workers, func(w inspect.Worker) bool {
			return w.Name == "night-worker" && w.Info != nil
		})
	})
	return func() { require.NoError(t, worker.Stop(context.WithoutCancel(t.Context()))) }
}

// asJSON has arguments for each command that prints or changes parts of the scene.
var asJSON = map[string]string{
	"queue ls":          "",
	"queue show":        "mail",
	"queue stats":       "",
	"queue history":     "mail",
	"queue peek":        "mail",
	"queue pause":       "-",
	"queue unpause":     "-",
	"queue forget":      "-",
	"queue move":        "mail slow --yes",
	"queue wait":        "reports",
	"job show":          "waiting",
	"job put":           "mail Welcome",
	"job find":          "--limit 25",
	"job ls":            "-q mail",
	"job cancel":        "failed --yes",
	"job retry":         "failed-too",
	"job move":          "waiting --to slow --yes",
	"job promote":       "later",
	"job timeout":       "running --yes",
	"job priority":      "waiting --to 3",
	"job tag":           "waiting --tag x",
	"job untag":         "waiting --tag x",
	"job track":         "waiting",
	"job untrack":       "waiting",
	"job depend":        "child --on running",
	"job undepend":      "child --on running",
	"job log":           "waiting -m hello",
	"job edit":          "waiting --data 1 --yes",
	"job graph":         "child",
	"job wait":          "done",
	"failed ls":         "",
	"failed show":       "timeout",
	"failed retry":      "timeout --yes",
	"failed cancel":     "timeout --yes",
	"recur ls":          "",
	"recur show":        "hourly",
	"recur put":         "reports Daily --every 24h",
	"recur set":         "hourly --every 2h",
	"recur run":         "hourly",
	"recur cancel":      "hourly --yes",
	"schedule ls":       "",
	"schedule show":     "nightly",
	"schedule run":      "nightly",
	"schedule forget":   "nightly --yes",
	"worker ls":         "",
	"worker show":       "night-worker",
	"worker deregister": "night-worker --yes",
	"tag ls":            "",
	"tag jobs":          "urgent",
	"limit ls":          "",
	"limit show":        "shop",
	"limit set":         "shop --concurrency 3",
	"limit delete":      "shop --yes",
	"limit hold":        "shop 1m --yes",
}

// silent are the commands that print only messages.
var silent = []string{
	"queue pause", "queue unpause", "queue forget", "queue wait", "job edit", "recur set",
	"recur cancel", "schedule forget", "worker deregister", "limit set", "limit delete",
	"limit hold",
}

func TestEachCommandPrintsJSON(t *testing.T) {
	nouns := map[string]bool{}
	for path := range asJSON {
		noun, _, _ := strings.Cut(path, " ")
		nouns[noun] = true
	}
	for _, command := range leaves(cli.Root()) {
		path := strings.TrimPrefix(command.CommandPath(), "qless ")
		noun, _, below := strings.Cut(path, " ")
		if !below || !nouns[noun] {
			continue
		}
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			require.Contains(t, asJSON, path)
			e := newStill(t)
			scene(t, e.Client())
			switch noun {
			case "worker":
				defer follow(t, e.Client())()
			case "schedule":
				follow(t, e.Client())()
			}
			out := e.ok(append(strings.Fields(path+" "+asJSON[path]), "--json")...)
			if slices.Contains(silent, path) {
				require.Empty(t, out)
				return
			}
			var value any
			require.NoError(t, json.Unmarshal([]byte(out), &value), out)
			require.NotNil(t, value)
		})
	}
}
