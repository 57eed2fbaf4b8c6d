package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go/internal/jobopts"
)

func TestTheRowsOfTheTableAreReplaced(t *testing.T) {
	file := filepath.Join(t.TempDir(), "page.md")
	require.Error(t, rewrite(file))
	require.NoError(t, os.WriteFile(file, []byte("a\n\n"+head+"| old |\n"), 0o600))
	require.NoError(t, rewrite(file))
	got, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, "a\n\n"+head+rows(), string(got))
	require.NoError(t, os.WriteFile(file, []byte("no table"), 0o600))
	require.ErrorContains(t, rewrite(file), "no table of options")
}

func rows() string {
	var all string
	for _, row := range jobopts.Table {
		all += row.Line() + "\n"
	}
	return all
}
