package qless_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
)

// times reads times such as 2024-01-02T12:00 or 2024-01-02T12:00:30, in UTC.
func times(t *testing.T, texts string) []time.Time {
	t.Helper()
	var all []time.Time
	for _, text := range strings.Fields(texts) {
		at, err := time.Parse("2006-01-02T15:04:05"[:len(text)], text)
		require.NoError(t, err)
		all = append(all, at)
	}
	return all
}

func TestASpecSaysWhenAJobIsDue(t *testing.T) {
	for _, c := range []struct{ spec, from, due string }{
		{"30 6 * * *", "2024-01-02T12:00", "2024-01-03T06:30 2024-01-04T06:30"},
		{"30 6 * * 1-5", "2024-01-05T06:29", "2024-01-05T06:30 2024-01-08T06:30"},
		{"30 6 * * 1-5", "2024-01-05T06:30", "2024-01-08T06:30 2024-01-09T06:30"},
		{"*/20 9-10 * * *", "2024-01-02T09:10", "2024-01-02T09:20 2024-01-02T09:40 2024-01-02T10:00 2024-01-02T10:20"},
		{"0 0 1,15 * *", "2024-01-02T00:00", "2024-01-15T00:00 2024-02-01T00:00"},
		{"0 0 29 feb *", "2023-01-01T00:00", "2024-02-29T00:00 2028-02-29T00:00"},
		{"0 0 31 * *", "2024-01-31T00:00", "2024-03-31T00:00 2024-05-31T00:00"},
		{"0 12 * * sun", "2024-01-02T12:00", "2024-01-07T12:00 2024-01-14T12:00"},
		{"@hourly", "2024-12-31T22:59:59", "2024-12-31T23:00 2025-01-01T00:00"},
		{"@daily", "2024-02-28T00:00", "2024-02-29T00:00 2024-03-01T00:00"},
		{"@weekly", "2024-01-02T00:00", "2024-01-07T00:00 2024-01-14T00:00"},
		{"@monthly", "2024-01-02T00:00", "2024-02-01T00:00 2024-03-01T00:00"},
		{"@every 90s", "2024-01-02T12:00", "2024-01-02T12:01:30 2024-01-02T12:03:00"},
		{"@every 90s", "2024-01-02T12:01", "2024-01-02T12:01:30 2024-01-02T12:03:00"},
		{"@every 24h", "2024-01-02T12:01", "2024-01-03T00:00 2024-01-04T00:00"},
		{"@every 168h", "2024-01-02T12:00", "2024-01-04T00:00 2024-01-11T00:00"}, // 1970 began on a Thursday

		{"CRON_TZ=Europe/Berlin 30 6 * * *", "2024-01-02T12:00", "2024-01-03T05:30 2024-01-04T05:30"},
		{"TZ=Europe/Berlin 30 6 * * *", "2024-07-02T12:00", "2024-07-03T04:30 2024-07-04T04:30"},
		{"CRON_TZ=America/New_York @daily", "2024-01-02T12:00", "2024-01-03T05:00 2024-01-04T05:00"},
		{"CRON_TZ=Asia/Kolkata 0 0 * * *", "2024-01-02T12:00", "2024-01-02T18:30 2024-01-03T18:30"},
		// The clocks are put forward from 2:00 to 3:00, and back from 3:00 to 2:00.
		{"CRON_TZ=Europe/Berlin 0 6 * * *", "2024-03-30T12:00", "2024-03-31T04:00 2024-04-01T04:00"},
		{"CRON_TZ=Europe/Berlin 30 2 * * *", "2024-03-30T12:00", "2024-03-31T01:30 2024-04-01T00:30"},
		{"CRON_TZ=Europe/Berlin 0 6 * * *", "2024-10-26T12:00", "2024-10-27T05:00 2024-10-28T05:00"},
		{"CRON_TZ=Europe/Berlin 30 2 * * *", "2024-10-26T12:00", "2024-10-27T00:30 2024-10-27T01:30 2024-10-28T01:30"},
	} {
		from, wanted := times(t, c.from)[0], times(t, c.due)
		s := schedule(c.spec, qless.MissedAll)
		due, next, _ := s.Due(from, wanted[len(wanted)-1])
		for i := range due {
			due[i] = due[i].UTC()
		}
		require.Equal(t, wanted, due, c.spec)
		require.True(t, next.After(wanted[len(wanted)-1]), c.spec)
		none, first, _ := s.Due(from, wanted[0].Add(-time.Microsecond))
		require.Empty(t, none, c.spec)
		require.True(t, wanted[0].Equal(first), "%s: %s", c.spec, first)
	}
}

func TestWhatBecomesOfMissedTimes(t *testing.T) {
	from := times(t, "2024-01-02T12:00")[0]
	for _, c := range []struct {
		missed   qless.Missed
		now, due string
		none     int // how many times get no job
	}{
		{qless.MissedOnce, "2024-01-02T12:00:59", "", 0},
		{qless.MissedOnce, "2024-01-02T12:01", "2024-01-02T12:01", 0},
		{qless.MissedOnce, "2024-01-02T12:03:30", "2024-01-02T12:03", 2},
		{qless.MissedAll, "2024-01-02T12:01", "2024-01-02T12:01", 0},
		{qless.MissedAll, "2024-01-02T12:03:30", "2024-01-02T12:01 2024-01-02T12:02 2024-01-02T12:03", 0},
		{qless.MissedSkip, "2024-01-02T12:01", "2024-01-02T12:01", 0},
		{qless.MissedSkip, "2024-01-02T12:01:10", "2024-01-02T12:01", 0}, // only late
		{qless.MissedSkip, "2024-01-02T12:01:11", "", 1},
		{qless.MissedSkip, "2024-01-02T12:03:30", "", 3},
		{qless.MissedSkip, "2024-01-02T12:03:05", "2024-01-02T12:03", 2},
	} {
		now := times(t, c.now)[0]
		due, next, none := schedule("* * * * *", c.missed).Due(from, now)
		require.Equal(t, c.none, none, "%v at %s", c.missed, c.now)
		require.Equal(t, times(t, c.due), due, "%v at %s", c.missed, c.now)
		require.Equal(t, now.Truncate(time.Minute).Add(time.Minute), next)
	}
}

func TestRunAllPutsAHundredAtTheMost(t *testing.T) {
	now := noon.Add(30 * 24 * time.Hour)
	due, _, none := schedule("* * * * *", qless.MissedAll).Due(noon, now)
	require.Len(t, due, 100)
	require.Equal(t, 30*24*60-100, none)
	require.Equal(t, now.Add(-99*time.Minute), due[0])
	require.Equal(t, now, due[99])
}

// schedule makes a schedule of jobs in the queue jobs.
func schedule(spec string, missed qless.Missed) qless.Schedule {
	return qless.Schedule{ID: "s", Spec: spec, Queue: "jobs", Klass: "K", Missed: missed}
}
