package web_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
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

// hostileNames are names that a page must not interpret, by their kinds.
var hostileNames = map[string][]string{
	"script": {
		`<script>alert(1)</script>`, `"><script src=//evil></script>`,
		`'><img src=x onerror=alert(1)>`, `<svg onload=alert(1)>`, `javascript:alert(1)`, `data:text/html,<b pwned>`,
	},
	"end":     {`</title><b pwned>`, `</textarea><b pwned>`, `</option><b pwned>`},
	"comment": {`<!--`, `-->`, `<![CDATA[`, `]]>`, `<?xml?>`},
	"entity":  {`&lt;b&gt;`, `&#60;b pwned&#62;`, `&amp;&quot;`},
	"quote":   {`" pwned="`, `' pwned='`, "` pwned=`"},
	"address": {`//evil.example`, `https://evil.example/`, `\\evil`},
	"path":    {`/`, `//`, `a/b/c`, `.`, `..`, `../..`, `...`, `-`, `.json`, `a.json`},
	"escape":  {`%2e%2e`, `%`, `%zz`, `a%b`, `?x=1#y`, `a b`, `+`},
	"form":    {":", "waiting:x"},
	"code":    {`{{.}}`, `{{template "layout" .}}`, `${7*7}`},
	"control": {"a\x00b", "\x01\x1b[31m", "\r\nX-Evil: 1", "\u2028\u2029"},
	"unicode": {"\u202egnp.exe", "\u2066\u200b\ufeff", "zero\ufffd", "日本語", "🦊"},
	"invalid": {"\xff\xfe<b>", "\xc3("},
	"long":    {strings.Repeat("long", 1000), strings.Repeat("<b pwned>", 100)},
}

// hostileKinds has the kind of each hostile name.
var hostileKinds = sync.OnceValue(func() map[string]string {
	kinds := map[string]string{}
	for kind, names := range hostileNames {
		for _, name := range names {
			kinds[name] = kind
		}
	}
	return kinds
})

// hostile are all hostile names, in some order.
func hostile() []string { return slices.Sorted(maps.Keys(hostileKinds())) }

