package web_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/web"
)

// fail puts a job and fails it.
func (d *desk) fail(klass, group, message string, options ...qless.PutOption) string {
	d.t.Helper()
	jid := d.put("mail", klass, append(options, qless.Priority(1000))...)
	jobs := d.pop("mail", 1)
	require.Len(d.t, jobs, 1)
	require.Equal(d.t, jid, jobs[0].JID)
	d.do(jobs[0].Fail(d.t.Context(), group, message))
	return jid
}

func TestFailureGroupsAreListedBySize(t *testing.T) {
	d := newDesk(t, web.Options{})
	d.shows("/failures", "No job has failed")
	d.fail("Send", "timeout", "the first")
	last := d.fail("Resize", "timeout", "no answer <b>")
	d.fail("Send", "refused", "connection refused")
	d = d.again(web.Options{})

	page := d.shows("/failures", "3 failed jobs")
	larger, smaller := `href="/failures/timeout"`, `href="/failures/refused"`
	require.Less(t, strings.Index(page, larger), strings.Index(page, smaller))
	contains(t, page, "no answer &lt;b&gt;", `href="/jobs/`+last+`"`, `href="/klasses/Resize"`)
	page = d.shows("/failures?q=REF", `href="/failures/refused"`)
	require.NotContains(t, page, `href="/failures/timeout"`)
	d.shows("/failures?q=none", "No group is like that")

	data := d.read("/failures")
	require.EqualValues(t, 3, data["jobs"])
	groups := data["groups"].([]any)
	require.Len(t, groups, 2)
	first := groups[0].(map[string]any)
	require.Equal(t, "timeout", first["name"])
	require.EqualValues(t, 2, first["jobs"])
	require.NotEmpty(t, first["first"])
	require.NotEmpty(t, first["last"])
}

func TestTheFirstFailureOfALargeGroupIsItsOldest(t *testing.T) {
	d := newDesk(t, web.Options{})
	oldest := d.fail("Old", "many", "old")
	job := d.job(oldest)
	for range 30 {
		d.fail("New", "many", "new")
	}
	group := d.read("/failures")["groups"].([]any)[0].(map[string]any)
	require.EqualValues(t, 31, group["jobs"])
	require.EqualValues(t, 10, group["examined"])
	first, err := time.Parse(time.RFC3339Nano, group["first"].(string))
	d.do(err)
	require.WithinDuration(t, job.Failure.When, first, 0)
	d.shows("/failures", "of the latest 10 jobs")
	d.hides("/failures", `href="/klasses/Old"`)
}

func TestAFailureGroupHasItsKlassesASampleAndItsJobs(t *testing.T) {
	d := newDesk(t, web.Options{})
	d.shows("/failures/timeout", "No failed job is in this group")
	sent := d.fail("Send", "timeout", "line one\n  at line two")
	other := d.fail("Resize", "timeout", "something else")
	d = d.again(web.Options{})

	page := d.shows("/failures/timeout", "2 failed jobs", `value="failed:`+sent+`"`,
		`value="failed:`+other+`"`, "<pre>something else</pre>", `name="scope" value="failed"`,
		`name="group" value="timeout"`)
	for _, action := range []string{"job.unfail", "job.move", "job.cancel"} {
		require.Contains(t, page, `formaction="/actions/`+action+`"`)
	}

	page = d.shows("/failures/timeout?klass=Send", `value="failed:`+sent+`"`,
		"<pre>line one\n  at line two</pre>", `name="klass" value="Send"`,
		"Looked at all of 2 jobs")
	require.NotContains(t, page, `value="failed:`+other+`"`)

	data := d.read("/failures/timeout?klass=Send")
	require.Len(t, data["jobs"], 1)
	require.EqualValues(t, 2, data["total"])
	require.Equal(t, sent, data["sample"].(map[string]any)["jid"])
}

func TestAFailureGroupIsPaged(t *testing.T) {
	d := newDesk(t, web.Options{})
	for i := range 60 {
		d.fail("Send", "many", fmt.Sprint(i))
	}
	page := d.page("/failures/many")
	require.Equal(t, 45, strings.Count(page, `name="job"`))
	require.Contains(t, page, "1–45 of 60")
	page = d.page(d.linkTo(page, "/failures/many?from="))
	require.Equal(t, 15, strings.Count(page, `name="job"`))
}

func TestManyFailureGroupsArePaged(t *testing.T) {
	d := newDesk(t, web.Options{})
	for i := range 25 {
		d.fail("Send", fmt.Sprintf("group-%02d", i), "why")
	}
	page := d.shows("/failures", `href="/failures/group-19"`)
	require.NotContains(t, page, `href="/failures/group-20"`)
	d.shows(d.linkTo(page, "/failures?from=20"), `href="/failures/group-24"`, "21–25 of 25")
}

