package cli_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
)

func TestAPersonIsAsked(t *testing.T) {
	e := newEnv(t)
	scene(t, e.Client())
	for _, test := range []struct{ keys, says string }{
		{"n\n", "nothing was done\n"}, {"y\n", "canceled 2 jobs\n"},
	} {
		jobOf(t, e.Client(), "failed")
		shown, status := e.terminal("job cancel failed failed-too").typed(test.keys)
		require.Contains(t, shown, "Cancel 2 jobs? [y/N] ")
		require.Contains(t, shown, test.says)
		require.Equal(t, 0, status)
	}
	_, err := e.Client().Job(t.Context(), "failed")
	require.ErrorIs(t, err, qless.ErrNotFound)
}

func TestColoursAreForTerminals(t *testing.T) {
	const red = "\x1b[31m"
	e := newEnv(t)
	scene(t, e.Client())
	require.NotContains(t, e.ok("failed", "ls"), "\x1b")
	shown, _ := e.terminal("failed ls").typed("")
	require.Contains(t, shown, red+"timeout")
	for _, off := range []string{"NO_COLOR=1", "TERM=dumb"} {
		e.environ = []string{off}
		shown, _ := e.terminal("failed ls").typed("")
		require.Contains(t, shown, "timeout")
		require.NotContains(t, shown, "\x1b", off)
	}
}

func TestLongLinesAreCutOnATerminal(t *testing.T) {
	e := newStill(t)
	must(e.Client().Queue("mail").Put(t.Context(), "Welcome",
		strings.Repeat("x", 200)+"\x1b[2J", qless.JID("long")))(t)
	require.Contains(t, e.ok("queue", "peek", "mail"), strings.Repeat("x", 200))
	shown, _ := e.terminal("queue peek mail").typed("")
	require.NotContains(t, shown, "\x1b[2J")
	e.environ = append(e.environ, "NO_COLOR=1")
	for line := range strings.SplitSeq(shown, "\n") {
		require.LessOrEqual(t, len([]rune(line)), 80, line)
	}
	require.Contains(t, shown, "xxx~")
}

func TestALongWorkShowsHowFarItIs(t *testing.T) {
	e, client := newReal(t)
	specs := make([]qless.JobSpec, 1001)
	for i := range specs {
		specs[i] = qless.JobSpec{Klass: "Welcome", Options: []qless.PutOption{
			qless.JID(fmt.Sprint("j", i)),
		}}
	}
	must(client.Queue("mail").PutMany(t.Context(), specs))(t)
	shown, status := e.terminal("queue move mail slow --yes --timeout 5m").typed("")
	require.Equal(t, 0, status, shown)
	require.Contains(t, shown, "of 1001 jobs")
	require.Contains(t, shown, "moved 1001 jobs to slow\n")
	require.Equal(t, 1001, e.counts("slow").Waiting)
}
