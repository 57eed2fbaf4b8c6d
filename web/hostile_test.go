package web_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
	"github.com/qless/qless-go/internal/testkit"
	"github.com/qless/qless-go/web"
)

// hostile are names that a page must not interpret.
var hostile = []string{
	`<script>alert(1)</script>`, `"><script src=//evil></script>`, `'><img src=x onerror=alert(1)>`,
	`<svg onload=alert(1)>`, `</title><b pwned>`, `</textarea><b pwned>`, `</option><b pwned>`,
	`<!--`, `-->`, `<![CDATA[`, `]]>`, `<?xml?>`, `&lt;b&gt;`, `&#60;b pwned&#62;`, `&amp;&quot;`,
	`" pwned="`, `' pwned='`, "` pwned=`", `javascript:alert(1)`, `data:text/html,<b pwned>`,
	`//evil.example`, `https://evil.example/`, `\\evil`, `/`, `//`, `a/b/c`, `.`, `..`, `../..`,
	`...`, `-`, `.json`, `a.json`, `%2e%2e`, `%`, `%zz`, `a%b`, `?x=1#y`, `a b`, `+`,
	`{{.}}`, `{{template "layout" .}}`, `${7*7}`, "a\x00b", "\x01\x1b[31m", "\r\nX-Evil: 1",
	"\u202egnp.exe", "\u2066\u200b\ufeff", "\xff\xfe<b>", "\xc3(", "zero\ufffd", "日本語", "🦊",
	strings.Repeat("long", 1000), strings.Repeat("<b pwned>", 100), "\u2028\u2029", ":", "waiting:x",
}

// hostileDesk is a dashboard of a namespace in which everything has a hostile name.
func hostileDesk(t *testing.T, names []string) *desk {
	t.Helper()
	ctx := t.Context()
	d := newDesk(t, web.Options{})
	rdb := d.server.Client(t)
	for _, name := range names {
		if !utf8.ValidString(name) { // the library refuses it, other clients do not
			require.NoError(t, rdb.ZAdd(ctx, "ql:queues", redis.Z{Score: 1, Member: name}).Err())
			require.NoError(t, rdb.RPush(ctx, "ql:f:"+name, name).Err())
			require.NoError(t, rdb.SAdd(ctx, "ql:failures", name).Err())
			continue
		}
		client, err := qless.New(rdb, &qless.ClientConfig{Logger: testkit.Quiet(), WorkerName: name})
		require.NoError(t, err)
		q := client.Queue(name)
		data := map[string]string{name: name}
		var limit []qless.PutOption
		if isTaken(client.Limit(name).Set(ctx, qless.LimitConfig{Concurrency: 1}), t) {
			limit = append(limit, qless.Limits{name})
		}
		_, err = q.Put(ctx, name, data, qless.Tags{name})
		require.NoError(t, err, "%q", name)
		jobs, err := q.Pop(ctx, 1)
		require.NoError(t, err)
		require.NoError(t, jobs[0].Fail(ctx, name, name))
		_, err = q.Put(ctx, name, data, append(limit, qless.Tags{name})...)
		require.NoError(t, err)
		_, err = q.Pop(ctx, 1)
		require.NoError(t, err)
		_, err = q.Put(ctx, name, data, qless.Tags{name}, qless.JID(name), qless.Headers{name: name})
		isTaken(err, t)
		_, err = q.Put(ctx, name, data, qless.Tags{name}, qless.DependsOn{name}, qless.Delay(time.Hour))
		isTaken(err, t)
		_, err = q.Recur(ctx, name, data, time.Hour, qless.JID("recur-"+name), qless.Offset(time.Hour))
		isTaken(err, t)
		_, err = inspect.New(client).JIDs(name).Track(ctx)
		isTaken(err, t)
		_, err = client.Do(ctx, "config.set", name, name)
		isTaken(err, t)
	}
	return d
}

