package web_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go/inspect"
	"github.com/qless/qless-go/web"
)

// A dashboard that has never been open shows what was before.
func TestTrendsAreThereAtTheFirstView(t *testing.T) {
	d := newDesk(t, web.Options{})
	for _, queue := range []string{"mail", "mail", "mail", "sms"} {
		_, err := d.Queue(queue).Put(t.Context(), "Send", nil)
		d.do(err)
	}
	d.do(inspect.New(d.Client).RecordHistory(t.Context()))
	page := d.page("/")
	require.Contains(t, page, `aria-label="waiting each 1m, at most 4"`)
	require.Contains(t, page, `aria-label="waiting each 1m, at most 3"`)
	require.Regexp(t, `Trends: \d+m of 1h\d*m? known`, page)
	require.Contains(t, d.page("/queues"), `aria-label="waiting each 1m, at most 3"`)
	require.Contains(t, d.page("/queues/mail?since=2h"), `aria-label="waiting each 1m, at most 3"`)
	page = d.page("/queues/mail?with=sms&over=3d")
	require.Contains(t, page, `<section aria-label="History of sms"><h2>sms</h2>`)
	require.Contains(t, page, `aria-label="waiting each 1h, at most 1"`)
	require.Len(t, d.read("/queues/mail?with=sms")["history"], 2)
	require.Contains(t, d.refused(http.StatusBadRequest, "/?since=yesterday"), "is not a time")
}

// An open page records what no worker does.
func TestAnOpenPageRecordsTheHistory(t *testing.T) {
	d := newDesk(t, web.Options{})
	_, err := d.Queue("mail").Put(t.Context(), "Send", nil)
	d.do(err)
	d.page("/")
	histories, err := inspect.New(d.Client).History(t.Context(), inspect.HistoryQuery{Queues: []string{"mail"}})
	d.do(err)
	points := histories[1].Points
	require.Equal(t, 1, points[len(points)-1].Waiting)
}
