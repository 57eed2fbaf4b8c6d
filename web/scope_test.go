package web_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
	"github.com/qless/qless-go/internal/testkit"
	"github.com/qless/qless-go/web"
)

func (d *desk) putMany(queue, klass string, n int) []string {
	d.t.Helper()
	specs := make([]qless.JobSpec, n)
	for i := range specs {
		specs[i] = qless.JobSpec{Klass: klass, Data: map[string]int{"n": i}}
	}
	jids, err := d.Queue(queue).PutMany(context.Background(), specs)
	require.NoError(d.t, err)
	return jids
}

// putNumbered puts jobs of some klasses in turn, with jids like job-001.
func (d *desk) putNumbered(queue, prefix string, n int, klasses ...string) (jids []string) {
	d.t.Helper()
	specs := make([]qless.JobSpec, n)
	for i := range specs {
		jids = append(jids, fmt.Sprintf("%s-%03d", prefix, i))
		specs[i] = qless.JobSpec{
			Klass: klasses[i%len(klasses)], Data: map[string]int{"order": i},
			Options: []qless.PutOption{qless.JID(jids[i])},
		}
	}
	_, err := d.Queue(queue).PutMany(context.Background(), specs)
	d.do(err)
	return jids
}

func (d *desk) count(queue string, list inspect.List) int {
	d.t.Helper()
	page, err := inspect.New(d.Client).Queue(queue, list).JIDs(context.Background(), inspect.Range{Limit: 1})
	require.NoError(d.t, err)
	return page.Total
}

// A far is the progress of a run.
type far struct {
	ID      string
	Phase   string
	Handled int
	Found   int
	Outcome *result
}

// begin starts an action that takes long.
func (d *desk) begin(action string, form url.Values) string {
	d.t.Helper()
	got := d.post(action, form, "Accept", "application/json")
	require.Equal(d.t, http.StatusAccepted, got.StatusCode, got.body)
	return got.Header.Get("Location")
}

func (d *desk) far(run string) far {
	d.t.Helper()
	var now far
	got := d.ask(http.MethodGet, run, "", "Accept", "application/json")
	require.Equal(d.t, http.StatusOK, got.StatusCode, got.body)
	require.NoError(d.t, json.Unmarshal([]byte(got.body), &now))
	return now
}

// end waits for the end of a run.
func (d *desk) end(run string) *result {
	d.t.Helper()
	var now far
	testkit.Until(d.t, "the run has ended", func() bool {
		now = d.far(run)
		return now.Outcome != nil
	})
	return now.Outcome
}

func TestAllThatMatchAreCountedTypedAndCanceled(t *testing.T) {
	for _, c := range []struct {
		all                 url.Values
		page, words, typed  string
		mail, others, print int // jobs to cancel, and others
	}{
		{url.Values{"scope": {"queue"}, "queue": {"mail"}, "list": {"waiting"}, "klass": {"Send"}},
			"/queues/mail?klass=Send", "Waiting jobs of the queue mail, klass Send", "mail",
			1201, 3, 0},
		{url.Values{"scope": {"found"}, "q": {"klass:Send"}, "state": {"waiting"}},
			"/find?q=klass:Send&state=waiting", "Jobs that match klass:Send, waiting", "klass:Send",
			700, 0, 501},
	} {
		t.Run(c.words, func(t *testing.T) {
			d := newDesk(t, web.Options{})
			d.putMany("mail", "Send", c.mail)
			d.putMany("mail", "Other", c.others)
			d.putMany("print", "Send", c.print)
			d.putMany("print", "Other", 3)
			counts := func() []int {
				return []int{d.count("mail", inspect.Waiting), d.count("print", inspect.Waiting)}
			}
			before := counts()
			scope := c.all.Get("scope")
			d.shows(c.page, `<input type="hidden" name="scope" value="`+scope+`">`,
				"All that match", `formaction="/actions/job.cancel"`)
			d.hides("/find?q=nothing", "All that match")
			asked := d.post("job.cancel", c.all)
			require.Equal(t, http.StatusOK, asked.StatusCode)
			contains(t, asked.body, "Cancel 1\u202f201 jobs?", c.words,
				"type <code>"+c.typed+"</code>")
			requireSound(t, "ask", asked.body)

			c.all.Set("sure", "1")
			for _, typed := range []string{"", "Mail", "job.cancel"} {
				c.all.Set("typed", typed)
				d.rejected(http.StatusUnprocessableEntity, "job.cancel", c.all,
					"This is not the name")
			}
			require.Equal(t, before, counts())

			c.all.Set("typed", c.typed)
			run := d.begin("job.cancel", c.all)
			done := d.end(run)
			require.Equal(t, 1201, done.Changed)
			require.Equal(t, []int{c.others, 3}, counts())
			requireSound(t, run, d.shows(run, "1\u202f201 jobs canceled."))
			done = d.end(d.begin("job.restore", form("receipt", done.Receipt)))
			require.Equal(t, 1201, done.Changed)
			require.Equal(t, before, counts())
		})
	}
}

