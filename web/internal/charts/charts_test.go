package charts

import (
	"encoding/xml"
	"io"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// requireXML requires a text to be well-formed, and to begin no element but those of charts.
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
			require.Contains(t, "x svg title rect path text g a circle line p span", start.Name.Local)
		}
	}
}

func TestChartsAreWellFormedWithAnyText(t *testing.T) {
	for _, text := range []string{"a", `"><script>alert(1)</script>`, "\x00\xff&amp;", "日本", ""} {
		charts := []string{
			string(bars(text, []bar{{text, 3, text}, {text, 0, text}})),
			string(Lines(text, time.Unix(0, 0), time.Minute, []Line{{text, []float64{1, 2}}})),
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
		var all []bar
		for _, value := range values {
			all = append(all, bar{Label: "x", Value: value})
		}
		for _, chart := range []string{
			string(bars("bars", all)), string(Spark("spark", values)),
			string(Lines("lines", time.Unix(0, 0), time.Minute, []Line{{"x", values}, {"y", nil}})),
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
