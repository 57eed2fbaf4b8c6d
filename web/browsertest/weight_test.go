package browsertest

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go/internal/testkit"
	"github.com/qless/qless-go/web"
)

// maxWeight is the maximum size in bytes of the first page with everything that it loads.
const maxWeight = 100_000

func TestTheFirstPageIsLight(t *testing.T) {
	t.Parallel()
	b := newBoard(t, web.Options{})
	fill(t, b)
	p := newTab(t, b.url)
	p.open("/")
	loaded := value[[]string](p, `["", ...performance.getEntriesByType("resource").map((e) => e.name)]`)
	sum := 0
	for _, address := range loaded {
		if strings.Contains(address, "/live?") {
			continue
		}
		if !strings.HasPrefix(address, b.url) {
			address = b.url + "/" + address
		}
		body, response := fetch(t, address)
		require.Equal(t, 200, response.StatusCode, address)
		t.Logf("%6d bytes: %s", len(body), address)
		sum += len(body)
	}
	require.Less(t, sum, maxWeight)
}

// A page may be shown before its script has run, so that what the script adds must have its place.
func TestTheScriptMovesNothing(t *testing.T) {
	t.Parallel()
	b := newBoard(t, web.Options{})
	jid := b.put("mail", "Send")
	p := newTab(t, b.url)
	block := func(isOn bool) {
		_, err := chromedp.Call(p.ctx, network.SetBlockedURLs, network.SetBlockedURLsParams{
			URLPatterns: []*network.BlockPattern{{URLPattern: b.url + "/static/qless.js", Block: isOn}},
		})
		require.NoError(t, err)
	}
	for _, width := range []int64{wideWidth, 400} {
		p.size(width, 900)
		for _, path := range []string{"/", "/queues/mail", "/jobs/" + jid, "/settings"} {
			block(true)
			p.open(path)
			before := value[[]string](p, places)
			block(false)
			after := value[[]string](p, `new Promise((done) => {
				const script = document.createElement("script");
				script.src = "/static/qless.js";
				script.onload = () => done(`+places+`);
				document.head.append(script);
			})`)
			require.Equal(t, before, after, "%s at %d px", path, width)
		}
	}
}

// places is the expression for where the elements of a page are that come from the server.
const places = `[...document.querySelectorAll("body *:not(svg *, .live *, .hidden, [data-ours])")]
	.map((e) => [e.localName, e.id, e.className] + " " + Math.round(e.getBoundingClientRect().top))`

func TestNothingOnAPageShiftsWhenItIsUpdated(t *testing.T) {
	t.Parallel()
	b := newBoard(t, web.Options{Interval: 250 * time.Millisecond})
	fill(t, b)
	p := newTab(t, b.url)
	paths := []string{"/", "/queues/mail", "/jobs/order-81723", "/failures"}
	partial := slices.Clone(paths)
	testkit.Until(t, "all of the pages is read", func() bool { // each view reads more
		partial = slices.DeleteFunc(partial, func(path string) bool {
			body, _ := fetch(t, b.url+path)
			return !unread.Match(body)
		})
		return len(partial) == 0
	})
	for _, path := range paths {
		p.open(path)
		p.do(chromedp.Evaluate[chromedp.Void](`window.shifts = []; new PerformanceObserver((list) => {
			for (const e of list.getEntries()) {
				shifts.push({ value: e.value, nodes: e.sources.map((s) => s.node?.outerHTML?.slice(0, 120)) });
			}
		}).observe({ type: "layout-shift" })`))
		testOpen(p, b)
		shifts := value[[]struct {
			Value float64
			Nodes []string
		}](p, `new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(shifts))))`)
		sum := 0.0
		for _, shift := range shifts {
			sum += shift.Value
		}
		require.Less(t, sum, 0.02, "%s: %+v", path, shifts)
	}
}
