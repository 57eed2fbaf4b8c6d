package browsertest

import (
	"context"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
	"github.com/qless/qless-go/internal/testkit"
	"github.com/qless/qless-go/web"
)

// A trial is an action with the page of its button, its form, and the text of the page after it.
type trial struct {
	action web.Action
	path   string
	fields []string // names and values
	says   string
}

// inForms matches the buttons of an action and its forms.
func inForms(action web.Action) (button, form string) {
	end := `"/actions/` + string(action) + `"`
	button = `main button[formaction$=` + end + `], main form[action$=` + end +
		`] button:not([formaction])`
	form = `main form:has(button[formaction$=` + end + `]), main form[action$=` + end + `]`
	return button, form
}

// act does an action like a user: with the button on a page, and on the page with the question.
func (p *tab) act(try trial) {
	p.t.Helper()
	button, form := inForms(try.action)
	testkit.Until(p.t, "the page has the button of "+string(try.action), func() bool {
		p.open(try.path)
		return value[bool](p, `Boolean(document.querySelector('`+button+`'))`)
	})
	p.until(`!document.getElementById("main").dataset.live || document.querySelector("#live-button.on")`)
	p.do(chromedp.Evaluate[chromedp.Void](
		`for (let one = document.querySelector('` + button + `'); one; one = one.parentElement) one.open = true`))
	p.fillIn(form, try.fields)
	p.leave(chromedp.Click(chromedp.CSS(button)))
	if value[bool](p, `Boolean(document.querySelector("main input[name=sure]"))`) {
		p.fillIn(form, try.fields)
		p.leave(chromedp.Click(chromedp.CSS(button)))
	}
	note := value[string](p, `document.querySelector("main .note[role=status]:not(.bad)")?.textContent`+
		` || document.querySelector("main").textContent`)
	require.Contains(p.t, note, try.says, try.action)
}

// fillIn types into the fields that the form has.
func (p *tab) fillIn(form string, fields []string) {
	p.t.Helper()
	for i := 0; i+1 < len(fields); i += 2 {
		var inputs []string
		for part := range strings.SplitSeq(form, ", ") {
			inputs = append(inputs, part+` [name="`+fields[i]+`"]:not([type=hidden])`)
		}
		input := strings.Join(inputs, ", ")
		if value[bool](p, "Boolean(document.querySelector(`"+input+"`))") {
			p.do(chromedp.SetValue(chromedp.CSS(input), fields[i+1]))
		}
	}
}

// ofJob returns a trial on the page of a job.
func ofJob(action web.Action, jid, says string, fields ...string) trial {
	return trial{action, "/jobs/" + jid, fields, says}
}

