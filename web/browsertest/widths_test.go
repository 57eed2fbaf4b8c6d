package browsertest

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go/web"
)

// widths are those between a phone and a desk: tablets, laptops and half of a screen.
var widths = []int64{960, 1024, 1100, 1200, 1280}

// whole are the pages whose tables show all of their columns at all widths. Others have a shadow.
var whole = []string{"/", "/queues", "/workers", "/klasses", "/failures", "/completed", "/limits", "/batches"}

// cramped lists what is wrong with a page at its width: columns that are hidden without a sign,
// words that are broken within, and targets that are too low to be hit.
const cramped = `(() => {
	const wrong = [], seen = (e) => e.getClientRects().length > 0;
	const all = (selector) => [...document.querySelectorAll(selector)].filter(seen);
	for (const cell of all(".wide td")) { // any time may be a long one
		const walk = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
		for (let node; node = walk.nextNode();)
			node.data = node.data.replace(/^\s*([\d.]+s|\d+m\d\ds)\s*$/, "59m59s");
	}
	for (const box of all(".wide")) {
		const hidden = box.scrollWidth - box.clientWidth;
		if (hidden > 0 && (!(getComputedStyle(box).backgroundImage + "").includes("gradient") || WHOLE))
			wrong.push(hidden + " px of " + box.ariaLabel + " are hidden");
	}
	for (const cell of all(".wide :is(th, td):not(.cut)")) {
		const walk = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
		for (let node; node = walk.nextNode();) {
			for (const word of node.data.matchAll(/[\p{L}\p{N}_]{2,30}/gu)) {
				const range = document.createRange();
				range.setStart(node, word.index);
				range.setEnd(node, word.index + word[0].length);
				if (new Set([...range.getClientRects()].map((r) => Math.round(r.top))).size > 1)
					wrong.push(word[0] + " is broken");
			}
		}
	}
	for (const target of all("main :is(td, th) > a, main :is(button, select, summary, input:not([type=checkbox]))")) {
		const height = target.getBoundingClientRect().height;
		if (height < 23.5) wrong.push(target.outerHTML.slice(0, 120) + " has a height of " + height);
	}
	return [...new Set(wrong)].slice(0, 8).join("\n");
})()`

func TestEachPageFitsEachWidth(t *testing.T) {
	t.Parallel()
	b := newBoard(t, web.Options{})
	fill(t, b)
	p := newTab(t, b.url)
	pages := 0
	p.crawl("", 1, func(path string) {
		pages++
		isWhole := strconv.FormatBool(slices.Contains(whole, path))
		for _, width := range widths {
			p.size(width, 900)
			if over := value[int](p, tooWide); over != 0 {
				t.Errorf("%s is %d pixels too wide for %d", path, over, width)
			}
			if wrong := value[string](p, strings.ReplaceAll(cramped, "WHOLE", isWhole)); wrong != "" {
				t.Errorf("%s at %d:\n%s", path, width, wrong)
			}
		}
	})
	require.GreaterOrEqual(t, pages, 14)
}
