package browsertest

import (
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go/web"
)

func TestChartsSayTheirValuesAndTablesAreDense(t *testing.T) {
	t.Parallel()
	b := newBoard(t, web.Options{Interval: time.Hour})
	fill(t, b)
	p := newTab(t, b.url)
	p.size(1440, 900)

	t.Run("a chart is as wide as the page", func(t *testing.T) {
		p.open("/queues/mail?list=charts")
		p.until(`document.querySelector(".axes")`)
		require.True(t, value[bool](p, `document.querySelector(".axes").getBoundingClientRect().width >
			document.getElementById("content").getBoundingClientRect().width - 2`))
	})
	t.Run("arrow keys lead through its values", func(t *testing.T) {
		p.do(chromedp.Evaluate[chromedp.Void](`document.querySelector(".axes").focus()`))
		p.press(kb.ArrowLeft)
		last := value[string](p, `document.querySelector(".key .at").textContent`)
		require.Regexp(t, `^\d\d:\d\d: `, last)
		require.Equal(t, last, value[string](p, `[...document.querySelector(".axes").querySelectorAll(".hit")].at(-1).textContent`))
		p.press(kb.ArrowLeft)
		require.NotEqual(t, last, value[string](p, `document.querySelector(".key .at").textContent`))
	})
	t.Run("the pointer says the value below it", func(t *testing.T) {
		want := value[string](p, `(() => {
			const hit = document.querySelectorAll(".axes .hit")[3];
			hit.dispatchEvent(new PointerEvent("pointerover", { bubbles: true }));
			return hit.textContent;
		})()`)
		require.Equal(t, want, value[string](p, `document.querySelector(".key .at").textContent`))
	})
	p.open("/queues/mail")
	t.Run("rows have 24 pixels", func(t *testing.T) {
		heights := value[[]float64](p, `[...document.querySelectorAll("form.jobs tbody tr")].map((row) => row.offsetHeight)`)
		require.Greater(t, len(heights), 36)
		for _, height := range heights {
			require.InDelta(t, 24, height, 1)
		}
	})
	t.Run("the bar of actions is there while a job is selected", func(t *testing.T) {
		isShown := `document.querySelector("form.jobs > .acts").checkVisibility()`
		require.False(t, value[bool](p, isShown))
		p.do(chromedp.Click(chromedp.CSS("form.jobs tbody input")))
		p.until(isShown)
	})
	p.faultless()
}

func TestAJIDIsCopied(t *testing.T) {
	t.Parallel()
	b := newBoard(t, web.Options{Hosts: []string{plainHost}})
	jid := b.put("mail", "Send")
	for _, url := range []string{b.url, strings.Replace(b.url, "127.0.0.1", plainHost, 1)} {
		p := newTab(t, url)
		p.open("/queues/mail")
		p.until(`document.querySelector(".copy")`)
		p.do(chromedp.Evaluate[chromedp.Void](`document.addEventListener("copy", () => {
			window.copied = document.activeElement.value;
		})`))
		if value[bool](p, "isSecureContext") {
			p.do(chromedp.Evaluate[chromedp.Void](`void (navigator.clipboard.writeText = async (text) => { window.copied = text; })`))
		}
		size := value[int](p, `Math.min(document.querySelector(".copy").offsetWidth, document.querySelector(".copy").offsetHeight)`)
		require.GreaterOrEqual(t, size, 24)
		p.do(chromedp.Click(chromedp.CSS(".copy")))
		p.until(`document.querySelector(".copy").textContent === "Copied"`)
		require.Equal(t, jid, value[string](p, "window.copied"), url)
		p.faultless()
	}
}
