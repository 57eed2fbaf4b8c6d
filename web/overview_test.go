package web_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/testkit"
	"github.com/qless/qless-go/web"
)

// ago returns a client in whose opinion it is earlier.
func (d *desk) ago(ago time.Duration) *qless.Client {
	d.t.Helper()
	then, err := qless.New(d.server.Client(d.t), &qless.ClientConfig{
		Clock:  func() time.Time { return time.Now().Add(-ago) },
		Logger: testkit.Quiet(),
	})
	d.do(err)
	return then
}

// completeAgo puts a job and completes it, some time ago.
func (d *desk) completeAgo(queue string, ago time.Duration) {
	d.t.Helper()
	then := d.ago(ago)
	_, err := then.Queue(queue).Put(d.t.Context(), "Send", nil)
	d.do(err)
	jobs, err := then.Queue(queue).Pop(d.t.Context(), 1)
	d.do(err)
	require.Len(d.t, jobs, 1)
	d.do(jobs[0].Complete(d.t.Context()))
}

func TestTheFirstPageComparesTodayWithTheLastDays(t *testing.T) {
	d := newDesk(t, web.Options{})
	require.NotContains(t, d.page("/"), "Last 7 days")
	const day = 24 * time.Hour
	for _, ago := range []time.Duration{day, day, 3 * day, 9 * day} {
		d.completeAgo("mail", ago)
	}
	d.fail("Send", "timeout", "why")
	d = d.again(web.Options{})
	testkit.Until(t, "all days are read", func() bool {
		week := d.read("/")["week"].(map[string]any)
		return week["has_more"] == nil
	})
	week := d.read("/")["week"].(map[string]any)
	require.EqualValues(t, 1, week["queues"])
	sum := map[string]float64{}
	for _, one := range week["days"].([]any) {
		for name, n := range one.(map[string]any) {
			if count, isCount := n.(float64); isCount {
				sum[name] += count
			}
		}
	}
	require.EqualValues(t, 3, sum["completed"], "one was completed before")
	require.EqualValues(t, 1, sum["failed"])
	page := d.page("/")
	require.Contains(t, page, "Last 7 days")
	require.Contains(t, page, `class="spark"`)
	require.NotContains(t, page, "Not all was read yet")
}

func TestAFailureGroupThatGrowsNeedsAttention(t *testing.T) {
	d := newDesk(t, web.Options{})
	d.fail("Send", "timeout", "why")
	require.NotContains(t, d.page("/failures"), `class="spark"`)
	require.NotContains(t, d.page("/"), "grows")
	d.fail("Send", "timeout", "why")
	d.fail("Send", "timeout", "why")
	testkit.Until(t, "the group grows", func() bool {
		return len(d.read("/")["growing"].([]any)) > 0
	})
	group := d.read("/")["growing"].([]any)[0].(map[string]any)
	require.Equal(t, "timeout", group["name"])
	require.EqualValues(t, 2, group["more"])
	page := d.page("/")
	require.Contains(t, page, `<a href="/failures/timeout"><b>timeout</b> grows: 2 more in `)
	require.Contains(t, page, "<summary>1 failure group grows</summary>")
	require.Contains(t, page, "3 jobs now")
	require.Contains(t, d.page("/failures"), ">+2</span>")
}

func TestTheFirstPageShowsOutboxes(t *testing.T) {
	d := newDesk(t, web.Options{})
	report := fmt.Sprintf(`{"time": %d, "rows": 3, "oldest": 20, "problems": {"invalid": 2}}`, time.Now().Unix())
	require.NoError(t, d.server.Client(t).HSet(t.Context(), "ql:x:outbox", "shop", report).Err())
	page := d.page("/")
	for _, text := range []string{">Outboxes</h2>", `<th scope="row">shop</th>`, "invalid 2", "The outbox shop has set 2 jobs aside"} {
		require.Contains(t, page, text)
	}
}

func TestEachQueueOfACauseIsALink(t *testing.T) {
	d := newDesk(t, web.Options{})
	for _, queue := range []string{"mail", "pay"} {
		d.put(queue, "Send")
		d.do(d.Queue(queue).Pause(t.Context()))
	}
	_, causes, found := strings.Cut(d.page("/"), `<ul class="problems">`)
	require.True(t, found)
	causes, _, _ = strings.Cut(causes, "</ul>")
	require.Contains(t, causes, `<a href="/queues/mail">mail</a> <a href="/queues/pay">pay</a></p>`)
}

func TestTheQueuesOfAWideCauseAreAList(t *testing.T) {
	d := newDesk(t, web.Options{})
	for i := range 12 {
		queue := fmt.Sprintf("q-%02d", i)
		d.put(queue, "Send")
		d.do(d.Queue(queue).Pause(t.Context()))
	}
	d.put("other", "Send")
	page := d.page(d.linkTo(d.page("/"), "/queues?only=paused"))
	require.Equal(t, 12, strings.Count(page, `<th scope="row"><a href="/queues/q-`))
	require.NotContains(t, page, `<a href="/queues/other">`)
	require.Contains(t, page, `aria-current="true">Paused</a>`)
}

func TestRetryInACauseNamesItsJob(t *testing.T) {
	d := newDesk(t, web.Options{})
	failed := d.fail("Send", "timeout", "why")
	d.put("reports", "Report", qless.DependsOn{failed})
	page := d.page("/")
	require.Contains(t, page, `href="/jobs/`+failed+`" title="`+failed+`"`)
	form := url.Values{"job": {"failed:" + failed}, "back": {"/"}}
	require.Contains(t, d.act("job.unfail", form), `<a href="/jobs/`+failed+`">`+failed+`</a>`)
}
