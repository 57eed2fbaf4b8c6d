package web_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
	"github.com/qless/qless-go/web"
)

func TestAllThatAreFoundAreCountedTypedAndCanceled(t *testing.T) {
	d := newDesk(t, web.Options{})
	d.putMany("mail", "Send", 700)
	d.putMany("print", "Send", 501)
	d.putMany("print", "Other", 3)
	d.shows("/find?q=klass:Send&state=waiting", `<input type="hidden" name="scope" value="found">`,
		"All that match", `formaction="/actions/job.cancel"`)
	d.hides("/find?q=nothing", "All that match")
	all := url.Values{"scope": {"found"}, "q": {"klass:Send"}, "state": {"waiting"}}

	asked := d.post("job.cancel", all)
	require.Equal(t, http.StatusOK, asked.StatusCode)
	contains(t, asked.body, "Cancel 1\u202f201 jobs?", "Jobs that match klass:Send, waiting",
		"type <code>klass:Send</code>")
	requireSound(t, "ask", asked.body)

	all.Set("sure", "1")
	asked = d.post("job.cancel", all)
	require.Equal(t, http.StatusUnprocessableEntity, asked.StatusCode)
	require.Equal(t, 504, d.count("print", inspect.Waiting))

	all.Set("typed", "klass:Send")
	run := d.begin("job.cancel", all)
	done := d.end(run)
	require.Equal(t, 1201, done.Changed)
	require.Equal(t, 0, d.count("mail", inspect.Waiting))
	require.Equal(t, 3, d.count("print", inspect.Waiting))
	d.shows(run, "1\u202f201 jobs canceled.")
	done = d.end(d.begin("job.restore", form("receipt", done.Receipt)))
	require.Equal(t, 1201, done.Changed)
}

func TestAnActionChangesAllThatFindShows(t *testing.T) {
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
	d.put("print", "urgent", qless.JID("urgent-1"))

	for _, query := range []string{
		"q=Send", "q=-1", "q=jid:-1", "q=urgent", "q=tag:urgent", "q=klass:urgent",
		"q=tag:urgent&state=depends", "q=failure:HOST", "q=failure:net", "q=data:example",
		"state=running", "state=scheduled", "state=complete", "state=failed&queue=mail", "queue=print",
		"q=Send&queue=print", "q=Send&state=waiting", "state=stalled",
	} {
		t.Run(query, func(t *testing.T) {
			d := *d.again(web.Options{})
			d.t = t
			shown := found(d.page("/find?" + query))
			what, err := url.ParseQuery(query)
			require.NoError(t, err)
			what.Set("scope", "found")
			what.Set("tags", "seen")
			what.Set("sure", "1")
			done := d.did("job.tag", what)
			require.Equal(t, len(shown), done.Changed, shown)
			require.Zero(t, done.Unchanged)
			for _, jid := range shown {
				job, err := d.Job(ctx, jid)
				require.NoError(t, err)
				require.Contains(t, job.Tags, "seen", jid)
			}
			if len(shown) == 0 {
				return
			}
			_, err = inspect.New(d.Client).JIDs(shown...).Untag(ctx, "seen")
			d.do(err)
		})
	}
}

func TestWhatIsNotShownCanNotSelectJobs(t *testing.T) {
	d := newDesk(t, web.Options{Redact: func(*qless.Job) {}})
	d.put("mail", "Send")
	for _, what := range []url.Values{
		form("scope", "found", "q", "data:n"), form("scope", "found"),
		form("scope", "found", "q", "klass:a klass:b"), form("scope", "found", "state", "none"),
	} {
		what.Set("sure", "1")
		got := d.post("job.cancel", what)
		require.Equal(t, http.StatusBadRequest, got.StatusCode, what)
	}
	require.Equal(t, 1, d.count("mail", inspect.Waiting))
}

// Jobs that have all ended must not look like waiting ones.
func TestListsOfAnyStateSayStateAndQueue(t *testing.T) {
	d := newDesk(t, web.Options{})
	for range 2 {
		d.put("mail", "Send", qless.Tags{"vip"})
	}
	jobs, err := d.Queue("mail").Pop(t.Context(), 2)
	d.do(err)
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
	jid, err := d.Queue("mail").Put(t.Context(), "Send", strings.Repeat("x", 300<<10)+"end")
	d.do(err)
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
	jid, err := d.Queue("mail").Put(t.Context(), "Send", map[string]string{"to": "/x?a=1&b=<2>"})
	d.do(err)
	require.Equal(t, []string{jid}, found(d.page("/find?q="+url.QueryEscape("data:a=1&b=<2"))))
	require.Equal(t, 1, d.did("job.tag", form("scope", "found", "q", "data:a=1&b=<2", "tags", "odd")).Changed)
	_, err = d.Queue("mail").Put(t.Context(), "Send", json.RawMessage(`"caf\u00e9 a\/b"`))
	d.do(err)
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
