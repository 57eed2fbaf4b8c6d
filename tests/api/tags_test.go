package api

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/inspect"
)

func TestTagsKeepTheirOrder(t *testing.T) {
	e := newEnv(t)
	jid := e.Put("q", qless.Tags{"b", "a"})
	job := e.Read(jid)
	require.NoError(t, job.Tag(t.Context(), "c", "a", "d", "c"))
	require.Equal(t, qless.Tags{"b", "a", "c", "d"}, e.Read(jid).Tags)
	require.NoError(t, job.Untag(t.Context(), "a", "unknown"))
	require.Equal(t, qless.Tags{"b", "c", "d"}, e.Read(jid).Tags)
	require.NoError(t, job.Untag(t.Context(), "b", "c", "d"))
	require.Empty(t, e.Read(jid).Tags)
}

func TestTaggingTwiceIsANoOp(t *testing.T) {
	e := newEnv(t)
	a, b := e.Put("q", qless.Tags{"x"}), e.Put("q")
	require.NoError(t, e.Read(a).Tag(t.Context(), "x"))
	tags := must(e.inspect().Tags(t.Context(), inspect.Range{}))(t)
	require.Empty(t, tags.Items, "only one job has it")
	require.NoError(t, e.Read(b).Tag(t.Context(), "x"))
	require.NoError(t, e.Read(b).Untag(t.Context(), "x"))
	require.NoError(t, e.Read(b).Untag(t.Context(), "x"))
	tagged := must(e.inspect().Tagged("x").JIDs(t.Context(), inspect.Range{}))(t)
	require.Equal(t, inspect.Page[string]{Total: 1, Items: []string{a}}, tagged)
}

func TestTaggedGivesTheLongestTaggedFirst(t *testing.T) {
	e := newEnv(t)
	for i := range 30 {
		e.Put("q", qless.JID(fmt.Sprint(i)), qless.Tags{"x"})
	}
	page := must(e.inspect().Tagged("x").JIDs(t.Context(), inspect.Range{}))(t)
	require.Equal(t, 30, page.Total)
	require.Len(t, page.Items, 25)
	require.Equal(t, "0", page.Items[0])
	page = must(e.inspect().Tagged("x").JIDs(t.Context(), inspect.Range{Offset: 28, Limit: 1}))(t)
	require.Equal(t, inspect.Page[string]{Total: 30, Items: []string{"28"}}, page)
	page = must(e.inspect().Tagged("unknown").JIDs(t.Context(), inspect.Range{}))(t)
	require.Equal(t, inspect.Page[string]{Items: []string{}}, page)
}

func TestTagsGivesTheMostUsedFirst(t *testing.T) {
	e := newEnv(t)
	for i := range 4 {
		for _, tag := range []string{"a", "b", "c", "d"}[i:] {
			e.Put("q", qless.Tags{tag})
		}
	}
	tags := must(e.inspect().Tags(t.Context(), inspect.Range{}))(t)
	require.Equal(t, []string{"d", "c", "b"}, tags.Items, "those of two or more jobs")
	tags = must(e.inspect().Tags(t.Context(), inspect.Range{Offset: 1, Limit: 1}))(t)
	require.Equal(t, []string{"c"}, tags.Items)
}

func TestTagsEndWithTheJob(t *testing.T) {
	e := newEnv(t)
	a := e.Put("q", qless.Tags{"x", "y"})
	e.Put("q", qless.Tags{"x"})
	require.NoError(t, e.Cancel(t.Context(), a))
	require.Empty(t, must(e.inspect().Tags(t.Context(), inspect.Range{}))(t).Items)
	require.Equal(t, []any{"x", "1"}, e.Dump()["ql:tags"])
}

func TestTagsOfAJobThatIsGone(t *testing.T) {
	e := newEnv(t)
	job := e.Read(e.Put("q"))
	require.NoError(t, job.Cancel(t.Context()))
	e.Unchanged(func() {
		require.Equal(t, job.JID, requireCode(t, qless.ErrNotFound, job.Tag(t.Context(), "x")).JID)
		require.Equal(t, job.JID, requireCode(t, qless.ErrNotFound, job.Untag(t.Context(), "x")).JID)
	})
}

func TestTrackedJobsAreListed(t *testing.T) {
	e := newEnv(t)
	a, b := e.Put("q"), e.Put("q")
	tracked := must(e.inspect().Tracked().JIDs(t.Context(), inspect.Range{}))(t)
	require.Empty(t, tracked.Items)

	job := e.Read(a)
	require.NoError(t, job.Track(t.Context()))
	require.NoError(t, job.Track(t.Context()), "twice is fine")
	require.NoError(t, e.Read(b).Track(t.Context()))
	require.True(t, e.Read(a).Tracked)
	tracked = must(e.inspect().Tracked().JIDs(t.Context(), inspect.Range{}))(t)
	require.Equal(t, []string{a, b}, tracked.Items)
	require.True(t, e.Pops("q", 2)[0].Tracked)

	require.NoError(t, job.Untrack(t.Context()))
	require.NoError(t, job.Untrack(t.Context()))
	require.False(t, e.Read(a).Tracked)
	require.NoError(t, e.Cancel(t.Context(), b))
	tracked = must(e.inspect().Tracked().JIDs(t.Context(), inspect.Range{}))(t)
	require.Equal(t, []string{b}, tracked.Items)

	require.NoError(t, job.Cancel(t.Context()))
	require.Equal(t, a, requireCode(t, qless.ErrNotFound, job.Track(t.Context())).JID)
}

func TestSetPriorityMovesAWaitingJob(t *testing.T) {
	e := newEnv(t)
	e.Put("q", qless.JID("a"))
	e.Put("q", qless.JID("b"))
	e.Put("q", qless.JID("c"))
	job := e.Read("b")
	require.NoError(t, job.SetPriority(t.Context(), 10))
	require.Equal(t, 10, e.Read("b").Priority)
	require.NoError(t, e.Read("a").SetPriority(t.Context(), -10))
	require.Equal(t, []string{"b", "c", "a"}, jids(e.Pops("q", 5)))

	require.NoError(t, job.SetPriority(t.Context(), 3))
	require.Equal(t, 3, e.Read("b").Priority)
	require.Zero(t, e.Counts("q").Waiting, "a running job does not wait")
	require.NoError(t, job.Cancel(t.Context()))
	require.Equal(t, "b", requireCode(t, qless.ErrNotFound, job.SetPriority(t.Context(), 1)).JID)
}
