package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestACommandWithoutFactsFailsTheBundle(t *testing.T) {
	src, out := t.TempDir(), t.TempDir()
	script, facts := filepath.Join(out, "all.lua"), filepath.Join(out, "facts.go")
	write := func(file, text string) {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(src, file)), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(src, file), []byte(text), 0o600))
	}
	command := func(header string) {
		write("commands/a.lua", header+"\n\nreturn call('get', prefix)\n")
	}
	write("prologue.lua", "local call, prefix, command = redis.call, KEYS[1], ARGV[1]\n")
	command("-- a: gets.")
	require.ErrorContains(t, run(src, script, facts), `commands/a.lua:1: the header lacks "Repeat`)
	require.NoFileExists(t, script)

	command("-- a: gets.\n--\n-- KEYS[1]  the namespace prefix\n-- ARGV     NOW\n-- For      Go\n-- Repeat   safe\n-- Needs    get")
	require.NoError(t, run(src, script, facts))
	require.FileExists(t, script)
	text, err := os.ReadFile(facts)
	require.NoError(t, err)
	require.Contains(t, string(text), `"a": {Repeatable: true},`)
}