func TestWhatFailuresSayIsRedacted(t *testing.T) {
	d := newDesk(t, web.Options{})
	d.fail("Send", "timeout", "the secret is xyzzy")
	d = d.again(web.Options{Redact: func(job *qless.Job) {
		if job.Failure != nil {
			job.Failure.Message = "hidden"
		}
	}})
	for _, page := range []string{"/failures", "/failures/timeout", "/failures/timeout?klass=Send"} {
		d.conceals("xyzzy", page)
		got := d.ask(http.MethodGet, page, "", "Accept", "application/json")
		require.Contains(t, got.body, "hidden", page)
	}
}

func TestWithoutRightsAFailureGroupHasNoButtons(t *testing.T) {
	d := newDesk(t, web.Options{ReadOnly: true})
	d.fail("Send", "timeout", "why")
	page := d.page("/failures/timeout")
	require.NotContains(t, page, "/actions/")
}

func TestManyFailedJobsCostThePageNoMoreThanFew(t *testing.T) {
	d := newDesk(t, web.Options{})
	for i := range 40 {
		for range 15 {
			d.fail("Send", fmt.Sprintf("group-%02d", i), "why")
		}
	}
	d.page("/failures") // loads the scripts
	d = d.again(web.Options{})
	commands := d.server.Commands(t, func() { d.page("/failures") })
	// 40 groups are counted. Of 20 groups, 10 jobs and the oldest one are read.
	require.Less(t, len(commands), 500)
}

func TestFailureGroupsAreListedByTime(t *testing.T) {
	d := newDesk(t, web.Options{})
	d.ago(3*time.Hour).fail("Send", "old", "why")
	d.fail("Send", "new", "why")
	d = d.again(web.Options{})
	page := d.page("/failures?since=1h")
	require.NotContains(t, page, "/failures/old")
	require.Equal(t, 1, strings.Count(d.page(d.linkTo(page, "/failures/new?since=1h")), `name="job"`))
	require.Regexp(t, `name="since" value="20[^"]+Z"`, page, "Retry is for the same time")
	page = d.shows("/failures?until=1h", "/failures/old?until=1h")
	require.NotContains(t, page, "/failures/new")
	d.shows("/failures?since=2h&until=1h", "No group is like that")
	d.refused(http.StatusBadRequest, "/failures?since=yesterday")
}

func TestAGroupTellsWhenItsJobsFailed(t *testing.T) {
	d := newDesk(t, web.Options{})
	for _, hours := range []float64{1000, 47.5, 46.5, 46.5, 46.5, 29.5, 5.5, 5.5, 4.5} {
		d.ago(time.Duration(hours*float64(time.Hour))).fail("Send", "timeout", "why")
	}
	d.fail("Send", "timeout", "why")
	failed := func(page string) (all []int) {
		for _, n := range d.read(page)["times"].(map[string]any)["failed"].([]any) {
			all = append(all, int(n.(float64)))
		}
		return all
	}
	times := failed("/failures/timeout?since=48h")
	require.Len(t, times, 48)
	for i, n := range times {
		require.Equal(t, map[int]int{0: 1, 1: 3, 18: 1, 42: 2, 43: 1, 47: 1}[i], n, "%d %v", i, times)
	}
	d.shows("/failures/timeout?since=48h", "failed, each 1h <b>9</b>")
	require.Contains(t, d.page("/failures/timeout"), "failed, each 15h <b>9</b>", "the last 30 days")
	d.shows("/failures/timeout?since=40h&until=20h", "failed, each 25m <b>1</b>")
	require.Contains(t, d.page("/failures/timeout?since=1000d&until=900h"), " <b>1</b>", "30 days")
	d.shows("/failures", `<a href="/queues/mail">mail</a>`)
	require.Equal(t, []int{0}, failed("/failures/timeout?since=2999-01-01"))
	d.hides("/failures?since=2999-01-01", `class="axes"`)
}

// The cost of the times of a group depends on the steps, and hardly on the jobs.
func TestTheTimesOfALargeGroupAreFewReads(t *testing.T) {
	d := newDesk(t, web.Options{})
	for i := range 320 {
		d.ago(time.Duration(320-i)*12*time.Hour/320).fail("Send", "many", "why")
	}
	d.page("/failures") // loads the scripts
	reads := 0
	for _, command := range d.server.Monitored(t, func() { d.page("/failures/many?since=24h") }) {
		if command.Caller != "lua" && slices.Contains(command.Words, "list") {
			reads++
		}
	}
	require.Less(t, reads, 100, "24 steps have failures")
}
