package web_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/web"
)

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

	jobs, err := d.Queue("etl").Pop(ctx, 1)
	d.do(err)
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
	var specs []qless.JobSpec
	var jids []string
	for i := range 700 {
		jids = append(jids, fmt.Sprintf("part-%03d", i))
		specs = append(specs, qless.JobSpec{
			Klass: "Part", Options: []qless.PutOption{qless.JID(jids[i])},
		})
	}
	_, err := d.Queue("q").PutMany(t.Context(), specs)
	d.do(err)
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
	jobs, err := d.Queue("q").Pop(ctx, 1)
	d.do(err)
	d.do(jobs[0].Complete(ctx))
	nodes := d.nodes("second")
	require.Equal(t, "complete", nodes["first"]["state"])
	require.Equal(t, []any{"first"}, nodes["second"]["needs"])
	require.Nil(t, nodes["first"]["is_critical"])
	d.shows("/jobs/second/graph", `class="edge over"`)
}
