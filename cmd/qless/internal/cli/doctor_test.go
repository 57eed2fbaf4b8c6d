package cli_test

import (
	"encoding/json"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/doctor"
	"github.com/qless/qless-go/internal/testkit"
)

// examined is a real server with a waiting job.
func examined(t *testing.T) (*env, *redis.Client) {
	server := testkit.Start(t, "--appendonly", "yes")
	rdb := server.Client(t)
	client, err := qless.New(rdb, nil)
	require.NoError(t, err)
	_, err = client.Queue("mail").Put(t.Context(), "Welcome", nil, qless.JID("lost"))
	require.NoError(t, err)
	return &env{t: t, url: "redis://" + server.Addr()}, rdb
}

func TestDoctorOfAHealthyNamespaceIs0(t *testing.T) {
	e, _ := examined(t)
	r := e.run("", "doctor")
	require.Equal(t, 0, r.status, r.out)
	require.Contains(t, r.out, "namespace ql:  1 job, ")
	require.Contains(t, r.out, "nothing is wrong")
	require.Regexp(t, `^\d+ keys to look at, which takes about \d+s\n$`, r.errors)
}

func TestDoctorOfABrokenNamespaceIs1(t *testing.T) {
	e, rdb := examined(t)
	require.NoError(t, rdb.ZRem(t.Context(), "ql:q:mail-work", "lost").Err())
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
	e, rdb := examined(t)
	require.NoError(t, rdb.HDel(t.Context(), "ql:j:lost", "queue", "state").Err())
	require.Contains(t, e.run("", "doctor").out, "qless job move lost --to QUEUE\n")
	require.Equal(t, 0, e.run("", "job", "move", "lost", "--to", "mail", "--yes").status)
	r := e.run("", "doctor")
	require.Equal(t, 0, r.status, r.out)
}

func TestDoctorRepairsWhenConfirmed(t *testing.T) {
	e, rdb := examined(t)
	isLost := func() bool {
		_, err := rdb.ZScore(t.Context(), "ql:q:mail-work", "lost").Result()
		return err == redis.Nil
	}
	require.NoError(t, rdb.ZRem(t.Context(), "ql:q:mail-work", "lost").Err())
	require.Equal(t, 2, e.run("y\n", "doctor", "--fix").status, "this is no terminal")
	require.True(t, isLost())
	r := e.run("", "doctor", "--fix", "--dry-run")
	require.Equal(t, 1, r.status)
	require.Contains(t, r.errors, "would repair 1 finding")
	require.True(t, isLost())
	r = e.run("", "doctor", "--fix", "--yes")
	require.Equal(t, 0, r.status, r.errors)
	require.Contains(t, r.out, "repaired: ")
	require.Contains(t, r.errors, "1 of 1 finding repaired")
	require.False(t, isLost())
	require.Contains(t, e.run("", "doctor", "--fix").errors, "there is nothing to repair")
}

func TestDoctorAsksOnATerminal(t *testing.T) {
	e, rdb := examined(t)
	require.NoError(t, rdb.ZRem(t.Context(), "ql:q:mail-work", "lost").Err())
	s := e.terminal("doctor", "--fix")
	s.shows("Repair 1 finding? [y/N]")
	s.press("n\n")
	require.Equal(t, 1, s.exit())
	s.shows("nothing was done")

	s = e.terminal("doctor", "--fix")
	s.shows("Repair 1 finding? [y/N]")
	s.press("y\n")
	require.Equal(t, 0, s.exit())
	s.shows("1 of 1 finding repaired")
}

func TestDoctorWithoutAServerIs5(t *testing.T) {
	e := newLiveEnv(t)
	require.Equal(t, 5, e.run("", "doctor", "--redis", "redis://127.0.0.1:1").status)
}
