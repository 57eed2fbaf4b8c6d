package units_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go/internal/units"
)

func TestAgesHaveTwoUnits(t *testing.T) {
	for want, d := range map[string]time.Duration{
		"-": 0, "<1s": time.Second - 1, "1s": time.Second, "59s": 59*time.Second + 1, "1m00s": time.Minute,
		"7m12s": 432 * time.Second, "3h05m": 3*time.Hour + 5*time.Minute + 59*time.Second,
		"2d01h": 49 * time.Hour, "400d00h": 9600 * time.Hour,
	} {
		require.Equal(t, want, units.Age(d))
	}
}

func TestDurationsHaveAtMostTwoUnits(t *testing.T) {
	for d, text := range map[time.Duration]string{
		0:                              "0s",
		250 * time.Microsecond:         "250µs",
		850 * time.Millisecond:         "850ms",
		time.Second:                    "1s",
		2500 * time.Millisecond:        "2.5s",
		59 * time.Second:               "59s",
		5*time.Minute + 12*time.Second: "5m12s",
		time.Hour:                      "1h",
		76*time.Hour + 59*time.Minute:  "3d4h",
		-time.Minute:                   "-1m",
		math.MinInt64:                  "-106751d23h",
	} {
		require.Equal(t, text, units.Duration(d))
	}
}

func TestRatesAreShort(t *testing.T) {
	for want, r := range map[string]float64{"-": 0, "0.2": 0.2, "9.9": 9.94, "1234": 1234.2} {
		require.Equal(t, want, units.Rate(r))
	}
}

func TestAmountsOfMemoryAreRounded(t *testing.T) {
	for want, n := range map[string]float64{
		"0 B": 0, "1023 B": 1023, "1.0 KiB": 1024, "1.6 MiB": 1699832, "2048.0 TiB": 1 << 51,
	} {
		require.Equal(t, want, units.Bytes(n))
	}
}

func TestNamesAreQuotedForTheShell(t *testing.T) {
	for name, want := range map[string]string{
		"mail": "mail", "a/b-1": "a/b-1", "": "''", "two words": "'two words'", "it's": `'it'\''s'`,
		"a;b": "'a;b'", "a b": "'a b'",
	} {
		require.Equal(t, want, units.Quote(name))
	}
}

func TestANegativeDurationIsUnknown(t *testing.T) {
	require.Nil(t, units.Known(-1))
	require.Equal(t, "0s", units.Known(0).String())
}
