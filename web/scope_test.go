package web_test

import (
	"context"
	"encoding/json"
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

func TestAllThatMatchAreCountedAndTyped(t *testing.T) {
	d := newDesk(t, web.Options{})
	d.putMany("mail", "Send", 1201)
	d.putMany("mail", "Other", 3)
	all := url.Values{"scope": {"queue"}, "queue": {"mail"}, "list": {"waiting"}, "klass": {"Send"}}

	asked := d.post("job.cancel", all)
	require.Equal(t, http.StatusOK, asked.StatusCode)
	contains(t, asked.body, "Cancel 1\u202f201 jobs?", "Waiting jobs of the queue mail, klass Send",
		"type <code>mail</code>")
	requireSound(t, "ask", asked.body)

	all.Set("sure", "1")
	for _, typed := range []string{"", "Mail", "job.cancel"} {
		all.Set("typed", typed)
		asked = d.post("job.cancel", all)
		require.Equal(t, http.StatusUnprocessableEntity, asked.StatusCode)
		require.Contains(t, asked.body, "This is not the name")
	}
	require.Equal(t, 1204, d.count("mail", inspect.Waiting))

	all.Set("typed", "mail")
	run := d.begin("job.cancel", all)
	done := d.end(run)
	require.Equal(t, 1201, done.Changed)
	require.Equal(t, 3, d.count("mail", inspect.Waiting))
	page := d.shows(run, "1\u202f201 jobs canceled.")
	requireSound(t, run, page)

	back := form("receipt", done.Receipt)
	done = d.end(d.begin("job.restore", back))
	require.Equal(t, 1201, done.Changed)
	require.Equal(t, 1204, d.count("mail", inspect.Waiting))
}

func TestFewJobsThatMatchAreChangedAtOnce(t *testing.T) {
	ctx := t.Context()
	d := newDesk(t, web.Options{})
	jids := d.putMany("mail", "Send", 6)
	jobs, err := d.Queue("mail").Pop(ctx, 4)
	require.NoError(t, err)
	require.NoError(t, jobs[0].Fail(ctx, "boom", "it broke"))
	require.NoError(t, jobs[1].Complete(ctx))
	_, err = inspect.New(d.Client).JIDs(jids[4:]...).Track(ctx)
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
		got := d.post("job.cancel", bad)
		require.Equal(t, http.StatusBadRequest, got.StatusCode, bad)
	}
	hides := d.on(web.Options{Redact: func(*qless.Job) {}})
	byData := form("scope", "queue", "queue", "mail", "list", "waiting", "data", "x")
	got := hides.post("job.cancel", byData)
	require.Equal(t, http.StatusBadRequest, got.StatusCode)
	require.Contains(t, got.body, "data of jobs is not shown here")
}

func TestJobsThatDependOnEachOtherAreCanceledTogether(t *testing.T) {
	d := newDesk(t, web.Options{})
	chain := d.putMany("mail", "Send", 150)
	for i := range chain[1:] {
		_, err := d.Queue("mail").Put(t.Context(), "Send", nil, qless.JID(chain[i+1]),
			qless.DependsOn{chain[i]})
		require.NoError(t, err)
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
	server := testkit.Start(t)
	client, err := qless.New(server.Client(t), &qless.ClientConfig{
		Logger:     testkit.Quiet(),
		Observer:   g.observe,
		WorkerName: "w1",
	})
	require.NoError(t, err)
	d := (&desk{Client: client, t: t, server: server}).on(web.Options{})
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
	got := d.post("job.track", all)
	require.Equal(t, http.StatusBadRequest, got.StatusCode)
	require.Contains(t, got.body, "4 actions are under way")
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
