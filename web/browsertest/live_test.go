package browsertest

import (
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/web"
)

// row is the expression for the row of a job.
func row(jid string) string {
	return `document.querySelector('tr:has(input[aria-label="Select ` + jid + `"])')`
}

// openLive opens the page of a queue with one job, and waits until the page is live.
func openLive(t *testing.T, options web.Options) (b *board, p *tab, jid string) {
	t.Helper()
	b = newBoard(t, options)
	jid = b.put("mail", "Send")
	p = newTab(t, b.url)
	p.open("/queues/mail")
	p.until(`document.querySelector("#live-button.on")`)
	return b, p, jid
}

func TestAChangeOnTheServerIsShown(t *testing.T) {
	t.Parallel()
	b, p, _ := openLive(t, web.Options{Interval: 1750 * time.Millisecond}) // the default
	jid := b.put("mail", "Send")
	began := time.Now()
	p.until(row(jid))
	t.Logf("a job was seen %v after it was put", time.Since(began).Round(10*time.Millisecond))
	require.NoError(t, b.Cancel(t.Context(), jid))
	p.until("!" + row(jid))
	p.open("/")
	p.until(`document.querySelector("#live-button.on")`)
	b.put("another", "Send")
	p.until(`[...document.querySelectorAll("main a")].some((a) => a.textContent === "another")`)
	p.faultless()
}

func TestAnUpdateDoesNotDisturb(t *testing.T) {
	t.Parallel()
	b := newBoard(t, web.Options{})
	first, second := b.put("mail", "Send"), b.put("mail", "Send")
	p := newTab(t, b.url)
	p.size(1280, 500)
	p.open("/queues/mail")
	// The chart moves on with each minute, so that only its frame has to stay.
	p.do(chromedp.Evaluate[chromedp.Void](`window.parts = [...document.querySelectorAll("#content *:not(svg *, .numbers *)")]`))
	p.do(chromedp.Evaluate[chromedp.Void](`void (() => {
		document.querySelector('tr:has(input[aria-label="Select ` + second + `"]) a').focus();
		for (const one of document.querySelectorAll("main details")) one.open = true;
		for (let i = 0; i < 40; i++) document.querySelector("main").append(document.createElement("br"));
		scrollTo(0, 60);
	})()`))
	third := b.put("mail", "Send")
	p.until(row(third))
	require.Empty(t, value[[]string](p, `parts.filter((one) => !one.isConnected).map((one) => one.outerHTML.slice(0, 200))`))
	require.True(t, value[bool](p, row(second)+`.contains(document.activeElement)`))
	require.True(t, value[bool](p, `[...document.querySelectorAll("main details")].every((one) => one.open)`))
	require.Equal(t, 60, value[int](p, `Math.round(scrollY)`))

	t.Run("a row that goes leaves the focus near", func(t *testing.T) {
		require.NoError(t, b.Cancel(t.Context(), second))
		p.until("!" + row(second))
		require.True(t, value[bool](p, `document.activeElement !== document.body`))
	})
	t.Run("a text that is selected stays", func(t *testing.T) {
		p.do(chromedp.Evaluate[chromedp.Void](
			`void getSelection().selectAllChildren(` + row(third) + `.querySelector(".id a"))`))
		require.NoError(t, b.Cancel(t.Context(), first))
		testOpen(p, b)
		require.Equal(t, third[:8]+"…"+third[28:], value[string](p, `getSelection().toString()`))
		p.do(chromedp.Evaluate[chromedp.Void](`getSelection().removeAllRanges()`))
		p.until("!" + row(first))
	})
	p.faultless()
}

// testOpen waits until the page has received an update, shown or not: a second one comes after the
// first, or a sign that nothing but ages has changed.
func testOpen(p *tab, b *board) {
	p.t.Helper()
	b.t.Helper()
	value[bool](p, `(async () => {
		const updates = (await fetch(document.getElementById("main").dataset.live)).body.getReader();
		for (let text = ""; text.split("\n\n").length < 4;) {
			text += new TextDecoder().decode((await updates.read()).value);
		}
		return updates.cancel().then(() => true);
	})()`)
}

