package stacks

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func waitHere(begun, end chan struct{}, k *Keeper, jids ...string) {
	defer k.Begin(jids...)()
	close(begun)
	<-end
}

func TestOnlyTheStackOfTheJobIsTold(t *testing.T) {
	k := New(true, nil, "ql:")
	end, ended := make(chan struct{}), make(chan struct{})
	for _, jid := range []string{"1", "12", "2"} {
		begun := make(chan struct{})
		go func() {
			defer func() { ended <- struct{}{} }()
			waitHere(begun, end, k, jid)
		}()
		<-begun
	}
	seen := map[string]bool{}
	for _, jid := range []string{"1", "12", "2"} {
		answer := k.answer(jid)
		require.Empty(t, answer.Problem)
		require.Equal(t, 1, strings.Count(answer.Stack, "stacks.waitHere("), answer.Stack)
		require.NotContains(t, answer.Stack, "TestOnlyTheStackOfTheJobIsTold(")
		head, _, _ := strings.Cut(answer.Stack, " [")
		require.False(t, seen[head], "of one goroutine")
		seen[head] = true
	}
	require.Equal(t, "the worker does not run the job now", k.answer("3").Problem)
	close(end)
	for range 3 {
		<-ended
	}
	require.Empty(t, k.goroutines)
	require.NotEmpty(t, k.answer("1").Problem)
}

// deeper calls itself n times. The arguments make each frame long.
func deeper(a, b, c, d string, n int, f func()) {
	if n == 0 {
		f()
		return
	}
	deeper(b, c, d, a, n-1, f)
}

func TestALongStackIsCut(t *testing.T) {
	k := New(true, nil, "ql:")
	begun, end := make(chan struct{}), make(chan struct{})
	defer close(end)
	go deeper("a", "b", "c", "d", 200, func() { waitHere(begun, end, k, "deep") })
	<-begun
	stack := k.answer("deep").Stack
	require.Len(t, stack, maxStack)
	require.Contains(t, stack, "stacks.waitHere(", "the innermost calls are kept")
}

func TestAKeeperThatIsNotOpenRecordsNothing(t *testing.T) {
	k := New(false, nil, "ql:")
	require.Zero(t, testing.AllocsPerRun(100, func() { k.Begin("jid")() }))
	require.Empty(t, k.goroutines)
	require.Contains(t, k.answer("jid").Problem, "has no Stacks")
}
