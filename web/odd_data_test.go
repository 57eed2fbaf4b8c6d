package web_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go/web"
)

// oddData is data that Lua accepts and Go does not, and that other clients may put.
var oddData = []string{`{"a": NaN}`, "{\"a\": \"x\ny\x01\"}"}

// oddJobs puts jobs with odd data, and a normal one.
func (d *desk) oddJobs() (jids []string) {
	d.t.Helper()
	rdb := d.server.Client(d.t)
	for _, data := range append(oddData, `{"n":1}`) {
		jid := d.put("mail", "Send")
		require.NoError(d.t, rdb.HSet(d.t.Context(), "ql:j:"+jid, "data", data).Err())
		jids = append(jids, jid)
	}
	return jids
}

func TestOddDataIsShown(t *testing.T) {
	d := newDesk(t, web.Options{})
	for _, jid := range d.oddJobs() {
		requireSound(t, jid, d.page("/jobs/"+jid))
		require.Equal(t, jid, d.read("/jobs/" + jid)["jid"])
		require.Equal(t, "waiting", d.read("/jobs/" + jid)["state"])
		d.page("/actions/job.edit?job=waiting:" + jid)
	}
	require.Len(t, d.read("/queues/mail")["jobs"].(map[string]any)["items"], len(oddData)+1)
	d.page("/find?q=data:NaN")
	d.recur("mail", "ticks", nil, 0)
	rdb := d.server.Client(t)
	for _, data := range oddData {
		require.NoError(t, rdb.HSet(t.Context(), "ql:r:ticks", "data", data).Err())
		web.EndTurn(d.handler.(*web.Handler))
		requireSound(t, data, d.page("/recurring/ticks"))
		require.NotEmpty(t, d.read("/recurring/ticks")["job"])
	}
}

func TestOddDataIsCanceledAndPutAgain(t *testing.T) {
	d := newDesk(t, web.Options{})
	jids := d.oddJobs()
	all := form()
	for _, jid := range jids {
		all.Add("job", "waiting:"+jid)
	}
	done := d.did("job.cancel", all)
	require.Equal(t, len(jids), done.Changed, done.Error)
	receipt := d.page("/receipts/" + done.Receipt)
	for line := range strings.Lines(receipt) {
		require.True(t, json.Valid([]byte(line)), line)
	}
	got := d.post("job.restore", form("receipt", done.Receipt))
	require.Equal(t, http.StatusSeeOther, got.StatusCode, got.body)
	for i, data := range oddData {
		require.Equal(t, data, string(d.job(jids[i]).Data))
	}
}

func TestOddDataIsChanged(t *testing.T) {
	for action, pairs := range map[string][]string{
		"job.move": {"to", "slow"}, "job.copy": nil, "job.priority": {"priority", "5"},
		"job.tag": {"tags", "x"}, "job.reschedule": {"delay", "1h"}, "job.track": nil,
		"job.log": {"message", "seen"},
	} {
		d := newDesk(t, web.Options{})
		for i, jid := range d.oddJobs()[:len(oddData)] {
			said := form(append([]string{"job", "waiting:" + jid}, pairs...)...)
			require.Equal(t, 1, d.did(action, said).Changed, "%s: %q", action, oddData[i])
			require.Equal(t, oddData[i], string(d.job(jid).Data))
		}
	}
}
