package web_test

import (
	"context"
	"encoding/json"
	"html"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/testkit"
	"github.com/qless/qless-go/web"
)

func TestAJobShowsAllOfItself(t *testing.T) {
	d := newDesk(t, web.Options{})
	ctx := t.Context()
	data := `{"big":12345678901234567890.10,"text":"a<b>&\u00e4","list":[1,2]}`
	d.putData("mail", "Send", json.RawMessage(data), qless.JID("j"), qless.Tags{"red", "blue"},
		qless.Headers{"trace": "abc<d>"}, qless.TTL(time.Hour), qless.LockTime(90*time.Second),
		qless.Limits{"api"}, qless.Unique("order", 7))
	d.put("mail", "After", qless.JID("after"), qless.DependsOn{"j"})
	jobs := d.pop("mail", 1)
	d.do(jobs[0].Log(ctx, "half way", map[string]int{"step": 3}))
	d.do(jobs[0].SetProgress(ctx, 30, 120, "reading"))
	d.do(jobs[0].Track(ctx))

	page := html.UnescapeString(d.page("/jobs/j"))
	contains(t, page,
		`"big": 12345678901234567890.10`, `"text": "a<b>&\u00e4"`, `<a href="/tags/red">red</a>`,
		"abc<d>", "Gone by", "1m30s", `api <span class="faint">is not set`, `["order",7]`,
		`<progress max="100" value="25"`, "30 of 120", ": reading", "half way", "step: 3", "tracked",
		`<a href="/jobs/after">after</a>`, ">Blocks<", `<a href="/jobs/j/graph">Graph</a>`,
		`<a href="/workers/w1">w1</a>`, "Lock ends", `class="run"`, "Runs by w1",
		`name="job" value="running:j"`, `formaction="/actions/job.cancel"`, `href="/jobs/j?format=json"`)
	require.Contains(t, html.UnescapeString(d.page("/jobs/after")), ">Waits for<")

	got := d.ask(http.MethodGet, "/jobs/j?format=json", "")
	require.Contains(t, got.Header.Get("Content-Type"), "application/json")
	require.Contains(t, got.body, "12345678901234567890.10")
	var decoded qless.Job
	d.do(json.Unmarshal([]byte(got.body), &decoded))
	require.Equal(t, "j", decoded.JID)

	d.do(jobs[0].SetResult(map[string]string{"sent": "yes"}))
	d.do(jobs[0].Complete(ctx))
	page = html.UnescapeString(d.again(web.Options{}).page("/jobs/j"))
	require.Contains(t, page, `"sent": "yes"`)
	d.refused(http.StatusNotFound, "/jobs/nobody")
}

func TestAFailedJobShowsWhy(t *testing.T) {
	d := newDesk(t, web.Options{})
	ctx := t.Context()
	d.put("mail", "Send", qless.JID("j"))
	d.put("mail", "After", qless.JID("after"), qless.DependsOn{"j"}, qless.OnFailureRun)
	jobs := d.pop("mail", 1)
	d.do(jobs[0].Fail(ctx, "net/dial", "no route\n  at <main>\n  at deep"))
	d.shows("/jobs/j", `<a href="/failures/net%2Fdial">net/dial</a>`,
		"<pre>no route\n  at &lt;main&gt;\n  at deep</pre>", "✕")
	d.shows("/jobs/after", "Failed jobs that it waited for", ">Was put to wait for<")
}

func TestAJobShowsItsAttempts(t *testing.T) {
	d := newDesk(t, web.Options{})
	ctx := t.Context()
	d.put("mail", "Send", qless.JID("j"))
	run := func(end func(job *qless.Job) error) {
		jobs := d.pop("mail", 1)
		d.do(end(jobs[0]))
	}
	d.hides("/jobs/j", "Attempts")
	run(func(job *qless.Job) error {
		_, err := job.Retry(ctx, 0, "net/dial", "no <route>\nstack")
		return err
	})
	run(func(job *qless.Job) error { return job.Release(ctx, time.Minute) })
	d = d.again(web.Options{})
	d.shows("/jobs/j", `<span class="state retried">retried</span>`,
		`<a href="/failures/net%2Fdial">net/dial</a> no &lt;route&gt;`, "; the next run 1m later",
		"Waits for its back-off for ", "4 of 5 left")
	require.Len(t, d.read("/jobs/j")["attempts"], 2)
	d = d.again(web.Options{Redact: func(job *qless.Job) {
		if job.Failure.Group == "net/dial" {
			job.Failure = nil
		}
	}})
	d.hides("/jobs/j", "dial")
}

