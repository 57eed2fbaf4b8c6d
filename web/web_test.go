package web_test

import (
	"cmp"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/testkit"
	"github.com/qless/qless-go/web"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// A desk is a dashboard with a server of its own.
type desk struct {
	*qless.Client
	t       *testing.T
	server  *testkit.Server
	handler http.Handler
}

func newDesk(t *testing.T, options web.Options) *desk {
	t.Helper()
	d := &desk{t: t, server: testkit.Start(t)}
	return d.as(qless.ClientConfig{}).on(options)
}

// An answer is a response of the dashboard.
type answer struct {
	*http.Response
	body string
}

func (d *desk) ask(method, target, body string, headers ...string) answer {
	d.t.Helper()
	r := httptest.NewRequestWithContext(d.t.Context(), method, target, strings.NewReader(body))
	r.Header.Set("Accept", "text/html")
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Sec-Fetch-Site", "same-origin")
	}
	for i := 0; i+1 < len(headers); i += 2 {
		if headers[i] == "Host" {
			r.Host = headers[i+1]
		}
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	d.handler.ServeHTTP(w, r)
	text, err := io.ReadAll(w.Result().Body)
	require.NoError(d.t, err)
	return answer{w.Result(), string(text)}
}

// page returns a page.
func (d *desk) page(target string) string {
	d.t.Helper()
	got := d.ask(http.MethodGet, target, "")
	require.Equal(d.t, http.StatusOK, got.StatusCode, got.body)
	return got.body
}

// shows requires that a page has texts, and returns it.
func (d *desk) shows(target string, texts ...string) string {
	d.t.Helper()
	page := d.page(target)
	contains(d.t, page, texts...)
	return page
}

// hides requires that a page lacks texts.
func (d *desk) hides(target string, texts ...string) {
	d.t.Helper()
	lacks(d.t, d.page(target), texts...)
}

// conceals requires that neither pages nor their JSON have a text.
func (d *desk) conceals(text string, targets ...string) {
	d.t.Helper()
	for _, target := range targets {
		d.hides(target, text)
		got := d.ask(http.MethodGet, target, "", "Accept", "application/json")
		require.NotContains(d.t, got.body, text, target)
	}
}

// contains requires that a page, or a set, has texts.
func contains(t *testing.T, page any, texts ...string) {
	t.Helper()
	for _, text := range texts {
		require.Contains(t, page, text)
	}
}

// lacks requires that a page has none of some texts.
func lacks(t *testing.T, page string, texts ...string) {
	t.Helper()
	for _, text := range texts {
		require.NotContains(t, page, text)
	}
}

// act does an action, and returns the page that follows.
func (d *desk) act(action string, form url.Values) string {
	d.t.Helper()
	form.Set("sure", "1")
	got := d.ask(http.MethodPost, "/actions/"+action, form.Encode())
	require.Equal(d.t, http.StatusSeeOther, got.StatusCode, got.body)
	return d.page(got.Header.Get("Location"))
}

func (d *desk) put(queue, klass string, options ...qless.PutOption) string {
	d.t.Helper()
	return d.putData(queue, klass, map[string]int{"n": 1}, options...)
}

func (d *desk) putData(queue, klass string, data any, options ...qless.PutOption) string {
	d.t.Helper()
	jid, err := d.Queue(queue).Put(context.Background(), klass, data, options...)
	require.NoError(d.t, err)
	return jid
}

// pop pops jobs of a queue.
func (d *desk) pop(queue string, n int) []*qless.Job {
	d.t.Helper()
	jobs, err := d.Queue(queue).Pop(context.Background(), n)
	require.NoError(d.t, err)
	return jobs
}

// recur puts a recurring job of the klass Tick, whose first job is due after a time.
func (d *desk) recur(queue, jid string, data any, first time.Duration) {
	d.t.Helper()
	_, err := d.Queue(queue).Recur(context.Background(), "Tick", data, time.Hour, qless.JID(jid),
		qless.Offset(first))
	require.NoError(d.t, err)
}

// batch opens a batch with members of a klass.
func (d *desk) batch(queue string, callback qless.JobSpec, members, klass string, n int) *qless.Batch {
	d.t.Helper()
	batch, err := d.NewBatch(context.Background(), queue, callback)
	require.NoError(d.t, err)
	specs := slices.Repeat([]qless.JobSpec{{Klass: klass}}, n)
	_, err = batch.Add(context.Background(), members, specs)
	require.NoError(d.t, err)
	return batch
}

func (d *desk) job(jid string) *qless.Job {
	d.t.Helper()
	job, err := d.Job(context.Background(), jid)
	require.NoError(d.t, err)
	return job
}

// as returns a desk with another client of the same server, and no dashboard.
func (d *desk) as(config qless.ClientConfig) *desk {
	d.t.Helper()
	config.Logger = testkit.Quiet()
	config.WorkerName = cmp.Or(config.WorkerName, "w1")
	client, err := qless.New(d.server.Client(d.t), &config)
	require.NoError(d.t, err)
	return &desk{Client: client, t: d.t, server: d.server}
}

// ago returns a desk with a clock that is slow by some time.
func (d *desk) ago(ago time.Duration) *desk {
	d.t.Helper()
	return d.as(qless.ClientConfig{Clock: func() time.Time { return time.Now().Add(-ago) }})
}

func TestTheFirstPageShowsTheQueues(t *testing.T) {
	d := newDesk(t, web.Options{})
	d.shows("/", "There are no queues yet")
	d.put("mail", "Send")
	d = d.at(web.New(web.Options{}, web.Source{Client: d.Client}))
	d.shows("/", `<a href="/queues/mail">mail</a>`)
}

// at returns a desk with another dashboard.
func (d *desk) at(handler *web.Handler, err error) *desk {
	d.t.Helper()
	require.NoError(d.t, err)
	d.t.Cleanup(handler.Close)
	return &desk{d.Client, d.t, d.server, handler}
}

func TestTheFirstPageSaysHowManyJobsHaveFailed(t *testing.T) {
	d := newDesk(t, web.Options{})
	d.fail("Send", "timeout", "why")
	d.fail("Send", "other", "why")
	d.shows("/", `<a class="bad" href="/failures">2</a>`)
}

func TestASelectedJobIsCanceledUnlessItHasChanged(t *testing.T) {
	d := newDesk(t, web.Options{})
	jid, other := d.put("mail", "Send"), d.put("mail", "Send")
	d.shows("/queues/mail", `value="waiting:`+jid+`"`)
	d.shows("/jobs/"+jid, "&#34;n&#34;: 1")
	page := d.act("job.cancel", url.Values{"job": {"waiting:" + jid, "running:" + other}, "back": {"/queues/mail"}})
	contains(t, page, "1 job canceled.", "has changed since")
	_, err := d.Job(t.Context(), jid)
	require.ErrorIs(t, err, qless.ErrNotFound)
	d.job(other)
}

func TestRequestsFromOtherSitesAreRefused(t *testing.T) {
	d := newDesk(t, web.Options{})
	got := d.ask(http.MethodPost, "/actions/queue.pause", "queue=mail", "Sec-Fetch-Site", "cross-site")
	require.Equal(t, http.StatusForbidden, got.StatusCode)
}

func TestRequestsForOtherHostsAreRefused(t *testing.T) {
	d := newDesk(t, web.Options{})
	jid := d.put("mail", "Send")
	named := d.at(web.New(web.Options{Hosts: []string{"jobs.example.com"}, Logger: testkit.Quiet()},
		web.Source{Client: d.Client}))
	status := func(of *desk, host string) int {
		got := of.ask(http.MethodGet, "/jobs/"+jid, "", "Host", host)
		action := of.ask(http.MethodPost, "/actions/job.track", "job=waiting:"+jid, "Host", host)
		require.Equal(t, got.StatusCode == http.StatusForbidden,
			action.StatusCode == http.StatusForbidden, host)
		return got.StatusCode
	}
	for _, host := range []string{"localhost:80", "10.1.2.3", "[::1]:8080", "jobs.example.com:443"} {
		require.Equal(t, http.StatusOK, status(named, host), host)
	}
	for _, host := range []string{"evil.example", "evil.example:8080", "example.com"} {
		require.Equal(t, http.StatusForbidden, status(named, host), host)
		require.Equal(t, http.StatusOK, status(d, host), "behind something with names of its own")
	}
}

func TestRequestsOverTheLoopbackInterfaceNameIt(t *testing.T) {
	d := newDesk(t, web.Options{})
	address := d.serve()
	for host, want := range map[string]int{
		"": http.StatusOK, "localhost:1234": http.StatusOK, "evil.example": http.StatusForbidden,
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address+"/", nil)
		require.NoError(t, err)
		r.Host = host
		got, err := http.DefaultClient.Do(r)
		require.NoError(t, err)
		require.NoError(t, got.Body.Close())
		require.Equal(t, want, got.StatusCode, host)
	}
}

func TestTheFilesAreNotListed(t *testing.T) {
	d := newDesk(t, web.Options{})
	require.Equal(t, http.StatusOK, d.ask(http.MethodGet, "/static/qless.js", "").StatusCode)
	for _, path := range []string{"/static/", "/static/none", "/static/qless.js/"} {
		require.Equal(t, http.StatusNotFound, d.ask(http.MethodGet, path, "").StatusCode, path)
	}
}

func TestAnEnvironmentHasANameAndAColour(t *testing.T) {
	d := newDesk(t, web.Options{Environment: "production", Colour: "red"})
	d.shows("/queues", `<b class="environment red">production</b>`,
		"<title>Queues · ql: · production · qless</title>")
	for _, options := range []web.Options{{Colour: "pink"}, {Interval: -1}, {Late: -time.Second}} {
		_, err := web.New(options, web.Source{Client: d.Client})
		require.ErrorIs(t, err, qless.ErrInvalid, "%+v", options)
	}
}
