package cli_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
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

// leaves returns the commands without subcommands, except for cobra's own commands.
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
		must(mail.Put(ctx, "Welcome", map[string]string{"to": "ann"},
			append(options, qless.JID(jid))...))(t)
	}
	put("failed", qless.Priority(9))
	put("failed-too", qless.Priority(9), qless.Retries(1))
	put("running", qless.Priority(8))
	put("done", qless.Priority(7))
	jobs := must(mail.Pop(ctx, 4))(t)
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
	require.NoError(t, jobOf(t, client, "waiting").Track(ctx))
	must(client.Queue("reports").Recur(ctx, "Hourly", nil, time.Hour, qless.JID("hourly")))(t)
	require.NoError(t, client.Queue("sms").Pause(ctx))
	require.NoError(t, client.Limit("shop").Set(ctx, qless.LimitConfig{Concurrency: 2}))
}

// follow starts a worker with the schedule of the scene, and returns a function that stops it.
func follow(t *testing.T, client *qless.Client) (stop func()) {
	return followOf(t, client, qless.Schedule{
		ID: "nightly", When: "@daily", Queue: "nights", Job: qless.JobSpec{Klass: "Tidy"},
	})
}

func followOf(t *testing.T, client *qless.Client, schedule qless.Schedule) (stop func()) {
	worker := must(qless.NewWorker(client, qless.WorkerConfig{
		Queues: []string{schedule.Queue}, Name: "night-worker", Schedules: []qless.Schedule{schedule},
	}))(t)
	worker.Handle(schedule.Job.Klass, nothing)
	require.NoError(t, worker.Start(t.Context()))
	testkit.Until(t, "the worker and its schedule are registered", func() bool {
		_, err := inspect.New(client).Schedule(t.Context(), "nightly")
		workers, failed := inspect.New(client).Workers(t.Context())
		require.NoError(t, failed)
		return err == nil && slices.ContainsFunc(workers, func(w inspect.WorkerStatus) bool {
			return w.Name == "night-worker" && w.Info != nil
		})
	})
	return func() { require.NoError(t, worker.Stop(context.WithoutCancel(t.Context()))) }
}

// asJSON has arguments for each command that prints or changes parts of the scene.
var asJSON = map[string]string{
	"queue ls":        "",
	"queue show":      "mail",
	"queue stats":     "",
	"queue history":   "mail",
	"queue peek":      "mail",
	"queue pause":     "mail --yes",
	"queue resume":    "sms",
	"queue forget":    "sms --yes",
	"queue move":      "mail slow --yes",
	"queue wait":      "reports",
	"job show":        "waiting",
	"job put":         "mail Welcome",
	"job find":        "--limit 25",
	"job ls":          "-q mail",
	"job cancel":      "failed running --yes",
	"job unfail":      "failed",
	"job move":        "waiting --to slow --yes",
	"job promote":     "later",
	"job timeout":     "running --yes",
	"job priority":    "waiting --to 3",
	"job tag":         "waiting --tag x",
	"job untag":       "waiting --tag urgent",
	"job track":       "later",
	"job untrack":     "waiting",
	"job depend":      "child --on running",
	"job undepend":    "child --on waiting",
	"job log":         "waiting -m hello",
	"job edit":        "waiting --data 1 --yes",
	"job graph":       "child",
	"job wait":        "done",
	"batch ls":        "",
	"batch show":      "sum",
	"batch commit":    "sum",
	"batch retry":     "sum --yes",
	"batch cancel":    "sum --yes",
	"failed ls":       "",
	"failed show":     "timeout",
	"failed unfail":   "timeout --yes",
	"failed cancel":   "timeout --yes",
	"recur ls":        "",
	"recur show":      "hourly",
	"recur put":       "reports Daily --every 24h",
	"recur set":       "hourly --every 2h",
	"recur run":       "hourly",
	"recur cancel":    "hourly --yes",
	"schedule ls":     "",
	"schedule show":   "nightly",
	"schedule run":    "nightly",
	"schedule forget": "nightly --yes",
	"worker ls":       "",
	"worker show":     "night-worker",
	"worker forget":   "night-worker --yes",
	"tag ls":          "",
	"tag jobs":        "urgent",
	"limit ls":        "",
	"limit show":      "shop",
	"limit set":       "shop --concurrency 3",
	"limit unset":     "shop --yes",
	"limit hold":      "shop 1m --yes",
	"bench":           "--duration 10ms",
	"check failures":  "--warn new=1000",
	"check queue":     "mail",
	"check workers":   "--crit registered=0",
	"check server":    "",
	"config dump":     "",
	"config get":      "heartbeat",
	"config load":     "config.json",
	"config ls":       "",
	"config set":      "heartbeat 2m --yes",
	"config unset":    "heartbeat --yes",
	"context ls":      "",
	"context rm":      "staging --yes",
	"context set":     "other --redis redis://localhost",
	"context show":    "",
	"context use":     "staging",
	"doctor":          "",
	"dump":            "",
	"restore":         "ql.dump",
	"script":          "",
	"status":          "",
	"sweep":           "",
	"version":         "",
	"why":             "mail",
}

// endless are the commands that run until interrupted, or need a terminal or a handler.
var endless = []string{"exporter", "job stack", "tail", "top"}

func TestEachCommandPrintsJSON(t *testing.T) {
	paths := map[string]bool{}
	for _, command := range leaves(cli.Root()) {
		path := strings.TrimPrefix(command.CommandPath(), "qless ")
		noun, _, _ := strings.Cut(path, " ")
		if noun == "serve" || slices.Contains(endless, path) {
			continue
		}
		paths[path] = true
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			words, found := asJSON[path]
			require.True(t, found, "the table has no row for it")
			e := newScene(t, noun)
			for _, run := range []string{"--dry-run", "--dry-run=false"} {
				out := e.ok(append(strings.Fields(path+" "+words), "--json", run)...)
				var value any
				decoder := json.NewDecoder(strings.NewReader(out))
				require.NoError(t, decoder.Decode(&value), "%s: %s", run, out)
				require.NotNil(t, value)
				if path != "dump" { // which prints a value for each key
					require.False(t, decoder.More(), out)
				}
			}
		})
	}
	for path := range asJSON {
		require.True(t, paths[path], path)
	}
}

// newScene returns an env with the scene for the commands of a noun, and with a context and files.
func newScene(t *testing.T, noun string) *env {
	e := newStill(t)
	if slices.Contains([]string{"bench", "check", "doctor", "dump", "restore", "script"}, noun) {
		e, _ = newReal(t)
	}
	scene(t, e.Client())
	e.folder = t.TempDir()
	e.environ = append(e.environ, "XDG_CONFIG_HOME="+e.folder)
	keep := func(file, words string) {
		text := e.ok(strings.Fields(words)...)
		require.NoError(t, os.WriteFile(filepath.Join(e.folder, file), []byte(text), 0o600))
	}
	switch noun {
	case "batch":
		sum := qless.NewKlass[any]("Sum").Spec(nil, qless.JID("sum"))
		must(e.Client().NewBatch(t.Context(), "reports", sum))(t)
	case "config":
		keep("config.json", "config dump")
	case "context":
		e.ok("context", "set", "staging", "--redis", e.url)
	case "restore":
		keep("ql.dump", "dump")
	case "schedule":
		follow(t, e.Client())()
	case "worker":
		t.Cleanup(follow(t, e.Client()))
	}
	return e
}