func TestTheTimelineOfAJobIsZoomedByTheURL(t *testing.T) {
	d := newDesk(t, web.Options{})
	d.ago(time.Hour).put("mail", "Send", qless.JID("j"))
	page := d.shows("/jobs/j", `aria-current="true">All</a>`,
		`<a href="/jobs/j?zoom=10m#timeline">10m</a>`)
	require.NotContains(t, page, "Earlier")
	page = d.shows("/jobs/j?zoom=10m", `aria-current="true">10m</a>`)
	link, _, _ := strings.Cut(d.linkTo(page, "/jobs/j?zoom=10m%40"), "#")
	d.shows(link, "Earlier", "Later")
}

func TestAJobShowsOnlyWhatRedactLeaves(t *testing.T) {
	d := newDesk(t, web.Options{})
	ctx := t.Context()
	secret := qless.Headers{"key": "SECRET-header"}
	d.putData("mail", "Send", "SECRET-data", qless.JID("j"), secret)
	jobs := d.pop("mail", 1)
	d.do(jobs[0].Log(ctx, "log", map[string]string{"x": "SECRET-log"}))
	d.do(jobs[0].SetResult("SECRET-result"))
	d.do(jobs[0].Fail(ctx, "group", "SECRET-message"))
	d = d.again(web.Options{Redact: func(job *qless.Job) {
		job.Data, job.Headers = []byte("hidden: not JSON"), nil
		for i := range job.History {
			job.History[i].Details = nil
		}
		if job.Failure != nil {
			job.Failure.Message = "hidden"
		}
	}})
	for _, page := range []string{"/jobs/j", "/jobs/j?format=json", "/jobs/j/graph", "/find?q=Send",
		"/find?q=failure:group", "/find?q=failure:hid", "/find?q=SECRET", "/find?q=Send&format=json"} {
		got := d.page(page)
		require.NotContains(t, strings.ReplaceAll(got, `value="SECRET"`, ""), "SECRET-", page)
	}
	d.shows("/jobs/j", "hidden: not JSON")
	require.Contains(t, d.read("/jobs/j")["data"], "hidden: not JSON")
}

func TestAJobShowsTheLinksOfTheProgram(t *testing.T) {
	d := newDesk(t, web.Options{Links: func(job *qless.Job) []web.Link {
		return []web.Link{
			{Text: "Trace", URL: "https://trace.example/" + job.JID}, {Text: "Shop", URL: "/shop?a=1"},
			{Text: "Evil", URL: "javascript:alert(1)"}, {Text: "Odd", URL: "%zz"},
		}
	}})
	d.put("mail", "Send", qless.JID("j"))
	page := d.shows("/jobs/j", `<a href="https://trace.example/j" rel="noreferrer">Trace</a>`,
		`<a href="/shop?a=1"`)
	lacks(t, page, "Evil", "Odd")
}

func TestAJobOfARecurringJob(t *testing.T) {
	d := newDesk(t, web.Options{})
	d.recur("mail", "hourly", nil, 0)
	_, err := d.Queue("mail").Peek(t.Context(), 1)
	d.do(err)
	d.shows("/jobs/hourly-1", `<a href="/recurring/hourly">hourly</a>`, `href="/find?q=hourly-"`)
}

func TestACanceledJobLeadsToItsQueue(t *testing.T) {
	d := newDesk(t, web.Options{})
	jid := d.put("mail", "Send")
	d.shows("/jobs/"+jid, `formaction="/actions/job.cancel" name="back" value="/queues/mail"`)
	cancel := url.Values{"job": {"waiting:" + jid}, "back": {"/queues/mail", "/jobs/" + jid}}
	asked := d.post("job.cancel", cancel)
	require.Contains(t, asked.body, `<a class="press" href="/jobs/`+jid+`">Go back</a>`)
	require.Contains(t, d.act("job.cancel", cancel), "<title>mail ")
}

func TestTheCallbackOfABatchSaysHowFarThatIs(t *testing.T) {
	d := newDesk(t, web.Options{})
	callback := qless.NewKlass[any]("Summarize").Spec(nil, qless.JID("sum"))
	batch := d.batch("mail", callback, "mail", "Send", 3)
	d.shows("/jobs/sum", "yes: it is not committed", "0 <small>of 3 members</small>")
	d.do(batch.Commit(t.Context()))
	jobs := d.pop("mail", 1)
	d.do(jobs[0].Complete(t.Context()))
	d.on(web.Options{}).shows("/jobs/sum", "1 <small>of 3 members</small>",
		"<dt>Callback waits for</dt><dd>2</dd>")
}

// importRows blocks. It is named in the stack of its job.
func importRows(end <-chan bool) { <-end }

