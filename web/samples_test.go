package web

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestASampleIsGoodUntilTheEndOfItsTurn(t *testing.T) {
	began := time.Now()
	s := samples{began: began}
	isRead := func(key string, after, age time.Duration) bool {
		_, isNew := s.join(key, began.Add(after), age)
		return isNew
	}
	const late = sampleTurn - time.Millisecond
	require.True(t, isRead("jobs", late, 0))
	require.False(t, isRead("jobs", late, 0))
	require.True(t, isRead("jobs", sampleTurn, 0), "it was read before this turn")
	require.False(t, isRead("jobs", sampleTurn+late, 0))
	require.True(t, isRead("jobs", 2*sampleTurn, 0))

	require.True(t, isRead("settings", 3*sampleTurn+late, time.Minute))
	require.False(t, isRead("settings", 4*sampleTurn, time.Minute))
	require.True(t, isRead("settings", 4*sampleTurn+late+time.Minute, time.Minute))
}

func TestAPageIsUpdatedWhenATurnBegins(t *testing.T) {
	var options Options
	options.setDefaults()
	s := samples{began: time.Now()}
	for _, after := range []time.Duration{0, time.Millisecond, time.Second, time.Hour + time.Second} {
		update := s.turn(s.began.Add(after), options.Interval)
		require.Positive(t, update.Sub(s.began.Add(after)))
		require.LessOrEqual(t, update.Sub(s.began.Add(after)), sampleTurn)
		last, _ := s.join("jobs", update.Add(-time.Millisecond), 0)
		next, isNew := s.join("jobs", update, 0)
		require.True(t, isNew)
		require.NotSame(t, last, next)
		s.forget()
	}
}

func TestAReadingThatHasFailedIsSharedInItsTurnOnly(t *testing.T) {
	s := samples{began: time.Now()}
	for _, age := range []time.Duration{0, time.Minute} {
		failed, _ := s.join("jobs", s.began, age)
		s.drop("jobs", failed)
		_, isNew := s.join("jobs", s.began, age)
		require.Equal(t, age > 0, isNew)
		s.forget()
	}
}
