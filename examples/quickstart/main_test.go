package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go/qlesstest"
)

// folder returns a folder with a few Go files, good and bad.
func folder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for path, text := range map[string]string{
		"big.go":      "package a\n\nfunc one() {}\n\nfunc two() {}\n",
		"broken.go":   "package a\n\nfunc three() {}\n\nfunc {\n",
		"small.go":    "package a\n",
		"sub/copy.go": "package a\n",
		"notes.txt":   "no Go\n",
	} {
		path = filepath.Join(dir, path)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
	require.NoError(t, os.Symlink("nowhere.go", filepath.Join(dir, "gone.go")))
	return dir
}

func TestReport(t *testing.T) {
	t.Setenv("REDIS_URL", "")
	dir := folder(t)
	var out strings.Builder
	require.NoError(t, run(t.Context(), &out, dir, 100))

	require.Contains(t, out.String(), "Redis: in memory")
	require.Contains(t, out.String(), "put 5 files and a report that depends on them\n")
	require.Contains(t, out.String(), "5 files, 95 bytes, 12 lines, 4 functions\n")
	require.Contains(t, out.String(), "the largest:\n         5 lines  "+filepath.Join(dir, "big.go")+"\n")
	require.Contains(t, out.String(),
		"the same: "+filepath.Join(dir, "small.go")+" = "+filepath.Join(dir, "sub/copy.go")+"\n")
	require.Contains(t, out.String(), "a problem: open "+filepath.Join(dir, "gone.go"))
	require.Contains(t, out.String(), "a problem: "+filepath.Join(dir, "broken.go")+":5:6: ")
	require.NotContains(t, out.String(), "left out")
	require.Regexp(t, `(?m)^  hash +5 .*\n  count +4 .*\n  report +1 `, out.String())
}

func TestLimit(t *testing.T) {
	t.Setenv("REDIS_URL", "")
	var out strings.Builder
	require.NoError(t, run(t.Context(), &out, folder(t), 2))
	require.Contains(t, out.String(), "\n2 files, ")
	require.Contains(t, out.String(), "3 more files were left out")
}

func TestNothingToDo(t *testing.T) {
	require.ErrorContains(t, run(t.Context(), &bytes.Buffer{}, t.TempDir(), 10), "no Go files")
	require.ErrorIs(t, run(t.Context(), &bytes.Buffer{}, filepath.Join(t.TempDir(), "none"), 10), os.ErrNotExist)
}

func TestTwiceOnOneServer(t *testing.T) {
	server, err := qlesstest.Start()
	require.NoError(t, err)
	defer server.Close()
	t.Setenv("REDIS_URL", "redis://"+server.Addr())
	dir := folder(t)
	for range 2 {
		var out strings.Builder
		require.NoError(t, run(t.Context(), &out, dir, 100))
		require.Contains(t, out.String(), "Redis: redis://"+server.Addr()+"\n")
		require.Contains(t, out.String(), "\n5 files, ")
	}
	known, err := server.Redis().Exists(t.Context(), namespace+"queues").Result()
	require.NoError(t, err)
	require.Zero(t, known, "the queues are forgotten")
}

// A writerFunc is called with each text written to it.
type writerFunc func(text string)

func (w writerFunc) Write(p []byte) (int, error) {
	w(string(p))
	return len(p), nil
}

func TestAReportThatFails(t *testing.T) {
	server, err := qlesstest.Start()
	require.NoError(t, err)
	defer server.Close()
	t.Setenv("REDIS_URL", "redis://"+server.Addr())

	damage := writerFunc(func(text string) {
		if !strings.HasPrefix(text, "put 5 files") {
			return
		}
		for _, key := range server.Redis().Keys(t.Context(), namespace+"j:*").Val() {
			if server.Redis().HGet(t.Context(), key, "klass").Val() == "Report" {
				server.Redis().HSet(t.Context(), key, "data", "7")
			}
		}
	})
	err = run(t.Context(), damage, folder(t), 100)
	require.ErrorContains(t, err, "the report failed: ")
}

func TestInterrupted(t *testing.T) {
	server, err := qlesstest.Start()
	require.NoError(t, err)
	defer server.Close()
	t.Setenv("REDIS_URL", "redis://"+server.Addr())

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	interrupt := writerFunc(func(text string) {
		if strings.HasPrefix(text, "put 5 files") {
			cancel()
		}
	})
	err = run(ctx, interrupt, folder(t), 100)
	require.EqualError(t, err, "interrupted")

	left, err := server.Redis().Keys(t.Context(), namespace+"j:*").Result()
	require.NoError(t, err)
	for _, key := range left { // the worker may have begun before it was stopped
		state, err := server.Redis().HGet(t.Context(), key, "state").Result()
		require.NoError(t, err)
		require.Equal(t, "complete", state, "the others are canceled")
	}
}