// trials prepares the namespace for all actions, and returns them in an order in which they can be
// done.
func trials(b *board) []trial {
	ctx := context.Background()
	must := func(err error) { require.NoError(b.t, err) }
	put := func(jid string, options ...qless.PutOption) string {
		return b.put("mail", "Send", append(options, qless.JID(jid))...)
	}
	failed, running := put("failed"), put("running")
	jobs, err := b.Queue("mail").Pop(ctx, 2)
	must(err)
	must(jobs[0].Fail(ctx, "boom", "it broke"))
	other := b.put("broken", "Send")
	broken, err := b.Queue("broken").Pop(ctx, 1)
	must(err)
	must(broken[0].Fail(ctx, "broken", "it broke "+other))
	one := put("one")
	put("scheduled", qless.Delay(time.Hour))
	put("later", qless.Delay(time.Hour))
	put("depends", qless.DependsOn{one})
	put("canceled")
	must(b.Cancel(ctx, b.put("empty", "Send"))) // leaves a queue without jobs
	_, err = b.Queue("plans").Recur(ctx, "Tick", nil, time.Hour, qless.JID("ticks"), qless.Offset(time.Hour))
	must(err)
	must(b.Limit("api").Set(ctx, qless.LimitConfig{Concurrency: 1}))
	b.follow(qless.Schedule{ID: "nightly", When: "@yearly", Queue: "plans", Job: qless.JobSpec{Klass: "Report"}})
	lost := b.put("lost", "Send")
	must(b.rdb.ZRem(ctx, "ql:q:lost-work", lost).Err())
	return []trial{
		ofJob(web.ActionJobUnfail, failed, "1 job retried."),
		ofJob(web.ActionJobTimeout, running, "1 job taken from its worker."),
		ofJob(web.ActionJobPriority, one, "1 job changed.", "priority", "7"),
		ofJob(web.ActionJobTag, one, "1 job tagged.", "tags", "vip"),
		ofJob(web.ActionJobUntag, one, "1 job untagged.", "tags", "vip"),
		ofJob(web.ActionJobTrack, one, "1 job tracked."),
		ofJob(web.ActionJobUntrack, one, "1 job untracked."),
		ofJob(web.ActionJobLog, one, "The note was added.", "message", "looked at"),
		ofJob(web.ActionJobEdit, one, "1 job changed.", "data", `{"n": 2}`),
		ofJob(web.ActionJobCopy, one, "1 job copied.", "to", "copies"),
		ofJob(web.ActionJobReschedule, "later", "1 job rescheduled.", "delay", "7d"),
		ofJob(web.ActionJobPromote, "scheduled", "1 job made due."),
		ofJob(web.ActionJobDepend, "depends", "1 job changed.", "jids", "canceled"),
		ofJob(web.ActionJobUndepend, "depends", "1 job changed."),
		ofJob(web.ActionJobMove, "depends", "1 job moved.", "to", "slow"),
		{web.ActionJobCancel, "/jobs/canceled", nil, "1 job canceled."},
		{action: web.ActionJobRestore, says: "1 job put again."}, // on the page that follows
		{web.ActionJobPut, "/queues/mail", []string{"klass", "Made", "data", `{"a": 1}`}, "The job was put."},
		{web.ActionQueuePause, "/queues/mail", nil, "The queue is paused."},
		{web.ActionQueueResume, "/queues/mail", nil, "The queue is open."},
		{web.ActionQueueMaxConcurrency, "/queues/mail", []string{"value", "4"}, "The concurrency is set."},
		{web.ActionQueueHeartbeat, "/queues/mail", []string{"value", "90"}, "The heartbeat is set."},
		{web.ActionQueueMaxRate, "/queues/mail", []string{"value", "5", "per", "10"}, "The rate is set."},
		{web.ActionQueueUnfail, "/queues/mail", []string{"group", "broken", "count", "10"},
			"1 job put into the queue."},
		{web.ActionQueueForget, "/queues/empty", nil, "The queue is forgotten."},
		{web.ActionDoctorExamine, "/doctor", nil, "The exam has begun."},
		{web.ActionDoctorFix, "/doctor", nil, "The repair has begun."},
		{web.ActionConfigSet, "/settings", nil, "The setting is changed."},
		{web.ActionConfigUnset, "/settings", nil, "The setting has its default."},
		{web.ActionLimitSet, "/limits/api", []string{"concurrency", "3", "rate", "5", "per", "1m"},
			"The limit is set."},
		{web.ActionLimitHold, "/limits/api", []string{"for", "1h"}, "The limit is changed."},
		{web.ActionLimitUnset, "/limits/api", nil, "The limit is unset."},
		{web.ActionRecurPut, "/queues/plans", []string{"klass", "Tack", "interval", "90s", "offset", "1h"},
			"The recurring job was put."},
		{web.ActionRecurSet, "/recurring/ticks", []string{"interval", "2h"}, "changed"},
		{web.ActionRecurRun, "/recurring/ticks", nil, "A job was put."},
		{web.ActionRecurCancel, "/recurring/ticks", nil, "The recurring job is deleted."},
		{web.ActionScheduleRun, "/schedules/nightly", nil, "A job was put."},
		{web.ActionScheduleForget, "/schedules/nightly", nil, "The schedule is forgotten."},
		{web.ActionWorkerForget, "/workers/" + url.PathEscape(b.worker()), nil,
			"The worker is forgotten."},
	}
}

