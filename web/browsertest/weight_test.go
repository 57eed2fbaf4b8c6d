package browsertest

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go/internal/testkit"
	"github.com/qless/qless-go/web"
)

// The first page and all that it loads.
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

func TestNothingOnAPageShiftsWhenItIsUpdated(t *testing.T) {
	t.Parallel()
	b := newBoard(t, web.Options{})
	fill(t, b)
	p := newTab(t, b.url)
	for _, path := range []string{"/", "/queues/mail", "/jobs/order-81723", "/failures"} {
		testkit.Until(t, "all of the page is read", func() bool {
			p.open(path)
			return !value[bool](p, partly)
		})
		testOpen(p, b)
		shift := value[float64](p, `new Promise((done) => {
			let sum = 0;
			const observer = new PerformanceObserver((list) => list.getEntries().forEach((e) => { sum += e.value; }));
			observer.observe({ type: "layout-shift", buffered: true });
			requestAnimationFrame(() => requestAnimationFrame(() => done(sum)));
		})`)
		require.Less(t, shift, 0.02, path)
	}
}
