package together

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go/internal/guard"
)

var (
	errThree = errors.New("three")
	errFour  = errors.New("four")
)

// double doubles a number, except for 3 and 4.
func double(n int) (int, error) {
	switch n {
	case 3:
		return 0, errThree
	case 4:
		return 0, errFour
	}
	return 2 * n, nil
}

func TestAskReturnsAnswersInOrder(t *testing.T) {
	answers, err := Ask([]int{5, 1, 2}, double)
	require.NoError(t, err)
	require.Equal(t, []int{10, 2, 4}, answers)

	answers, err = Ask([]int{5, 4, 3, 1}, double)
	require.Equal(t, errFour, err, "the first of the elements, not of the answers")
	require.Equal(t, []int{10, 0, 0, 2}, answers)
}

func TestEachReturnsTheFirstError(t *testing.T) {
	do := func(n int) error { _, err := double(n); return err }
	require.NoError(t, Each([]int{1, 2}, do))
	require.Equal(t, errThree, Each([]int{1, 3, 4}, do))
}

func TestFirstDoesNotWaitForTheOthers(t *testing.T) {
	ended := make(chan error, 1)
	answer, known, err := First(t.Context(), []string{"silent", "ignorant", "knows"},
		func(ctx context.Context, one string) (string, bool, error) {
			if one == "silent" {
				<-ctx.Done()
				ended <- ctx.Err()
				return "", false, ctx.Err()
			}
			return one, one == "knows", nil
		})
	require.NoError(t, err)
	require.True(t, known)
	require.Equal(t, "knows", answer)
	require.ErrorIs(t, <-ended, context.Canceled)
}

func TestFirstWithoutAnAnswerReturnsAnError(t *testing.T) {
	_, known, err := First(t.Context(), []int{1, 4, 3},
		func(_ context.Context, n int) (int, bool, error) {
			got, err := double(n)
			return got, false, err
		})
	require.False(t, known)
	require.Equal(t, errFour, err)
}

func TestPanicsReachTheCaller(t *testing.T) {
	require.PanicsWithValue(t, "two", func() {
		_ = Each([]int{1, 2}, func(n int) error {
			if n == 2 {
				panic("two")
			}
			return nil
		})
	})
	require.PanicsWithValue(t, "one", func() {
		_, _, _ = First(t.Context(), []int{1}, func(context.Context, int) (int, bool, error) {
			panic("one")
		})
	})
}

func TestAskFewLimitsTheCallsAtATime(t *testing.T) {
	const most = 3
	var running atomic.Int32
	full := make(chan struct{})
	isFull := sync.OnceFunc(func() { close(full) })
	answers, err := AskFew(most, []int{1, 2, 5, 6, 7, 8}, func(n int) (int, error) {
		if running.Add(1) == most {
			isFull() // for the first time
		}
		<-full // the maximum number is running
		if running.Load() > most {
			return 0, errFour
		}
		running.Add(-1)
		return double(n)
	})
	require.NoError(t, err)
	require.Equal(t, []int{2, 4, 10, 12, 14, 16}, answers)
}

// A caller would otherwise mistake no answer for an answer.
func TestGoexitIsAnError(t *testing.T) {
	exit := func(n int) (int, error) {
		runtime.Goexit()
		return n, nil
	}
	_, err := Ask([]int{1}, exit)
	require.ErrorIs(t, err, guard.ErrGoexit)
	_, _, err = First(t.Context(), []int{1}, func(_ context.Context, n int) (int, bool, error) {
		n, err := exit(n)
		return n, true, err
	})
	require.ErrorIs(t, err, guard.ErrGoexit)
}
