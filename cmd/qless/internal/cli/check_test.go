package cli_test

import (
	"context"
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/testkit"
)

func TestAQueueIsCheckedAgainstThresholds(t *testing.T) {
	e := newLiveEnv(t)
	e.put("mail", "Welcome", 10*time.Minute)
	e.put("mail", "Welcome", 10*time.Minute)
	for _, test := range []struct {
		flags  string
		status int
	}{
		{"", 1},
		{"--warn 11m", 0},
		{"--warn 11m --crit 30s", 2},
		{"--warn 1h --crit 5000", 0},
		{"--warn 1h,waiting=1", 1},
		{"--warn 1h,waiting=2", 0},
		{"--warn 1h --crit waiting=1", 2},
		{"--crit nonsense=1", 3},
		{"--crit -1", 3},
		{"--crit", 3},
		{"--format xml", 3},
		{"more", 3},
	} {
		r := e.run("", append([]string{"check", "queue", "mail"}, strings.Fields(test.flags)...)...)
		require.Equal(t, test.status, r.status, "%s: %s%s", test.flags, r.out, r.errors)
	}
	require.Equal(t, 3, e.run("", "check", "queue").status)
}

func TestAQueueThatNobodyKnowsIsUnknown(t *testing.T) {
	e := newLiveEnv(t)
	r := e.run("", "check", "queue", "maill")
	require.Equal(t, run{3, "UNKNOWN  no queue is called \"maill\"\n", ""}, r)
	e.put("mail", "Welcome", 0)
	jobs, err := e.Client().Queue("mail").Pop(t.Context(), 1)
	require.NoError(t, err)
	require.NoError(t, jobs[0].Complete(t.Context()))
	require.Equal(t, 0, e.run("", "check", "queue", "mail").status)
}

func TestWithoutAServerAllChecksAreUnknown(t *testing.T) {
	e := newLiveEnv(t)
	for _, check := range []string{"queue mail", "workers", "failures", "server"} {
		for _, format := range []string{"text", "nagios", "json", "prometheus"} {
			args := append([]string{"check"}, strings.Fields(check)...)
			r := e.run("", append(args, "--format", format, "--redis", "redis://:secret@127.0.0.1:1")...)
			require.Equal(t, 3, r.status)
			require.NotEmpty(t, r.out)
			require.NotContains(t, r.out+r.errors, "secret")
		}
	}
}

// formatted returns the output of a check in each format.
func (e *env) formatted(args ...string) string {
	e.t.Helper()
	var all strings.Builder
	for _, format := range []string{"text", "nagios", "json", "prometheus"} {
		r := e.run("", append(append([]string{"check"}, args...), "--format", format)...)
		require.Empty(e.t, r.errors)
		all.WriteString("--format " + format + "\n" + r.out + "\n")
	}
	return e.stable(all.String())
}

func TestCheckQueueInAllFormats(t *testing.T) {
	e := newLiveEnv(t)
	e.put(`ma"il`, "Welcome", 10*time.Minute)
	out := e.formatted("queue", `ma"il`, "--crit", "waiting=0")
	out = regexp.MustCompile(`\b60\d\.\d+`).ReplaceAllString(out, "600.25")
	golden(t, "check_queue.txt", regexp.MustCompile(`\b10m\ds\b`).ReplaceAllString(out, "10m"))
}

func TestWorkersAreChecked(t *testing.T) {
	e := newLiveEnv(t)
	require.Equal(t, 2, e.run("", "check", "workers").status)
	e.put("mail", "Welcome", 0)
	release := make(chan struct{})
	defer close(release)
	e.work("mail", func(context.Context, *qless.Job) error { <-release; return nil })
	testkit.Until(t, "the job to run", func() bool {
		return e.run("", "check", "workers", "--crit", "busy=99%").status == 2
	})
	require.Equal(t, 0, e.run("", "check", "workers").status)
	require.Equal(t, 1, e.run("", "check", "workers", "--warn", "2").status)
	require.Equal(t, 0, e.run("", "check", "workers", "--queue", "mail").status)
	require.Equal(t, 2, e.run("", "check", "workers", "--queue", "sms").status)
	golden(t, "check_workers.txt", e.formatted("workers", "--warn", "2"))
}

func TestFailuresAreChecked(t *testing.T) {
	e := newLiveEnv(t)
	require.Equal(t, 0, e.run("", "check", "failures").status)
	for range 2 {
		e.fail("thumbs", "Resize", "timeout", "took too long")
	}
	e.fail("thumbs", "Resize", "gone", "no such file")
	require.Equal(t, 1, e.run("", "check", "failures").status)
	require.Equal(t, 2, e.run("", "check", "failures", "--crit", "2").status)
	require.Equal(t, 0, e.run("", "check", "failures", "--warn", "3").status)
	require.Equal(t, 2, e.run("", "check", "failures", "--crit", "failed=2").status)
	require.Equal(t, 1, e.run("", "check", "failures", "--group", "gone", "--crit", "1").status)
	golden(t, "check_failures.txt", e.formatted("failures"))
}

func TestOldFailuresAreNotNew(t *testing.T) {
	e := newLiveEnv(t)
	before, err := qless.New(e.Redis(), &qless.ClientConfig{Clock: func() time.Time {
		return time.Now().Add(-time.Hour)
	}})
	require.NoError(t, err)
	_, err = before.Queue("mail").Put(t.Context(), "Welcome", nil)
	require.NoError(t, err)
	jobs, err := before.Queue("mail").Pop(t.Context(), 1)
	require.NoError(t, err)
	require.NoError(t, jobs[0].Fail(t.Context(), "timeout", "took too long"))
	require.Contains(t, e.ok("check", "failures"), "1 job failed, 0 of them in the last 10m00s")
	require.Equal(t, 1, e.run("", "check", "failures", "--since", "2h").status)
}

func TestTheServerIsChecked(t *testing.T) {
	server := testkit.Start(t, "--maxmemory", "100mb")
	e := &env{t: t, url: "redis://" + server.Addr()}
	calm := "memory=80,ping=1m"
	r := e.run("", "check", "server", "--warn", calm, "--crit", calm)
	require.Equal(t, 0, r.status, r.out)
	require.Regexp(t, `^OK  Redis \S+ answers, \d+ % of its memory used`, r.out)
	require.Equal(t, 2, e.run("", "check", "server", "--crit", "memory=0.1,ping=1m").status)
	require.Equal(t, 2, e.run("", "check", "server", "--crit", "ping=0").status)

	rdb := server.Client(t)
	require.NoError(t, rdb.ConfigSet(t.Context(), "maxmemory-policy", "allkeys-lru").Err())
	r = e.run("", "check", "server", "--warn", calm, "--crit", calm)
	require.Equal(t, 1, r.status)
	require.Contains(t, r.out, "the server deletes jobs when its memory is full: its policy is allkeys-lru, not noeviction")

	out := e.run("", "check", "server", "--warn", calm, "--crit", calm, "--json").out
	var result struct {
		Status  string
		Metrics []struct{ Name string }
	}
	require.NoError(t, json.Unmarshal([]byte(out), &result))
	require.Equal(t, "WARNING", result.Status)
	require.Equal(t, "ping", result.Metrics[0].Name)
}
