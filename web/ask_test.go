package web_test

import (
	"net/http"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
	"github.com/qless/qless-go/internal/testkit"
	"github.com/qless/qless-go/web"
)

func TestSeveralQueuesArePausedAndResumed(t *testing.T) {
	d := newDesk(t, web.Options{})
	for _, queue := range []string{"mail", "sms", "r\nx"} {
		d.put(queue, "Send")
	}
	d.shows("/queues", `type="checkbox" name="queue" value="mail"`, "Pause all…")
	all := url.Values{"queue": {"*"}, "all": {"1"}}
	require.Contains(t, d.post("queue.pause", all).body, "Pause all queues?")
	require.False(t, d.isPaused("mail"))
	require.Contains(t, d.act("queue.pause", all), "3 queues are paused.")
	require.True(t, d.isPaused("r\nx"))
	some := url.Values{"queue": {"mail"}, "queue%": {"r%0Ax"}}
	require.Contains(t, d.post("queue.resume", some).body, "Resume 2 queues?")
	require.Contains(t, d.act("queue.resume", some), "2 queues are open.")
	require.True(t, d.isPaused("sms"))
	require.False(t, d.isPaused("r\nx"))
	d.on(web.Options{ReadOnly: true}).hides("/queues", "Pause all")
}

func (d *desk) isPaused(queue string) bool {
	counts, err := d.Queue(queue).Counts(d.t.Context())
	d.do(err)
	return counts.Paused
}

func TestBadInputLosesNothing(t *testing.T) {
	d := newDesk(t, web.Options{})
	typed := form("queue", "mail", "klass", "Send", "data", `{"a": `, "delay", "soon",
		"priority", "high", "tags", "x, y", "back", "/queues/mail")
	body := d.rejected(http.StatusUnprocessableEntity, "job.put", typed, "This is not JSON",
		"This is not a time", "This is not a whole number", `value="soon"`, `value="high"`,
		`value="x, y"`, `value="Send"`, "{&#34;a&#34;: ", `aria-describedby="p-delay"`,
		`<code>mail</code>`, `href="/queues/mail"`)
	elements := requireSound(t, "ask", body)
	require.Zero(t, d.count("mail", inspect.Waiting))
	sheets := sheetsOf(elements)
	require.Equal(t, []string{"mail"}, sheets[len(sheets)-1].values["queue"])

	d.rejected(http.StatusUnprocessableEntity, "job.put", form("queue", "mail", "data", "1"),
		"This is needed.")
	negative := form("name", "heartbeat", "value", "-4")
	d.rejected(http.StatusUnprocessableEntity, "config.set", negative,
		`role="alert"`, `value="-4"`)
	got := d.post("limit.set", form("name", "api"), "Accept", "application/json")
	require.Equal(t, http.StatusUnprocessableEntity, got.StatusCode)
	require.Contains(t, got.body, "One of the two numbers is needed.")
}

func TestAPageAsksWithWhatIsSet(t *testing.T) {
	s := newScene(t)
	require.NoError(t, s.Queue("mail").SetMaxConcurrency(t.Context(), 12))
	require.NoError(t, s.Limit("api").Set(t.Context(), qless.LimitConfig{Rate: 5, Per: time.Minute}))
	for target, want := range map[string][]string{
		"/actions/queue.max_concurrency?queue=mail":         {`value="12"`},
		"/actions/queue.heartbeat?queue=mail":               {`value="1m"`},
		"/actions/recur.set?jid=ticks":                      {`value="1h"`, `value="Tick"`, secret},
		"/actions/limit.set?name=api":                       {`value="5"`, `value="1m"`},
		"/actions/config.set?name=grace-period":             {`value="10"`},
		"/actions/job.put":                                  {`id="f-queue"`},
		"/actions/job.put?queue=mail":                       {"<code>mail</code>"},
		"/actions/job.tag?job=waiting:" + s.jids["waiting"]: {`id="f-tags"`, "Tag 1 job?"},
	} {
		page := s.page(target)
		requireSound(t, target, page)
		for _, text := range want {
			require.Contains(t, page, text, target)
		}
	}
	hides := s.on(web.Options{Redact: func(*qless.Job) {}})
	hides.hides("/actions/recur.set?jid=ticks", secret)
	edit := hides.shows("/actions/job.edit?job=waiting:"+s.jids["waiting"], `name="digest"`)
	require.NotContains(t, edit, "&#34;n&#34;")
}

