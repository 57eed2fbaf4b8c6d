package browsertest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go/internal/testkit"
)

// root is the root of the repository.
const root = "../.."

func TestMain(m *testing.M) {
	testkit.Silence()
	code := m.Run()
	chromium.close()
	os.Exit(code)
}

// chromium is the browser of all tests. Each test has its own tab and its own cookies.
var chromium browser

type browser struct {
	once   sync.Once
	ctx    context.Context
	cancel context.CancelFunc
	err    error
}

// findChromium returns the path of Chromium.
func findChromium() (string, error) {
	for _, name := range []string{os.Getenv("QLESS_CHROMIUM"), "chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", exec.ErrNotFound
}

// plainHost is a name of this machine that the browser trusts only with HTTPS.
const plainHost = "jobs.example"

func (b *browser) start() {
	path, err := findChromium()
	if err != nil {
		b.err = err
		return
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.WindowSize(1280, 900),
		chromedp.Flag("hide-scrollbars", false), chromedp.Flag("lang", "en-US"),
		chromedp.Flag("host-resolver-rules", "MAP "+plainHost+" 127.0.0.1"))
	allocator, cancelAllocator := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, cancel := chromedp.NewContext(allocator)
	b.ctx, b.cancel = ctx, func() { cancel(); cancelAllocator() }
	b.err = chromedp.Do(ctx)
}

func (b *browser) close() {
	if b.cancel != nil {
		b.cancel()
	}
}

// A tab is a tab of the browser that a test controls.
type tab struct {
	t    *testing.T
	ctx  context.Context
	base string // the address of the dashboard's server

	mu     sync.Mutex
	faults []string // complaints of the browser
}

// newTab opens a tab for the dashboard of a server.
func newTab(t *testing.T, base string) *tab {
	t.Helper()
	chromium.once.Do(chromium.start)
	if chromium.err != nil {
		t.Skipf("Chromium can't be started: %v", chromium.err)
	}
	ctx, cancel := chromedp.NewContext(chromium.ctx, chromedp.WithNewBrowserContext())
	t.Cleanup(cancel)
	return startTab(t, ctx, base)
}

// beside opens another tab that shares the cookies and connections of a tab. It has not the focus,
// which the browser gives to all tabs, because it has no windows.
func (p *tab) beside() *tab {
	p.t.Helper()
	ctx, cancel := chromedp.NewContext(p.ctx)
	p.t.Cleanup(cancel)
	other := startTab(p.t, ctx, p.base)
	_, err := chromedp.Call(ctx, page.AddScriptToEvaluateOnNewDocument,
		page.AddScriptToEvaluateOnNewDocumentParams{Source: "document.hasFocus = () => false"})
	require.NoError(p.t, err)
	return other
}

func startTab(t *testing.T, ctx context.Context, base string) *tab {
	t.Helper()
	p := &tab{t: t, ctx: ctx, base: base}
	require.NoError(t, chromedp.Do(ctx))
	require.NoError(t, chromedp.Listen(ctx, p.hear))
	_, err := chromedp.Call(ctx, log.Enable, cdp.Empty{})
	require.NoError(t, err)
	_, err = chromedp.Call(ctx, network.Enable, network.EnableParams{})
	require.NoError(t, err)
	p.size(wideWidth, 900)
	return p
}

// hear records errors that should not happen on any page.
func (p *tab) hear(event any) {
	fault := ""
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		fault = "exception: " + e.ExceptionDetails.Text
	case *runtime.EventConsoleAPICalled:
		fault = "console: " + string(e.Type)
	case *log.EventEntryAdded:
		fault = fmt.Sprintf("%s: %s %s", e.Entry.Level, e.Entry.Text, e.Entry.URL)
	case *network.EventRequestWillBeSent:
		if !strings.HasPrefix(e.Request.URL, p.base+"/") && !strings.HasPrefix(e.Request.URL, "data:") {
			fault = "request: " + e.Request.URL
		}
	}
	if fault != "" {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.faults = append(p.faults, fault)
	}
}

// faultless fails the test if the browser has complained.
func (p *tab) faultless() {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	require.Empty(p.t, p.faults)
}
