package web_test

import (
	"context"
	"fmt"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/web"
)

// found returns the jids that a page of search results shows.
func found(page string) []string {
	var all []string
	for _, part := range strings.Split(page, `name="job" value="`)[1:] {
		_, jid, _ := strings.Cut(html.UnescapeString(part[:strings.Index(part, `"`)]), ":")
		all = append(all, jid)
	}
	return all
}

func TestAWholeJIDOpensItsJob(t *testing.T) {
	d := newDesk(t, web.Options{})
	for _, name := range odd {
		d.put("q", "K", qless.JID(name))
		got := d.ask(http.MethodGet, "/find?q="+url.QueryEscape(name), "")
		require.Equal(t, http.StatusSeeOther, got.StatusCode, got.body)
		require.Equal(t, name, d.read(got.Header.Get("Location"))["jid"])
	}
	_, err := d.Queue("q").Recur(t.Context(), "K", nil, 1e12, qless.JID("often"))
	d.do(err)
	got := d.ask(http.MethodGet, "/find?q=often", "")
	require.Equal(t, "/recurring/often", got.Header.Get("Location"))
}

func TestFindLooksInAllLists(t *testing.T) {
	d := newDesk(t, web.Options{})
	ctx := t.Context()
	for _, jid := range []string{"failed-1", "done-1", "running-1"} {
		_, err := d.Queue("mail").Put(ctx, "Send", map[string]string{"to": jid + "@example"},
			qless.JID(jid), qless.Tags{"urgent"})
		d.do(err)
	}
	jobs, err := d.Queue("mail").Pop(ctx, 3)
	d.do(err)
	d.do(jobs[0].Fail(ctx, "network", "No route to Host"))
	d.do(jobs[1].Complete(ctx))
	d.put("mail", "Send", qless.JID("waiting-1"))
	d.put("print", "Send", qless.JID("later-1"), qless.Delay(1e12))
	d.put("print", "Sort", qless.JID("depends-1"), qless.DependsOn{"later-1"}, qless.Tags{"urgent"})

	for query, want := range map[string]string{
		"q=Send":                      "failed-1 done-1 running-1 waiting-1 later-1",
		"q=-1":                        "failed-1 done-1 running-1 waiting-1 later-1 depends-1",
		"q=urgent":                    "failed-1 done-1 running-1 depends-1",
		"q=urgent&state=failed":       "failed-1",
		"q=urgent&queue=print":        "depends-1",
		"q=Send&queue=print":          "later-1",
		"q=Send&state=complete":       "done-1",
		"q=jid:Send":                  "",
		"q=data:failed-1@ex":          "failed-1",
		"q=failure:%22ROUTE+TO%22":    "failed-1",
		"q=failure:network":           "failed-1",
		"q=klass:sort":                "",
		"state=depends":               "depends-1",
		"queue=mail":                  "running-1 waiting-1 failed-1",
		"state=running&queue=mail":    "running-1",
		"q=%3Cscript%3Ealert%281%29":  "",
		"q=klass:Send&state=stalled":  "",
		"q=klass:Send+state:failed":   "failed-1",
		"q=data.to=done-1@example":    "done-1",
		"q=data.to=done-1":            "",
		"q=tag:urgent+queue:print":    "depends-1",
		"q=klass:Send+-1+queue:print": "later-1",
	} {
		page := d.page("/find?" + query)
		require.ElementsMatch(t, strings.Fields(want), found(page), query)
		require.Contains(t, page, "Looked at ")
		require.NotContains(t, page, "<script>alert")
	}
	d.shows("/find", "A whole jid leads to its job")
	d.shows("/find?q=netw", `failure <a href="/failures/network">`)
	d.shows("/find?q=prin", `queue <a href="/queues/print">`)
	d.refused(http.StatusBadRequest, "/find?q=klass:")
	d.refused(http.StatusBadRequest, "/find?q=x&state=odd")
	d.refused(http.StatusBadRequest, "/find?q=x&next=odd")
	secret := d.again(web.Options{Redact: func(*qless.Job) {}})
	secret.refused(http.StatusBadRequest, "/find?q=data.to=x")
	secret.hides("/find", `"data:"`)
}

func TestFindGoesOnUntilAllIsFound(t *testing.T) {
	d := newDesk(t, web.Options{})
	want := map[string]bool{}
	for _, queue := range []string{"a", "b&c"} {
		var specs []qless.JobSpec
		for i := range 230 {
			jid := fmt.Sprintf("%s-%03d", queue, i)
			klass := "Other"
			if i%2 == 0 {
				klass, want[jid] = "Send", true
			}
			specs = append(specs, qless.JobSpec{Klass: klass, Options: []qless.PutOption{qless.JID(jid)}})
		}
		_, err := d.Queue(queue).PutMany(context.Background(), specs)
		d.do(err)
	}
	got := map[string]bool{}
	link := "/find?q=Send"
	for pages := 0; link != ""; pages++ {
		require.Less(t, pages, 30, "it ends")
		page := d.page(link)
		for _, jid := range found(page) {
			require.False(t, got[jid], "%s is found twice", jid)
			got[jid] = true
		}
		link = ""
		for _, one := range links(page) {
			if strings.Contains(one, "next=") {
				link = one
			}
		}
	}
	require.Equal(t, want, got)
}

func TestASearchGoesOnUntilSomethingIsFound(t *testing.T) {
	d := newDesk(t, web.Options{})
	d.putMany("mail", "Other", 10_500)
	d.put("mail", "Rare")
	d.put("mail", "Other")
	more := regexp.MustCompile(`<meta http-equiv="refresh" content="0; url=([^"]*)">`)
	for _, target := range []string{"/find?q=klass:Rare&state=waiting", "/queues/mail?q=klass:Rare"} {
		page := d.page(target)
		require.Empty(t, found(page))
		require.Regexp(t, `<progress max="10502" value="\d+"></progress> Looked at .* of 10\x{202f}502 jobs\.`, page)
		stopped := d.page(d.linkTo(page, strings.ReplaceAll(target, ":", "%3A")+"&stop=1"))
		require.NotRegexp(t, more, stopped)
		require.Contains(t, stopped, "Search further")
		next := more.FindStringSubmatch(page)
		require.NotNil(t, next)
		page = d.page(html.UnescapeString(next[1]))
		require.Len(t, found(page), 1)
		require.Contains(t, page, "Looked at all of 10\u202f502 jobs.")
		require.NotRegexp(t, more, page)
	}
}

func TestASearchInTheDataGoesOnByItself(t *testing.T) {
	d := newDesk(t, web.Options{})
	d.putMany("mail", "Send", 2500)
	_, err := d.Queue("mail").Put(t.Context(), "Send", map[string]string{"to": "rare"}, qless.JID("last"))
	d.do(err)
	for _, path := range []string{"/find?q=data:rare", "/queues/mail?data=rare"} {
		require.Equal(t, []string{"last"}, found(d.page(path)), path)
	}
}
