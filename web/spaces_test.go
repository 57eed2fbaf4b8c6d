package web_test

import (
	"context"
	"fmt"
	"maps"
	"net/http"
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

// newSpaces returns a desk without a dashboard, and namespaces for one.
func newSpaces(t *testing.T, namespaces ...string) (*desk, []web.Source) {
	t.Helper()
	server := testkit.Start(t)
	rdb := server.Client(t)
	var sources []web.Source
	for _, namespace := range namespaces {
		client, err := qless.New(rdb, &qless.ClientConfig{
			Logger: testkit.Quiet(), Namespace: namespace, WorkerName: "w1",
		})
		require.NoError(t, err)
		sources = append(sources, web.Source{Client: client, Redis: rdb})
	}
	return &desk{Client: sources[0].Client, t: t, server: server}, sources
}

// fill puts things of all kinds into a namespace.
func (d *desk) fill() {
	d.t.Helper()
	ctx := d.t.Context()
	d.fail("Send", "a/group", "why", qless.Tags{"red"})
	d.fail("Send", "a/group", "why", qless.Tags{"red"})
	d.complete("Send")
	d.recur("mail", "tick", nil, 0)
	d.pop("mail", 1)
	d.do(d.Limit("api").Set(ctx, qless.LimitConfig{Concurrency: 1}))
	d.do(d.Queue("mail").SetMaxConcurrency(ctx, 3))
}

func TestEachPageAndActionWorksInEachNamespace(t *testing.T) {
	names := []string{
		"ql:", `<b pwned>"'&`, "a/b", "..", ".", "/", "日本 語", "{{.}}", "%2f", "a?b#c",
	}
	d, sources := newSpaces(t, "a:", "b:", "c:", "d:", "e:", "f:", "g:", "h:", "i:", "j:")
	for i, name := range names {
		sources[i].Name = name
		_, err := sources[i].Client.Queue("mail").Put(t.Context(), "Send", nil)
		require.NoError(t, err)
	}
	d.fill()
	d = d.at(web.New(web.Options{Prefix: "/x", Logger: testkit.Quiet()}, sources...))
	rdb := d.server.Client(t)
	sum := requireSound(t, "/x/", d.page("/x/"))
	bases := map[string]bool{}
	for _, e := range sum {
		base, isFirst := strings.CutSuffix(e.attrs["href"], "/")
		if isFirst && strings.HasPrefix(base, "/x/in/") {
			bases[base] = true
		}
	}
	require.Len(t, bases, len(names), slices.Collect(maps.Keys(bases)))

	before := testkit.Dump(t, rdb, "*")
	w := newWalker(d, "/x")
	for base := range bases {
		before := w.pages
		w.walk(base)
		require.Greater(t, w.pages, before+5, base)
		got := d.ask(http.MethodPost, base+"/actions/queue.pause",
			url.Values{"queue": {"mail"}, "back": {base + "/queues/mail"}}.Encode())
		require.Equal(t, http.StatusSeeOther, got.StatusCode, got.body)
		require.True(t, strings.HasPrefix(got.Header.Get("Location"), base+"/queues/mail?outcome="), base)
		d.shows(got.Header.Get("Location"), "The queue is paused.")
	}
	t.Logf("%d pages", w.pages)
	require.Empty(t, w.lost)
	const base = "/x/in/ql:/"
	contains(t, w.seen, base+"failures/a%2Fgroup", base+"recurring/tick", base+"limits/api",
		base+"workers/w1", base+"tags/red")
	after := testkit.Dump(t, rdb, "*")
	for _, source := range sources {
		prefix := source.Client.Namespace()
		require.NotContains(t, before, prefix+"paused_queues")
		require.Contains(t, after, prefix+"paused_queues")
	}
}

func TestAnActionOfANamespaceIsRefusedInAnother(t *testing.T) {
	d, sources := newSpaces(t, "one:", "two:")
	sources[0].Name, sources[1].Name = "one", "two"
	d = d.at(web.New(web.Options{Logger: testkit.Quiet()}, sources...))
	jid := d.put("mail", "Send")
	got := d.ask(http.MethodPost, "/in/one/actions/job.cancel", form("job", "waiting:"+jid).Encode())
	require.Equal(t, http.StatusSeeOther, got.StatusCode)
	page := d.page(got.Header.Get("Location"))
	_, rest, found := strings.Cut(page, "/in/one/receipts/")
	require.True(t, found)
	receipt, _, _ := strings.Cut(rest, `"`)
	require.Equal(t, http.StatusOK, d.ask(http.MethodGet, "/in/one/receipts/"+receipt, "").StatusCode)
	got = d.ask(http.MethodGet, "/in/two/receipts/"+receipt, "")
	require.Equal(t, http.StatusNotFound, got.StatusCode)
	got = d.ask(http.MethodPost, "/in/two/actions/job.restore", form("receipt", receipt).Encode(),
		"Accept", "application/json")
	require.Equal(t, http.StatusNotFound, got.StatusCode)
}

func TestManyNamespacesAreAFewLinksAway(t *testing.T) {
	var names []string
	for i := range 50 {
		names = append(names, fmt.Sprintf("{mail-%02d}:ql:", i))
	}
	d, sources := newSpaces(t, names...)
	_, err := sources[7].Client.Queue("mail").Put(t.Context(), "Send", nil)
	require.NoError(t, err)
	d = d.at(web.New(web.Options{Logger: testkit.Quiet()}, sources...))
	sum := d.page("/")
	for _, name := range names {
		require.Contains(t, sum, ">"+name+"</a></th>")
	}
	page := d.page("/in/%7Bmail-30%7D:ql:/queues")
	require.Equal(t, 20, strings.Count(page, `">{mail-`))
	contains(t, page, `aria-current="true">{mail-30}:ql:</a>`, `<a href="/">30 more</a>`)
}

func TestThePageOfAllNamespacesIsUpdated(t *testing.T) {
	d, sources := newSpaces(t, "one:", "two:")
	d = d.at(web.New(web.Options{Interval: 10 * time.Millisecond, Logger: testkit.Quiet()}, sources...))
	page := d.shows("/", `<a href="/" aria-current="page">all</a>`)
	require.NotContains(t, page, `aria-current="true"`)
	d.shows("/in/two:/", `aria-current="true">two:</a>`)
	require.Contains(t, page, `data-live="/in/one:/live?page=%2F"`)

	v, _ := watch(t, d.serve()+"/in/one:", "/")
	v.line("event: content")
	_, err := sources[1].Client.Queue("mail").Put(t.Context(), "Send", nil)
	require.NoError(t, err)
	v.line("event: content")
	require.Contains(t, v.line("data: "), "two:")
}

func TestANamespaceThatBeginsLaterIsNoticed(t *testing.T) {
	d, sources := newSpaces(t, "a:", "b:")
	found := make(chan []web.Source, 1)
	found <- sources[:1]
	options := web.Options{Logger: testkit.Quiet(), Interval: time.Millisecond,
		Namespaces: func(context.Context) ([]web.Source, error) { return <-found, nil }}
	d = d.at(web.New(options, sources[0]))
	page := d.shows("/", `data-live="/in/a:/live?page=%2F"`)
	require.NotContains(t, page, "/in/b:/")
	web.LookAgain(d.handler.(*web.Handler))
	found <- sources
	testkit.Until(t, "the new one has a link", func() bool {
		return strings.Contains(d.page("/"), `href="/in/b:/"`)
	})
	page = d.shows("/", `aria-current="page">all</a>`)
	require.NotContains(t, page, "/queues", "the navigation of a namespace")
	d.shows("/in/b:/queues", "There are no queues yet")
}
