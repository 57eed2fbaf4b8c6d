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

// picture requires that a page of the documentation contains a text, also found in a golden file.
func picture(t *testing.T, page, name, text string) {
	t.Helper()
	golden(t, name, text)
	shown := must(os.ReadFile("../../../../docs/" + page))(t)
	require.True(t, strings.Contains(string(shown), "```\n"+text+"```\n"),
		"docs/%s does not show testdata/%s as it is", page, name)
}

func TestThePageShowsACheck(t *testing.T) {
	e := newLiveEnv(t)
	e.put("mail", "Welcome", 130*time.Second)
	e.put("mail", "Welcome", 130*time.Second)
	e.put("mail", "Welcome", 0, qless.Delay(time.Hour))
	shown := e.typed("qless check queue mail --warn 1m --crit 10m,waiting=5000")
	shown = regexp.MustCompile(`\b2m\d\ds`).ReplaceAllString(shown, "2m10s")
	picture(t, "cli.md", "picture_check.txt", shown)
}
