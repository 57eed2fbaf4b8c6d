package web_test

import (
	"bufio"
	"compress/gzip"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go/internal/testkit"
	"github.com/qless/qless-go/web"
)

// A viewer reads the updates of a page.
type viewer struct {
	t    *testing.T
	body *bufio.Reader
	end  func()
}

// watch opens the updates of a page of a server.
func watch(t *testing.T, address, page string) (*viewer, *http.Response) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience)
	t.Cleanup(cancel)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet,
		address+"/live?page="+url.QueryEscape(page), nil)
	require.NoError(t, err)
	got, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	t.Cleanup(func() { _ = got.Body.Close() })
	return &viewer{t, bufio.NewReader(got.Body), cancel}, got
}

// serve returns the address of a server with the dashboard.
func (d *desk) serve() string {
	d.t.Helper()
	server := httptest.NewServer(d.handler)
	d.t.Cleanup(server.Close)
	return server.URL
}

// line returns the next line that begins with a text.
func (v *viewer) line(begin string) string {
	v.t.Helper()
	for {
		if line := v.next(); strings.HasPrefix(line, begin) {
			return line
		}
	}
}

func (v *viewer) next() string {
	v.t.Helper()
	line, err := v.body.ReadString('\n')
	require.NoError(v.t, err)
	return line
}

func TestOnlyPagesAreUpdated(t *testing.T) {
	d := newDesk(t, web.Options{})
	d.put("mail", "Send")
	for _, page := range []string{
		"", "queues", "/nowhere", "/live", "/live?page=/", "/live?page=/live?page=/",
		strings.Repeat("/live?page=", 24) + "/", "/actions/queue.pause?queue=mail",
		"/actions/job.put", "/receipts/x", "/static/qless.js",
		"//evil/../queues", "/./live?page=/", "/queues/../live?page=/", "http://evil.example/queues",
		"/find?q=Send", "/find?q=" + d.put("mail", "Send"), "/queues/mail?klass=Send", "/settings",
	} {
		got := d.ask(http.MethodGet, "/live?page="+page, "")
		require.Equal(t, http.StatusNotFound, got.StatusCode, page)
		require.Less(t, len(got.body), 10_000, page)
		require.NotContains(t, got.Header.Get("Content-Type"), "event-stream", page)
	}
}

func TestEveryPageWithUpdatesHasThem(t *testing.T) {
	d := newDesk(t, web.Options{Interval: 10 * time.Millisecond})
	jid := d.put("mail", "Send")
	address := d.serve()
	for _, page := range []string{
		"/", "/queues", "/queues/mail", "/queues/mail/why", "/jobs/" + jid, "/jobs/" + jid + "/graph",
		"/failures", "/klasses", "/workers", "/recurring", "/schedules", "/limits", "/tracked",
		"/completed", "/tags", "/activity", "/server", "/jobs/none", "/queues/mail?format=json",
	} {
		v, got := watch(t, address, page)
		require.Equal(t, http.StatusOK, got.StatusCode, page)
		require.Contains(t, v.line("data:"), `\u003c`, page)
		v.line("\n")
		v.line("")
		v.end()
	}
}

func TestAServerThatHangsIsTold(t *testing.T) {
	d := newDesk(t, web.Options{Interval: 10 * time.Millisecond})
	v, _ := watch(t, d.serve(), "/queues")
	v.line("event: content")
	d.server.Suspend()
	v.line("event: late")
	at, err := time.Parse("data: 2006-01-02T15:04:05Z\n", v.line("data: "))
	require.NoError(t, err)
	require.WithinDuration(t, time.Now(), at, testkit.Patience)
	d.server.Resume()
	v.line("event: content")
}

// A reading that ends with its own time-out has the words for a server that does not answer.
func TestAPageOfAServerThatHangs(t *testing.T) {
	d := newDesk(t, web.Options{})
	d.server.Suspend()
	defer d.server.Resume()
	page := d.refused(http.StatusServiceUnavailable, "/server")
	require.NotContains(t, page, "Internal Server Error")
}

