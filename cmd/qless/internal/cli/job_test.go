package cli_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
	"github.com/qless/qless-go/internal/jobopts"
	"github.com/qless/qless-go/internal/testkit"
)

func TestAJobIsPutWithEveryOption(t *testing.T) {
	e := newStill(t)
	scene(t, e.Client())
	e.ok(strings.Fields(`job put mail Welcome {"n":1} --jid full --priority 3 --delay 1h --retries 2
		--tag a --tag b --depends-on waiting,child --on-failure run --lock-time 90s --on-lost last
		--start-by 2h --ttl 3h --keep-for 1h --keep-failed-for forever --max-run-time 5m --limits shop
		--header k=v=w --fair ann --weight 2 --unique invoice --unique 7 --unique-until-started
		--if absent`)...)
	job := jobOf(t, e.Client(), "full")
	require.JSONEq(t, `{"n":1}`, string(job.Data))
	require.Equal(t, 3, job.Priority)
	require.Equal(t, 2, job.Retries)
	require.Equal(t, qless.Tags{"a", "b"}, job.Tags)
	require.ElementsMatch(t, []string{"waiting", "child"}, job.Dependencies)
	require.Equal(t, []string{"waiting", "child"}, job.Options.Parents)
	require.Equal(t, 90*time.Second, job.Options.LockTime)
	require.Equal(t, 5*time.Minute, job.Options.MaxRunTime)
	require.Equal(t, qless.Limits{"shop"}, job.Options.Limits)
	require.Equal(t, qless.Headers{"k": "v=w"}, job.Headers)
	require.Equal(t, "ann", job.Options.Fair)
	require.False(t, job.Until.IsZero())
	holder := must(inspect.New(e.Client()).Holder(t.Context(), "invoice", 7))(t)
	require.Equal(t, "full", holder)

	first := strings.TrimSpace(e.ok("job", "put", "mail", "Sync", "--unique-data", "--replace",
		"--delay", "1h", "--within", "2h"))
	require.Equal(t, first+"\n", e.ok("job", "put", "mail", "Sync", "--unique-data", "--replace",
		"--delay", "1h", "--keep-due"))
	at := e.Clock().Now().Add(time.Hour).Format(time.RFC3339)
	jid := strings.TrimSpace(e.ok("job", "put", "mail", "Sync", "--at", at, "--unique", "x",
		"--unique-for", "1m", "--keep-failed-for", "1h", "--unique", `"7"`))
	holder = must(inspect.New(e.Client()).Holder(t.Context(), "x", "7"))(t)
	require.Equal(t, jid, holder)
	require.Equal(t, qless.StateScheduled, jobOf(t, e.Client(), jid).State)
}

func TestTheDataOfAJobMayComeFromTheInput(t *testing.T) {
	e := newEnv(t)
	const data = `{"big": 12345678901234567890}`
	r := e.run(data, "job", "put", "mail", "Welcome", "-", "--jid", "a")
	require.Equal(t, run{0, "a\n", ""}, r)
	require.Equal(t, data, string(jobOf(t, e.Client(), "a").Data))
	require.Equal(t, 2, e.run("{", "job", "put", "mail", "Welcome", "-").status)
}

func TestFoundJobsAreCanceledThroughAPipe(t *testing.T) {
	e := newEnv(t)
	scene(t, e.Client())
	jids := e.ok("job", "find", "--klass", "Welcome", "-q", "mail", "--jids")
	require.Equal(t, 8, strings.Count(jids, "\n"), jids)
	require.Equal(t, 2, e.run(jids, "job", "cancel", "-").status)
	r := e.run(jids, "job", "cancel", "-", "--yes")
	require.Equal(t, run{0, "", "canceled 8 jobs\n"}, r)
	require.Equal(t, "no jobs\n", e.ok("job", "find", "--klass", "Welcome"))
	require.Equal(t, run{0, "", "canceled 0 jobs\n"}, e.run("", "job", "cancel", "-"))
}

