package web_test

import (
	"context"
	"encoding/json"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/testkit"
	"github.com/qless/qless-go/web"
)

// read returns the data of a page.
func (d *desk) read(target string) map[string]any {
	d.t.Helper()
	got := d.ask(http.MethodGet, target, "", "Accept", "application/json")
	require.Equal(d.t, http.StatusOK, got.StatusCode, got.body)
	var data map[string]any
	require.NoError(d.t, json.Unmarshal([]byte(got.body), &data), got.body)
	return data
}

// refused requires that a page can't be shown and that the response has texts, and returns it.
func (d *desk) refused(status int, target string, texts ...string) string {
	d.t.Helper()
	got := d.ask(http.MethodGet, target, "")
	require.Equal(d.t, status, got.StatusCode, got.body)
	contains(d.t, got.body, texts...)
	return got.body
}

// again returns the same desk with a new dashboard.
func (d *desk) again(options web.Options) *desk {
	d.t.Helper()
	options.Logger = testkit.Quiet()
	return d.at(web.New(options, web.Source{Client: d.Client}))
}

func (d *desk) do(err error) { d.t.Helper(); require.NoError(d.t, err) }

// links returns the links of a page, as a browser would follow them.
func links(page string) []string {
	var all []string
	for _, match := range regexp.MustCompile(`href="([^"]*)"`).FindAllStringSubmatch(page, -1) {
		all = append(all, html.UnescapeString(match[1]))
	}
	return all
}

// linkTo returns the first link of a page that begins with a text.
func (d *desk) linkTo(page, prefix string) string {
	d.t.Helper()
	for _, link := range links(page) {
		if strings.HasPrefix(link, prefix) {
			return link
		}
	}
	require.Fail(d.t, "no link begins with "+prefix, page)
	return ""
}

func TestAQueueShowsItsLists(t *testing.T) {
	d := newDesk(t, web.Options{})
	ctx := t.Context()
	d.put("mail", "Send", qless.JID("running"))
	d.pop("mail", 1)
	d.put("mail", "Send", qless.JID("waiting"), qless.Tags{"red"}, qless.Priority(7))
	d.put("mail", "Send", qless.JID("later"), qless.Delay(time.Hour))
	d.put("mail", "Send", qless.JID("depends"), qless.DependsOn{"waiting"})
	d.do(d.Limit("api").Set(ctx, qless.LimitConfig{Concurrency: 1}))
	d.do(d.Limit("api").Hold(ctx, time.Hour))
	d.recur("mail", "every-hour", nil, time.Hour)

	page := d.shows("/queues/mail", `<a href="/jobs/waiting">Send</a>`,
		`<a href="/tags/red">red</a>`, "No registered worker takes jobs",
		`<a class="hue scheduled" href="/queues/mail?list=scheduled">scheduled <b>1</b></a>`)
	require.NotContains(t, page, `value="scheduled:later"`)

	d.shows("/queues/mail?list=running", `value="running:running"`, "Lock ends",
		`<a href="/workers/w1">w1</a>`)
	d.shows("/queues/mail?list=scheduled", "in 59m")
	d.shows("/queues/mail?list=depends", `value="depends:depends"`)
	d.shows("/queues/mail?list=stalled",
		"The list is empty: no job of mail is in the state stalled.")
	page = d.shows("/recurring?queue=mail", `<a href="/recurring/every-hour">every-hour</a>`)
	require.NotContains(t, page, `name="job"`)

	d.put("mail", "Send", qless.JID("parked"), qless.Limits{"api"}, qless.Priority(9))
	d.pop("mail", 1)
	d.again(web.Options{}).shows("/queues/mail?list=scheduled", "Waits for limit",
		`<a href="/limits/api">api</a>`)

	data := d.read("/queues/mail?list=running")
	require.Equal(t, "running", data["list"])
	require.Equal(t, "mail", data["name"])
	require.Contains(t, data, "statistics")
	d.refused(http.StatusBadRequest, "/queues/mail?list=odd")
	d.refused(http.StatusBadRequest, "/queues/mail?day=yesterday")
}

func TestAQueueThatDoesNotExistIsNotFound(t *testing.T) {
	d := newDesk(t, web.Options{})
	d.put("mail", "Send")
	page := d.refused(http.StatusNotFound, "/queues/mial", "Did you mean mail?",
		`action="/actions/job.put"`)
	require.NotContains(t, page, "queue.pause")
	d.refused(http.StatusNotFound, "/queues/mial?format=json")
	d.put("mial", "Send")
	d = d.again(web.Options{})
	d.shows("/queues/mial", "queue.pause")
	d.do(d.Queue("later").Pause(t.Context()))
	d.shows("/queues/later", "queue.resume")
}

func TestAQueueIsPaged(t *testing.T) {
	d := newDesk(t, web.Options{})
	d.putNumbered("q", "job", 120, "K")
	page := d.shows("/queues/q", "1–45 of 120")
	page = d.shows(d.linkTo(page, "/queues/q?from=45"), "job-045")
	require.NotContains(t, page, "job-044")
	d.shows("/queues/q?from=100", "101–120 of 120")
}