func TestAPageOfAServerThatHangsHasItsLastFigures(t *testing.T) {
	d := newDesk(t, web.Options{})
	jid := d.put("mail", "Send")
	d.page("/queues/mail")
	web.EndTurn(d.handler.(*web.Handler))
	d.server.Suspend()
	defer d.server.Resume()
	d.refused(http.StatusServiceUnavailable, "/queues/mail", jid,
		"Redis does not answer. This page was read <time")
	d.refused(http.StatusServiceUnavailable, "/queues", "the server does not answer")
	got := d.ask(http.MethodGet, "/queues/mail?format=json", "")
	require.Equal(t, http.StatusServiceUnavailable, got.StatusCode)
	require.Contains(t, got.body, jid)
	require.Regexp(t, `^[0-9]+$`, got.Header.Get("Age"))
}

func TestPagesAreCompressed(t *testing.T) {
	d := newDesk(t, web.Options{})
	d.putMany("mail", "Send", 45)
	plain := d.page("/queues/mail?format=json")
	got := d.ask(http.MethodGet, "/queues/mail?format=json", "", "Accept-Encoding", "br, gzip")
	require.Equal(t, "gzip", got.Header.Get("Content-Encoding"))
	require.Less(t, 5*len(got.body), len(plain))
	r, err := gzip.NewReader(strings.NewReader(got.body))
	require.NoError(t, err)
	text, err := io.ReadAll(r)
	require.NoError(t, err)
	require.Equal(t, len(plain), len(text))
	for _, headers := range [][]string{{"Sec-Fetch-Site", "cross-site"}, {"Range", "bytes=0-1"}} {
		headers = append(headers, "Accept-Encoding", "gzip")
		got := d.ask(http.MethodGet, "/static/qless.js", "", headers...)
		require.Empty(t, got.Header.Get("Content-Encoding"), headers)
	}
}

// A page whose ages have changed, and nothing else, is not sent again.
func TestAgesAreNotSent(t *testing.T) {
	d := newDesk(t, web.Options{Interval: 10 * time.Millisecond})
	d.fail("Send", "a/group", "why")
	address := d.serve()
	const page = "/failures/a%2Fgroup"
	v, got := watch(t, address, page)
	require.True(t, got.Uncompressed, "the updates are compressed")
	first := v.line("data: ")
	require.Contains(t, first, "\\u003ctime ")
	v.line("\n")
	age := regexp.MustCompile(`[^>]*</time>`)
	for old := age.FindString(d.page(page)); age.FindString(d.page(page)) == old; {
		require.Equal(t, ":\n", v.next())
		require.Equal(t, "\n", v.next())
	}
	d.fail("Send", "a/group", "why")
	v.line("event: content")
}

func TestAPageThatLoadedBeforeARunEndedHasTheEnd(t *testing.T) {
	d := newDesk(t, web.Options{Interval: 10 * time.Millisecond})
	d.putMany("mail", "Send", 501)
	page := d.begin("job.priority", url.Values{
		"scope": {"queue"}, "queue": {"mail"}, "list": {"waiting"}, "priority": {"5"}, "sure": {"1"},
		"typed": {"mail"},
	})
	d.end(page)
	v, _ := watch(t, d.serve(), page)
	require.Contains(t, v.line("data:"), "501 jobs")
}

func TestNoMorePagesAreUpdatedThanTheLimit(t *testing.T) {
	d := newDesk(t, web.Options{Interval: 10 * time.Millisecond})
	web.LimitStreams(d.handler.(*web.Handler), 2)
	address := d.serve()
	first, _ := watch(t, address, "/")
	second, _ := watch(t, address, "/queues")
	first.line("data:")
	second.line("data:")
	_, refused := watch(t, address, "/")
	require.Equal(t, http.StatusServiceUnavailable, refused.StatusCode)
	require.NotEmpty(t, refused.Header.Get("Retry-After"))
	require.Contains(t, d.page("/queues"), "Queues", "other requests are answered")
	first.end()
	testkit.Until(t, "the place is free", func() bool {
		_, got := watch(t, address, "/")
		return got.StatusCode == http.StatusOK
	})
}