func TestCancelOfManyJobsTakesTheirDependents(t *testing.T) {
	e := newEnv(t)
	jids := []string{e.put("mail", "Parent", 0, qless.JID("parent"))}
	for range 120 {
		jids = append(jids, e.put("mail", "Child", 0, qless.DependsOn{"parent"}))
	}
	r := e.run(strings.Join(jids, "\n"), "job", "cancel", "-", "--yes")
	require.Equal(t, run{0, "", "canceled 121 jobs\n"}, r)
}

func TestASearchGoesOnAtItsCursor(t *testing.T) {
	e := newEnv(t)
	scene(t, e.Client())
	var all []string
	for cursor := ""; ; {
		var found inspect.Found
		out := e.ok("job", "find", "--json", "--limit", "3", "--cursor", cursor)
		require.NoError(t, json.Unmarshal([]byte(out), &found))
		for _, job := range found.Items {
			all = append(all, job.JID)
		}
		if cursor = string(found.Next); cursor == "" {
			break
		}
	}
	require.ElementsMatch(t, []string{
		"failed", "failed-too", "running", "waiting", "waiting-too", "later", "child", "grandchild",
	}, all)
}

func TestListsOfJobs(t *testing.T) {
	e := newStill(t)
	scene(t, e.Client())
	for words, jids := range map[string]string{
		"job ls -q mail":             "waiting waiting-too",
		"job ls -q mail --limit 1":   "waiting",
		"job ls -q mail -s depends":  "child grandchild",
		"job ls -s completed":        "done",
		"job ls -g timeout":          "failed-too failed",
		"job ls -t eu":               "waiting",
		"job ls --tracked":           "waiting",
		"tag jobs urgent --offset 1": "waiting-too",
		"failed ls timeout":          "failed-too failed",
		"queue peek mail --limit 1":  "waiting",

		"failed ls timeout --since 1999-01-01": "failed-too failed",
		"failed ls timeout --until 1999-01-01": "",
		"recur ls":                             "hourly",
		"job find -s depends":                  "child grandchild",
		"job show waiting running":             "waiting running",

		"job find --tag urgent":                  "waiting waiting-too",
		"job find --tag urgent --tag eu":         "waiting",
		"job find -q mail -s scheduled":          "later",
		"job find -s completed":                  "done",
		"job find -g timeout":                    "failed-too failed",
		"job find -g timeout --since 1999-01-01": "failed-too failed",
		"job find -g timeout --until 1999-01-01": "",
		"job find --jid grand":                   "grandchild",
		"job find tag:urgent queue:mail":         "waiting waiting-too",
		"job find state:scheduled":               "later",
		"job find grand":                         "grandchild",
		"job find failure:timeout":               "failed-too failed",
		"job find data.nobody=1":                 "",
		"job find --data nobody":                 "",
		"job find -s recurring":                  "hourly",
		"job find -q sms":                        "",
		"job find -q mail -s failed,running":     "failed-too failed running",
	} {
		out := e.ok(append(strings.Fields(words), "--jids")...)
		require.ElementsMatch(t, strings.Fields(jids), strings.Fields(out), words)
	}
	require.Equal(t, "1 of 2 jobs\n", e.exits(0, "job ls -q mail --limit 1"))
	e.exits(2, "job find --jids tag:urgent tag:eu")
}

// edit runs an editor that writes a text.
func edit(t *testing.T, e *env, text string, args ...string) run {
	e.t.Helper()
	script := filepath.Join(t.TempDir(), "editor")
	program := "#!/bin/sh\nprintf '%s' '" + text + "' > $1\n"
	require.NoError(t, os.WriteFile(script, []byte(program), 0o755))
	e.environ = append(e.environ, "EDITOR="+script)
	return e.run("", append([]string{"job", "edit"}, args...)...)
}

