package rates

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go/inspect"
)

func TestATallyReadsEachMinuteThatIsOverOnce(t *testing.T) {
	limitLooks(t, 0)
	for _, span := range append(Spans, Spans[1].InSteps(), LastHour) {
		t.Run(span.Length.String()+" in "+span.Cell.String(), func(t *testing.T) {
			reads := map[int64]int{}
			one := &tally{span: span}
			one.read = func(_ context.Context, from, to time.Time) ([]Part, error) {
				sum := 0
				for at := from; at.Before(to); at = at.Add(time.Minute) {
					reads[at.Unix()]++
					sum++
				}
				require.LessOrEqual(t, sum, 2, "of one look at a slow server")
				group := inspect.RateGroup{Name: "Send", Rates: inspect.Rates{Completed: sum}}
				return []Part{{from, to, []inspect.RateGroup{group}}}, nil
			}
			if span.Cell == time.Minute {
				one.read = byMinute(one.read)
			}
			begin := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
			now := begin
			var known Known
			for looks := 0; looks == 0 || known.Since.After(known.Begin); looks++ {
				var err error
				known, err = one.update(t.Context(), span, now)
				require.NoError(t, err)
				now = now.Add(2 * time.Second)
				require.Less(t, looks, 5000)
			}
			sum, at := 0, known.Begin
			for _, p := range known.Parts {
				require.Equal(t, at, p.From)
				at = p.To
				for _, group := range p.Groups {
					sum += group.Completed
				}
			}
			require.WithinDuration(t, known.To, at, span.Keep+2*time.Second)
			require.Equal(t, int((at.Sub(known.Begin)+time.Minute-1)/time.Minute), sum)
			for at, count := range reads {
				if at < begin.Add(-rateLate-time.Minute).Unix() {
					require.Equal(t, 1, count, time.Unix(at, 0).UTC())
				}
			}
		})
	}
}

func TestTheFirstLookReadsLittle(t *testing.T) {
	limitLooks(t, 0)
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	minute := now.Truncate(time.Minute)
	var reads []time.Time
	one := &tally{span: LastHour}
	one.read = byMinute(func(_ context.Context, from, to time.Time) ([]Part, error) {
		reads = append(reads, from)
		return []Part{{From: from, To: to}}, nil
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
		known, err := one.update(t.Context(), LastHour, now)
		require.NoError(t, err)
		require.Equal(t, want.reads, reads)
		require.Equal(t, want.since, known.Since)
		require.Equal(t, want.to, known.To)
		last := known.Last(2 * time.Minute)
		require.False(t, last.HasMore && len(last.Parts) > 2)
		now = now.Add(2 * time.Second)
	}
}

func TestTheFirstLookReadsAllIfThatIsLittle(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	isRead := func(span Span, groups int) bool {
		one := &tally{span: span}
		one.read = byMinute(func(_ context.Context, from, to time.Time) ([]Part, error) {
			return []Part{{From: from, To: to, Groups: make([]inspect.RateGroup, groups)}}, nil
		})
		known, err := one.update(t.Context(), span, now)
		require.NoError(t, err)
		return !known.HasMore
	}
	for _, span := range append(Spans[:3:3], LastHour) {
		require.True(t, isRead(span.InSteps(), 1), span.Name)
	}
	require.False(t, isRead(LastHour, LastHour.First))
}

// byMinute returns a reader that separates the minutes of another one.
func byMinute(read Reader) Reader {
	return func(ctx context.Context, from, to time.Time) (all []Part, err error) {
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
	var all Tallies
	begin := time.Unix(0, 0)
	first := all.get("first", nil, begin)
	for i := range 2 * maxTallies {
		now := begin.Add(time.Duration(i+1) * time.Second)
		all.get(time.Duration(i).String(), nil, now)
		require.Same(t, first, all.get("first", nil, now))
	}
	require.Len(t, all.all, maxTallies)
}

// limitLooks limits the time of a reading during a test.
func limitLooks(t *testing.T, most time.Duration) {
	first, next := FirstTime, ReadTime
	FirstTime, ReadTime = most, most
	t.Cleanup(func() { FirstTime, ReadTime = first, next })
}

func TestRunsAreAddedUpByTheLargestGroups(t *testing.T) {
	begin := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	known := Known{Begin: begin.Add(-2 * time.Minute)}
	for minute, runs := range [][]int{{1, 2, 3, 4, 5, 6, 7}, {0, 0, 0, 0, 0, 0, 1}, {0, 1}} {
		at := begin.Add(time.Duration(minute) * time.Minute)
		part := Part{From: at, To: at.Add(time.Minute)}
		for i, n := range runs {
			part.Groups = append(part.Groups, inspect.RateGroup{
				Name: string(rune('a' + i)), Rates: inspect.Rates{Completed: n},
			})
		}
		known.Parts = append(known.Parts, part)
	}
	var got []string
	for _, one := range known.Largest(2 * time.Minute) {
		got = append(got, fmt.Sprint(one.Name, one.Runs))
	}
	require.Equal(t, []string{"g[8 0]", "f[6 0]", "e[5 0]", "d[4 0]", "b[2 1]", "others[4 0]"}, got)
	require.Equal(t, []int{29, 1}, known.Ends(2 * time.Minute)[0].Runs)
	require.Len(t, known.unknown(2*time.Minute), 1)
	require.Empty(t, (&Known{}).Largest(time.Minute))
}
