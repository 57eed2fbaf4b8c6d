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
		e.exits(test.status, "check queue mail "+test.flags)
	}
	e.exits(3, "check queue")
}

func TestAQueueThatNobodyKnowsIsUnknown(t *testing.T) {
	e := newLiveEnv(t)
	r := e.fields("check queue maill")
	require.Equal(t, run{3, "UNKNOWN  no queue is called \"maill\"\n", ""}, r)
	e.put("mail", "Welcome", 0)
	require.NoError(t, e.pop("mail", 1)[0].Complete(t.Context()))
	e.exits(0, "check queue mail")
}

func TestWithoutAServerAllChecksAreUnknown(t *testing.T) {
	e := newLiveEnv(t)
	for _, check := range []string{"queue mail", "workers", "failures", "server"} {
		for _, format := range []string{"text", "nagios", "json", "prometheus"} {
			words := "check " + check + " --format " + format + " --redis redis://:secret@127.0.0.1:1"
			r := e.fields(words)
			require.Equal(t, 3, r.status, words)
			require.NotEmpty(t, r.out, words)
			require.NotContains(t, r.out+r.errors, "secret", words)
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
	e.exits(2, "check workers")
	e.put("mail", "Welcome", 0)
	release := make(chan struct{})
	defer close(release)
	e.work("mail", func(context.Context, *qless.Job) error { <-release; return nil })
	testkit.Until(t, "the job to run", func() bool {
		return e.run("", "check", "workers", "--crit", "busy=99%").status == 2
	})
	e.exits(0, "check workers")
	e.exits(1, "check workers --warn 2")
	e.exits(0, "check workers --queue mail")
	e.exits(2, "check workers --queue sms")
	golden(t, "check_workers.txt", e.formatted("workers", "--warn", "2"))
}

func TestFailuresAreChecked(t *testing.T) {
	e := newLiveEnv(t)
	e.exits(0, "check failures")
	for range 2 {
		e.fail("thumbs", "Resize", "timeout", "took too long")
	}
	e.fail("thumbs", "Resize", "gone", "no such file")
	e.exits(1, "check failures")
	e.exits(2, "check failures --crit 2")
	e.exits(0, "check failures --warn 3")
	e.exits(2, "check failures --crit failed=2")
	e.exits(1, "check failures --group gone --crit 1")
	golden(t, "check_failures.txt", e.formatted("failures"))
}

func TestOldFailuresAreNotNew(t *testing.T) {
	e := newLiveEnv(t)
	e.put("mail", "Welcome", time.Hour)
	jobs := must(e.as("", time.Hour).Queue("mail").Pop(t.Context(), 1))(t)
	require.NoError(t, jobs[0].Fail(t.Context(), "timeout", "took too long"))
	require.Contains(t, e.ok("check", "failures"), "1 job failed, 0 of them in the last 10m00s")
	e.exits(1, "check failures --since 2h")
}

func TestTheServerIsChecked(t *testing.T) {
	e, _ := newReal(t, "--maxmemory", "100mb")
	calm := []string{"check", "server", "--warn", "memory=80,ping=1m", "--crit", "memory=80,ping=1m"}
	require.Regexp(t, `^OK  Redis \S+ answers, \d+ % of its memory used`, e.ok(calm...))
	e.exits(2, "check server --crit memory=0.1,ping=1m")
	e.exits(2, "check server --crit ping=0")

	e.redis("config set maxmemory-policy allkeys-lru")
	r := e.run("", append(calm, "--json")...)
	require.Equal(t, 1, r.status)
	var result struct {
		Status  string
		Metrics []struct{ Name string }
	}
	require.NoError(t, json.Unmarshal([]byte(r.out), &result))
	require.Equal(t, "WARNING", result.Status)
	require.Equal(t, "ping", result.Metrics[0].Name)
}
