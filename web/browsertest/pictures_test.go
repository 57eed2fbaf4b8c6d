package browsertest

import (
	"bytes"
	"cmp"
	"flag"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go/internal/testkit"
	"github.com/qless/qless-go/web"
)

var (
	pictures = flag.Bool("pictures", false, "write docs/images/dashboard-*.png")
	album    = flag.String("album", "", "the folder for a picture of every page: light, dark, on a phone")
)

// maxPicture is the maximum size of a picture in bytes.
const maxPicture = 150_000

// shown are the pages of the pictures, filled with the example data.
var shown = []struct {
	name, path, scheme string
	width, height      int64
}{
	{"overview", "/", "light", 1280, 800},
	{"overview-dark", "/", "dark", 1280, 800},
	{"queue", "/queues/mail", "light", 1280, 800},
	{"job", "/jobs/order-81723", "light", 1280, 800},
	{"graph", "/jobs/clean/graph", "light", 1280, 640},
	{"failures", "/failures", "dark", 1280, 520},
	{"phone", "/", "light", 390, 780},
}

// partly is true if the data of a page has not been read to its end.
const partly = `/` + unreadWords + `/.test(document.body.textContent)`

const unreadWords = `[Rr]ead so far|being looked into`

var unread = regexp.MustCompile(unreadWords)

func TestPictures(t *testing.T) {
	if !*pictures {
		t.Skip("they are taken by make screenshots")
	}
	b := newBoard(t, web.Options{Interval: time.Hour})
	fillEvery(t, b, 1)
	p := newTab(t, b.url)
	folder := filepath.FromSlash(root + "/docs/images")
	require.NoError(t, os.MkdirAll(folder, 0o755))
	for _, one := range shown {
		p.scheme(one.scheme)
		p.size(one.width, one.height)
		testkit.Until(t, "all of the page is read", func() bool {
			p.open(one.path)
			return !value[bool](p, partly)
		})
		p.until(`document.querySelector("#live-button.on")`)
		p.do(chromedp.Evaluate[chromedp.Void](`void document.documentElement.style.setProperty("scrollbar-width", "none")`))
		shot, err := chromedp.Run(p.ctx, chromedp.CaptureScreenshot())
		require.NoError(t, err)
		small := shrink(t, shot)
		require.Less(t, len(small), maxPicture, one.name)
		path := filepath.Join(folder, "dashboard-"+one.name+".png")
		require.NoError(t, os.WriteFile(path, small, 0o644))
		t.Logf("%s: %d bytes", path, len(small))
	}
	p.faultless()
}

// albumPages are the pages of which pictures are taken for inspection.
var albumPages = map[string]string{
	"overview": "/", "queues": "/queues", "queue": "/queues/mail", "scheduled": "/queues/reminders?list=scheduled",
	"empty": "/queues/mail?list=stalled", "why": "/queues/exports/why", "job": "/jobs/order-81723",
	"failed": "/jobs/Export-72000", "graph": "/jobs/clean/graph", "find": "/find", "found": "/find?q=Charge",
	"failures": "/failures", "failure": "/failures/Charge:card_declined", "klasses": "/klasses",
	"klass": "/klasses/SendReceipt", "workers": "/workers", "worker": "/workers/shop-1", "recurring": "/recurring",
	"schedules": "/schedules", "schedule": "/schedules/digests", "limits": "/limits", "limit": "/limits/card-gateway",
	"tags": "/tags", "tracked": "/tracked", "completed": "/completed", "activity": "/activity", "server": "/server",
	"settings": "/settings", "doctor": "/doctor", "unique": "/unique", "batches": "/batches", "put": "/actions/job.put?queue=mail",
	"confirm": "/actions/job.cancel?scope=queue&queue=exports&list=waiting",
}

func TestAlbum(t *testing.T) {
	if *album == "" {
		t.Skip("it is taken by make screenshots")
	}
	b := newBoard(t, web.Options{Interval: time.Hour})
	fillEvery(t, b, 1)
	p := newTab(t, b.url)
	for name, path := range albumPages {
		for _, one := range []struct {
			kind, scheme  string
			width, height int64
		}{{"light", "light", 1440, 900}, {"dark", "dark", 1440, 900}, {"phone", "light", 390, 844}} {
			p.scheme(one.scheme)
			p.size(one.width, one.height)
			testkit.Until(t, "all of the page is read", func() bool {
				p.open(path)
				return !value[bool](p, partly)
			})
			shot, err := chromedp.Run(p.ctx, chromedp.CaptureScreenshot())
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(filepath.Join(*album, name+"-"+one.kind+".png"), shot, 0o644))
		}
	}
	p.faultless()
}

// shrink reduces a picture to 256 colours: the most frequent ones, and others unlike them.
func shrink(t *testing.T, text []byte) []byte {
	t.Helper()
	picture, err := png.Decode(bytes.NewReader(text))
	require.NoError(t, err)
	bounds := picture.Bounds()
	flat := image.NewRGBA(bounds)
	draw.Draw(flat, bounds, picture, bounds.Min, draw.Src)
	counts := map[color.RGBA]int{}
	for y := range bounds.Dy() {
		for x := range bounds.Dx() {
			counts[flat.RGBAAt(x, y)]++
		}
	}
	all := slices.SortedFunc(maps.Keys(counts), func(a, b color.RGBA) int {
		return cmp.Or(counts[b]-counts[a], int(a.R)-int(b.R), int(a.G)-int(b.G), int(a.B)-int(b.B))
	})
	var palette color.Palette
	hasLike := map[[3]uint8]bool{}
	for _, c := range all {
		like := [3]uint8{c.R / 24, c.G / 24, c.B / 24}
		if len(palette) < 160 || len(palette) < 256 && !hasLike[like] {
			palette = append(palette, c)
			hasLike[like] = true
		}
	}
	small := image.NewPaletted(bounds, palette)
	draw.Draw(small, bounds, flat, bounds.Min, draw.Src)
	var out bytes.Buffer
	encoder := png.Encoder{CompressionLevel: png.BestCompression}
	require.NoError(t, encoder.Encode(&out, small))
	return out.Bytes()
}
