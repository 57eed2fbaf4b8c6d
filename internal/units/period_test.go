package units_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go/internal/units"
)

func TestEndsOfAPeriod(t *testing.T) {
	now := time.Date(2024, 1, 2, 15, 30, 0, 0, time.UTC)
	for text, want := range map[string]string{
		"14:00": "2024-01-02T14:00:00Z", "15:30:01": "2024-01-01T15:30:01Z", "16:00": "2024-01-01T16:00:00Z",
		"2h": "2024-01-02T13:30:00Z", "1h30m": "2024-01-02T14:00:00Z", "3d": "2023-12-30T15:30:00Z",
		"2023-12-31": "2023-12-31T00:00:00Z", "2023-12-31 14:00": "2023-12-31T14:00:00Z",
		" 2023-12-31T14:00:00+01:00 ": "2023-12-31T13:00:00Z",
	} {
		p, err := units.ParsePeriod(text, text, now)
		require.NoError(t, err, text)
		require.Equal(t, want, p.Since.UTC().Format(time.RFC3339), text)
		require.Equal(t, p.Since, p.Until, text)
	}
	for _, text := range []string{"soon", "-2h", "25:00", "2dd", "2024-13-01"} {
		_, err := units.ParsePeriod("", text, now)
		require.ErrorContains(t, err, "is not a time such as 14:00, 2h, 2024-01-02", text)
	}
	p, err := units.ParsePeriod("14:00", "15:00", now)
	require.NoError(t, err)
	require.True(t, p.Has(p.Since))
	require.False(t, p.Has(p.Until))
	require.False(t, p.Has(p.Since.Add(-1)))
	require.True(t, units.Period{}.Has(now))
}
