package histogram

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestBucketsOfAHistogram(t *testing.T) {
	for d, bucket := range map[time.Duration]int{
		-time.Second: 0, 0: 0, 999: 0, time.Microsecond: 1, 1413: 1, 1415: 2, 2 * time.Microsecond: 3,
		time.Microsecond << 39: 79, 10 * 24 * time.Hour: 80, math.MaxInt64: 80,
	} {
		var h Histogram
		h.Add(d)
		require.Equal(t, uint64(1), h[bucket], "%v: %v", d, h)
	}
}

func TestBucketsOfADayByName(t *testing.T) {
	for name, want := range map[string]int{"s0": 0, "s59": 59, "m1": 60, "m59": 118, "h1": 119, "h23": 141, "d1": 142, "d6": 147} {
		i, ok := bucketNamed(name)
		require.True(t, ok, name)
		require.Equal(t, want, i, name)
	}
	for _, name := range []string{"", "s", "s-1", "s60", "m0", "m60", "h0", "h24", "d0", "d7", "x1"} {
		_, ok := bucketNamed(name)
		require.False(t, ok, name)
	}
}

func TestDamagedHistogramsCountWhatCanBeRead(t *testing.T) {
	var h Histogram
	h.Read(" 3:1 x:2 4:y 81:1 -1:1 5 :6 7: 3:2 8:99999999999999 ")
	want := Histogram{}
	want[3] = 3
	require.Equal(t, want, h)
}
