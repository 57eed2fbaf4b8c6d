package main

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheRowsOfTheTableAreReplaced(t *testing.T) {
	file := filepath.Join(t.TempDir(), "page.md")
	require.Error(t, rewrite(file))
	require.NoError(t, os.WriteFile(file, []byte("a\n\n"+head+"| old |\n"), 0o600))
	require.NoError(t, rewrite(file))
	got, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Regexp(t, "^a\n\n"+regexp.QuoteMeta(head)+"([|] .+ [|] `\\w+` [|] `--[\\w-]+` [|]\n){20,}$", string(got))
	require.NoError(t, os.WriteFile(file, []byte("no table"), 0o600))
	require.ErrorContains(t, rewrite(file), "no table of options")
}
