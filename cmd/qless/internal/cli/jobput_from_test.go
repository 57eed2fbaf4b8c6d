package cli_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/testkit"
)

const jobLines = `{"klass": "Welcome", "data": {"n": 1.0}, "jid": "a", "priority": 3, "tags": ["eu"]}
{"klass": "Welcome", "jid": "b", "depends": ["c"], "delay": "90s", "retries": 1}

{"jid": "c", "queue": "sms", "delay": 3600, "headers": {"k": "v"}}
`

func TestTheJobsOfAFileArePut(t *testing.T) {
	for name, start := range places {
		t.Run(name, func(t *testing.T) {
			e := start(t)
			r := e.run(jobLines, "job", "put", "mail", "Default", "--from", "-", "--jids")
			require.Equal(t, run{0, "a\nc\nb\n", "put 3 jobs\n"}, r)
			a := jobOf(t, e.Client(), "a")
			require.Equal(t, `{"n": 1.0}`, string(a.Data))
			require.Equal(t, []any{"mail", "Welcome", 3, qless.Tags{"eu"}}, []any{a.Queue, a.Klass, a.Priority, a.Tags})
			b := jobOf(t, e.Client(), "b")
			require.Equal(t, []string{"c"}, b.Dependencies, "though c comes after it")
			require.Equal(t, 1, b.Retries)
			c := jobOf(t, e.Client(), "c")
			require.Equal(t, []any{"sms", "Default", qless.StateScheduled}, []any{c.Queue, c.Klass, c.State})
			require.Equal(t, qless.Headers{"k": "v"}, c.Headers)

			r = e.run(jobLines, "job", "put", "mail", "Default", "--from", "-")
			require.Equal(t, run{0, "", "put 0 jobs, 3 there already\n"}, r)
		})
	}
}

const wrongLines = `{"klass": "K", "jid": "a"}
nonsense
{"klass": "K", "colour": "blue"}
{"jid": "x"}
{"klass": "K", "jid": "a"}
{"klass": "K", "depends": ["x"]}
{"klass": "K", "jid": "y", "depends": ["z"]}
{"klass": "K", "jid": "z", "depends": ["y"]}
{"klass": "K", "retries": -5, "jid": "r"}
{"klass": "K", "depends": ["r"]}
{"klass": "K", "delay": "soon"}
{"klass": "K", "jid": "b"}
`

func TestWrongLinesAreToldByNumberAndTheOthersPut(t *testing.T) {
	e := newEnv(t)
	left := filepath.Join(t.TempDir(), "left.jsonl")
	r := e.run(wrongLines, "job", "put", "mail", "--from", "-", "--jids", "--left", left)
	require.Equal(t, 1, r.status)
	require.Equal(t, "a\nb\n", r.out)
	golden(t, "job_put_from_wrong.txt", r.errors)
	kept := must(os.ReadFile(left))(t)
	require.Equal(t, strings.Split(wrongLines, "\n")[1:11], strings.Split(strings.TrimSpace(string(kept)), "\n"))

	var sum struct {
		Put, Left int
		There     []string
		Wrong     []struct{ Line int }
	}
	r = e.run(wrongLines, "job", "put", "mail", "--from", "-", "--json")
	require.Equal(t, 1, r.status)
	require.NoError(t, json.Unmarshal([]byte(r.out), &sum))
	require.Equal(t, []any{0, 0, []string{"a", "b"}, 10}, []any{sum.Put, sum.Left, sum.There, len(sum.Wrong)})
}

func TestStopOnErrorPutsNothingWhenALineIsWrong(t *testing.T) {
	e := newEnv(t)
	r := e.run(wrongLines, "job", "put", "mail", "--from", "-", "--stop-on-error")
	require.Equal(t, 1, r.status)
	require.Contains(t, r.errors, "put 0 jobs, 8 wrong, 4 not tried")
	require.Empty(t, must(e.Client().Queues(t.Context()))(t))
	// A job refused only by the library stops the command at that job.
	r = e.run(`{"klass": "K", "retries": -5}`, "job", "put", "mail", "--from", "-", "--stop-on-error")
	require.Equal(t, 1, r.status)
	require.Contains(t, r.errors, "put 0 jobs, 1 wrong\n")
}