func TestUpdatesCanBePaused(t *testing.T) {
	t.Parallel()
	b, p, _ := openLive(t, web.Options{})
	p.do(chromedp.Click(chromedp.CSS("#live-button")))
	require.Equal(t, "Paused", value[string](p, `document.getElementById("live-state").textContent`))
	jid := b.put("mail", "Send")
	testOpen(p, b)
	require.False(t, value[bool](p, "Boolean("+row(jid)+")"))
	p.do(chromedp.Click(chromedp.CSS("#live-button")))
	p.until(row(jid))
	require.Empty(t, value[string](p, `document.getElementById("live-state").textContent`))
	p.faultless()
}

func TestASelectionHoldsTheList(t *testing.T) {
	t.Parallel()
	b, p, _ := openLive(t, web.Options{})
	p.do(chromedp.Click(chromedp.CSS("form.jobs tbody input")))
	jid := b.put("mail", "Send")
	p.point(0, 0)
	p.until(`document.getElementById("live-state").textContent.startsWith("1 new: ")`)
	require.False(t, value[bool](p, "Boolean("+row(jid)+")"))
	require.Equal(t, 1, value[int](p, `document.querySelectorAll("form.jobs tbody input:checked").length`))
	p.do(chromedp.Click(chromedp.CSS("form.jobs tbody input")))
	p.point(0, 0)
	p.until(row(jid))
	require.Empty(t, value[string](p, `document.getElementById("live-state").textContent`))
	p.faultless()
}

func TestARowUnderThePointerStays(t *testing.T) {
	t.Parallel()
	b, p, first := openLive(t, web.Options{})
	box := value[map[string]float64](p, row(first)+`.getBoundingClientRect().toJSON()`)
	p.point(box["x"]+box["width"]/2, box["y"]+box["height"]/2)
	above := b.put("mail", "Send", qless.Priority(2))
	p.until(`document.getElementById("live-state").textContent.startsWith("1 new: ")`)
	require.Equal(t, box, value[map[string]float64](p, row(first)+`.getBoundingClientRect().toJSON()`))
	p.point(0, 0)
	p.until(row(above))
	require.Empty(t, value[string](p, `document.getElementById("live-state").textContent`))
	p.faultless()
}

func TestMorePagesAreLiveThanABrowserHasConnections(t *testing.T) {
	t.Parallel()
	b := newBoard(t, web.Options{})
	b.put("mail", "Send")
	tabs := []*tab{newTab(t, b.url)}
	for range 7 {
		tabs = append(tabs, tabs[0].beside())
	}
	for _, p := range tabs {
		p.open("/queues/mail")
	}
	jid := b.put("mail", "Send")
	for _, p := range tabs {
		p.until(row(jid))
		p.faultless()
	}
}

func TestAServerThatHangsIsToldBesideItsLastFigures(t *testing.T) {
	t.Parallel()
	b, p, jid := openLive(t, web.Options{})
	b.server.Suspend()
	p.until(`document.getElementById("live-state").textContent.startsWith("Redis does not answer: this was at ")`)
	require.False(t, value[bool](p, `Boolean(document.querySelector("#live-button.on"))`))
	require.True(t, value[bool](p, "Boolean("+row(jid)+")"))
	b.server.Resume()
	p.until(`document.querySelector("#live-button.on")`)
	require.Empty(t, value[string](p, `document.getElementById("live-state").textContent`))
	p.faultless()
}

func TestALostConnectionIsTold(t *testing.T) {
	t.Parallel()
	b, p, _ := openLive(t, web.Options{})
	p.do(chromedp.Evaluate[chromedp.Void](`window.interrupted = new Promise((done) => {
		const state = document.getElementById("live-state");
		new MutationObserver(() => {
			if (!state.textContent.startsWith("Interrupted")) return;
			const told = ` + places + `;
			state.textContent = "";
			done([told, ` + places + `]);
		}).observe(state, { childList: true });
	})`))
	b.cut()
	moves := value[[2][]string](p, "interrupted")
	require.Equal(t, moves[1], moves[0])
	p.until(`document.querySelector("#live-button.on")`) // it was opened again
}
