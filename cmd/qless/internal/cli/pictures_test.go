package cli_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
)

// typed returns the output of the program on a terminal.
func (e *env) typed(line string) string {
	e.t.Helper()
	words := strings.Fields(line)
	require.Equal(e.t, "qless", words[0])
	shown, err := e.command(words[1:]...).CombinedOutput()
	if err != nil {
		require.ErrorContains(e.t, err, "exit status 1", string(shown)) // it has findings
	}
	return "$ " + line + "\n" + string(shown)
}

// picture requires that a page of the documentation contains a text, which is also in a golden
// file.
func picture(t *testing.T, page, name, text string) {
	t.Helper()
	golden(t, name, text)
	shown, err := os.ReadFile("../../../../docs/" + page)
	require.NoError(t, err)
	require.True(t, strings.Contains(string(shown), "```\n"+text+"```\n"),
		"docs/%s does not show testdata/%s as it is", page, name)
}

func TestThePageOfOperationsShowsChecks(t *testing.T) {
	e := newLiveEnv(t)
	e.put("mail", "Welcome", 130*time.Second)
	e.put("mail", "Welcome", 130*time.Second)
	e.put("mail", "Welcome", 0, qless.Delay(time.Hour))
	for range 3 {
		e.fail("thumbs", "Resize", "timeout", "took too long")
	}
	shown := e.typed("qless check queue mail --warn 1m --crit 5m") + "\n" +
		e.typed("qless check failures --warn 2 --crit 100")
	shown = regexp.MustCompile(`\b2m\d\ds`).ReplaceAllString(shown, "2m10s")
	picture(t, "operations.md", "picture_check.txt", shown)
}

func TestThePageOfOperationsShowsTheDoctor(t *testing.T) {
	e, rdb := examined(t)
	ctx := t.Context()
	client, err := qless.New(rdb, nil)
	require.NoError(t, err)
	_, err = client.Queue("mail").Put(ctx, "Welcome", nil, qless.JID("4a6c1a"))
	require.NoError(t, err)
	require.NoError(t, client.Config().Set(ctx, "heartbeat", 2))
	require.NoError(t, rdb.ZRem(ctx, "ql:q:mail-work", "4a6c1a").Err())
	require.NoError(t, rdb.HSet(ctx, "ql:s:stats:1704153600:mail", "failed", "many").Err())

	shown := e.typed("qless doctor --fix --yes")
	shown = regexp.MustCompile(`\b\d+ keys`).ReplaceAllString(shown, "8 keys")
	shown = regexp.MustCompile(`(about|in) <?\d\w+\n`).ReplaceAllString(shown, "$1 1s\n")
	picture(t, "operations.md", "picture_doctor.txt", shown)
}