func TestTheStackOfARunningJobIsAskedFor(t *testing.T) {
	d := newDesk(t, web.Options{})
	jid := d.put("mail", "Import")
	begun, end := make(chan bool), make(chan bool)
	d.worker("open", qless.WorkerConfig{Stacks: true}, "mail", map[string]qless.Handler{
		"Import": func(context.Context, *qless.Job) error {
			begun <- true
			importRows(end)
			return nil
		},
	})
	testkit.Soon(t, "the job runs", begun)
	d.shows(d.linkTo(d.page("/jobs/"+jid), "/jobs/"+jid+"/stack"), "web_test.importRows(",
		"frames of the runtime and the worker")
	for _, options := range []web.Options{{ReadOnly: true}, {Allow: func(_ *http.Request, action web.Action) bool {
		return action != web.ActionJobTimeout
	}}} {
		closed := d.again(options)
		closed.hides("/jobs/"+jid, "/stack")
		require.NotContains(t, closed.refused(http.StatusForbidden, "/jobs/"+jid+"/stack"), "importRows")
	}
	close(end)
	testkit.Until(t, "the job is complete", func() bool {
		return strings.Contains(d.page("/jobs/"+jid+"/stack"), "The job is complete.")
	})
}

// nodes returns the jobs of a graph by jid.
func (d *desk) nodes(jid string) map[string]map[string]any {
	d.t.Helper()
	all := map[string]map[string]any{}
	for _, node := range d.read("/jobs/" + jid + "/graph")["nodes"].([]any) {
		node := node.(map[string]any)
		all[node["jid"].(string)] = node
	}
	return all
}

func TestAGraphGoesUpAndDown(t *testing.T) {
	d := newDesk(t, web.Options{})
	ctx := t.Context()
	for _, job := range []struct{ jid, needs string }{
		{"fetch", ""}, {"check", ""}, {"parse", "fetch"}, {"index", "parse check"}, {"mail", "index"},
		{"side", "fetch"}, {"slow", ""}, {"mail-all", "index slow"},
	} {
		d.put("etl", "Do", qless.JID(job.jid), qless.DependsOn(strings.Fields(job.needs)))
	}
	nodes := d.nodes("parse")
	require.Len(t, nodes, 7)
	require.NotContains(t, nodes, "side", "it neither waits for parse nor does parse wait for it")
	require.Contains(t, nodes, "slow", "mail-all waits for it too")
	for jid, depth := range map[string]int{
		"fetch": -1, "parse": 0, "check": 0, "index": 1, "mail": 2,
	} {
		require.EqualValues(t, depth, nodes[jid]["depth"], jid)
	}
	for _, jid := range []string{"fetch", "parse", "index", "mail"} {
		require.Equal(t, true, nodes[jid]["is_critical"], jid)
	}
	require.Nil(t, nodes["check"]["is_critical"])
	require.Equal(t, []any{"check", "parse"}, nodes["index"]["needs"])

	page := d.shows("/jobs/parse/graph", `<a href="/jobs/index/graph">`, `value="depends:index"`)
	require.Equal(t, 6, strings.Count(page, `<path class="edge`))
	require.Contains(t, page, "data-live")

	jobs := d.pop("etl", 1)
	require.Equal(t, "fetch", jobs[0].JID)
	d.do(jobs[0].Fail(ctx, "net", "why"))
	d = d.again(web.Options{})
	require.EqualValues(t, 4, d.nodes("parse")["fetch"]["blocks"])
	d.shows("/jobs/parse/graph", "blocks 4 jobs")
	require.EqualValues(t, 5, d.nodes("fetch")["fetch"]["blocks"], "side as well")
	d.refused(http.StatusNotFound, "/jobs/nobody/graph")
}

func TestAGraphHasTheNearestJobsOnly(t *testing.T) {
	d := newDesk(t, web.Options{})
	jids := d.putNumbered("q", "part", 700, "Part")
	d.put("q", "Sum", qless.JID("sum"), qless.DependsOn(jids))
	require.Len(t, d.nodes("sum"), 500)
	d.shows("/jobs/sum/graph", "There are more jobs: only the nearest")
	d.shows("/jobs/sum", "And 650 more")
}

func TestAGraphShowsABatchThatIsOpen(t *testing.T) {
	d := newDesk(t, web.Options{})
	batch, err := d.NewBatch(t.Context(), "q", qless.JobSpec{Klass: "Sum"})
	d.do(err)
	page := d.shows("/jobs/"+batch.ID+"/graph", "A batch that is not committed")
	require.NotContains(t, page, `href="/jobs/x:open`)
	d.shows("/jobs/"+batch.ID, "yes: it is not committed")
}

func TestAGraphKeepsParentsThatAreDone(t *testing.T) {
	d := newDesk(t, web.Options{})
	ctx := t.Context()
	d.put("q", "First", qless.JID("first"))
	d.put("q", "Second", qless.JID("second"), qless.DependsOn{"first"}, qless.OnFailureRun)
	jobs := d.pop("q", 1)
	d.do(jobs[0].Complete(ctx))
	nodes := d.nodes("second")
	require.Equal(t, "complete", nodes["first"]["state"])
	require.Equal(t, []any{"first"}, nodes["second"]["needs"])
	require.Nil(t, nodes["first"]["is_critical"])
	d.shows("/jobs/second/graph", `class="edge over"`)
}
