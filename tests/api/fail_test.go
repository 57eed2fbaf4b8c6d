package api

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
)

func TestFailKeepsAJobInItsGroup(t *testing.T) {
	e := newEnv(t)
	jid := e.Put("q")
	job := e.Pop("q")
	require.NoError(t, job.SetData("at the end"))
	require.NoError(t, job.Fail(t.Context(), "io error", "line 1\nline 2 \xff"))

	read := e.Read(jid)
	require.Equal(t, qless.StateFailed, read.State)
	require.Equal(t, "q", read.Queue)
	require.Empty(t, read.Worker)
	require.Equal(t, `"at the end"`, string(read.Data))
	require.Equal(t, &qless.Failure{
		Group: "io error", Message: "line 1\nline 2 \uFFFD", When: noon.Local(), Worker: "w1",
	}, read.Failure)
	last := read.History[len(read.History)-1]
	require.Equal(t, qless.HistoryEntry{When: noon.Local(), What: "failed", Worker: "w1", Group: "io error"}, last)

	require.Equal(t, map[string]int{"io error": 1}, must(e.inspect().FailureGroups(t.Context()))(t))
	require.Empty(t, e.Pops("q", 1))
	require.Equal(t, qless.QueueCounts{Name: "q"}, e.Counts("q"))
}

func TestNoFailureGroups(t *testing.T) {
	e := newEnv(t)
	require.Equal(t, map[string]int{}, must(e.inspect().FailureGroups(t.Context()))(t))
}