// isTaken reports whether the library accepts a name. It refuses some.
func isTaken(err error, t *testing.T) bool {
	t.Helper()
	if err != nil && !errors.Is(err, qless.ErrInvalid) {
		require.NoError(t, err)
	}
	return err == nil
}

// A walker follows all links of a dashboard.
type walker struct {
	*desk
	base  string
	seen  map[string]bool
	often map[string]int // the number of pages of a path visited, with any query
	next  []string
	pages int
	lost  []string // links that lead nowhere
	posts map[string]int
}

// The maximum number of pages of a path that the walker visits, and of questions of an action.
const (
	walkedQueries = 3
	walkedPosts   = 20
)

var timesIn = regexp.MustCompile(`outcome=[^&]*`)

func newWalker(d *desk, base string) *walker {
	return &walker{
		desk: d, base: base, seen: map[string]bool{}, often: map[string]int{},
		posts: map[string]int{}, next: []string{base + "/"},
	}
}

func (w *walker) walk() {
	w.t.Helper()
	for len(w.next) > 0 {
		page := w.next[0]
		w.next = w.next[1:]
		w.visit(page)
	}
}

func (w *walker) add(link string) {
	link, _, _ = strings.Cut(link, "#")
	link = timesIn.ReplaceAllString(link, "")
	path, _, _ := strings.Cut(link, "?")
	if strings.Contains(link, "?name=") { // the path tells little then
		path, _, _ = strings.Cut(link, "&")
	}
	isPage := strings.HasPrefix(link, w.base+"/") && !strings.HasPrefix(link, w.base+"/static/")
	if link == "" || w.seen[link] || !isPage || w.often[path] >= walkedQueries {
		return
	}
	w.seen[link] = true
	w.often[path]++
	w.next = append(w.next, link)
}

func (w *walker) visit(page string) {
	w.t.Helper()
	got := w.ask(http.MethodGet, page, "")
	require.Less(w.t, got.StatusCode, 500, "%s: %s", page, got.body)
	if got.StatusCode == http.StatusNotFound {
		w.lost = append(w.lost, page)
	}
	if !strings.HasPrefix(got.Header.Get("Content-Type"), "text/html") {
		return
	}
	w.pages++
	elements := requireSound(w.t, page, got.body)
	for _, e := range elements {
		if e.name == "a" {
			w.add(e.attrs["href"])
		}
	}
	path, _, _ := strings.Cut(page, "?")
	if w.often[path] <= 1 {
		w.visitJSON(page, got.StatusCode)
	}
	for _, sheet := range sheetsOf(elements) {
		w.visitQuestions(sheet)
	}
}

func (w *walker) visitJSON(page string, status int) {
	w.t.Helper()
	got := w.ask(http.MethodGet, page, "", "Accept", "application/json")
	require.Equal(w.t, status, got.StatusCode, page)
	require.True(w.t, json.Valid([]byte(got.body)), "%s: %s", page, got.body)
	require.Equal(w.t, "application/json; charset=utf-8", got.Header.Get("Content-Type"))
}

// visitQuestions visits the pages with the questions of a form's buttons. They do nothing without
// an answer, except for actions without a question.
func (w *walker) visitQuestions(form sheet) {
	w.t.Helper()
	if form.values["sure"] != nil {
		return
	}
	for _, action := range form.actions {
		if !strings.HasPrefix(action, w.base+"/actions/") || w.posts[action] >= walkedPosts ||
			asksNothing[strings.TrimPrefix(action, w.base+"/actions/")] {
			continue
		}
		w.posts[action]++
		got := w.ask(http.MethodPost, action, url.Values(form.values).Encode())
		if got.StatusCode == http.StatusSeeOther {
			w.t.Fatalf("%s was done without a question: %v", action, form.values)
		}
		require.Less(w.t, got.StatusCode, 500, "%s: %s", action, got.body)
		requireSound(w.t, action, got.body)
	}
}

