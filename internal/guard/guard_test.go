package guard_test

import (
	"bytes"
	"errors"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go/internal/guard"
	"github.com/qless/qless-go/internal/testkit"
)

func TestACallSaysHowItEnds(t *testing.T) {
	called := false
	require.NoError(t, guard.Call(func() { called = true }))
	require.True(t, called)
	require.ErrorIs(t, guard.Call(runtime.Goexit), guard.ErrGoexit)
	for _, value := range []any{"why", errors.New("why"), nil} {
		var panicked *guard.Panic
		require.ErrorAs(t, guard.Call(func() { panic(value) }), &panicked)
		require.Contains(t, string(panicked.Stack), "TestACallSaysHowItEnds")
		require.Contains(t, panicked.Error(), "a function panicked: ")
	}
}

// A log is a text written by several goroutines.
type log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *log) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(line)
}

func (l *log) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), text)
}

func TestAGuardTellsWhatItCaught(t *testing.T) {
	var told log
	g := guard.New("the hook", slog.New(slog.NewTextHandler(&told, nil)))
	require.NoError(t, g.Call(func() {}))
	require.Zero(t, told.count("qless"))
	require.ErrorContains(t, g.Call(func() { panic("why") }), "why")
	require.Equal(t, 1, told.count("qless: the hook panicked"))
	require.ErrorIs(t, g.Call(runtime.Goexit), guard.ErrGoexit)
	require.Equal(t, 1, told.count("qless: the hook ended its goroutine"))
	value, err := guard.Value(g.Call, func() int { return 7 })
	require.NoError(t, err)
	require.Equal(t, 7, value)
	value, err = guard.Value(g.Call, func() int { panic("why") })
	require.Error(t, err)
	require.Zero(t, value)
}

// Blocking calls are left behind, up to a number, and calls resume once these have ended.
func TestAGuardLeavesCallsThatBlock(t *testing.T) {
	const most = 100
	var told log
	g := guard.New("the hook", slog.New(slog.NewTextHandler(&told, nil))).Patient(time.Millisecond)
	end := make(chan struct{})
	for range most {
		require.ErrorIs(t, g.Call(func() { <-end }), guard.ErrBlocked)
	}
	require.Equal(t, most, told.count("qless: the hook has not returned"))
	require.ErrorIs(t, g.Call(func() { panic("it is not called") }), guard.ErrBlocked)
	require.Zero(t, told.count("panicked"))
	close(end)
	testkit.Until(t, "the calls have ended", func() bool {
		_, err := guard.Value(g.Call, func() int { return 1 })
		return err == nil
	})
}

func TestALongTextLosesItsMiddle(t *testing.T) {
	require.Equal(t, "short", guard.Cut("short", 100))
	require.Equal(t, "a\uFFFDb", guard.Cut("a\xffb", 100))
	for _, part := range []string{"x", "ä", "€", "😀", "\xff", "a\xe2\x82"} {
		for most := 100; most < 110; most++ {
			text := "head" + strings.Repeat(part, 1000) + "tail"
			cut := guard.Cut(text, most)
			require.True(t, utf8.ValidString(cut), "%q", cut)
			require.LessOrEqual(t, len(cut), most, "%q", part)
			require.True(t, strings.HasPrefix(cut, "head"), cut)
			short := guard.CutShort(text, most)
			require.True(t, utf8.ValidString(short), "%q", short)
			require.LessOrEqual(t, len(short), most, "%q", part)
		}
	}
	cut := guard.Cut("head"+strings.Repeat("x", 10000)+"tail", 100)
	require.Contains(t, cut, " bytes are left out]\n")
	require.True(t, strings.HasSuffix(cut, "tail"), cut)
	require.Equal(t, strings.Repeat("x", 7)+"…", guard.CutShort(strings.Repeat("x", 11), 10))
}
