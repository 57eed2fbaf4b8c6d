package queues

import (
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// chosen asks all known queues that match patterns.
func chosen(patterns, known []string) *Choice {
	choice := NewChoice(NewPatterns(patterns))
	choice.Reset(known)
	return choice
}

// resolve returns the queues to ask. The ready queues have jobs.
func resolve(patterns, known []string, ready ...string) []string {
	choice := chosen(patterns, known)
	if choice.AreTooMany() {
		choice.Limit(ready)
	}
	return choice.Asked
}

func TestPatternsOfQueues(t *testing.T) {
	known := []string{"mail-a", "other", "mail-slow", "mail-b", "mail", "a.b", "axb"}
	for _, c := range []struct{ patterns, queues string }{
		{"mail-*", "mail-a mail-slow mail-b"},
		{"mail-* !mail-slow", "mail-a mail-b"},
		{"!mail-slow mail-*", "mail-a mail-b"},
		{"mail-b mail-*", "mail-b mail-a mail-slow"},
		{"*", "mail-a other mail-slow mail-b mail a.b axb"},
		{"* !mail* !a?b", "other a.b axb"},
		{"a.*", "a.b"},
		{"*b", "mail-b a.b axb"},
		{"unknown other unknown", "unknown other"},
		{"other !other", ""},
		{"!x", ""},
		{"no*", ""},
		{"m*l m*l-*w *-*-*", "mail mail-slow"},
		{"a*b !axb", "a.b"},
		{"aa*a mail*mail", ""},
		{"mail-* mail-b", "mail-a mail-slow mail-b"},
	} {
		got := resolve(strings.Fields(c.patterns), known)
		require.Equal(t, c.queues, strings.Join(got, " "), c.patterns)
	}
}

func TestQueuesThatHaveJobsArePreferred(t *testing.T) {
	var known []string
	for i := range 1500 {
		known = append(known, "q"+strconv.Itoa(i))
	}
	got := resolve([]string{"*", "name"}, known, "q700", "q3", "q1400")
	require.Equal(t, []string{"q3", "q700", "q1400", "name", "q0"}, got[:5], "in their order")
	require.Len(t, got, 1000)
	require.Equal(t, "q997", got[999])

	got = resolve([]string{"*", "name"}, known, known...)
	require.Len(t, got, 1000)
	require.Equal(t, "q998", got[998])
	require.Equal(t, "name", got[999], "what is named is asked in any case")
}

func TestAThousandQueuesOfAPatternAreAskedAtMost(t *testing.T) {
	var known []string
	for i := range 1001 {
		known = append(known, "q"+strconv.Itoa(i))
	}
	require.Equal(t, known[:1000], resolve([]string{"*"}, known))
}

// names returns the names of n queues.
func names(n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = "q" + strconv.Itoa(i)
	}
	return all
}

func TestQueuesBeyondTheLimitAreAskedInTurns(t *testing.T) {
	for ready, looks := range map[int]int{0: 3, 500: 5, 2200: 3} {
		known, asked := names(2500), map[string]bool{}
		choice := chosen([]string{"*", "name"}, known)
		for range looks {
			choice.Limit(known[len(known)-ready:])
			require.Len(t, choice.Asked, 1000)
			require.Contains(t, choice.Asked, "name")
			for _, queue := range choice.Asked {
				asked[queue] = true
			}
		}
		for _, queue := range known[2500-max(ready, 1):] {
			require.True(t, asked[queue], "%s, of %d that are ready", queue, ready)
		}
		if ready < 1000 {
			require.Len(t, asked, 2501, "with %d that are ready", ready)
		}
	}
}

func TestAQueueThatAppearsIsAsked(t *testing.T) {
	choice := chosen([]string{"b*", "q*", "!q7", "zero"}, names(10))
	require.True(t, choice.Add("b1"))
	require.False(t, choice.Add("b1"), "it is known")
	require.False(t, choice.Add("q7"))
	require.False(t, choice.Add("other"))
	require.True(t, choice.Add("q10"))
	require.Equal(t, strings.Fields("b1 q0 q1 q2 q3 q4 q5 q6 q8 q9 q10 zero"), choice.Asked)
}

func TestAQueueThatAppearsIsAskedInPlaceOfAnother(t *testing.T) {
	choice := chosen([]string{"*", "zero"}, names(999))
	require.Len(t, choice.Asked, 1000)
	require.True(t, choice.Add("new"))
	require.Len(t, choice.Asked, 1000)
	require.Equal(t, "new", choice.Asked[0])
	require.Contains(t, choice.Asked, "zero", "it is named")
	require.NotContains(t, choice.Asked, "q998")
	require.False(t, choice.Add("new"))
	require.True(t, choice.Add("q998"), "it may have jobs")
	require.Equal(t, []string{"q998", "new", "q0"}, choice.Asked[:3])
}
