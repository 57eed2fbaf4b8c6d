package browsertest

import (
	"context"
	"net/url"
	"strings"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go/internal/testkit"
)

// do runs steps, which end within testkit.Patience.
func (p *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, testkit.Patience)
	defer cancel()
	for _, step := range steps {
		require.NoError(p.t, again(func() error { return chromedp.Do(ctx, step) }))
	}
}

// again calls do, and once more if an update of the page has replaced an element.
func again(do func() error) error {
	for {
		err := do()
		if err == nil || !strings.Contains(err.Error(), "Could not find node with given id") {
			return err
		}
	}
}

// open loads a page by its path, and waits for everything that it loads.
func (p *tab) open(path string) {
	p.t.Helper()
	p.do(chromedp.Navigate(p.base + path))
}

// path returns the path and query of the page in the tab.
func (p *tab) path() string {
	p.t.Helper()
	here, err := url.Parse(value[string](p, `location.href`))
	require.NoError(p.t, err)
	return here.RequestURI()
}

// value returns the value of an expression on the page.
func value[T any](p *tab, expression string) T {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, testkit.Patience)
	defer cancel()
	got, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	require.NoError(p.t, err, expression)
	return got
}

// until waits until an expression is true on the page. It has no value while another page loads.
func (p *tab) until(expression string) {
	p.t.Helper()
	testkit.Until(p.t, expression, func() bool {
		ctx, cancel := context.WithTimeout(p.ctx, testkit.Patience)
		defer cancel()
		got, err := chromedp.Run(ctx, chromedp.Evaluate[bool]("Boolean("+expression+")"))
		return err == nil && got
	})
}

// leave does a step that loads another page, and waits for that.
func (p *tab) leave(step chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, testkit.Patience)
	defer cancel()
	require.NoError(p.t, again(func() error {
		_, err := chromedp.RunResponse(ctx, step)
		return err
	}))
}

// press types keys, one after another.
func (p *tab) press(keys string, options ...chromedp.KeyOption) {
	p.t.Helper()
	p.do(chromedp.KeyEvent(keys, options...))
}

// point moves the pointer.
func (p *tab) point(x, y float64) {
	p.t.Helper()
	p.do(chromedp.MouseEvent(chromedp.MouseMoved, x, y))
}

// size sets the size of the window.
func (p *tab) size(width, height int64) {
	p.t.Helper()
	p.do(chromedp.EmulateViewport(width, height))
}

// scheme sets the colour scheme, "light" or "dark".
func (p *tab) scheme(scheme string) {
	p.t.Helper()
	_, err := chromedp.Call(p.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{
			{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: "reduce"},
		},
	})
	require.NoError(p.t, err)
}

// withoutScript turns JavaScript off.
func (p *tab) withoutScript() {
	p.t.Helper()
	_, err := chromedp.Call(p.ctx, emulation.SetScriptExecutionDisabled,
		emulation.SetScriptExecutionDisabledParams{Value: true})
	require.NoError(p.t, err)
}