func TestAQueueIsSearched(t *testing.T) {
	d := newDesk(t, web.Options{})
	d.putNumbered("q", "job", 130, "K0", "K1")
	page := d.shows("/queues/q?klass=K1", "job-001", "Looked at 90 of 130 jobs")
	require.NotContains(t, page, `"waiting:job-000"`)
	next := d.linkTo(page, "/queues/q?after=")
	page = d.shows(next, `"waiting:job-129"`, "Looked at all of 130 jobs.")
	require.NotContains(t, page, `"waiting:job-001"`)
	d.shows("/queues/q?data=%22order%22:77", `"waiting:job-077"`)
	d.shows("/queues/q?jid=b-08", `"waiting:job-089"`)
	d.shows("/queues/q?tag=none", "No waiting job of q is like that.")
	for words, want := range map[string][]string{
		"klass:K1 data.order=77": {"job-077"}, "job-042": {"job-042"}, "klass:K0 jid:-12 data:128": {"job-128"},
		"klass:K0 data.order=77": nil, "queue:other": nil, "queue:q state:waiting data.order=3": {"job-003"},
	} {
		require.Equal(t, want, found(d.page("/queues/q?q="+url.QueryEscape(words))), words)
	}
	page = d.page("/queues/q?q=data.order%3D77")
	require.Contains(t, page, `<input type="hidden" name="q" value="data.order=77">`, "of all that match")
	require.Contains(t, page, `name="q" type="search" value="data.order=77"`)
	d.refused(http.StatusBadRequest, "/queues/q?q=klass:")

	secret := d.again(web.Options{Redact: func(*qless.Job) {}})
	require.Contains(t, secret.refused(http.StatusBadRequest, "/queues/q?data=7"), "not shown here")
	secret.hides("/queues/q", `name="data"`)
}

func TestAQueueShowsWhatWorkersHaveRun(t *testing.T) {
	web.LimitLooks(t, time.Hour)
	d := newDesk(t, web.Options{})
	d.put("mail", "Send")
	page := d.shows("/queues/mail?list=charts", "No Go worker has run jobs",
		"Nothing was counted that day.")
	require.NotContains(t, page, `class="jobs"`)
	for range 2 {
		d.put("mail", "Send")
	}
	d.work("mail", map[string]qless.Handler{
		"Send": func(context.Context, *qless.Job) error { return nil },
	})

	d = d.again(web.Options{})
	page = d.shows(d.linkTo(d.page("/queues/mail"), "/queues/mail?list=charts"),
		`<path class="hue done"`, "Wait, median")
	d.shows("/queues/mail?list=charts&by=klass", `<i class="hue g0"></i>Send <b>3</b>`)
	d.shows("/?by=queue&over=3h",
		`<a href="/?by=queue&amp;over=3h" aria-current="true">By queue</a>`)
	d.shows("/klasses", `<i class="hue g0"></i>Send <b>3</b>`)
	contains(t, page, "All 3: from 0s to 1s.", "3 jobs, ")
	hour := d.read("/queues/mail")["rates"].(map[string]any)["sum"].(map[string]any)
	require.EqualValues(t, 3, hour["completed"])
	yesterday := time.Now().UTC().AddDate(0, 0, -2).Format(time.DateOnly)
	d.shows("/queues/mail?list=charts&day="+yesterday, "Nothing was counted that day.")
}

func TestAQueueShowsItsSettings(t *testing.T) {
	d := newDesk(t, web.Options{})
	q, ctx := d.Queue("mail"), t.Context()
	d.do(q.SetHeartbeat(ctx, 90*time.Second))
	d.do(q.SetMaxConcurrency(ctx, 12))
	d.do(q.SetMaxRate(ctx, 34, 5*time.Second))
	page := d.shows("/queues/mail", "<dt>Lock</dt><dd>90 s", "0 of 12", "at most 34 in 5s")
	for _, action := range []string{"queue.heartbeat", "queue.max_concurrency", "queue.max_rate"} {
		require.Contains(t, page, `action="/actions/`+action+`"`)
	}
	page = d.again(web.Options{ReadOnly: true}).page("/queues/mail")
	require.NotContains(t, page, "/actions/queue.heartbeat")
}

func TestTheBannerIsAsGraveAsTheWorstCause(t *testing.T) {
	d := newDesk(t, web.Options{})
	d.put("mail", "Send")
	d.put("mail", "Send", qless.LockTime(time.Millisecond))
	d.pop("mail", 2)
	testkit.Until(t, "a lock to end", func() bool {
		counts, err := d.Queue("mail").Counts(t.Context())
		require.NoError(t, err)
		return counts.Stalled > 0
	})
	require.NoError(t, d.Queue("mail").Pause(t.Context()))
	require.Regexp(t, `<p class="note bad"><span class="sev urgent">Urgent</span>\s*`+
		`<span>The queue is paused`, d.page("/queues/mail"))
}

func TestSumsOfATimeThatIsStillReadSaySo(t *testing.T) {
	web.LimitLooks(t, 0)
	d := newDesk(t, web.Options{})
	d.put("mail", "Send")
	page := d.page("/queues/mail?list=charts&over=3d")
	require.Regexp(t, `<p class="key">.*<b>in the \d+\S* read so far</b></p>`, page)
	require.Contains(t, page, `<dt>Done so far</dt>`)
	require.NotContains(t, page, "Done, last")
}
