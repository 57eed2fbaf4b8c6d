package browsertest

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go/web"
)

// shapeOf distinguishes kinds of pages, but not those of two jobs.
func shapeOf(t *testing.T, path string) string {
	t.Helper()
	where, err := url.Parse(path)
	require.NoError(t, err)
	parts := strings.Split(strings.Trim(where.Path, "/"), "/")
	for i := 1; i < len(parts); i += 2 {
		parts[i] = "*"
	}
	var parameters []string
	for name, values := range where.Query() {
		switch name {
		case "list", "view", "tab":
			name += "=" + values[0]
		}
		parameters = append(parameters, name)
	}
	slices.Sort(parameters)
	return strings.Join(parts, "/") + "?" + strings.Join(parameters, "&")
}

// crawl visits the pages that are linked from the first one, up to perShape of each shape. Pages
// with several parameters count like those with one.
func (p *tab) crawl(prefix string, perShape int, visit func(path string), also ...string) {
	p.t.Helper()
	visited, shapes := map[string]bool{}, map[string]int{}
	queue := []string{prefix + "/"}
	for _, path := range also {
		queue = append(queue, prefix+path)
	}
	for len(queue) > 0 {
		path := queue[0]
		queue = queue[1:]
		shape := shapeOf(p.t, strings.TrimPrefix(path, prefix))
		if visited[path] || shapes[shape] >= perShape || strings.Contains(shape, "&") {
			continue
		}
		visited[path] = true
		shapes[shape]++
		p.open(path)
		visit(path)
		queue = append(queue, p.links(prefix)...)
	}
}

// links returns the paths of the pages that the page links to.
func (p *tab) links(prefix string) []string {
	p.t.Helper()
	hrefs := value[[]string](p, `[...document.querySelectorAll("a[href]:not([download])")]
		.map((a) => a.href.baseVal === undefined ? a.href : new URL(a.href.baseVal, location).href)`)
	var paths []string
	for _, href := range hrefs {
		href, _, _ = strings.Cut(href, "#")
		path, isOurs := strings.CutPrefix(href, p.base)
		if !isOurs {
			p.t.Errorf("%s leads to %s", p.path(), href)
		}
		if strings.HasPrefix(path, prefix+"/") && !jsonPath.MatchString(path) {
			paths = append(paths, path)
		}
	}
	return paths
}

// jsonPath matches paths that are not HTML.
var jsonPath = regexp.MustCompile(`\.json(\?|$)|[?&]format=|/receipts/`)

// tooWide is the number of pixels by which the page is wider than the window.
const tooWide = `Math.max(0, document.documentElement.scrollWidth - document.documentElement.clientWidth)`

// inTheDark are the pages that are also checked with dark colours.
var inTheDark = []string{
	"/ops/queues/", "/ops/queues/jobs/order-81723", "/ops/queues/workers", "/ops/queues/failures",
}

func TestAllPagesLoadWithoutFaults(t *testing.T) {
	t.Parallel()
	filled := newBoard(t, web.Options{})
	fill(t, filled)
	for _, one := range []struct{ name, prefix string }{{"at the root", ""}, {"under a prefix", "/ops/queues"}} {
		t.Run(one.name, func(t *testing.T) {
			t.Parallel()
			b := &board{Client: filled.Client, t: t, rdb: filled.rdb}
			b.serve(web.Options{Prefix: one.prefix}, web.Source{Client: b.Client, Redis: b.rdb})
			p := newTab(t, b.url)
			if one.prefix != "" {
				p.scheme("dark")
			}
			barriers, markup := newBarriers(t), newMarkup(t)
			pages := 0
			p.crawl(one.prefix, 1, func(path string) {
				pages++
				p.check(path)
				if one.prefix == "" {
					markup.keep(b, path)
				}
				if one.prefix == "" && !strings.Contains(path, "?") || slices.Contains(inTheDark, path) {
					barriers.find(p, path)
				}
			}, "/jobs/order-81723", "/jobs/clean/graph")
			p.ask(one.prefix)
			p.check("the page that asks")
			barriers.find(p, "the page that asks")
			t.Logf("%d pages", pages)
			require.GreaterOrEqual(t, pages, 14)
			barriers.report(t)
			markup.check(t)
		})
	}
}

// ask selects a job of a queue, and requests an action that asks a question.
func (p *tab) ask(prefix string) {
	p.t.Helper()
	p.open(prefix + "/queues/exports")
	p.leave(chromedp.Evaluate[chromedp.Void](`(() => {
		document.querySelector("tbody input[name=job]").click();
		document.querySelector('form.jobs button[formaction$="/actions/job.cancel"]').click();
	})()`))
}

// wideWidth is the minimum width of a page at which tables do not scroll on their own: 75rem.
const wideWidth = 1200

// check checks a loaded page, wide and narrow.
func (p *tab) check(path string) {
	p.t.Helper()
	if over := value[int](p, tooWide); over != 0 {
		p.t.Errorf("%s is %d pixels too wide for %d", path, over, wideWidth)
	}
	p.size(phoneWidth, phoneHeight)
	p.checkNarrow(path)
	p.size(wideWidth, 900)
}

// The size of a phone.
const phoneWidth, phoneHeight = 390, 844

// checkNarrow checks a page that was loaded on a phone.
func (p *tab) checkNarrow(path string) {
	p.t.Helper()
	require.True(p.t, value[bool](p, `Boolean(document.querySelector("h1")?.textContent.trim())`), path)
	if over := value[int](p, tooWide); over != 0 {
		p.t.Errorf("%s is %d pixels too wide for a phone: %s", path, over, value[string](p, `
			[...document.querySelectorAll("body *")].filter((e) => e.getBoundingClientRect().right > innerWidth + 1 &&
			!e.closest(".wide, .plot, nav, .skip, .hidden")).slice(0, 5).map((e) => e.outerHTML.slice(0, 120)).join("\n")`))
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, fault := range p.faults {
		p.t.Errorf("%s: %s", path, fault)
	}
	p.faults = nil
}

// hostile are names that a page must not interpret.
var hostile = []string{
	`<script>alert(1)</script>`, `"><img src=x onerror=alert(1)>`, strings.Repeat("long", 40), "a/b?c#d%e", "..", "ünï cödé 🙂",
}

func TestNoNameBreaksAPage(t *testing.T) {
	t.Parallel()
	b := newBoard(t, web.Options{})
	for i, name := range hostile {
		b.put(name, name)
		b.put("plain", name)
		jid := b.put("failing", name)
		jobs, err := b.Queue("failing").Pop(t.Context(), 1)
		require.NoError(t, err)
		require.NoError(t, jobs[0].Fail(t.Context(), name, fmt.Sprint(name, i)), jid)
	}
	p := newTab(t, b.url)
	p.size(phoneWidth, phoneHeight)
	p.crawl("", len(hostile), p.checkNarrow)
}
