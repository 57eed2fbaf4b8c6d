package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestACommandWithoutFactsFailsTheBundle(t *testing.T) {
	src, out := t.TempDir(), filepath.Join(t.TempDir(), "out")
	write := func(header string) {
		text := header + "\n\nreturn redis.call('get', KEYS[1])\n"
		require.NoError(t, os.WriteFile(filepath.Join(src, "a.lua"), []byte(text), 0o600))
	}
	write("-- a: gets.")
	require.ErrorContains(t, run(src, out, "", filepath.Join(out, "all.lua")), `a: the header lacks "Repeat`)
	require.NoDirExists(t, out)

	write("-- a: gets.\n--\n-- Repeat   safe\n-- Needs    get")
	require.NoError(t, run(src, out, "", ""))
	require.FileExists(t, filepath.Join(out, "a.lua"))
}
