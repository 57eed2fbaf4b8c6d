package web_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/testkit"
	"github.com/qless/qless-go/web"
)

// complete puts a job and completes it.
func (d *desk) complete(klass string, options ...qless.PutOption) string {
	d.t.Helper()
	jid := d.put("done", klass, options...)
	jobs := d.pop("done", 1)
	require.Len(d.t, jobs, 1)
	d.do(jobs[0].Complete(d.t.Context()))
	return jid
}

func TestCompletedJobsAreListedAndFound(t *testing.T) {
	d := newDesk(t, web.Options{})
	d.shows("/completed", "No completed job is kept")
	sent, resized := d.complete("Send"), d.complete("Resize")
	d = d.again(web.Options{})
	page := d.page("/completed")
	require.Less(t, strings.Index(page, resized), strings.Index(page, sent), "the latest is first")
	require.Contains(t, page, `data-live`)
	require.Regexp(t, `(?s)<a href="/queues/done">done</a></td>.*data-l="Waited">&lt;1s</td>`+
		`<td class="n" data-l="Ran">&lt;1s</td>`, page)
	page = d.shows("/completed?klass=Send", sent, "Looked at all of 2 jobs")
	require.NotContains(t, page, resized)
	require.NotContains(t, page, `data-live`, "a search is not repeated every two seconds")
	d.shows("/completed?klass=None", "No jobs here.")
	require.Len(t, d.read("/completed?klass=Send")["jobs"], 1)
}

func TestCompletedJobsArePaged(t *testing.T) {
	d := newDesk(t, web.Options{})
	for range 51 {
		d.complete("Send")
	}
	page := d.shows("/completed", "1–45 of 51")
	d.shows(d.linkTo(page, "/completed?from=45"), "46–51 of 51")
}

func TestTrackedJobsAreListed(t *testing.T) {
	d := newDesk(t, web.Options{})
	d.shows("/tracked", "No job is tracked")
	jid := d.put("mail", "Send")
	d.do(d.job(jid).Track(t.Context()))
	d = d.again(web.Options{})
	d.shows("/tracked", `href="/jobs/`+jid+`"`)
	require.EqualValues(t, 1, d.read("/tracked")["total"])
}

func TestTagsAreListedWithTheirJobs(t *testing.T) {
	d := newDesk(t, web.Options{})
	d.shows("/tags", "No tag is listed")
	red := d.put("mail", "Send", qless.Tags{"red", "blue"})
	other := d.put("mail", "Resize", qless.Tags{"red", "blue"})
	once := d.put("mail", "Resize", qless.Tags{"once"})
	d = d.again(web.Options{})

	d.shows("/tags", `<a href="/tags/red">red</a>`)
	tags := d.read("/tags")["tags"].([]any)
	require.Len(t, tags, 2)
	require.EqualValues(t, 2, tags[0].(map[string]any)["jobs"])
	d.shows("/tags/red", red, other)
	page := d.shows("/tags/red?klass=Send", red)
	require.NotContains(t, page, other)
	d.shows("/tags/-?name=once", once)
	d.shows("/tags/none", "No job has this tag")
}

func TestManyTagsArePaged(t *testing.T) {
	d := newDesk(t, web.Options{})
	for i := range 60 {
		tag := fmt.Sprintf("tag-%d", i)
		d.put("mail", "Send", qless.Tags{tag})
		d.put("mail", "Send", qless.Tags{tag})
	}
	page := d.page("/tags")
	require.Equal(t, 45, strings.Count(page, `href="/tags/tag-`))
	page = d.page(d.linkTo(page, "/tags?from=45"))
	require.Equal(t, 15, strings.Count(page, `href="/tags/tag-`))
	require.Contains(t, page, `rel="prev"`)
}

func TestListsAndActionsTakeAPeriod(t *testing.T) {
	clock := testkit.NewClock()
	clock.Advance(time.Since(clock.Now()) - 3*time.Hour)
	d := newDesk(t, web.Options{}).as(qless.ClientConfig{Clock: clock.Now}).again(web.Options{})
	old := d.fail("Send", "timeout", "why")
	clock.Advance(2 * time.Hour)
	fresh := d.fail("Send", "timeout", "why")
	for _, path := range []string{"/failures/timeout?since=2h", "/find?state=failed&since=2h"} {
		page := d.page(path)
		require.Contains(t, page, `value="failed:`+fresh+`"`, path)
		require.NotContains(t, page, `value="failed:`+old+`"`, path)
		require.Contains(t, page, `name="since" value="2h"`, path)
	}
	d.hides("/failures/timeout?until=2h", `value="failed:`+fresh+`"`)
	require.Contains(t, d.refused(http.StatusBadRequest, "/find?since=soon"), "is not a time such as 14:00")
	var form url.Values
	for _, sheet := range sheetsOf(requireSound(t, "timeout", d.page("/failures/timeout?since=2h"))) {
		if sheet.values["group"] != nil {
			form = sheet.values
		}
	}
	require.Contains(t, d.post("job.unfail", form).body, "Retry 1 job?")
	require.Contains(t, d.act("job.unfail", form), "1 job retried")
	d.shows("/find?state=failed", `value="failed:`+old+`"`)
	d.again(web.Options{}).hides("/find?state=failed", `value="failed:`+fresh+`"`)
}

func TestUniqueKeysHaveTheirHolders(t *testing.T) {
	d := newDesk(t, web.Options{})
	d.shows("/unique", "No job holds a unique key.")
	jid := d.put("mail", "Sync", qless.Unique("sync", 7))
	other := d.put("mail", "Sweep", qless.Unique("sweep").For(time.Hour))
	d = d.on(web.Options{})
	d.shows("/unique", `<code>[&#34;sync&#34;,7]</code>`, `<code>[&#34;sweep&#34;]</code>`,
		"/jobs/"+jid, "/jobs/"+other, "in 59m")
	page := d.shows(`/unique?key=["sync",7]`, "/jobs/"+jid)
	require.NotContains(t, page, "/jobs/"+other)
	d.shows("/unique?key=sweep", "/jobs/"+other)
	d.shows("/unique?key=free", "No job holds this key")
	d.do(d.Cancel(t.Context(), jid))
	d = d.on(web.Options{})
	d.hides("/unique", "/jobs/"+jid)
}

func TestARareUniqueKeyIsFoundAtOnce(t *testing.T) {
	d := newDesk(t, web.Options{})
	jid := d.put("mail", "Sync", qless.Unique("sync"))
	var others []any
	for i := range 20_000 {
		others = append(others, "other:"+strconv.Itoa(i), "")
	}
	d.do(d.server.Client(t).MSet(t.Context(), others...).Err())
	d.shows("/unique", "/jobs/"+jid)
}