func TestFewJobsThatMatchAreChangedAtOnce(t *testing.T) {
	ctx := t.Context()
	d := newDesk(t, web.Options{})
	jids := d.putMany("mail", "Send", 6)
	jobs := d.pop("mail", 4)
	require.NoError(t, jobs[0].Fail(ctx, "boom", "it broke"))
	require.NoError(t, jobs[1].Complete(ctx))
	_, err := inspect.New(d.Client).JIDs(jids[4:]...).Track(ctx)
	require.NoError(t, err)
	_, err = inspect.New(d.Client).JIDs(jids[2:]...).Tag(ctx, "vip")
	require.NoError(t, err)
	for _, try := range []struct {
		action string
		form   url.Values
		count  int
	}{
		{"job.priority", form("scope", "tagged", "tag", "vip", "priority", "3"), 4},
		{"job.priority", form("scope", "tracked", "priority", "4"), 2},
		{"job.tag", form("scope", "completed", "klass", "Send", "tags", "done"), 1},
		{"job.tag", form("scope", "completed", "klass", "Other", "tags", "done"), 0},
		{"job.timeout", form("scope", "worker", "worker", "w1"), 2},
		{"job.untag", form("scope", "queue", "queue", "mail", "list", "waiting", "tag", "vip",
			"tags", "vip"), 4},
		{"job.move", form("scope", "queue", "queue", "mail", "list", "waiting", "jid", jids[4],
			"to", "slow"), 1},
		{"job.cancel", form("scope", "queue", "queue", "mail", "list", "waiting", "data", `"n":5`), 1},
		{"job.unfail", form("scope", "failed", "group", "boom", "q", "klass:Other"), 0},
		{"job.unfail", form("scope", "failed", "group", "boom", "q", "klass:Send failure:broke"), 1},
	} {
		require.Equal(t, try.count, d.did(try.action, try.form).Changed, try.action)
	}
	require.Equal(t, 1, d.count("slow", inspect.Waiting))
	require.Equal(t, 3, d.count("mail", inspect.Waiting))
}

func TestScopesThatMakeNoSenseAreRefused(t *testing.T) {
	d := newDesk(t, web.Options{})
	for _, bad := range []url.Values{
		form("scope", "everything"), form("scope", "queue"), form("scope", "failed"),
		form("scope", "queue", "queue", "mail", "list", "recurring"),
		form("scope", "queue", "queue", "mail"),
		form(), form("job", "nothing"), form("job%", "waiting:%zz"),
	} {
		d.rejected(http.StatusBadRequest, "job.cancel", bad)
	}
	hides := d.on(web.Options{Redact: func(*qless.Job) {}})
	byData := form("scope", "queue", "queue", "mail", "list", "waiting", "data", "x")
	hides.rejected(http.StatusBadRequest, "job.cancel", byData, "data of jobs is not shown here")
}

func TestJobsThatDependOnEachOtherAreCanceledTogether(t *testing.T) {
	d := newDesk(t, web.Options{})
	chain := d.putMany("mail", "Send", 150)
	for i := range chain[1:] {
		d.put("mail", "Send", qless.JID(chain[i+1]), qless.DependsOn{chain[i]})
	}
	picked := url.Values{"sure": {"1"}, "job": {"waiting:" + chain[0]}}
	for _, jid := range chain[1:] {
		picked.Add("job", "depends:"+jid)
	}
	done := d.did("job.cancel", picked)
	require.Equal(t, 150, done.Changed)

	require.Equal(t, 150, d.did("job.restore", form("receipt", done.Receipt)).Changed)
	require.Equal(t, 1, d.count("mail", inspect.Waiting))
	require.Equal(t, 149, d.count("mail", inspect.Depends))
}

