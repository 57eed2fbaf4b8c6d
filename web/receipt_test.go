package web_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
	"github.com/qless/qless-go/web"
)

func TestCanceledJobsCanBeDownloadedAndPutAgain(t *testing.T) {
	ctx := t.Context()
	d := newDesk(t, web.Options{})
	first := d.put("mail", "<Send>", qless.Tags{"a", "b"}, qless.Priority(7), qless.Headers{"h": "v"})
	second, err := d.Queue("slow").Put(ctx, "Report", json.RawMessage(`{"big": 12345678901234567890}`),
		qless.DependsOn{first}, qless.Retries(1), qless.Delay(time.Hour))
	require.NoError(t, err)
	before, err := d.Jobs(ctx, first, second)
	require.NoError(t, err)

	cancel := form()
	cancel["job"] = []string{"waiting:" + first, "depends:" + second}
	done := d.did("job.cancel", cancel)
	require.Equal(t, 2, done.Changed)

	got := d.ask(http.MethodGet, "/receipts/"+done.Receipt, "")
	require.Equal(t, http.StatusOK, got.StatusCode)
	require.Contains(t, got.Header.Get("Content-Disposition"), "attachment")
	lines := bytes.Split(bytes.TrimSpace([]byte(got.body)), []byte("\n"))
	require.Len(t, lines, 2)
	for i, line := range lines {
		var job qless.Job
		require.NoError(t, json.Unmarshal(line, &job))
		require.Equal(t, before[i].JID, job.JID)
		require.JSONEq(t, string(before[i].Data), string(job.Data))
	}

	require.Equal(t, 2, d.did("job.restore", form("receipt", done.Receipt)).Changed)
	after, err := d.Jobs(ctx, first, second)
	require.NoError(t, err)
	for i, job := range after {
		job.History, before[i].History = nil, nil
		require.WithinDuration(t, before[i].Due, job.Due, time.Second)
		job.Due, before[i].Due = time.Time{}, time.Time{}
		was, err := json.Marshal(before[i])
		require.NoError(t, err)
		is, err := json.Marshal(job)
		require.NoError(t, err)
		require.JSONEq(t, string(was), string(is))
	}

	again := d.post("job.restore", form("receipt", done.Receipt), "Accept", "application/json")
	contains(t, again.body, `"changed": 0`, `"unchanged": 2`)
	gone := d.post("job.restore", form("receipt", "none"), "Accept", "application/json")
	require.Equal(t, http.StatusNotFound, gone.StatusCode)
}

func TestAReceiptIsNotShownWhereDataIsHidden(t *testing.T) {
	d := newDesk(t, web.Options{Redact: func(job *qless.Job) { job.Data = nil }})
	jid := d.put("mail", "Send")
	done := d.did("job.cancel", form("job", "waiting:"+jid))
	got := d.ask(http.MethodGet, "/receipts/"+done.Receipt, "")
	require.Equal(t, http.StatusForbidden, got.StatusCode)
	require.Equal(t, 1, d.did("job.restore", form("receipt", done.Receipt)).Changed)
	job, err := d.Job(t.Context(), jid)
	require.NoError(t, err)
	require.JSONEq(t, `{"n": 1}`, string(job.Data))
}

func TestAReceiptHasAnEnd(t *testing.T) {
	d := newDesk(t, web.Options{})
	web.LimitReceipts(d.handler.(*web.Handler), 100, 1<<20)
	cancel := form()
	for range 12 {
		jid, err := d.Queue("mail").Put(t.Context(), "Send", strings.Repeat("x", 100_000))
		require.NoError(t, err)
		cancel.Add("job", "waiting:"+jid)
	}
	got := d.post("job.cancel", cancel, "Accept", "application/json")
	require.Contains(t, got.body, "a receipt has at most 1 MiB")
	require.Equal(t, 12, d.count("mail", inspect.Waiting))
}

func TestACancelStopsWhenItsReceiptIsFull(t *testing.T) {
	d := newDesk(t, web.Options{})
	web.LimitReceipts(d.handler.(*web.Handler), 1000, 64<<20)
	d.putMany("mail", "Send", 1700)
	all := form("scope", "queue", "queue", "mail", "list", "waiting", "sure", "1", "typed", "mail")
	done := d.end(d.begin("job.cancel", all))
	require.Equal(t, 1000, done.Changed)
	require.Contains(t, done.Error, "a receipt has at most 1\u202f000 jobs")
	require.Equal(t, 700, d.count("mail", inspect.Waiting), "the rest is left as it was")

	got := d.ask(http.MethodGet, "/receipts/"+done.Receipt, "")
	require.Equal(t, 1000, strings.Count(got.body, "\n"))
	rest := d.end(d.begin("job.cancel", all))
	require.Equal(t, 700, rest.Changed)
	require.Empty(t, rest.Error)
	require.Equal(t, 1000, d.end(d.begin("job.restore", form("receipt", done.Receipt))).Changed)
}

func TestOnlyTheLastReceiptsAreKept(t *testing.T) {
	d := newDesk(t, web.Options{})
	var receipts []string
	for range 21 {
		jid := d.put("mail", "Send")
		receipts = append(receipts, d.did("job.cancel", form("job", "waiting:"+jid)).Receipt)
	}
	got := d.ask(http.MethodGet, "/receipts/"+receipts[0], "")
	require.Equal(t, http.StatusNotFound, got.StatusCode)
	got = d.ask(http.MethodGet, "/receipts/"+receipts[1], "")
	require.Equal(t, http.StatusOK, got.StatusCode)
}
