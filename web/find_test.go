package web_test

import (
	"encoding/json"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
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
	d.recur("q", "often", nil, 0)
	got := d.ask(http.MethodGet, "/find?q=often", "")
	require.Equal(t, "/recurring/often", got.Header.Get("Location"))
}

func TestFindGoesOnUntilAllIsFound(t *testing.T) {
	d := newDesk(t, web.Options{})
	want := map[string]bool{}
	for _, queue := range []string{"a", "b&c"} {
		for i, jid := range d.putNumbered(queue, queue, 230, "Send", "Other") {
			if i%2 == 0 {
				want[jid] = true
			}
		}
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
	d.putData("mail", "Send", map[string]string{"to": "rare"}, qless.JID("last"))
	for _, path := range []string{"/find?q=data:rare", "/queues/mail?data=rare"} {
		require.Equal(t, []string{"last"}, found(d.page(path)), path)
	}
}

// findable puts jobs of all states.
func (d *desk) findable() {
	d.t.Helper()
	ctx := d.t.Context()
	for _, jid := range []string{"failed-1", "done-1", "running-1"} {
		to := map[string]string{"to": jid + "@example"}
		d.putData("mail", "Send", to, qless.JID(jid), qless.Tags{"urgent"})
	}
	jobs := d.pop("mail", 3)
	d.do(jobs[0].Fail(ctx, "network", "No route to Host"))
	d.do(jobs[1].Complete(ctx))
	d.put("mail", "Send", qless.JID("waiting-1"))
	d.put("print", "Send", qless.JID("later-1"), qless.Delay(1e12))
	d.put("print", "Sort", qless.JID("depends-1"), qless.DependsOn{"later-1"}, qless.Tags{"urgent"})
	d.put("print", "urgent", qless.JID("urgent-1"))
}

func TestFindShowsAndAnActionChangesJobsOfAllLists(t *testing.T) {
	d := newDesk(t, web.Options{})
	d.findable()
	const all = "failed-1 done-1 running-1 waiting-1 later-1 depends-1 urgent-1"
	for query, want := range map[string]string{
		"q=Send":                      "failed-1 done-1 running-1 waiting-1 later-1",
		"q=-1":                        all,
		"q=jid:-1":                    all,
		"q=urgent":                    "failed-1 done-1 running-1 depends-1 urgent-1",
		"q=urgent&state=failed":       "failed-1",
		"q=urgent&queue=print":        "depends-1 urgent-1",
		"q=tag:urgent":                "failed-1 done-1 running-1 depends-1",
		"q=tag:urgent&state=depends":  "depends-1",
		"q=tag:urgent+queue:print":    "depends-1",
		"q=Send&queue=print":          "later-1",
		"q=Send&state=complete":       "done-1",
		"q=Send&state=waiting":        "waiting-1",
		"q=jid:Send":                  "",
		"q=data:failed-1@ex":          "failed-1",
		"q=data:example":              "failed-1 done-1 running-1",
		"q=data.to=done-1@example":    "done-1",
		"q=data.to=done-1":            "",
		"q=failure:%22ROUTE+TO%22":    "failed-1",
		"q=failure:HOST":              "failed-1",
		"q=failure:net":               "failed-1",
		"q=failure:network":           "failed-1",
		"q=klass:urgent":              "urgent-1",
		"q=klass:sort":                "",
		"q=klass:Send&state=stalled":  "",
		"q=klass:Send+state:failed":   "failed-1",
		"q=klass:Send+-1+queue:print": "later-1",
		"q=%3Cscript%3Ealert%281%29":  "",
		"state=depends":               "depends-1",
		"state=scheduled":             "later-1",
		"state=complete":              "done-1",
		"state=stalled":               "",
		"state=running":               "running-1",
		"state=running&queue=mail":    "running-1",
		"state=failed&queue=mail":     "failed-1",
		"queue=mail":                  "running-1 waiting-1 failed-1",
		"queue=print":                 "later-1 depends-1 urgent-1",
	} {
		t.Run(query, func(t *testing.T) {
			d := *d.again(web.Options{})
			d.t = t
			page := d.shows("/find?"+query, "Looked at ")
			shown := found(page)
			require.ElementsMatch(t, strings.Fields(want), shown)
			require.NotContains(t, page, "<script>alert")

			what, err := url.ParseQuery(query)
			d.do(err)
			for key, value := range map[string]string{"scope": "found", "tags": "seen", "sure": "1"} {
				what.Set(key, value)
			}
			require.Equal(t, len(shown), d.did("job.tag", what).Changed)
			for _, jid := range shown {
				require.Contains(t, d.job(jid).Tags, "seen", jid)
			}
			if len(shown) > 0 {
				_, err = inspect.New(d.Client).JIDs(shown...).Untag(t.Context(), "seen")
				d.do(err)
			}
		})
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

func TestWhatIsNotShownCanNotSelectJobs(t *testing.T) {
	d := newDesk(t, web.Options{Redact: func(*qless.Job) {}})
	d.put("mail", "Send")
	for _, what := range []url.Values{
		form("scope", "found", "q", "data:n"), form("scope", "found"),
		form("scope", "found", "q", "klass:a klass:b"), form("scope", "found", "state", "none"),
	} {
		what.Set("sure", "1")
		d.rejected(http.StatusBadRequest, "job.cancel", what)
	}
	require.Equal(t, 1, d.count("mail", inspect.Waiting))
}

// Jobs that have all ended must not look like waiting ones.
func TestListsOfAnyStateSayStateAndQueue(t *testing.T) {
	d := newDesk(t, web.Options{})
	for range 2 {
		d.put("mail", "Send", qless.Tags{"vip"})
	}
	jobs := d.pop("mail", 2)
	for _, job := range jobs {
		d.do(job.Track(t.Context()))
		d.do(job.Complete(t.Context()))
	}
	for _, target := range []string{"/find?q=tag:vip", "/tags/vip", "/tracked"} {
		page := d.page(target)
		require.Equal(t, 2, strings.Count(page, `<span class="state complete">`), target)
	}
}

func TestASearchSaysWhatItLeavesOut(t *testing.T) {
	d := newDesk(t, web.Options{})
	const limit = "with more than 256 KiB of data"
	d.put("mail", "Send")
	d.hides("/find?q=data:end", limit)
	d = d.again(web.Options{})
	jid := d.putData("mail", "Send", strings.Repeat("x", 300<<10)+"end")
	for _, target := range []string{"/find?q=data:end", "/queues/mail?q=data:end"} {
		page := d.shows(target, "1 job "+limit+" was passed over.")
		require.Empty(t, found(page))
		path, _, _ := strings.Cut(target, "?")
		page = d.page(d.linkTo(page, path+"?large=1"))
		require.Equal(t, []string{jid}, found(page))
		require.Contains(t, page, `name="large" value="1"`, "of all that match")
	}
	for _, target := range []string{"/find?q=klass:x", "/queues/mail?q=klass:x"} {
		d.hides(target, limit)
	}
	require.Equal(t, 1, d.did("job.tag", form("scope", "found", "q", "data:end", "large", "1", "tags", "big")).Changed)
	require.Equal(t, 0, d.did("job.tag", form("scope", "found", "q", "data:end", "tags", "big")).Changed)
}

func TestEscapedDataIsFoundAndChanged(t *testing.T) {
	d := newDesk(t, web.Options{})
	jid := d.putData("mail", "Send", map[string]string{"to": "/x?a=1&b=<2>"})
	require.Equal(t, []string{jid}, found(d.page("/find?q="+url.QueryEscape("data:a=1&b=<2"))))
	require.Equal(t, 1, d.did("job.tag", form("scope", "found", "q", "data:a=1&b=<2", "tags", "odd")).Changed)
	d.putData("mail", "Send", json.RawMessage(`"caf\u00e9 a\/b"`))
	require.Equal(t, 1, d.did("job.tag", form("scope", "found", "q", `data:"café a/b"`, "tags", "odd")).Changed)
}

func TestTheOnlyJobOfAnActionIsNamed(t *testing.T) {
	d := newDesk(t, web.Options{})
	var jids []string
	for range 3 {
		jids = append(jids, d.put("mail", "Send"))
	}
	link := func(jid string) string { return `<p><a href="/jobs/` + jid + `">` + jid + `</a>` }
	priority := func(jids ...string) string {
		form := url.Values{"priority": {"5"}}
		for _, jid := range jids {
			form.Add("job", "waiting:"+jid)
		}
		return d.act("job.priority", form)
	}
	require.Contains(t, priority(jids[0]), link(jids[0]))
	require.NotContains(t, priority(jids[1:]...), link(jids[1]))
	require.NotContains(t, d.act("job.cancel", url.Values{"job": {"waiting:" + jids[0]}}), link(jids[0]))
}