// A gate holds up a client's calls of a command.
type gate struct {
	mu      sync.Mutex
	command string
	reached chan struct{}
	let     chan struct{} // lets one call continue, or all once it is closed
	open    func()
}

func (g *gate) observe(_ context.Context, call qless.Command) {
	g.mu.Lock()
	isHeld := call.Name == g.command
	g.mu.Unlock()
	if isHeld {
		g.reached <- struct{}{}
		<-g.let
	}
}

func gatedDesk(t *testing.T, command string) (*desk, *gate) {
	t.Helper()
	g := &gate{command: command, reached: make(chan struct{}, 100), let: make(chan struct{})}
	g.open = sync.OnceFunc(func() { close(g.let) })
	d := newDesk(t, web.Options{}).as(qless.ClientConfig{Observer: g.observe}).on(web.Options{})
	t.Cleanup(g.open) // before the dashboard waits for runs under way
	return d, g
}

func TestARunIsWatchedAndStopped(t *testing.T) {
	d, g := gatedDesk(t, "repair")
	d.putMany("mail", "Send", 1400)
	run := d.begin("job.track", form("scope", "queue", "queue", "mail", "list", "waiting",
		"typed", "mail"))
	testkit.Soon(t, "the first step", g.reached)
	now := d.far(run)
	require.Equal(t, "working", now.Phase)
	require.Equal(t, 1400, now.Found)
	page := d.page(run)
	requireSound(t, run, page)
	contains(t, page, `<noscript><meta http-equiv="refresh" content="2"></noscript>`, `data-live=`,
		run+"/stop")

	readOnly := d.ask(http.MethodPost, run+"/stop", "", "Sec-Fetch-Site", "cross-site")
	require.Equal(t, http.StatusForbidden, readOnly.StatusCode)
	stopped := d.ask(http.MethodPost, run+"/stop", "")
	require.Equal(t, http.StatusSeeOther, stopped.StatusCode)
	d.shows(run, "It stops after this step.")
	g.open()
	done := d.end(run)
	require.Equal(t, 500, done.Changed)
	require.Contains(t, done.Error, "stopped")
	tracked, err := inspect.New(d.Client).Tracked().JIDs(t.Context(), inspect.Range{Limit: 1})
	require.NoError(t, err)
	require.Equal(t, 500, tracked.Total)
	d.hides(run, "<noscript>")
}

func TestRunsThatTakeLongAreFew(t *testing.T) {
	d, g := gatedDesk(t, "repair")
	defer g.open()
	d.putMany("mail", "Send", 600)
	all := form("scope", "queue", "queue", "mail", "list", "waiting")
	for range 4 {
		d.begin("job.track", all)
		testkit.Soon(t, "its first step", g.reached)
	}
	d.rejected(http.StatusBadRequest, "job.track", all, "4 actions are under way")
}

func TestAJobThatHasLeftTheListIsLeft(t *testing.T) {
	d, g := gatedDesk(t, "find")
	jid := d.putMany("mail", "Send", 1)[0]
	answered := make(chan answer)
	go func() {
		answered <- d.post("job.cancel", form("scope", "queue", "queue", "mail", "list", "waiting",
			"klass", "Send"), "Accept", "application/json")
	}()
	testkit.Soon(t, "the count", g.reached)
	g.let <- struct{}{}
	testkit.Soon(t, "the list", g.reached)
	require.NoError(t, d.Queue("mail").Pause(t.Context()))
	require.NoError(t, d.Queue("mail").Resume(t.Context()))
	_, err := inspect.New(d.Client).JIDs(jid).Move(t.Context(), "slow", qless.Delay(time.Hour))
	require.NoError(t, err)
	g.let <- struct{}{}
	got := testkit.Soon(t, "the answer", answered)
	require.Contains(t, got.body, "has changed since")
	require.Equal(t, 1, d.count("slow", inspect.Scheduled))
}

