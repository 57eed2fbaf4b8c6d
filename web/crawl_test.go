package web_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/testkit"
	"github.com/qless/qless-go/web"
)

func TestListLinksWorkBelowAPrefixAndANamespace(t *testing.T) {
	d := newDesk(t, web.Options{})
	d.fail("Send", "a/group", "why", qless.Tags{"red"})
	d.fail("Send", "a/group", "why", qless.Tags{"red"})
	d.complete("Send")
	_, err := d.Queue("mail").Recur(t.Context(), "Tick", nil, time.Hour, qless.JID("tick"))
	d.do(err)
	_, err = d.Queue("mail").Pop(t.Context(), 1)
	d.do(err)
	d.do(d.Limit("api").Set(t.Context(), qless.LimitConfig{Concurrency: 1}))
	d.do(d.Queue("mail").SetMaxConcurrency(t.Context(), 3))
	d = d.at(web.New(web.Options{Prefix: "/ops", Logger: testkit.Quiet()},
		web.Source{Name: "one", Client: d.Client}, web.Source{Name: "two", Client: d.Client}))

	const base = "/ops/in/one/"
	seen := map[string]bool{}
	var open []string
	for _, section := range []string{
		"failures", "klasses", "workers", "recurring", "schedules", "limits", "tracked", "tags",
		"completed", "activity", "settings", "server",
	} {
		open = append(open, base+section)
	}
	for len(open) > 0 && len(seen) < 300 {
		link, _, _ := strings.Cut(open[0], "#")
		open = open[1:]
		if seen[link] {
			continue
		}
		seen[link] = true
		got := d.ask(http.MethodGet, link, "")
		require.Less(t, got.StatusCode, 400, link)
		if !strings.HasPrefix(got.Header.Get("Content-Type"), "text/html") {
			continue
		}
		for _, next := range links(got.body) {
			if strings.HasPrefix(next, "/") {
				require.True(t, strings.HasPrefix(next, "/ops/"), "%s on %s", next, link)
			}
			if strings.HasPrefix(next, base) {
				open = append(open, next)
			}
		}
	}
	contains(t, seen, base+"failures/a%2Fgroup", base+"recurring/tick", base+"limits/api",
		base+"workers/w1", base+"tags/red")
}
