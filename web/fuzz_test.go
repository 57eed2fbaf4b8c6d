package web_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/testkit"
	"github.com/qless/qless-go/web"
)

// fuzzSite returns a dashboard with some jobs, whose state the requests change.
func fuzzSite(f *testing.F) http.Handler {
	server := testkit.Start(f)
	rdb := server.Client(f)
	client, err := qless.New(rdb, &qless.ClientConfig{Logger: testkit.Quiet()})
	require.NoError(f, err)
	for _, jid := range []string{"a", "b", "c"} {
		_, err := client.Queue("mail").Put(f.Context(), "Send", nil, qless.JID(jid), qless.Tags{"x"})
		require.NoError(f, err)
	}
	handler, err := web.New(web.Options{Logger: testkit.Quiet()}, web.Source{Client: client, Redis: rdb})
	require.NoError(f, err)
	f.Cleanup(handler.Close)
	return handler
}

// fuzzPages are the paths of pages, in which * stands for a name.
var fuzzPages = []string{
	"/", "/queues", "/queues/*", "/queues/*/why", "/jobs/*", "/jobs/*/graph", "/failures", "/failures/*",
	"/klasses", "/klasses/*", "/workers", "/workers/*", "/recurring", "/recurring/*", "/schedules",
	"/schedules/*", "/limits", "/limits/*", "/tracked", "/completed", "/tags", "/tags/*", "/activity",
	"/settings", "/server", "/find", "/runs/*", "/receipts/*",
	"/static/*", "/*", "*",
}

// FuzzPages requests pages with any names and queries.
func FuzzPages(f *testing.F) {
	handler := fuzzSite(f)
	for i := range fuzzPages {
		f.Add(uint8(i), "mail", "from=1&klass=Send&state=waiting&q=data:x&name=a&next=1")
	}
	f.Add(uint8(2), "..", "name%25=%2500")
	f.Add(uint8(31), "", "")
	f.Fuzz(func(t *testing.T, page uint8, name, query string) {
		path := strings.ReplaceAll(fuzzPages[int(page)%len(fuzzPages)], "*", url.PathEscape(name))
		answered(t, handler, http.MethodGet, path+"?"+query, "")
	})
}

// FuzzForms does actions with any forms.
func FuzzForms(f *testing.F) {
	handler := fuzzSite(f)
	actions := web.Actions()
	for action, trial := range trials() {
		for i := range actions {
			if actions[i] == action && trial.form != nil {
				f.Add(uint8(i), true, "job=waiting:a&job=failed:b&queue=mail&to=mail&jid=t&name=n&value=1&klass=K&"+
					"data=[1]&interval=1h&delay=1s&tags=x&priority=1&retries=2&jids=a,b&message=m&sure=1&back=/queues")
			}
		}
	}
	f.Add(uint8(0), true, "scope=queue&queue=mail&list=waiting&q=data:x&sure=1&typed=mail&once=1")
	f.Fuzz(func(t *testing.T, action uint8, isPost bool, form string) {
		path := "/actions/" + string(actions[int(action)%len(actions)])
		if isPost {
			answered(t, handler, http.MethodPost, path, form)
		} else {
			answered(t, handler, http.MethodGet, path+"?"+form, "")
		}
	})
}

// answered sends a request that a browser could send, and requires a sound response.
func answered(t *testing.T, handler http.Handler, method, target, body string) {
	t.Helper()
	parsed, err := url.ParseRequestURI(target)
	if err != nil {
		return
	}
	r := httptest.NewRequestWithContext(t.Context(), method, "/", strings.NewReader(body))
	r.URL, r.RequestURI = parsed, target
	r.Header.Set("Accept", "text/html")
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	w := httptest.NewRecorder()
	if strings.HasPrefix(parsed.Path, "/live") {
		return
	}
	handler.ServeHTTP(w, r)
	require.Less(t, w.Code, 500, "%s\n%s", target, w.Body)
	if location := w.Header().Get("Location"); location != "" {
		require.Regexp(t, `^/([^/\\]|$)`, location)
	}
	if strings.HasPrefix(w.Header().Get("Content-Type"), "text/html") && w.Code/100 != 3 {
		requireSound(t, target, w.Body.String())
	}
}

// FuzzLive requests the updates of any page.
func FuzzLive(f *testing.F) {
	handler := fuzzSite(f)
	for _, page := range fuzzPages {
		f.Add(strings.ReplaceAll(page, "*", "mail"))
	}
	f.Add("/live?page=/live?page=/")
	f.Add("/actions/queue.pause?queue=mail")
	f.Fuzz(func(t *testing.T, page string) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/live?page="+url.QueryEscape(page), nil)
		w := &oneUpdate{httptest.NewRecorder(), cancel}
		handler.ServeHTTP(w, r)
		require.Contains(t, []int{http.StatusOK, http.StatusNotFound}, w.Code, page)
		require.Less(t, w.Body.Len(), 1<<20, page)
		if w.Code == http.StatusOK {
			require.Regexp(t, `^event: content\ndata: ".*"\n\n$`, w.Body.String())
		}
	})
}

// oneUpdate ends a request after one update.
type oneUpdate struct {
	*httptest.ResponseRecorder
	end context.CancelFunc
}

func (w *oneUpdate) Flush() { w.end() }