func TestCanceledJobsArePutAgain(t *testing.T) {
	e := newEnv(t)
	ctx, client := t.Context(), e.Client()
	must(client.Queue("mail").Put(ctx, "First", json.RawMessage(`{"big": 12345678901234567890}`),
		qless.JID("first"), qless.Priority(7), qless.Tags{"x", "y"}, qless.Delay(time.Hour),
		qless.Headers{"k": "v"}, qless.LockTime(90*time.Second), qless.Fair("ann")))(t)
	must(client.Queue("sms").Put(ctx, "Second", nil, qless.JID("second"), qless.DependsOn{"first"}))(t)
	jobs := must(client.Jobs(ctx, "second", "first"))(t)
	array := string(must(json.MarshalIndent(jobs, "", "  "))(t))
	first := string(must(json.MarshalIndent(jobs[1], "", "  "))(t))
	second := string(must(json.Marshal(jobs[0]))(t))
	kept := func(j *qless.Job) []any {
		return []any{j.Queue, j.Klass, j.Priority, j.Tags, j.Headers, j.Options.LockTime, j.Options.Fair}
	}
	for _, text := range []string{array, first + "\n" + second} {
		require.NoError(t, client.Cancel(ctx, "first", "second"))
		r := e.run(text, "job", "put", "--from", "-")
		require.Equal(t, run{0, "", "put 2 jobs\n"}, r)
		again := must(client.Jobs(ctx, "second", "first"))(t)
		require.Equal(t, []string{"first"}, again[0].Dependencies)
		require.Equal(t, `{"big":12345678901234567890}`, string(again[1].Data))
		require.Equal(t, kept(jobs[1]), kept(again[1]))
	}
	r := e.run(array[:len(array)-2]+"\n{", "job", "put", "--from", "-")
	require.Equal(t, 1, r.status)
	require.Contains(t, r.errors, "not JSON")
	require.Contains(t, r.errors, "2 there already")
}

func TestAJobThatIsShownCanceledAndPutAgainIsAsItWas(t *testing.T) {
	for name, options := range map[string][]qless.PutOption{
		"plain":     {qless.Priority(3), qless.Retries(2), qless.Tags{"y", "x"}},
		"later":     {qless.Delay(time.Hour), qless.StartBy(2 * time.Hour), qless.TTL(3 * time.Hour)},
		"kept":      {qless.KeepFor(time.Minute), qless.KeepFailedFor(qless.Forever)},
		"locked":    {qless.LockTime(90 * time.Second), qless.MaxRunTime(time.Minute), qless.OnLostLast},
		"depending": {qless.DependsOn{"other"}, qless.OnFailure("run"), qless.Delay(time.Hour)},
		"unique":    {qless.Unique("invoice", 7).UntilStarted()},
		"by data":   {qless.Unique()},
		"for now":   {qless.Unique("x").For(time.Hour)},
		"shared":    {qless.Fair("ann", qless.Weight(2)), qless.Limits{"api"}, qless.Headers{"k": "v"}},
	} {
		t.Run(name, func(t *testing.T) {
			e, client := newReal(t)
			e.put("mail", "Other", 0, qless.JID("other"))
			options = append(options, qless.JID("j"))
			must(client.Queue("mail").Put(t.Context(), "K", []int{1}, options...))(t)
			shown := e.ok("job", "show", "j", "--json")
			e.ok("job", "cancel", "j", "--yes")
			r := e.run(shown, "job", "put", "--from", "-")
			require.Equal(t, run{0, "", "put 1 job\n"}, r)
			again := e.ok("job", "show", "j", "--json")
			require.Equal(t, withoutHistory(t, shown), withoutHistory(t, again))
		})
	}
}

func withoutHistory(t *testing.T, job string) map[string]any {
	t.Helper()
	var fields map[string]any
	require.NoError(t, json.Unmarshal([]byte(job), &fields))
	delete(fields, "history")
	return fields
}

func TestAJobWhoseLifeIsOverIsAWrongLine(t *testing.T) {
	e := newEnv(t)
	r := e.run(`{"jid": "a", "klass": "K", "state": "waiting", "options": {"start_by": "2020-01-02T12:00:00Z"}}
{"jid": "b", "klass": "K", "state": "waiting", "options": {"ttl": "2020-01-02T12:00:00Z"}}
{"jid": "c", "klass": "K", "state": "failed", "options": {"ttl": "2020-01-02T12:00:00Z"}}`,
		"job", "put", "mail", "--from", "-")
	require.Equal(t, run{1, "", "line 1: its life ended at 2020-01-02T12:00:00Z\n" +
		"line 2: its life ended at 2020-01-02T12:00:00Z\n" +
		"put 1 job, 2 wrong\nqless: 2 jobs of 3 wrong\n"}, r)
}

