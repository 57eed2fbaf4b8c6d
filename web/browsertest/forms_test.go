package browsertest

import (
	"strconv"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/web"
)

// center scrolls to an element. A page may be long above it.
func (p *tab) center(selector string) {
	p.t.Helper()
	value[any](p, "document.querySelector("+strconv.Quote(selector)+
		`).scrollIntoView({block: "center", behavior: "instant"})`)
}

// send clicks the button of an action in the content, and answers the question that may follow.
func (p *tab) send(action string) {
	p.t.Helper()
	button := `main button[formaction$="/actions/` + action + `"], main form[action$="/actions/` + action + `"] button`
	p.center(button)
	p.leave(chromedp.Click(chromedp.CSS(button)))
	if value[bool](p, `Boolean(document.querySelector("main input[name=sure]"))`) {
		p.leave(chromedp.Click(chromedp.CSS(button)))
	}
}

func TestActionsWorkWithoutJavaScript(t *testing.T) {
	t.Parallel()
	b := newBoard(t, web.Options{Prefix: "/ops"})
	ctx := t.Context()
	var jids []string
	for range 4 {
		jids = append(jids, b.put("mail", "Send"))
	}
	failed := b.put("failing", "Send")
	jobs, err := b.Queue("failing").Pop(ctx, 1)
	require.NoError(t, err)
	require.NoError(t, jobs[0].Fail(ctx, "smtp", "busy"))
	p := newTab(t, b.url)
	p.withoutScript()

	t.Run("a selection is canceled", func(t *testing.T) {
		p.open("/ops/queues/mail")
		for _, jid := range jids[:2] {
			p.do(chromedp.Click(chromedp.CSS(`input[name=job][aria-label="Select ` + jid + `"]`)))
		}
		p.send("job.cancel")
		require.Equal(t, "/ops/queues/mail", value[string](p, "location.pathname"))
		require.Contains(t, value[string](p, `document.querySelector(".note").textContent`), "2 jobs canceled")
		counts, err := b.Queue("mail").Counts(ctx)
		require.NoError(t, err)
		require.Equal(t, 2, counts.Waiting)
	})
	t.Run("one job is canceled", func(t *testing.T) {
		p.open("/ops/queues/mail")
		p.do(chromedp.Click(chromedp.CSS(`input[name=job][aria-label="Select ` + jids[2] + `"]`)))
		p.send("job.cancel")
		_, err := b.Job(ctx, jids[2])
		require.ErrorIs(t, err, qless.ErrNotFound)
	})
	t.Run("a group of failures is retried", func(t *testing.T) {
		p.open("/ops/failures/smtp")
		p.send("job.unfail")
		job, err := b.Job(ctx, failed)
		require.NoError(t, err)
		require.Equal(t, qless.StateWaiting, job.State)
	})
	t.Run("a queue is paused and opened", func(t *testing.T) {
		p.open("/ops/queues/mail")
		p.send("queue.pause")
		counts, err := b.Queue("mail").Counts(ctx)
		require.NoError(t, err)
		require.True(t, counts.Paused)
		p.send("queue.resume")
		counts, err = b.Queue("mail").Counts(ctx)
		require.NoError(t, err)
		require.False(t, counts.Paused)
	})
	t.Run("a job is found", func(t *testing.T) {
		p.open("/ops/")
		p.do(chromedp.SetValue(chromedp.CSS("#go"), jids[3]))
		p.leave(chromedp.Submit(chromedp.CSS("#go")))
		require.Contains(t, value[string](p, `document.querySelector("main").textContent`), jids[3])
	})
	p.faultless()
}
