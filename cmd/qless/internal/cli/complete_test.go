package cli_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNamesAreCompleted(t *testing.T) {
	e := newStill(t)
	scene(t, e.Client())
	stop := follow(t, e.Client())
	defer stop()
	for words, names := range map[string]string{
		"queue show m":          "mail",
		"queue move mail r":     "reports",
		"job ls --queue r":      "reports",
		"job find --klass T":    "Tidy",
		"job show w":            "waiting",
		"failed ls t":           "timeout",
		"recur show h":          "hourly",
		"schedule show n":       "nightly",
		"worker show night":     "night-worker",
		"tag jobs u":            "urgent",
		"limit show s":          "shop",
		"job put mail T":        "Tidy",
		"queue show mail mail":  "",
		"config set heart":      "heartbeat",
		"config set mail-max-r": "mail-max-rate",
	} {
		r := e.run("", append([]string{"__completeNoDesc"}, strings.Fields(words)...)...)
		require.Equal(t, 0, r.status, words)
		found := strings.Fields(r.out)
		names := append(strings.Fields(names), found[len(found)-1]) // the last is for the shell
		require.Equal(t, names, found, words)
	}
	e.url, e.environ = "redis://127.0.0.1:1", nil
	r := e.fields("__completeNoDesc queue show m")
	require.Equal(t, 0, r.status)
	require.Equal(t, ":4\n", r.out)
	require.NotContains(t, r.errors, "qless:")
}
