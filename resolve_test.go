package qless_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
)

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
	} {
		got := qless.ResolveQueues(strings.Fields(c.patterns), known)
		require.Equal(t, c.queues, strings.Join(got, " "), c.patterns)
	}
}

func TestQueuesThatHaveJobsArePreferred(t *testing.T) {
	var known []string
	for i := range 1500 {
		known = append(known, "q"+strconv.Itoa(i))
	}
	got := qless.ResolveQueues([]string{"*", "name"}, known, "q700", "q3", "q1400")
	require.Equal(t, []string{"q3", "q700", "q1400", "name", "q0"}, got[:5], "in their order")
	require.Len(t, got, 1000)
	require.Equal(t, "q997", got[999])

	got = qless.ResolveQueues([]string{"*", "name"}, known, known...)
	require.Len(t, got, 1000)
	require.Equal(t, "q998", got[998])
	require.Equal(t, "name", got[999], "what is named is asked in any case")
}

func TestAThousandQueuesOfAPatternAreAskedAtMost(t *testing.T) {
	var known []string
	for i := range 1001 {
		known = append(known, "q"+strconv.Itoa(i))
	}
	require.Equal(t, known[:1000], qless.ResolveQueues([]string{"*"}, known))
}
