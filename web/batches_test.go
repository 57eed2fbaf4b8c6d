package web_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/web"
)

func TestBatchesAreListedByTheStateOfTheirCallbacks(t *testing.T) {
	t.Parallel()
	d := newDesk(t, web.Options{})
	d.shows("/batches", "A program opens one with Client.NewBatch")
	ctx := t.Context()
	ended, err := d.NewBatch(ctx, "reports", qless.JobSpec{Klass: "Empty"})
	d.do(err)
	d.do(ended.Commit(ctx))
	jobs := d.pop("reports", 1)
	d.do(jobs[0].Complete(ctx))

	sum := qless.NewKlass[any]("Sum").Spec(nil, qless.OnFailureRun)
	batch := d.batch("reports", sum, "files", "Read", 3)
	d.put("reports", "Other", qless.DependsOn{batch.ID})
	jobs = d.pop("files", 2)
	d.do(jobs[0].Complete(ctx))
	d.do(jobs[1].Fail(ctx, "g", "why"))

	d = d.again(web.Options{})
	page := d.shows("/batches", `href="/jobs/`+batch.ID+`">Sum</a>`, "1 of 3", ">open</span>")
	require.NotContains(t, page, "Other", "it waits, but is no batch")
	require.NotContains(t, page, "Empty")
	rows := d.read("/batches")["batches"].([]any)
	require.Len(t, rows, 1)
	require.Equal(t, map[string]any{
		"members": 3.0, "pending": 1.0, "failed": 1.0, "open": true,
	}, rows[0].(map[string]any)["batch"])

	// By default, the callback waits for a failed member until that is retried.
	stuck := d.batch("reports", qless.JobSpec{Klass: "Stuck"}, "parts", "Read", 3)
	jobs = d.pop("parts", 2)
	d.do(jobs[0].Complete(ctx))
	d.do(jobs[1].Fail(ctx, "g", "why"))
	d = d.again(web.Options{})
	page = d.shows("/jobs/"+stuck.ID, `<dt>Failed</dt><dd class="bad">1</dd>`, "Retry 1 failed…",
		`name="job" value="failed:`+jobs[1].JID+`"`)
	require.Less(t, strings.Index(page, `value="failed:`), strings.Index(page, `value="waiting:`))
	form := url.Values{"scope": {"batch"}, "batch": {stuck.ID}}
	require.Contains(t, d.post("job.unfail", form).body, "Retry 1 job?")
	for _, row := range d.read("/batches")["batches"].([]any) {
		if row := row.(map[string]any); row["job"].(map[string]any)["klass"] == "Stuck" {
			require.Equal(t, map[string]any{
				"members": 3.0, "pending": 2.0, "failed": 1.0, "open": true,
			}, row["batch"])
		}
	}

	require.Contains(t, d.act("job.unfail", form), "1 job retried")
	d.hides("/jobs/"+stuck.ID, "failed…")

	d.batch("reports", qless.JobSpec{Klass: "Average"}, "files", "Read", 1)
	page = d.again(web.Options{}).page("/batches?sort=klass")
	require.Regexp(t, `(?s)>Average</a>.*>Sum</a>`, page)
	require.Contains(t, page, `aria-sort="ascending"><a href="/batches?sort=-klass">Callback`)
	require.Regexp(t, `(?s)>Sum</a>.*>Average</a>`, d.page("/batches?sort=done"))

	page = d.shows("/batches?state=complete", "Empty")
	require.NotContains(t, page, "Sum")
	d.refused(http.StatusBadRequest, "/batches?state=odd")
	d.shows("/batches?state=failed", "No batch is like that")
}

// Members that have ended are kept.
func TestToCancelABatchCancelsItsMembers(t *testing.T) {
	t.Parallel()
	d := newDesk(t, web.Options{})
	ctx := t.Context()
	batch, err := d.NewBatch(ctx, "reports", qless.NewKlass[any]("Sum").Spec(nil, qless.JID("sum")))
	d.do(err)
	members := make([]qless.JobSpec, 600)
	for i := range members {
		members[i].Klass = "Read"
	}
	jids, err := batch.Add(ctx, "files", members)
	d.do(err)
	jobs := d.pop("files", 2)
	d.do(jobs[0].Complete(ctx))
	d.do(jobs[1].Fail(ctx, "g", "why"))
	other := d.put("files", "Other")

	d.act("job.cancel", url.Values{"job": {"depends:sum"}})
	kept, err := d.Client.Jobs(ctx, append(jids[:499:499], "sum")...)
	d.do(err)
	require.Len(t, kept, 1)
	require.Equal(t, jobs[0].JID, kept[0].JID)
	left, err := d.Queue("files").Peek(ctx, 1000)
	d.do(err)
	require.Len(t, left, 1)
	require.Equal(t, other, left[0].JID)
}