func TestCanceledJobsCanBeDownloadedAndPutAgain(t *testing.T) {
	ctx := t.Context()
	d := newDesk(t, web.Options{})
	first := d.put("mail", "<Send>", qless.Tags{"a", "b"}, qless.Priority(7), qless.Headers{"h": "v"})
	second := d.putData("slow", "Report", json.RawMessage(`{"big": 12345678901234567890}`),
		qless.DependsOn{first}, qless.Retries(1), qless.Delay(time.Hour))
	before, err := d.Jobs(ctx, first, second)
	require.NoError(t, err)

	cancel := form()
	cancel["job"] = []string{"waiting:" + first, "depends:" + second}
	done := d.did("job.cancel", cancel)
	require.Equal(t, 2, done.Changed)

	got := d.ask(http.MethodGet, "/receipts/"+done.Receipt, "")
	require.Equal(t, http.StatusOK, got.StatusCode)
	require.Contains(t, got.Header.Get("Content-Disposition"), "attachment")
	lines := bytes.Split(bytes.TrimSpace([]byte(got.body)), []byte("\n"))
	require.Len(t, lines, 2)
	for i, line := range lines {
		var job qless.Job
		require.NoError(t, json.Unmarshal(line, &job))
		require.Equal(t, before[i].JID, job.JID)
		require.JSONEq(t, string(before[i].Data), string(job.Data))
	}

	require.Equal(t, 2, d.did("job.restore", form("receipt", done.Receipt)).Changed)
	after, err := d.Jobs(ctx, first, second)
	require.NoError(t, err)
	for i, job := range after {
		job.History, before[i].History = nil, nil
		require.WithinDuration(t, before[i].Due, job.Due, time.Second)
		job.Due, before[i].Due = time.Time{}, time.Time{}
		was, err := json.Marshal(before[i])
		require.NoError(t, err)
		is, err := json.Marshal(job)
		require.NoError(t, err)
		require.JSONEq(t, string(was), string(is))
	}

	again := d.post("job.restore", form("receipt", done.Receipt), "Accept", "application/json")
	contains(t, again.body, `"changed": 0`, `"unchanged": 2`)
	gone := d.post("job.restore", form("receipt", "none"), "Accept", "application/json")
	require.Equal(t, http.StatusNotFound, gone.StatusCode)
}

func TestAReceiptIsNotShownWhereDataIsHidden(t *testing.T) {
	d := newDesk(t, web.Options{Redact: func(job *qless.Job) { job.Data = nil }})
	jid := d.put("mail", "Send")
	done := d.did("job.cancel", form("job", "waiting:"+jid))
	d.refused(http.StatusForbidden, "/receipts/"+done.Receipt)
	require.Equal(t, 1, d.did("job.restore", form("receipt", done.Receipt)).Changed)
	require.JSONEq(t, `{"n": 1}`, string(d.job(jid).Data))
}

func TestAReceiptHasAnEnd(t *testing.T) {
	d := newDesk(t, web.Options{})
	web.LimitReceipts(d.handler.(*web.Handler), 100, 1<<20)
	cancel := form()
	for range 12 {
		cancel.Add("job", "waiting:"+d.putData("mail", "Send", strings.Repeat("x", 100_000)))
	}
	got := d.post("job.cancel", cancel, "Accept", "application/json")
	require.Contains(t, got.body, "a receipt has at most 1 MiB")
	require.Equal(t, 12, d.count("mail", inspect.Waiting))
}

func TestACancelStopsWhenItsReceiptIsFull(t *testing.T) {
	d := newDesk(t, web.Options{})
	web.LimitReceipts(d.handler.(*web.Handler), 1000, 64<<20)
	d.putMany("mail", "Send", 1700)
	all := form("scope", "queue", "queue", "mail", "list", "waiting", "sure", "1", "typed", "mail")
	done := d.end(d.begin("job.cancel", all))
	require.Equal(t, 1000, done.Changed)
	require.Contains(t, done.Error, "a receipt has at most 1\u202f000 jobs")
	require.Equal(t, 700, d.count("mail", inspect.Waiting), "the rest is left as it was")

	got := d.ask(http.MethodGet, "/receipts/"+done.Receipt, "")
	require.Equal(t, 1000, strings.Count(got.body, "\n"))
	rest := d.end(d.begin("job.cancel", all))
	require.Equal(t, 700, rest.Changed)
	require.Empty(t, rest.Error)
	require.Equal(t, 1000, d.end(d.begin("job.restore", form("receipt", done.Receipt))).Changed)
}

func TestOnlyTheLastReceiptsAreKept(t *testing.T) {
	d := newDesk(t, web.Options{})
	var receipts []string
	for range 21 {
		jid := d.put("mail", "Send")
		receipts = append(receipts, d.did("job.cancel", form("job", "waiting:"+jid)).Receipt)
	}
	d.refused(http.StatusNotFound, "/receipts/"+receipts[0])
	d.page("/receipts/" + receipts[1])
}
