package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestACommandWithoutFactsFailsTheBundle(t *testing.T) {
	src, out := t.TempDir(), t.TempDir()
	write := func(file, text string) {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(src, file)), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(src, file), []byte(text), 0o600))
	}
	command := func(header string) {
		write("lua/commands/a.lua", header+"\n\nreturn call('get', prefix)\n")
	}
	write("lua/prologue.lua", "local call, prefix, command = redis.call, KEYS[1], ARGV[1]\n")
	write("doctor/lua/commands/b.lua", "-- b: gets.\n\nreturn call('get', prefix)\n")
	command("-- a: gets.")
	require.ErrorContains(t, run(src, out), `commands/a.lua:1: the header lacks "Repeat`)
	require.NoFileExists(t, filepath.Join(out, "lua/qless.lua"))

	command("-- a: gets.\n--\n-- Args     none\n-- For      Go\n-- Repeat   safe")
	require.NoError(t, run(src, out))
	for _, file := range []string{"lua/qless.lua", "lua/classic.lua", "doctor/doctor.lua"} {
		require.FileExists(t, filepath.Join(out, file))
	}
	text, err := os.ReadFile(filepath.Join(out, "commands_gen.go"))
	require.NoError(t, err)
	require.Contains(t, string(text), `"a": {Repeatable: true},`)
}