func TestALineHasAllOptionsOfAJob(t *testing.T) {
	e := newEnv(t)
	r := e.run(`{"jid": "j", "klass": "K", "at": "2040-01-02T12:00:00Z", "on_failure": "run", `+
		`"on_lost": "place", "unique": ["invoice", 7], "start_by": "200000h", "ttl": 900000000, `+
		`"keep_for": 60, "keep_failed_for": -1, "fair": "ann", "weight": 2}`,
		"job", "put", "mail", "--from", "-")
	require.Equal(t, run{0, "", "put 1 job\n"}, r)
	job := jobOf(t, e.Client(), "j")
	require.Equal(t, time.Date(2040, 1, 2, 12, 0, 0, 0, time.UTC), job.Due.UTC())
	require.Equal(t, []any{qless.OnFailureRun, qless.OnLostInPlace, `["invoice",7]`, "ann", qless.Weight(2)},
		[]any{job.Options.OnFailure, job.Options.OnLost, job.Options.Unique.Key, job.Options.Fair, job.Options.Weight})
	require.Equal(t, []time.Duration{time.Minute, qless.Forever},
		[]time.Duration{*job.Options.KeepFor, *job.Options.KeepFailedFor})
	require.False(t, job.Options.StartBy.IsZero() || job.Options.TTL.IsZero())
}

func TestAFileWithManyJobsIsPutInPages(t *testing.T) {
	e, _ := newReal(t)
	var text strings.Builder
	const jobs = 3500
	for i := range jobs {
		fmt.Fprintf(&text, "{\"klass\": \"K\", \"data\": %d}\n", i)
	}
	path := filepath.Join(t.TempDir(), "jobs.jsonl")
	require.NoError(t, os.WriteFile(path, []byte(text.String()), 0o600))
	screen, status := e.terminal("job put mail --from " + path).typed("")
	require.Equal(t, 0, status, screen)
	require.Contains(t, screen, "of 3500 jobs")
	require.Contains(t, screen, "put 3500 jobs")
	r := e.run("", "job", "put", "mail", "--from", path, "--dry-run")
	require.Equal(t, run{0, "", "would put 3500 jobs\n"}, r)
	require.Equal(t, qless.QueueCounts{Name: "mail", Waiting: jobs}, e.counts("mail"))
}

func TestAPageWhoseAnswerIsLostIsNotPutTwice(t *testing.T) {
	e, client := newReal(t)
	proxy := testkit.NewProxy(t, e.real.Addr())
	e.url = "redis://" + proxy.Addr()
	must(client.Queue("mail").PutMany(t.Context(), []qless.JobSpec{{Klass: "Load the script"}}))(t)
	proxy.CutBeforeReply("Twice")
	r := e.run(`{"klass": "Twice"}`, "job", "put", "mail", "--from", "-")
	require.Equal(t, run{0, "", "put 1 job\n"}, r)
	require.Equal(t, qless.QueueCounts{Name: "mail", Waiting: 2}, e.counts("mail"))
}

func TestWhatIsLeftWhenTheServerIsGoneIsKept(t *testing.T) {
	e := newEnv(t)
	left := filepath.Join(t.TempDir(), "left.jsonl")
	r := e.run(jobLines+"{}\n", "job", "put", "mail", "K", "--from", "-", "--left", left,
		"--redis", "redis://127.0.0.1:1", "--timeout", "2s")
	require.Equal(t, 5, r.status, r.errors)
	require.Contains(t, r.errors, "put 0 jobs, 4 not tried")
	kept := must(os.ReadFile(left))(t)
	require.Regexp(t, `\{"jid":"[0-9a-f]{32}"\}\n$`, string(kept))
	r = e.run("", "job", "put", "mail", "K", "--from", left)
	require.Equal(t, run{0, "", "put 4 jobs\n"}, r)
	e.exits(2, "job put --from missing.jsonl")
	e.exits(2, "job put a b c --from -")
}

func TestAByteOrderMarkIsNoPartOfTheFirstLine(t *testing.T) {
	e := newEnv(t)
	r := e.run("\ufeff"+`{"klass": "Welcome", "jid": "first"}`+"\n", "job", "put", "mail", "--from", "-")
	require.Equal(t, run{0, "", "put 1 job\n"}, r)
}