func TestAnEditedJobStaysWhereItIs(t *testing.T) {
	e := newStill(t)
	client := e.Client()
	scene(t, client)
	before, err := inspect.New(client).Queue("mail", inspect.Scheduled).List(t.Context(), inspect.Range{})
	require.NoError(t, err)
	for _, jid := range []string{"waiting", "later", "child", "failed"} {
		was := jobOf(t, client, jid)
		r := edit(t, e, `{"to": "bob"}`, jid, "--yes")
		require.Equal(t, run{0, "", "changed " + jid + "\n"}, r)
		is := jobOf(t, client, jid)
		require.Equal(t, `{"to":"bob"}`, string(is.Data))
		require.Equal(t, was.Tags, is.Tags)
		require.Equal(t, was.Headers, is.Headers)
		require.Equal(t, was.Dependencies, is.Dependencies)
		if jid == "failed" {
			was.State = qless.StateWaiting
		}
		require.Equal(t, was.State, is.State)
	}
	after, err := inspect.New(client).Queue("mail", inspect.Scheduled).List(t.Context(), inspect.Range{})
	require.NoError(t, err)
	require.WithinDuration(t, before.Items[0].Due, after.Items[0].Due, time.Millisecond)

	require.Equal(t, run{0, "", "nothing has changed\n"}, edit(t, e, `{ "to":"bob"}`, "later"))
	require.Equal(t, 2, edit(t, e, "{", "later", "--yes").status)
}

func TestAGraphIsBounded(t *testing.T) {
	e := newEnv(t)
	scene(t, e.Client())
	golden(t, "job_graph.txt", e.ok("job", "graph", "child"))
	r := e.fields("job graph waiting --depth 1")
	require.Contains(t, r.out, "1 more")
	require.Contains(t, r.errors, "not all is shown")
	var g struct {
		Cut        bool
		Dependents []struct {
			JID  string
			Jobs []struct{ JID string }
		}
	}
	require.NoError(t, json.Unmarshal([]byte(e.ok("job", "graph", "waiting", "--json")), &g))
	require.False(t, g.Cut)
	require.Equal(t, "grandchild", g.Dependents[0].Jobs[0].JID)
	out := e.ok("job", "graph", "waiting", "--limit", "0")
	require.Contains(t, out, "waiting Welcome waiting in mail")
}

func TestAnEndIsWaitedFor(t *testing.T) {
	e := newEnv(t)
	e.put("mail", "Welcome", 0, qless.JID("a"))
	command := e.command("job", "wait", "a")
	out := must(command.StdoutPipe())(t)
	require.NoError(t, command.Start())
	job := e.pop("mail", 1)[0]
	require.NoError(t, job.SetResult("sent"))
	require.NoError(t, job.Complete(t.Context()))
	text := make([]byte, 100)
	n, _ := out.Read(text)
	require.NoError(t, command.Wait())
	require.Equal(t, "JID  STATE     RESULT\na    complete  \"sent\"\n", string(text[:n]))
	e.ok("queue", "wait", "mail")
}

func TestAPutHasAFlagForEachOption(t *testing.T) {
	help := newEnv(t).ok("job", "put", "--help")
	for _, row := range jobopts.Table {
		if row.Key != "" {
			require.Contains(t, help, "--"+row.FlagName()+" ")
			require.Contains(t, help, row.Usage)
		}
	}
}

func TestALimitThatNobodyHasSetIsWarnedOf(t *testing.T) {
	e := newEnv(t)
	require.NoError(t, e.Client().Limit("shop").Set(t.Context(), qless.LimitConfig{Concurrency: 1}))
	r := e.run("", "job", "put", "mail", "Welcome", "--jid", "a", "--limits", "shop,shpo")
	require.Equal(t, run{0, "a\n", "warning: the limit \"shpo\" is not set, and limits nothing\n"}, r)
	require.Contains(t, e.exits(2, "job put mail Welcome --jid="), "the jid is empty")
}

