package web_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/jobopts"
	"github.com/qless/qless-go/web"
)

// putByForm puts a job of the klass Send into the queue mail by a form with additional values.
func (d *desk) putByForm(pairs ...string) *qless.Job {
	d.t.Helper()
	done := d.did("job.put", form(append(pairs, "queue", "mail", "klass", "Send")...))
	require.Len(d.t, done.JIDs, 1)
	return d.job(done.JIDs[0])
}

func TestAFormHasAllOptionsOfAJob(t *testing.T) {
	d := newDesk(t, web.Options{})
	d.put("mail", "Send", qless.JID("first"))
	until := func(at time.Time) any { return time.Until(at).Round(time.Minute) }
	key := func(job *qless.Job) any { return job.Options.Unique.Key }
	due := func(job *qless.Job) any { return until(job.Due) }
	cases := map[string]struct {
		text string
		with []string
		read func(job *qless.Job) any
		want any
	}{
		"priority":             {"-7", nil, func(job *qless.Job) any { return job.Priority }, -7},
		"delay":                {"2d", nil, due, 48 * time.Hour},
		"at":                   {"2199-01-02T03:04:05Z", nil, func(job *qless.Job) any { return job.Due.Year() }, 2199},
		"retries":              {"3", nil, func(job *qless.Job) any { return job.Retries }, 3},
		"tags":                 {"a, b", nil, func(job *qless.Job) any { return job.Tags }, []string{"a", "b"}},
		"depends":              {"first", nil, func(job *qless.Job) any { return job.Dependencies }, []string{"first"}},
		"must_exist":           {"yes", []string{"depends", "first"}, func(job *qless.Job) any { return job.Dependencies }, []string{"first"}},
		"on_failure":           {"run", nil, func(job *qless.Job) any { return job.Options.OnFailure }, qless.OnFailureRun},
		"headers":              {"a=1, b=c=d", nil, func(job *qless.Job) any { return job.Headers }, map[string]string{"a": "1", "b": "c=d"}},
		"fair":                 {"ann", nil, func(job *qless.Job) any { return job.Options.Fair }, "ann"},
		"weight":               {"0.5", []string{"fair", "ann"}, func(job *qless.Job) any { return job.Options.Weight }, 0.5},
		"limits":               {"api, db", nil, func(job *qless.Job) any { return job.Options.Limits }, []string{"api", "db"}},
		"lock_time":            {"90", nil, func(job *qless.Job) any { return job.Options.LockTime }, 90 * time.Second},
		"on_lost":              {"last", nil, func(job *qless.Job) any { return job.Options.OnLost }, qless.OnLostLast},
		"start_by":             {"1h", nil, func(job *qless.Job) any { return until(job.Options.StartBy) }, time.Hour},
		"ttl":                  {"7d", nil, func(job *qless.Job) any { return until(job.Options.TTL) }, 168 * time.Hour},
		"keep_for":             {"1h", nil, func(job *qless.Job) any { return *job.Options.KeepFor }, time.Hour},
		"keep_failed_for":      {"forever", nil, func(job *qless.Job) any { return *job.Options.KeepFailedFor }, qless.Forever},
		"max_run_time":         {"15m", nil, func(job *qless.Job) any { return job.Options.MaxRunTime }, 15 * time.Minute},
		"unique":               {"invoice, 7", nil, key, `["invoice",7]`},
		"unique_data":          {"yes", []string{"data", "[1]"}, func(job *qless.Job) any { return job.Options.Unique != nil }, true},
		"unique_for":           {"1h", []string{"unique", "for"}, func(job *qless.Job) any { return job.Options.Unique.For }, time.Hour},
		"unique_until_started": {"yes", []string{"unique", "start"}, func(job *qless.Job) any { return job.Options.Unique.UntilStarted }, true},
		"replace":              {"yes", []string{"unique", "newest", "delay", "2h", "once", "x"}, due, 2 * time.Hour},
		"keep_due":             {"yes", []string{"unique", "newest", "replace", "yes", "delay", "9h"}, due, 2 * time.Hour},
		"within":               {"3h", []string{"unique", "bounded", "replace", "yes", "delay", "1h"}, due, time.Hour},
	}
	page := d.page("/actions/job.put?queue=mail")
	requireSound(t, "job.put", page)
	for _, row := range jobopts.Table {
		if row.Key == "" || row.Key == "jid" || row.Key == "if" {
			continue
		}
		c, isKnown := cases[row.Key]
		require.True(t, isKnown, row.Key)
		require.Contains(t, page, `name="`+row.Key+`"`)
		job := d.putByForm(append(c.with, row.Key, c.text)...)
		require.EqualValues(t, c.want, c.read(job), row.Key)
	}
}

func TestInvalidOptionsAreToldBesideTheirInputs(t *testing.T) {
	d := newDesk(t, web.Options{})
	d.shows("/actions/job.put?queue=mail",
		`<details id="more-options"><summary>More options</summary>`)
	for name, want := range map[string]string{
		"at": "This can&#39;t be used", "headers": "is not of the form key=value",
		"weight": "is not a number", "lock_time": "This is not a time", "on_lost": "This is not one of: first",
	} {
		odd := form("queue", "mail", "klass", "Send", name, "odd")
		body := d.rejected(http.StatusUnprocessableEntity, "job.put", odd, want,
			`<p class="bad" id="p-`+name+`">`, `<details id="more-options" open>`)
		requireSound(t, name, body)
	}
	both := form("queue", "mail", "klass", "Send", "keep_due", "yes", "unique", "a")
	d.rejected(http.StatusUnprocessableEntity, "job.put", both, "KeepDue needs Replace")
}

func TestAFormTellsThatAnotherJobHoldsTheKey(t *testing.T) {
	d := newDesk(t, web.Options{})
	d.putByForm("unique", "a")
	got := d.post("job.put", form("queue", "mail", "klass", "Send", "unique", "a", "once", "other"),
		"Accept", "application/json")
	require.Contains(t, got.body, "the job holds the unique key")
	require.NotContains(t, got.body, `"jids"`)
}
