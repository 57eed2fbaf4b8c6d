package cli_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/testkit"
)

// oddData is data accepted by Lua but not by Go. Other clients may put it.
var oddData = map[string]string{
	"nan": `{"a": NaN}`, "raw": "{\"a\": \"x\ny\x01\"}", "hex": `{"a": 0x10}`,
}

// oddEnv returns an env with jobs with odd data.
func oddEnv(t *testing.T) *env {
	server := testkit.Start(t)
	rdb := server.Client(t)
	client, err := qless.New(rdb, nil)
	require.NoError(t, err)
	e := &env{t: t, url: "redis://" + server.Addr(), real: client}
	for jid, data := range oddData {
		_, err := e.Client().Queue("mail").Put(t.Context(), "Send", nil, qless.JID(jid))
		require.NoError(t, err)
		require.NoError(t, rdb.HSet(t.Context(), "ql:j:"+jid, "data", data).Err())
	}
	_, err = e.Client().Queue("mail").Recur(t.Context(), "Send", nil, time.Hour,
		qless.JID("ticks"), qless.Offset(time.Hour))
	require.NoError(t, err)
	require.NoError(t, rdb.HSet(t.Context(), "ql:r:ticks", "data", oddData["nan"]).Err())
	return e
}

func TestOddDataIsPrinted(t *testing.T) {
	e := oddEnv(t)
	for _, words := range []string{
		"job show nan", "job show nan raw hex", "queue peek mail", "job ls --queue mail", "recur show ticks",
		"recur ls mail", "status", "job find --queue mail",
	} {
		r := e.fields(words + " --json")
		require.Equal(t, 0, r.status, "%s: %s", words, r.errors)
		require.True(t, json.Valid([]byte(r.out)), "%s: %s", words, r.out)
		require.Equal(t, 0, e.fields(words).status, words)
	}
}

func TestOddDataIsChanged(t *testing.T) {
	e := oddEnv(t)
	for _, words := range []string{
		"job move nan raw hex --to slow --yes", "job tag nan raw hex --tag x", "job edit raw --data 1 --yes",
		"job cancel nan --yes", "recur cancel ticks --yes",
	} {
		r := e.fields(words)
		require.Equal(t, 0, r.status, "%s: %s", words, r.errors)
	}
	require.Equal(t, oddData["hex"], string(jobOf(t, e.Client(), "hex").Data))
	require.Equal(t, "1", string(jobOf(t, e.Client(), "raw").Data))
}