// asksNothing are actions that are done at once if they concern one thing.
var asksNothing = map[string]bool{
	"job.unfail": true, "job.timeout": true, "job.promote": true, "job.track": true,
	"job.untrack": true, "job.restore": true, "queue.pause": true, "queue.resume": true,
	"recur.run": true, "schedule.run": true, "doctor.examine": true,
}

func TestHostileNamesAreOnlyTextOnAllPages(t *testing.T) {
	d := hostileDesk(t, hostile)
	w := newWalker(d, "")
	w.add("/queues?from=45")
	w.walk()
	t.Logf("%d pages", w.pages)
	require.Greater(t, w.pages, len(hostile)*2)
	for _, page := range w.lost {
		isOfJob := strings.HasPrefix(page, "/jobs/") || strings.HasPrefix(page, "/recurring/")
		require.True(t, isOfJob, "%s leads nowhere", page)
	}
	for _, name := range hostile {
		require.True(t, w.seen[linkTo("queues", name)], "no link to the queue %q", name)
	}
}

// linkTo returns the URL of something with a name.
func linkTo(kind, name string) string {
	isDots := strings.Trim(name, ".") == ""
	if isDots || name == "-" || name == "/" {
		return "/" + kind + "/-?name=" + url.QueryEscape(name)
	}
	return "/" + kind + "/" + url.PathEscape(name)
}

func TestTheButtonsOfHostileQueuesAreAboutThem(t *testing.T) {
	d := hostileDesk(t, hostile)
	rdb := d.server.Client(t)
	for _, name := range hostile {
		if !utf8.ValidString(name) {
			continue
		}
		page := d.page(linkTo("queues", name))
		isDone := false
		for _, form := range sheetsOf(requireSound(t, name, page)) {
			if len(form.actions) == 1 && form.actions[0] == "/actions/queue.pause" {
				form.values["back"] = []string{linkTo("queues", name)}
				got := d.ask(http.MethodPost, form.actions[0], url.Values(form.values).Encode())
				require.Equal(t, http.StatusSeeOther, got.StatusCode, got.body)
				isDone = true
			}
		}
		require.True(t, isDone, "%q", name)
		require.True(t, rdb.SIsMember(context.Background(), "ql:paused_queues", name).Val(), "%q", name)
	}
}

func TestHostileJobsAreCanceledByTheirButtons(t *testing.T) {
	d := hostileDesk(t, hostile)
	for _, name := range hostile {
		if _, err := d.Job(t.Context(), name); err != nil {
			continue // no job can have this jid
		}
		page := requireSound(t, name, d.page(linkTo("jobs", name)))
		i := 0
		forms := sheetsOf(page)
		for i < len(forms) && len(forms[i].values["job"]) == 0 {
			i++
		}
		require.Less(t, i, len(forms), "%q", name)
		form := url.Values(forms[i].values)
		asked := d.ask(http.MethodPost, "/actions/job.track", form.Encode())
		require.Equal(t, http.StatusSeeOther, asked.StatusCode, asked.body)
		asked = d.ask(http.MethodPost, "/actions/job.cancel", form.Encode())
		require.Equal(t, http.StatusOK, asked.StatusCode, asked.body)
		for _, sheet := range sheetsOf(requireSound(t, name, asked.body)) {
			if sheet.values["sure"] != nil {
				form = sheet.values
			}
		}
		require.Equal(t, "1", form.Get("sure"))
		done := d.post("job.cancel", form, "Accept", "application/json")
		require.Contains(t, done.body, `"unchanged": 1`) // another job depends on it, so it stays
	}
}

func TestNegativeTimesAreInvalid(t *testing.T) {
	d := newDesk(t, web.Options{})
	for _, options := range []web.Options{{Interval: -1}, {Late: -time.Second}} {
		_, err := web.New(options, web.Source{Client: d.Client})
		require.ErrorIs(t, err, qless.ErrInvalid)
	}
}
