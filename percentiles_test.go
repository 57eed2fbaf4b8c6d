package qless

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestBucketsOfAHistogram(t *testing.T) {
	for d, bucket := range map[time.Duration]int{
		-time.Second: 0, 0: 0, 999: 0, time.Microsecond: 1, 1413: 1, 1415: 2, 2 * time.Microsecond: 3,
		time.Microsecond << 39: 79, 10 * 24 * time.Hour: 80, math.MaxInt64: 80,
	} {
		var h histogram
		h.add(d)
		require.Equal(t, uint64(1), h[bucket], "%v: %v", d, h)
	}
}

// A percentile is in the bucket of the duration that it should be.
func TestPercentilesAreOffByLessThanABucket(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	dice := rand.New(rand.NewPCG(seed, 0))
	for range 200 {
		var h histogram
		all := make([]time.Duration, 1+dice.IntN(1000))
		for i := range all {
			all[i] = time.Duration(math.Exp(dice.Float64() * 34))
			h.add(all[i])
		}
		slices.Sort(all)
		p := h.percentiles()
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

		var again histogram
		again.read(string(h.appendTo(nil)))
		require.Equal(t, h, again)
		text, err := json.Marshal(p)
		require.NoError(t, err)
		var decoded Percentiles
		require.NoError(t, json.Unmarshal(text, &decoded))
		require.Equal(t, p, decoded)
	}
}

func TestPercentilesOfNothing(t *testing.T) {
	var h histogram
	p := h.percentiles()
	require.Equal(t, Percentiles{}, p)
	require.Zero(t, p.At(0.95))
	text, err := json.Marshal(p)
	require.NoError(t, err)
	require.JSONEq(t, `{"count":0,"p50":0,"p90":0,"p99":0,"histogram":[]}`, string(text))
}

func TestPercentilesBeyondAllBuckets(t *testing.T) {
	var h histogram
	h.add(1000 * time.Hour)
	p := h.percentiles()
	require.Equal(t, bounds[len(bounds)-1], p.P50, "what is longer counts as that")
	require.Equal(t, p.P50, p.At(2))
	require.Equal(t, p.P50, p.At(-1))
}

func TestDamagedHistogramsCountWhatCanBeRead(t *testing.T) {
	var h histogram
	h.read(" 3:1 x:2 4:y 81:1 -1:1 5 :6 7: 3:2 8:99999999999999 ")
	want := histogram{}
	want[3] = 3
	require.Equal(t, want, h)
}