// worker returns the name of a listed worker.
func (b *board) worker() string {
	b.t.Helper()
	workers, err := inspect.New(b.Client).Workers(b.t.Context())
	require.NoError(b.t, err)
	require.NotEmpty(b.t, workers)
	return workers[0].Name
}

// follow lets a worker follow a schedule until it is known.
func (b *board) follow(schedule qless.Schedule) {
	b.t.Helper()
	worker, err := qless.NewWorker(b.Client, qless.WorkerConfig{
		Queues: []string{"none"}, Schedules: []qless.Schedule{schedule},
	})
	require.NoError(b.t, err)
	worker.Handle("*", func(context.Context, *qless.Job) error { return nil })
	require.NoError(b.t, worker.Start(b.t.Context()))
	testkit.Until(b.t, "the schedule is registered", func() bool {
		_, err := inspect.New(b.Client).Schedule(b.t.Context(), schedule.ID)
		return err == nil
	})
	require.NoError(b.t, worker.Stop(context.Background()))
}

func TestEachActionCanBeDone(t *testing.T) {
	t.Parallel()
	b := newBoard(t, web.Options{Interval: time.Hour}) // an update would replace a field during typing
	all := trials(b)
	var names []web.Action
	for _, try := range all {
		names = append(names, try.action)
	}
	slices.Sort(names)
	require.Equal(t, web.Actions(), names)
	p := newTab(t, b.url)
	for _, try := range all {
		if try.path == "" {
			try.path = p.path()
		}
		p.act(try)
	}
	p.faultless()
}

func TestPageShowsProgressWhileAllFoundAreCanceled(t *testing.T) {
	t.Parallel()
	b := newBoard(t, web.Options{})
	const count = 1501
	specs := make([]qless.JobSpec, count)
	for i := range specs {
		specs[i].Klass = "Send"
	}
	_, err := b.Queue("mail").PutMany(t.Context(), specs)
	require.NoError(t, err)
	p := newTab(t, b.url)
	p.open("/find?q=klass:Send")
	p.do(chromedp.Click(chromedp.CSS("#all > summary")))
	button := `.all-actions button[formaction$="/actions/job.cancel"]`
	p.leave(chromedp.Click(chromedp.CSS(button)))
	// A slow server counts only some of them.
	require.Regexp(t, "1\u202f50[01] jobs\\?", value[string](p, `document.querySelector("h1").textContent`))
	p.do(chromedp.SetValue(chromedp.CSS("#f-typed"), "klass:Send"))
	p.leave(chromedp.Click(chromedp.CSS("form.ask button")))
	require.Contains(t, p.path(), "/runs/")
	p.until(`document.querySelector("main").textContent.includes("1\u202f501 jobs canceled.")`)
	counts, err := b.Queue("mail").Counts(t.Context())
	require.NoError(t, err)
	require.Equal(t, qless.QueueCounts{Name: "mail"}, counts)

	lines := value[int](p, `fetch(document.querySelector('main a[href*="/receipts/"]').href)
		.then((answer) => answer.text()).then((text) => text.trim().split("\n").length)`)
	require.Equal(t, count, lines)
	p.leave(chromedp.Click(chromedp.CSS(`main form[action$="/actions/job.restore"] button`)))
	if value[bool](p, `Boolean(document.querySelector("main input[name=sure]"))`) {
		p.leave(chromedp.Click(chromedp.CSS("form.ask button")))
	}
	p.until(`document.querySelector("main").textContent.includes("1\u202f501 jobs put again.")`)
	p.faultless()
}
