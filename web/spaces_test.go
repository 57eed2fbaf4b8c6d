package web_test

import (
	"context"
	"fmt"
	"maps"
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

func TestEachPageAndActionWorksInEachNamespace(t *testing.T) {
	names := []string{
		"ql:", `<b pwned>"'&`, "a/b", "..", ".", "/", "日本 語", "{{.}}", "%2f", "a?b#c",
	}
	server := testkit.Start(t)
	rdb := server.Client(t)
	var sources []web.Source
	for i, name := range names {
		client, err := qless.New(rdb, &qless.ClientConfig{
			Logger:    testkit.Quiet(),
			Namespace: string(rune('a'+i)) + ":",
		})
		require.NoError(t, err)
		_, err = client.Queue("mail").Put(t.Context(), "Send", nil)
		require.NoError(t, err)
		sources = append(sources, web.Source{Name: name, Client: client, Redis: rdb})
	}
	d := &desk{t: t, server: server}
	d = d.at(web.New(web.Options{Prefix: "/x", Logger: testkit.Quiet()}, sources...))
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
	for base := range bases {
		w := newWalker(d, base)
		w.walk()
		require.Greater(t, w.pages, 5, base)
		got := d.ask(http.MethodPost, base+"/actions/queue.pause",
			url.Values{"queue": {"mail"}, "back": {base + "/queues/mail"}}.Encode())
		require.Equal(t, http.StatusSeeOther, got.StatusCode, got.body)
		require.True(t, strings.HasPrefix(got.Header.Get("Location"), base+"/queues/mail?outcome="), base)
		d.shows(got.Header.Get("Location"), "The queue is paused.")
	}
	after := testkit.Dump(t, rdb, "*")
	for i := range names {
		prefix := string(rune('a'+i)) + ":"
		require.NotContains(t, before, prefix+"paused_queues")
		require.Contains(t, after, prefix+"paused_queues")
	}
}

func TestAnActionOfANamespaceIsRefusedInAnother(t *testing.T) {
	server := testkit.Start(t)
	rdb := server.Client(t)
	one, err := qless.New(rdb, &qless.ClientConfig{Logger: testkit.Quiet(), Namespace: "one:"})
	require.NoError(t, err)
	two, err := qless.New(rdb, &qless.ClientConfig{Logger: testkit.Quiet(), Namespace: "two:"})
	require.NoError(t, err)
	d := &desk{Client: one, t: t, server: server}
	d = d.at(web.New(web.Options{Logger: testkit.Quiet()}, web.Source{Name: "one", Client: one},
		web.Source{Name: "two", Client: two}))
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
	server := testkit.Start(t)
	rdb := server.Client(t)
	var sources []web.Source
	for i := range 50 {
		name := fmt.Sprintf("{mail-%02d}:ql:", i)
		client, err := qless.New(rdb, &qless.ClientConfig{Logger: testkit.Quiet(), Namespace: name})
		require.NoError(t, err)
		sources = append(sources, web.Source{Client: client})
	}
	_, err := sources[7].Client.Queue("mail").Put(t.Context(), "Send", nil)
	require.NoError(t, err)
	d := &desk{t: t, server: server}
	d = d.at(web.New(web.Options{Logger: testkit.Quiet()}, sources...))
	sum := d.page("/")
	for _, source := range sources {
		require.Contains(t, sum, ">"+source.Client.Namespace()+"</a></th>")
	}
	page := d.page("/in/%7Bmail-30%7D:ql:/queues")
	require.Equal(t, 20, strings.Count(page, `">{mail-`))
	contains(t, page, `aria-current="true">{mail-30}:ql:</a>`, `<a href="/">30 more</a>`)
}

func TestThePageOfAllNamespacesIsUpdated(t *testing.T) {
	server := testkit.Start(t)
	rdb := server.Client(t)
	var sources []web.Source
	for _, name := range []string{"one:", "two:"} {
		client, err := qless.New(rdb, &qless.ClientConfig{Logger: testkit.Quiet(), Namespace: name})
		require.NoError(t, err)
		sources = append(sources, web.Source{Client: client})
	}
	d := &desk{t: t, server: server}
	d = d.at(web.New(web.Options{Interval: 10 * time.Millisecond, Logger: testkit.Quiet()}, sources...))
	page := d.shows("/", `<a href="/" aria-current="page">all</a>`)
	require.NotContains(t, page, `aria-current="true"`)
	d.shows("/in/two:/", `aria-current="true">two:</a>`)
	require.Contains(t, page, `data-live="/in/one:/live?page=%2F"`)

	served := httptest.NewServer(d.handler)
	t.Cleanup(served.Close)
	v, _ := watch(t, served.URL+"/in/one:", "/")
	v.line("event: content")
	_, err := sources[1].Client.Queue("mail").Put(t.Context(), "Send", nil)
	require.NoError(t, err)
	v.line("event: content")
	require.Contains(t, v.line("data: "), "two:")
}

func TestANamespaceThatBeginsLaterIsNoticed(t *testing.T) {
	server := testkit.Start(t)
	var sources []web.Source
	for _, name := range []string{"a:", "b:"} {
		client, err := qless.New(server.Client(t), &qless.ClientConfig{Logger: testkit.Quiet(), Namespace: name})
		require.NoError(t, err)
		sources = append(sources, web.Source{Client: client})
	}
	found := make(chan []web.Source, 1)
	found <- sources[:1]
	options := web.Options{Logger: testkit.Quiet(), Interval: time.Millisecond,
		Namespaces: func(context.Context) ([]web.Source, error) { return <-found, nil }}
	d := &desk{t: t, server: server}
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