// odd are names that are difficult in links.
var odd = []string{
	"a.b", "..", ".", "-", "x.json", "a/b", "a//b", "a b", "ä日本", "100%", "a?b#c", "a&b=c+d", `"><b>`,
	"<script>alert(1)</script>", "nul\x00byte", "a\nb", "'quote'", "{{.}}", "a\\b",
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
		_, err = q.Recur(ctx, name, data, time.Hour, qless.JID(name), qless.Offset(time.Hour))
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

// A walker visits pages of all kinds, from link to link.
type walker struct {
	*desk
	prefix, base string
	from         string          // the kind of the page whose links are added
	seen         map[string]bool // all links
	kinds        map[string]bool // of the pages and questions visited
	next         []string
	pages        int
	lost         map[string]int // links that lead nowhere, with their statuses
}

func newWalker(d *desk, prefix string) *walker {
	return &walker{
		desk: d, prefix: prefix, seen: map[string]bool{}, kinds: map[string]bool{},
		lost: map[string]int{},
	}
}

// walk visits the pages of a namespace: those of each path, and those with queries unlike before.
func (w *walker) walk(base string) {
	w.t.Helper()
	w.base = base
	w.add(base + "/")
	for len(w.next) > 0 {
		page := w.next[0]
		w.next = w.next[1:]
		w.visit(page)
	}
}

var (
	timesIn = regexp.MustCompile(`outcome=[^&]*`)
	plain   = regexp.MustCompile(`^[a-z_-]{2,24}$`)
)

// add adds a link to the pages to visit, unless such a page was visited.
func (w *walker) add(link string) {
	w.t.Helper()
	link, _, _ = strings.Cut(link, "#")
	link = timesIn.ReplaceAllString(link, "")
	isPage := strings.HasPrefix(link, w.base+"/") && !strings.HasPrefix(link, w.base+"/static/")
	if !isPage || w.seen[link] {
		return
	}
	w.seen[link] = true
	path, query := w.split(link)
	lead := w.from + " leads to " + path
	if isKnown := w.kinds[lead]; w.isNew(path, query) || !isKnown {
		w.next = append(w.next, link)
	}
	w.kinds[lead] = true
}

// split returns the path of a link, without the name in it, and its values.
func (w *walker) split(link string) (string, url.Values) {
	w.t.Helper()
	target, err := url.Parse(strings.TrimPrefix(link, w.base))
	require.NoError(w.t, err)
	parts := strings.SplitN(target.EscapedPath(), "/", 4)
	query := target.Query()
	if len(parts) > 2 && parts[1] != "actions" {
		name, err := url.PathUnescape(parts[2])
		require.NoError(w.t, err)
		query.Set("name", cmp.Or(query.Get("name"), name))
		parts[2] = "{name}"
	}
	return strings.Join(parts, "/"), query
}

// isNew reports whether a page is the first of its path with these parameters, with one of these
// values, or with a name.
func (w *walker) isNew(path string, values url.Values) bool {
	keys := slices.Sorted(maps.Keys(values))
	kinds := []string{w.base + path, path + " " + strings.Join(keys, " ")}
	for _, key := range keys {
		value := values.Get(key)
		if kind, isName := hostileKinds()[value]; isName {
			kinds = append(kinds, value, path+" "+key+" is a name: "+kind)
		} else if plain.MatchString(value) {
			kinds = append(kinds, path+" "+key+"="+value)
		}
	}
	before := len(w.kinds)
	for _, kind := range kinds {
		w.kinds[kind] = true
	}
	return len(w.kinds) > before
}

func (w *walker) visit(page string) {
	w.t.Helper()
	got := w.ask(http.MethodGet, page, "")
	require.Less(w.t, got.StatusCode, 500, "%s: %s", page, got.body)
	if got.StatusCode >= 400 {
		w.lost[page] = got.StatusCode
	}
	if location := got.Header.Get("Location"); location != "" {
		w.add(location)
		return
	}
	if !strings.HasPrefix(got.Header.Get("Content-Type"), "text/html") {
		return
	}
	w.pages++
	path, values := w.split(page)
	w.from = path + " " + values.Get("list")
	elements := requireSound(w.t, page, got.body)
	for _, e := range elements {
		if link := e.attrs["href"]; e.name == "a" {
			isHere := !strings.HasPrefix(link, "/") || strings.HasPrefix(link, w.prefix+"/")
			require.True(w.t, isHere, "%s on %s", link, page)
			w.add(link)
		}
	}
	if path, query, _ := strings.Cut(page, "?"); query == "" || strings.HasSuffix(path, "/-") {
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
		path, isHere := strings.CutPrefix(action, w.base+"/actions/")
		if !isHere || asksNothing[path] || !w.isNew(path, form.values) {
			continue
		}
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
	d := hostileDesk(t, hostile())
	w := newWalker(d, "")
	w.add("/queues?from=45")
	w.walk("")
	t.Logf("%d pages", w.pages)
	require.Greater(t, w.pages, len(hostile())*2)
	for page, status := range w.lost {
		isOfJob := strings.HasPrefix(page, "/jobs/") || strings.HasPrefix(page, "/recurring/")
		require.True(t, isOfJob || status != http.StatusNotFound, "%s leads nowhere", page)
	}
	for _, name := range hostile() {
		require.True(t, w.seen[linkTo("queues", name)], "no link to the queue %q", name)
	}
	for _, path := range append(web.Paths(), "/activity", "/jobs/{name}/stack") {
		isThere := path != "/schedules/{name}"
		require.Equal(t, isThere, w.kinds[strings.TrimSuffix(path, "{$}")], path)
	}
}

func TestLinksOfOddNamesLeadToWhatHasThem(t *testing.T) {
	d := hostileDesk(t, odd)
	for _, kind := range []struct{ section, list, field, below, title string }{
		{"queues", "/queues", "name", "/why", "Why jobs wait"},
		{"jobs", "/tracked", "jid", "/graph", "Graph"},
		{"failures", "/failures", "group", "", ""}, {"tags", "/tags", "tag", "", ""},
		{"recurring", "/recurring", "jid", "", ""},
	} {
		listed := links(d.page(kind.list))
		for _, name := range odd {
			link := linkTo(kind.section, name)
			require.Contains(t, listed, link)
			page := d.page(link)
			lacks(t, page, "<script>alert", "No failed job is in this group", "No job has this tag",
				"The list is empty")
			data := d.read(link)
			if job, isOfJob := data["job"].(map[string]any); isOfJob {
				data = job
			}
			require.Equal(t, name, data[kind.field], link)
			if path, _, _ := strings.Cut(link, "?"); kind.below != "" {
				d.shows(d.linkTo(page, path+kind.below), kind.title)
			}
		}
	}
	for _, name := range odd {
		klass := d.linkTo(d.page(linkTo("failures", name)), linkTo("klasses", name))
		d.hides(klass, "<script>alert")
		require.Equal(t, name, d.read(klass)["klass"])
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
	d := hostileDesk(t, hostile())
	rdb := d.server.Client(t)
	for _, name := range hostile() {
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
	d := hostileDesk(t, hostile())
	for _, name := range hostile() {
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