func TestALinkDoesNothing(t *testing.T) {
	d := newDesk(t, web.Options{})
	d.put("mail", "Send")
	d.page("/actions/queue.pause?queue=mail&sure=1")
	require.False(t, d.isPaused("mail"))
	require.Contains(t, d.act("queue.pause", url.Values{"queue": {"mail"}}), "The queue is paused.")
}

func TestDataThatHasChangedIsNotOverwritten(t *testing.T) {
	s := newScene(t)
	edit := s.pick("waiting", "data", `{"mine": 1}`)
	edit.Set("digest", s.digest("job.edit", edit))
	job := s.job(s.jids["waiting"])
	require.NoError(t, job.SetData(map[string]int{"theirs": 1}))
	require.NoError(t, job.Move(t.Context(), "mail"))
	got := s.post("job.edit", edit, "Accept", "application/json")
	require.Contains(t, got.body, "its data has changed")
	require.Equal(t, `{"theirs":1}`, s.field(s.jids["waiting"], "data"))

	running := s.pick("running", "data", "1", "digest", "x")
	got = s.post("job.edit", running, "Accept", "application/json")
	require.Contains(t, got.body, "the job is running")
}

func TestAnActionGoesBackOnlyToThisSite(t *testing.T) {
	d := newDesk(t, web.Options{})
	d.put("mail", "Send")
	for _, back := range []string{
		"//evil.example/", "https://evil.example/", `/\evil.example`, "javascript:alert(1)", "evil",
		"%zz", "///evil.example/login", "//evil.example/login", "////evil.example",
		`\\evil.example`, "evil.example", "/%2f/evil.example",
	} {
		target := "/actions/queue.forget?queue=mail&back=" + url.QueryEscape(back)
		page := d.page(target)
		requireSound(t, target, page)
		require.NotContains(t, page, `href="//`, back)
		got := d.post("queue.pause", form("queue", "mail", "back", back))
		require.Equal(t, http.StatusSeeOther, got.StatusCode, back)
		location, err := url.Parse(got.Header.Get("Location"))
		require.NoError(t, err)
		require.Empty(t, location.Host, back)
		require.NotRegexp(t, `^[/\\]{2}`, got.Header.Get("Location"), back)
		require.Regexp(t, `^/($|%5C)`, location.EscapedPath(), back)
	}
}

func TestARefusedActionSaysWhichJobAndWhyWhereOneWas(t *testing.T) {
	d := newDesk(t, web.Options{})
	d.put("mail", "Send", qless.JID("first"))
	d.put("mail", "Send", qless.JID("second"), qless.DependsOn{"first"})
	page := d.act("job.cancel", url.Values{
		"job": {"waiting:first"}, "back": {"/queues/mail", "/jobs/first"}, "sure": {"1"},
	})
	require.Contains(t, page, "<title>first ", "the page of the job, which is still there")
	require.Contains(t, page, `<details open><summary>1 job not canceled</summary>`)
	require.Regexp(t, `<a href="/jobs/first">first</a>: .*second`, page)

	nothing := url.Values{"back": {"/queues/mail?list=depends"}}
	d.rejected(http.StatusBadRequest, "job.cancel", nothing,
		`<a class="press" href="/queues/mail?list=depends">Go back</a>`)
}

func TestAButtonThatDeletesNamesWhatItDeletes(t *testing.T) {
	d := newDesk(t, web.Options{})
	d.putMany("mail", "Send", 3)
	asked := d.post("job.cancel", url.Values{"scope": {"queue"}, "queue": {"mail"}, "list": {"waiting"}})
	contains(t, asked.body, "<h1>Cancel 3 jobs?</h1>",
		`<button class="primary destructive">Cancel 3 jobs</button>`)
	require.Contains(t, d.post("queue.forget", url.Values{"queue": {"mail"}}).body,
		`<button class="primary destructive">Forget mail</button>`)
}

