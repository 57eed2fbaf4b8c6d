package charts

import (
	"encoding/xml"
	"io"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
)

// requireXML requires a text to be well-formed, and to have no elements but those of charts.
func requireXML(t *testing.T, text string) {
	t.Helper()
	decoder := xml.NewDecoder(strings.NewReader("<x>" + text + "</x>"))
	for {
		token, err := decoder.Token()
		if err == io.EOF {
			return
		}
		require.NoError(t, err, text)
		if start, ok := token.(xml.StartElement); ok {
			require.Contains(t, "x svg title rect path text g a circle p span div i b details summary table thead tbody tr th td", start.Name.Local)
		}
	}
}

func TestChartsAreWellFormedWithAnyText(t *testing.T) {
	for _, text := range []string{"a", `"><script>alert(1)</script>`, "\x00\xff&amp;", "日本", ""} {
		charts := []string{
			string(Stack(text, "", time.Unix(0, 0), time.Minute, []Line{{text, text, []float64{1, 2}}})),
			string(Curves(text, "", time.Unix(0, 0), time.Minute, []Line{{text, text, []float64{1, 2}}})),
			string(Spark(text, []float64{1, 0, 3})),
		}
		for _, chart := range charts {
			requireXML(t, chart)
			require.NotContains(t, chart, "<script")
			require.NotContains(t, chart, "style=")
		}
	}
}

func TestChartsOfNothingAndOfOddNumbers(t *testing.T) {
	odd := []float64{math.NaN(), math.Inf(1), -3, 0, 1e18}
	for _, values := range [][]float64{nil, {0}, {1}, odd} {
		lines := []Line{{"x", "done", values}, {"y", "failed", nil}}
		for _, chart := range []string{
			string(Stack("bars", "", time.Unix(0, 0), time.Minute, lines)), string(Spark("spark", values)),
			string(Curves("lines", "", time.Unix(0, 0), time.Minute, lines)),
		} {
			requireXML(t, chart)
			require.NotContains(t, chart, "NaN")
			require.NotContains(t, chart, "Inf")
		}
	}
}

func TestALineHasAGapWhereAValueIsMissing(t *testing.T) {
	chart := string(Spark("spark", []float64{1, math.NaN(), 1}))
	require.Equal(t, 2, strings.Count(chart, "M"))
}

func TestAmounts(t *testing.T) {
	for value, want := range map[float64]string{
		0: "0", 0.5: "0.5", 9999: "9999", 12345: "12.3k", 3.2e7: "32M",
	} {
		require.Equal(t, want, amount(value))
	}
}

func TestLinesAreAtRoundValues(t *testing.T) {
	for top, want := range map[float64]string{
		0: "1 0", 1: "1 0", 3: "3 2 1 0", 59.5: "60 40 20 0", 62.5: "80 60 40 20 0", 407: "600 400 200 0",
		12345: "15k 10k 5000 0",
	} {
		var p plot
		require.GreaterOrEqual(t, p.scale(top, true), top)
		require.Equal(t, want, strings.Join(p.Scale, " "), top)
	}
	var seconds plot
	seconds.scale(0.35, false)
	require.Equal(t, "0.4 0.3 0.2 0.1 0", strings.Join(seconds.Scale, " "))
}

func TestABarOfEachLineIsInAStack(t *testing.T) {
	from := time.Date(2026, 1, 2, 3, 4, 0, 0, time.UTC)
	chart := string(Stack("runs", "read", from, time.Minute, []Line{
		{"done", "done", []float64{1, 0, 3}}, {"failed", "failed", []float64{1, 0, 0}},
	}))
	require.Contains(t, chart, `<path class="hue done" d="M0.1 33.3v33.3h.84v-33.3zM2.1 0v100h.84v-100z"/>`)
	require.Contains(t, chart, `<path class="hue failed" d="M0.1 66.7v33.3h.84v-33.3z"/>`)
	require.Contains(t, chart, `<title>03:06: 3 done, 0 failed</title>`)
	require.Contains(t, chart, `</i>done <b>4</b>`)
}

func TestAHistogramOfOneBucketIsSaidInWords(t *testing.T) {
	bucket := qless.Bucket{From: 2 * time.Second, To: 4 * time.Second, Count: 532}
	require.Equal(t, "<p>All 532: from 2s to 4s.</p>",
		string(Histogram("runs", []qless.Bucket{bucket})))
	require.Contains(t, string(Histogram("runs", []qless.Bucket{bucket, bucket})), "<svg")
}

func TestAMonthHasSomeTicks(t *testing.T) {
	noon := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	for days, ticks := range map[int]int{2: 4, 7: 7, 8: 4, 30: 6} {
		lines := []Line{{Name: "failed", Values: make([]float64, 12*days)}}
		require.Equal(t, ticks, strings.Count(string(Stack("s", "", noon, 2*time.Hour, lines)), "<text"), days)
	}
}
