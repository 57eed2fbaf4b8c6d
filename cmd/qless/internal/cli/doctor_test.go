package cli_test

import (
	"encoding/json"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/doctor"
)

// examined is a real server with a waiting job.
func examined(t *testing.T) *env {
	e, _ := newReal(t, "--appendonly", "yes")
	e.put("mail", "Welcome", 0, qless.JID("lost"))
	return e
}

func TestDoctorOfAHealthyNamespaceIs0(t *testing.T) {
	e := examined(t)
	r := e.run("", "doctor")
	require.Equal(t, 0, r.status, r.out)
	require.Contains(t, r.out, "namespace ql:  1 job, ")
	require.Contains(t, r.out, "nothing is wrong")
	require.Regexp(t, `^\d+ keys to look at, which takes about \d+s\n$`, r.errors)
}

func TestDoctorOfABrokenNamespaceIs1(t *testing.T) {
	e := examined(t)
	e.redis("zrem ql:q:mail-work lost")
	r := e.run("", "doctor")
	require.Equal(t, 1, r.status)
	require.Contains(t, r.out, "1 lost, broken, can be repaired\n  ")
	require.NotContains(t, r.errors, "qless:")

	r = e.run("", "doctor", "--json")
	require.Equal(t, 1, r.status)
	require.Empty(t, r.errors)
	var result struct {
		doctor.Report
		Fixed []doctor.Reason
	}
	require.NoError(t, json.Unmarshal([]byte(r.out), &result))
	require.Equal(t, doctor.ReasonLost, result.Findings[0].Code)
	require.Empty(t, result.Fixed)
}

func TestAnIncompleteJobIsMovedIntoAQueue(t *testing.T) {
	e := examined(t)
	e.redis("hdel ql:j:lost queue state")
	require.Contains(t, e.run("", "doctor").out, "qless job move lost --to QUEUE\n")
	e.ok("job", "move", "lost", "--to", "mail", "--yes")
	e.ok("doctor")
}

func TestDoctorRepairsWhenConfirmed(t *testing.T) {
	e := examined(t)
	isLost := func() bool {
		_, err := e.rdb.ZScore(t.Context(), "ql:q:mail-work", "lost").Result()
		return err == redis.Nil
	}
	e.redis("zrem ql:q:mail-work lost")
	require.Equal(t, 2, e.run("y\n", "doctor", "--fix").status, "this is no terminal")
	require.True(t, isLost())
	require.Contains(t, e.exits(1, "doctor --fix --dry-run"), "would repair 1 finding")
	require.True(t, isLost())
	r := e.run("", "doctor", "--fix", "--yes")
	require.Equal(t, 0, r.status, r.errors)
	require.Contains(t, r.out, "repaired: ")
	require.Contains(t, r.errors, "1 of 1 finding repaired")
	require.False(t, isLost())
	require.Contains(t, e.run("", "doctor", "--fix").errors, "there is nothing to repair")
}

func TestDoctorAsksOnATerminal(t *testing.T) {
	e := examined(t)
	e.redis("zrem ql:q:mail-work lost")
	for _, test := range []struct {
		keys, says string
		status     int
	}{
		{"n\n", "nothing was done", 1},
		{"y\n", "1 of 1 finding repaired", 0},
	} {
		s := e.terminal("doctor --fix")
		s.shows("Repair 1 finding? [y/N]")
		s.press(test.keys)
		require.Equal(t, test.status, s.exit(), test.keys)
		s.shows(test.says)
	}
}
