package web_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/testkit"
	"github.com/qless/qless-go/web"
)

// subscribers returns the number of connections that subscribe to events of completed jobs.
func (d *desk) subscribers() int64 {
	d.t.Helper()
	got, err := d.server.Client(d.t).PubSubNumSub(d.t.Context(), "ql:completed").Result()
	d.do(err)
	return got["ql:completed"]
}

// listens reports whether the dashboard subscribes to events.
func (d *desk) listens() bool { return web.HasFeeds(d.handler.(*web.Handler)) }

// watch opens the page of events.
func (d *desk) watch() {
	d.t.Helper()
	require.Contains(d.t, d.page("/activity"), "Nothing has happened")
}

func TestNothingListensToEventsOnceNobodyLooks(t *testing.T) {
	d := newDesk(t, web.Options{Interval: 20 * time.Millisecond})
	d.watch()
	testkit.Until(t, "the subscription ends", func() bool { return d.subscribers() == 0 })
}

func TestWhatHappenedWhileNobodyLookedIsAGap(t *testing.T) {
	d := newDesk(t, web.Options{Interval: 20 * time.Millisecond})
	testkit.Until(t, "an event is seen", func() bool {
		d.page("/activity")
		d.put("mail", "Send")
		return !strings.Contains(d.page("/activity"), "Nothing has happened")
	})
	testkit.Until(t, "the subscription ends", func() bool { return !d.listens() })
	d.shows("/activity", "Events may be missing here")
}

func TestAllViewersShareOneSubscription(t *testing.T) {
	d := newDesk(t, web.Options{})
	require.Zero(t, d.subscribers(), "nobody looks")
	for range 3 {
		d.watch()
	}
	require.EqualValues(t, 1, d.subscribers())
	jid := d.put("mail", "Send")
	d.put("other", "Send")
	failed := d.fail("Send", "group", "a <message>")
	testkit.Until(t, "the events are shown", func() bool {
		return strings.Contains(d.page("/activity"), failed)
	})

	testkit.Until(t, "the failure is shown", func() bool {
		return strings.Contains(d.page("/activity"), "a &lt;message&gt;")
	})
	page := d.page("/activity")
	require.Less(t, strings.Index(page, failed), strings.Index(page, jid), "the latest is first")
	require.Contains(t, page, `href="/failures/group"`)
	page = d.shows("/activity?queue=other", `href="/queues/other"`)
	require.NotContains(t, page, jid)
	d.hides("/activity?jid="+jid, failed)
	page = d.shows("/activity?kind=failed", failed, "<option selected>failed</option>")
	require.NotContains(t, page, jid)
	d.shows("/activity?jid=none", "None of the last")
	events := d.read("/activity?kind=failed")["events"].([]any)
	require.Len(t, events, 1)
	require.Equal(t, failed, events[0].(map[string]any)["jid"])
	require.EqualValues(t, 1, d.subscribers())
}

func TestTheLast200EventsAreKept(t *testing.T) {
	d := newDesk(t, web.Options{})
	d.watch()
	for i := range 210 {
		d.put("mail", "Send", qless.JID(fmt.Sprintf("job-%03d", i)))
	}
	testkit.Until(t, "the last event is there", func() bool {
		return strings.Contains(d.page("/activity"), "job-209")
	})
	require.EqualValues(t, 200, d.read("/activity")["kept"])
	d.hides("/activity", "job-009")
}

func TestMessagesOfEventsAreNotShownWithRedact(t *testing.T) {
	d := newDesk(t, web.Options{Redact: func(*qless.Job) {}})
	d.watch()
	failed := d.fail("Send", "group", "the secret is xyzzy")
	testkit.Until(t, "the failure is shown", func() bool {
		return strings.Contains(d.page("/activity?kind=failed"), failed)
	})
	d.conceals("xyzzy", "/activity")
}

func TestEventsThatTheServerRefusesAreExplained(t *testing.T) {
	d := newDesk(t, web.Options{})
	d.server.Stop()
	d.shows("/activity", "The server gives no events")
}
