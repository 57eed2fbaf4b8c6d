package inspect

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go/internal/histogram"
)

// A percentile is in the bucket of the expected duration.
func TestPercentilesAreOffByLessThanABucket(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	dice := rand.New(rand.NewPCG(seed, 0))
	for range 200 {
		var h histogram.Histogram
		all := make([]time.Duration, 1+dice.IntN(1000))
		for i := range all {
			all[i] = time.Duration(math.Exp(dice.Float64() * 34))
			h.Add(all[i])
		}
		slices.Sort(all)
		p := percentilesOf(&h)
		require.Equal(t, len(all), p.Count)
		for part, got := range map[float64]time.Duration{0.5: p.P50, 0.9: p.P90, 0.99: p.P99, 0.95: p.At(0.95)} {
			rank := max(int(math.Ceil(part*float64(len(all))))-1, 0)
			want := all[rank]
			require.LessOrEqual(t, float64(got), 1.4143*float64(want)+1000, "%v of %v", part, all)
			require.GreaterOrEqual(t, 1.4143*float64(got)+1000, float64(want), "%v of %v", part, all)
		}
		require.LessOrEqual(t, p.P50, p.P90)
		require.LessOrEqual(t, p.P90, p.P99)
		require.LessOrEqual(t, p.P99, p.At(1))

		var again histogram.Histogram
		again.Read(string(h.AppendTo(nil)))
		require.Equal(t, h, again)
		text, err := json.Marshal(p)
		require.NoError(t, err)
		var decoded Percentiles
		require.NoError(t, json.Unmarshal(text, &decoded))
		require.Equal(t, p, decoded)
	}
}

func TestPercentilesOfNothing(t *testing.T) {
	var h histogram.Histogram
	p := percentilesOf(&h)
	require.Equal(t, Percentiles{}, p)
	require.Zero(t, p.At(0.95))
	text, err := json.Marshal(p)
	require.NoError(t, err)
	require.JSONEq(t, `{"count":0,"p50":"0s","p90":"0s","p99":"0s","histogram":[]}`, string(text))
}

func TestPercentilesBeyondAllBuckets(t *testing.T) {
	var h histogram.Histogram
	h.Add(1000 * time.Hour)
	p := percentilesOf(&h)
	require.Equal(t, 216*time.Hour, p.P50.Round(time.Hour), "longer durations count as that")
	require.Equal(t, p.P50, p.At(2))
	require.Equal(t, p.P50, p.At(-1))
}

func TestPercentilesOfTwoPartsAreThoseOfBoth(t *testing.T) {
	var one, two, both histogram.Histogram
	for i := range 1000 {
		d := time.Duration(i*i) * time.Microsecond
		both.Add(d)
		if i%3 == 0 {
			one.Add(d)
		} else {
			two.Add(d)
		}
	}
	sum := percentilesOf(&one)
	sum.add(percentilesOf(&two))
	require.Equal(t, percentilesOf(&both), sum)
	sum = Percentiles{}
	sum.add(percentilesOf(&both))
	require.Equal(t, percentilesOf(&both), sum)
}
