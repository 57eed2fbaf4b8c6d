package inspect

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestRateRanges(t *testing.T) {
	at := func(seconds int64) time.Time { return time.Unix(seconds, 0) }
	for _, c := range []struct {
		from, to time.Time
		step     time.Duration
		first    int64
		count    int
	}{
		{at(600), at(660), time.Minute, 600, 1},
		{at(659), at(660), time.Minute, 600, 1},
		{at(659), at(661), time.Minute, 600, 2},
		{at(600), at(660).Add(1), time.Minute, 600, 2},
		{at(600).Add(1), at(600).Add(2), time.Minute, 600, 1},
		{at(3700), at(7300), time.Hour, 3600, 120},
		{at(3600), at(7200), 7 * time.Minute, 3360, 70},
		{at(0), at(3 * 86400), time.Minute, 0, 4320},
	} {
		query := RateQuery{From: c.from, To: c.to, Step: c.step}
		require.NoError(t, query.check())
		first, count := query.minutes()
		require.Equal(t, c.first, first, "%v", c)
		require.Equal(t, c.count, count, "%v", c)
	}
}