// filled returns the form of a page that leads to an action, filled in.
func (d *desk) filled(page, action string, pairs ...string) url.Values {
	d.t.Helper()
	for _, sheet := range sheetsOf(requireSound(d.t, page, d.page(page))) {
		for _, leads := range sheet.actions {
			if leads == "/actions/"+action {
				form := url.Values(sheet.values)
				for i := 0; i+1 < len(pairs); i += 2 {
					form.Set(pairs[i], pairs[i+1])
				}
				require.NotEmpty(d.t, form.Get("once"))
				return form
			}
		}
	}
	d.t.Fatalf("%s has no form for %s", page, action)
	return nil
}

// send sends a form twice at the same time and once more, and returns the URL that it leads to.
func (d *desk) send(action string, form url.Values) string {
	d.t.Helper()
	var both [2]answer
	var sent sync.WaitGroup
	for i := range both {
		sent.Go(func() { both[i] = d.ask(http.MethodPost, "/actions/"+action, form.Encode()) })
	}
	sent.Wait()
	for _, got := range append(both[:], d.ask(http.MethodPost, "/actions/"+action, form.Encode())) {
		require.Equal(d.t, http.StatusSeeOther, got.StatusCode, got.body)
		require.Equal(d.t, both[0].Header.Get("Location"), got.Header.Get("Location"))
	}
	return both[0].Header.Get("Location")
}

func TestAFormThatIsSentTwiceIsDoneOnce(t *testing.T) {
	s := newScene(t)
	job := "?job=waiting:" + s.jids["waiting"]
	jobs := func() int { return s.count("mail", inspect.Waiting) }
	for _, c := range []struct {
		page, action string
		pairs        []string
		count        func() int
	}{
		{"/actions/job.put?queue=mail", "job.put", []string{"klass", "Send"}, jobs},
		{"/actions/job.copy" + job, "job.copy", nil, jobs},
		{"/recurring/ticks", "recur.run", nil, jobs},
		{"/actions/recur.put?queue=mail", "recur.put", []string{"klass", "Send", "interval", "1h"}, func() int {
			return s.count("mail", inspect.Recurring)
		}},
		{"/actions/job.log" + job, "job.log", []string{"message", "seen"}, func() int {
			return len(s.job(s.jids["waiting"]).History)
		}},
	} {
		before := c.count()
		form := s.filled(c.page, c.action, c.pairs...)
		s.page(s.send(c.action, form))
		require.Equal(t, before+1, c.count(), c.action)
		s.send(c.action, s.filled(c.page, c.action, c.pairs...))
		require.Equal(t, before+2, c.count(), "another form like it: %s", c.action)
	}
}

func TestAJobIsPutOnceByTwoProcesses(t *testing.T) {
	d := newDesk(t, web.Options{})
	form := d.filled("/actions/job.put?queue=mail", "job.put", "klass", "Send")
	other := d.at(web.New(web.Options{Logger: testkit.Quiet()}, web.Source{Client: d.Client}))
	d.send("job.put", form)
	other.shows(other.send("job.put", form), "The job was put.")
	require.Equal(t, 1, d.count("mail", inspect.Waiting))
}

func TestAFormThatHasDoneNothingIsSentAgain(t *testing.T) {
	s := newScene(t)
	form := s.filled("/recurring/ticks", "recur.run")
	before := s.count("mail", inspect.Waiting)
	kept := s.rdb.Dump(t.Context(), "ql:r:ticks").Val()
	require.NoError(t, s.rdb.Del(t.Context(), "ql:r:ticks").Err())
	got := s.ask(http.MethodPost, "/actions/recur.run", form.Encode(), "Accept", "application/json")
	require.Equal(t, http.StatusNotFound, got.StatusCode, got.body)
	require.NoError(t, s.rdb.Restore(t.Context(), "ql:r:ticks", 0, kept).Err())
	s.send("recur.run", form)
	require.Equal(t, before+1, s.count("mail", inspect.Waiting))
}
