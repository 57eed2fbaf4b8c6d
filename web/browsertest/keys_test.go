package browsertest

import (
	"fmt"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go/web"
)

const focused = `document.activeElement.textContent.trim()`

func TestTheDashboardWorksByKeysAlone(t *testing.T) {
	t.Parallel()
	b := newBoard(t, web.Options{})
	for range 6 {
		b.put("mail", "Send")
	}
	p := newTab(t, b.url)
	p.open("/queues/mail")

	t.Run("the first tab skips the navigation", func(t *testing.T) {
		p.press(kb.Tab)
		require.Equal(t, "Skip to the content", value[string](p, focused))
		require.True(t, value[bool](p, `document.activeElement.getBoundingClientRect().left >= 0`))
		p.press(kb.Enter)
		p.until(`document.activeElement.id === "main"`)
	})
	t.Run("each thing with the focus shows it", func(t *testing.T) {
		p.open("/queues/mail")
		for range 30 {
			p.press(kb.Tab)
			seen := value[string](p, `(() => {
				const e = document.activeElement, style = getComputedStyle(e);
				return e === document.body || style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2 ?
					"" : e.outerHTML.slice(0, 200);
			})()`)
			require.Empty(t, seen, "it has the focus and no outline")
		}
	})
	t.Run("the order is that of the page", func(t *testing.T) {
		require.True(t, value[bool](p, `![...document.querySelectorAll("[tabindex]")].some((e) => e.tabIndex > 0)`))
	})
	t.Run("j and k go from row to row, x selects", func(t *testing.T) {
		p.open("/queues/mail")
		p.press("jx")
		p.until(checked(1))
		p.press("jjX")
		p.until(checked(3))
		require.Equal(t, "3 selected", value[string](p, `document.querySelector(".picked").textContent`))
		p.press("kx")
		p.until(checked(2))
	})
	t.Run("a selects all, and none", func(t *testing.T) {
		p.press("a")
		p.until(checked(6))
		p.press("a")
		p.until(checked(0))
	})
	t.Run("Shift and a click select a range", func(t *testing.T) {
		p.center("tbody tr:nth-child(5) input")
		p.do(chromedp.Click(chromedp.CSS("tbody tr:nth-child(2) input")))
		box := value[map[string]float64](p, `(() => {
			const { x, y, width, height } = document.querySelector("tbody tr:nth-child(5) input").getBoundingClientRect();
			return { x: x + width / 2, y: y + height / 2 };
		})()`)
		p.do(chromedp.MouseClickXY(box["x"], box["y"], chromedp.ButtonModifiers(kb.ModifierShift)))
		p.until(checked(4))
	})
	t.Run("a slash finds a job", func(t *testing.T) {
		p.press("/")
		require.Equal(t, "go", value[string](p, `document.activeElement.id`))
		// chromedp sends the character although the script prevents it.
		p.do(chromedp.Evaluate[chromedp.Void](`void (document.getElementById("go").value = "")`))
		p.press("gfjx?")
		require.Equal(t, "gfjx?", value[string](p, `document.getElementById("go").value`))
		p.press(kb.Escape)
		require.Equal(t, "BODY", value[string](p, `document.activeElement.nodeName`))
	})
	t.Run("a question mark shows the keys", func(t *testing.T) {
		p.press("?")
		require.True(t, value[bool](p, `document.getElementById("keys").open`))
	})
	t.Run("g and a letter go to a section", func(t *testing.T) {
		for _, section := range []struct{ key, path string }{
			{"w", "/workers"}, {"f", "/failures"}, {"o", "/"},
		} {
			p.leave(chromedp.Steps(chromedp.KeyEvent("g"), chromedp.KeyEvent(section.key)))
			require.Equal(t, section.path, p.path())
		}
	})
	t.Run("Enter opens a row", func(t *testing.T) {
		p.press("j")
		p.until(`document.activeElement.closest("tr")`)
		p.leave(chromedp.KeyEvent(kb.Enter))
		require.Equal(t, "/queues/mail", p.path())
	})
	p.faultless()
}

func checked(count int) string {
	return fmt.Sprintf(`document.querySelectorAll("input[name=job]:checked").length === %d`, count)
}

func TestEachSectionHasAKeyOfItsOwn(t *testing.T) {
	t.Parallel()
	p := newTab(t, newBoard(t, web.Options{}).url)
	p.open("/")
	keys := value[[]string](p, `[...document.querySelectorAll("nav.main a[data-key]")].map((a) => a.dataset.key || "")`)
	seen := map[string]bool{}
	for _, key := range keys {
		require.Len(t, key, 1)
		require.False(t, seen[key], key)
		seen[key] = true
		require.Contains(t, value[string](p, `document.getElementById("keys").textContent`), key)
	}
}

func TestATimeIsInTheZoneOfTheViewer(t *testing.T) {
	t.Parallel()
	p := newTab(t, newBoard(t, web.Options{}).url)
	_, err := chromedp.Call(p.ctx, emulation.SetTimezoneOverride,
		emulation.SetTimezoneOverrideParams{TimezoneID: "Asia/Tokyo"})
	require.NoError(t, err)
	p.open("/find?q=x&since=2024-01-02T03:00:00Z")
	require.Equal(t, "2024-01-02 12:00:00", value[string](p, `document.querySelector("[name=since]").value`))
	p.leave(chromedp.Evaluate[chromedp.Void](`document.querySelector("[name=since]").form.requestSubmit()`))
	require.Contains(t, p.path(), "since=2024-01-02T03%3A00%3A00.000Z")
}
