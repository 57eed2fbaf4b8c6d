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
	require.Contains(t, page, `aria-current="true">Paused</a>`)
	require.NotContains(t, page, `<a href="/queues/other">`)
}

func TestRetryInACauseNamesItsJob(t *testing.T) {
	d := newDesk(t, web.Options{})
	failed := d.fail("Send", "timeout", "why")
	d.put("reports", "Report", qless.DependsOn{failed})
	d.shows("/", `href="/jobs/`+failed+`" title="`+failed+`"`)
	form := url.Values{"job": {"failed:" + failed}, "back": {"/"}}
	require.Contains(t, d.act("job.unfail", form), `<a href="/jobs/`+failed+`">`+failed+`</a>`)
}
