package web

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
)

func TestATallyReadsEachMinuteThatIsOverOnce(t *testing.T) {
	LimitLooks(t, 0)
	for _, span := range append(rateSpans, rateHours, lastMinutes) {
		t.Run(span.Length.String(), func(t *testing.T) {
			reads := map[int64]int{}
			one := &tally{span: span}
			one.read = func(_ context.Context, from, to time.Time) ([]ratePart, error) {
				sum := 0
				for at := from; at.Before(to); at = at.Add(time.Minute) {
					reads[at.Unix()]++
					sum++
				}
				require.LessOrEqual(t, sum, 2, "of one look at a slow server")
				group := qless.RateGroup{Name: "Send", Rates: qless.Rates{Completed: sum}}
				return []ratePart{{from, to, []qless.RateGroup{group}}}, nil
			}
			if span.cell == time.Minute {
				one.read = byMinute(one.read)
			}
			begin := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
			now := begin
			var known knownTally
			for looks := 0; looks == 0 || known.since.After(known.begin); looks++ {
				var err error
				known, err = one.look(t.Context(), now)
				require.NoError(t, err)
				now = now.Add(2 * time.Second)
				require.Less(t, looks, 5000)
			}
			sum, at := 0, known.begin
			for _, p := range known.parts {
				require.Equal(t, at, p.from)
				at = p.to
				for _, group := range p.groups {
					sum += group.Completed
				}
			}
			require.WithinDuration(t, known.to, at, span.keep+2*time.Second)
			require.Equal(t, int((at.Sub(known.begin)+time.Minute-1)/time.Minute), sum)
			for at, count := range reads {
				if at < begin.Add(-rateLate-time.Minute).Unix() {
					require.Equal(t, 1, count, time.Unix(at, 0).UTC())
				}
			}
		})
	}
}

func TestALightLookReadsLittle(t *testing.T) {
	LimitLooks(t, time.Hour)
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	minute := now.Truncate(time.Minute)
	var reads []time.Time
	one := &tally{span: lastMinutes}
	one.read = byMinute(func(_ context.Context, from, to time.Time) ([]ratePart, error) {
		reads = append(reads, from)
		return []ratePart{{from: from, to: to}}, nil
	})
	for _, want := range []struct {
		since, to time.Time
		reads     []time.Time
	}{
		{minute.Add(-time.Minute), minute, []time.Time{minute.Add(-time.Minute)}},
		{minute.Add(-2 * time.Minute), now.Add(2 * time.Second), []time.Time{
			minute.Add(-time.Minute), minute, minute.Add(-2 * time.Minute),
		}},
		{minute.Add(-3 * time.Minute), now.Add(2 * time.Second), []time.Time{
			minute.Add(-3 * time.Minute),
		}},
	} {
		reads = nil
		known, err := one.look(t.Context(), now)
		require.NoError(t, err)
		require.Equal(t, want.reads, reads)
		require.Equal(t, want.since, known.since)
		require.Equal(t, want.to, known.to)
		now = now.Add(2 * time.Second)
	}
}

// byMinute returns a reader that returns the minutes of another one apart.
func byMinute(read rateReader) rateReader {
	return func(ctx context.Context, from, to time.Time) (all []ratePart, err error) {
		for ; from.Before(to); from = from.Add(time.Minute) {
			part, err := read(ctx, from, latest(from, from.Add(min(time.Minute, to.Sub(from)))))
			if err != nil {
				return nil, err
			}
			all = append(all, part...)
		}
		return all, nil
	}
}

func TestATallyThatSomebodyLooksAtIsKept(t *testing.T) {
	var all tallies
	begin := time.Unix(0, 0)
	first := all.get("first", rateHours, nil, begin)
	for i := range 2 * maxTallies {
		now := begin.Add(time.Duration(i+1) * time.Second)
		all.get(time.Duration(i).String(), rateHours, nil, now)
		require.Same(t, first, all.get("first", rateHours, nil, now))
	}
	require.Len(t, all.all, maxTallies)
}