func TestAJobShowsWhenItIsDueAndItsLockEnds(t *testing.T) {
	t.Parallel()
	w := newWreck(t)
	w.jobs("sms", "now", 0)
	w.jobs("sms", "later", 0, qless.Delay(time.Hour))
	w.jobs("mail", "running", 1)
	w.lose("video", "lost")
	for jid, shows := range map[string]string{
		"later": `\ndue\s+\d{4}-\S+ \S+ UTC \(in \S+\)`, "running": `lock ends\s+\d{4}-`,
		"lost": `lock ended\s+\d{4}-`,
	} {
		require.Regexp(t, shows, w.ok("job", "show", jid))
	}
	require.NotContains(t, w.ok("job", "show", "now"), "\ndue")
}

func TestBatchesAreShownAndChanged(t *testing.T) {
	e := newStill(t)
	ctx, client := t.Context(), e.Client()
	batch := must(client.NewBatch(ctx, "reports", qless.JobSpec{Klass: "Sum"}))(t)
	jids := must(batch.Add(ctx, "files", []qless.JobSpec{{Klass: "Read"}, {Klass: "Read"}}))(t)
	job := e.pop("files", 1)[0]
	require.NoError(t, job.Fail(ctx, "g", "why"))
	for _, words := range []string{"ls", "show " + batch.ID} {
		require.Regexp(t, batch.ID+` +2 +2 +1 +open`, e.ok(strings.Fields("batch "+words)...))
	}
	require.ElementsMatch(t, jids, strings.Fields(e.ok("batch", "show", batch.ID, "--jids")))
	e.ok("batch", "retry", batch.ID)
	require.Equal(t, qless.StateWaiting, jobOf(t, client, job.JID).State)
	e.ok("batch", "commit", batch.ID)
	require.Regexp(t, batch.ID+` +2 +2 +0 +depends`, e.ok("batch", "show", batch.ID))
	e.ok("batch", "cancel", batch.ID, "--yes")
	require.Contains(t, e.ok("batch", "ls"), "no batch waits for its members")
	require.Empty(t, must(client.Jobs(ctx, jids...))(t))
}

func TestFailuresOfATimeAreListedAndRepaired(t *testing.T) {
	e := newStill(t)
	scene(t, e.Client())
	require.Contains(t, e.ok("failed", "ls", "--since", "1999-01-01"), "timeout")
	require.Equal(t, "no failed jobs\n", e.ok("failed", "ls", "--until", "1999-01-01"))
	e.ok("failed", "unfail", "timeout", "--until", "1999-01-01", "--yes")
	require.Contains(t, e.ok("failed", "ls"), "2")
	e.ok("failed", "unfail", "timeout", "--since", "1999-01-01", "--limit", "1", "--yes")
	e.ok("failed", "cancel", "timeout", "--since", "1999-01-01", "--yes")
	require.Equal(t, "no failed jobs\n", e.ok("failed", "ls"))
	e.exits(2, "failed ls --since never")
}

// importRows blocks. It is named in the stack of its job.
func importRows(end <-chan bool) { <-end }

func TestTheStackOfARunningJobIsShown(t *testing.T) {
	e, client := newReal(t)
	worker, err := qless.NewWorker(client, qless.WorkerConfig{Queues: []string{"mail"}, Stacks: true})
	require.NoError(t, err)
	begun, end := make(chan bool), make(chan bool)
	worker.Handle("Import", func(context.Context, *qless.Job) error {
		begun <- true
		importRows(end)
		return nil
	})
	require.NoError(t, worker.Start(t.Context()))
	must(client.Queue("mail").Put(t.Context(), "Import", nil, qless.JID("import")))(t)
	testkit.Soon(t, "the job runs", begun)
	require.Contains(t, e.ok("job", "stack", "import"), "cli_test.importRows(")
	require.Contains(t, e.ok("job", "stack", "import", "--json"), `"stack": "goroutine `)
	close(end)
	require.NoError(t, worker.Drain(t.Context()))
	require.Contains(t, e.exits(3, "job stack import"), "the job is complete")
}
