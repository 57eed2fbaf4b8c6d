package cli_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
)

// oddData is data accepted by Lua but not by Go. Other clients may put it.
var oddData = map[string]string{
	"nan": `{"a": NaN}`, "raw": "{\"a\": \"x\ny\x01\"}", "hex": `{"a": 0x10}`,
}

// oddEnv returns an env with jobs with odd data.
func oddEnv(t *testing.T) *env {
	e, client := newReal(t)
	for jid, data := range oddData {
		e.put("mail", "Send", 0, qless.JID(jid))
		require.NoError(t, e.rdb.HSet(t.Context(), "ql:j:"+jid, "data", data).Err())
	}
	must(client.Queue("mail").Recur(t.Context(), "Send", nil, time.Hour,
		qless.JID("ticks"), qless.Offset(time.Hour)))(t)
	require.NoError(t, e.rdb.HSet(t.Context(), "ql:r:ticks", "data", oddData["nan"]).Err())
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
		e.exits(0, words)
	}
	require.Equal(t, oddData["hex"], string(jobOf(t, e.Client(), "hex").Data))
	require.Equal(t, "1", string(jobOf(t, e.Client(), "raw").Data))
}
