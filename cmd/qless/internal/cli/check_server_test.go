package cli_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go/internal/redisx"
	"github.com/qless/qless-go/internal/testkit"
)

// checkServer requires a status of the check, with thresholds too high for a busy machine, and
// returns the output.
func (e *env) checkServer(status int, thresholds string) string {
	e.t.Helper()
	r := e.run("", "check", "server", "--warn", "ping=1m"+thresholds, "--crit", "ping=1m")
	require.Equal(e.t, status, r.status, r.out)
	return r.out
}

// info returns a field of INFO.
func (e *env) info(name string) string {
	e.t.Helper()
	return redisx.ParseInfo(must(e.rdb.Info(e.t.Context()).Result())(e.t))[name]
}

// snapshot makes the server try to write a snapshot, and waits for the outcome.
func (e *env) snapshot(outcome string) {
	e.t.Helper()
	e.redis("bgsave")
	testkit.Until(e.t, "the snapshot to be "+outcome, func() bool {
		return e.info("rdb_bgsave_in_progress") == "0" && e.info("rdb_last_bgsave_status") == outcome
	})
}

// requireNoWrites requires the result of a check of a server that can't write to its disk.
func requireNoWrites(t *testing.T, result, failing string) {
	t.Helper()
	require.Regexp(t, `^CRITICAL  Redis \S+ answers, it takes no writes, .*`+
		`the server could not write to its disk: `+failing+` is err\n`, result)
}

func TestASnapshotThatFailsIsCritical(t *testing.T) {
	folder := t.TempDir()
	e, _ := newReal(t, "--dir", folder, "--save", "3600 1000000",
		"--stop-writes-on-bgsave-error", "yes")
	e.checkServer(0, "")
	inTheWay := filepath.Join(folder, "dump.rdb") // a folder: root may write anywhere
	require.NoError(t, os.MkdirAll(filepath.Join(inTheWay, "full"), 0o700))
	e.snapshot("err")
	err := e.rdb.Set(t.Context(), "key", 1, 0).Err()
	require.ErrorContains(t, err, "MISCONF", "it takes no writes")
	requireNoWrites(t, e.checkServer(2, ""), "rdb_last_bgsave_status")
	for _, words := range []string{"status", "why mail", "queue ls", "doctor"} {
		require.NotContains(t, e.fields(words).errors, "MISCONF", "%s: people can still look", words)
	}
	require.NoError(t, os.RemoveAll(inTheWay))
	e.snapshot("ok")
	e.checkServer(0, "")
}

func TestAnAppendOnlyFileThatFailsIsCritical(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux has a file that is always full")
	}
	folder := t.TempDir()
	logs := filepath.Join(folder, "appendonlydir")
	require.NoError(t, os.Mkdir(logs, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(logs, "appendonly.aof.manifest"),
		[]byte("file full.aof seq 1 type i\n"), 0o600))
	for _, name := range []string{
		filepath.Join(logs, "full.aof"), filepath.Join(folder, "appendonly.aof"), // that of Redis 6
	} {
		require.NoError(t, os.Symlink("/dev/full", name))
	}
	e, _ := newReal(t, "--dir", folder, "--appendonly", "yes", "--appendfsync", "everysec")
	e.checkServer(0, "")
	_ = e.rdb.Set(t.Context(), "key", 1, 0).Err()
	testkit.Until(t, "the file to be full", func() bool {
		return e.info("aof_last_write_status") == "err"
	})
	requireNoWrites(t, e.checkServer(2, ""), "aof_last_write_status")
}

func TestAStatusRemarksOnAServerThatKeepsNothing(t *testing.T) {
	const remark = "nothing needs attention\n" +
		"remark: the server keeps nothing on disk: a restart loses all jobs\n    qless doctor\n"
	e, _ := newReal(t)
	require.Contains(t, e.fields("status").out, remark)
	require.Empty(t, e.fields("job put mail Send").errors)
	require.Equal(t, 1, strings.Count(e.fields("status --namespace *").out, "remark: "))
	e.redis("config set appendonly yes")
	require.NotContains(t, e.fields("status").out, "remark")
}

func TestChangesThatAreNotSavedAlert(t *testing.T) {
	e, _ := newReal(t)
	require.Regexp(t, `\n  unsaved +0s  warn > 0s`, e.checkServer(0, ",unsaved=0"))
	e.redis("set key 1")
	testkit.Until(t, "time to pass since the start", func() bool {
		return e.fields("check server --warn ping=1m,unsaved=0 --crit ping=1m").status == 1
	})
	require.Contains(t, e.checkServer(1, ",unsaved=0"), "answers, not saved for ")
	e.checkServer(0, ",unsaved=1h")
	e.redis("save")
	e.checkServer(0, ",unsaved=0")
}

func TestWithAnAppendOnlyFileNothingIsUnsaved(t *testing.T) {
	e, _ := newReal(t, "--appendonly", "yes")
	e.redis("set key 1")
	require.NotContains(t, e.checkServer(0, ",unsaved=0"), "saved")
}

func TestEvictionIsAWarningWhereMemoryHasALimit(t *testing.T) {
	e, _ := newReal(t, "--maxmemory-policy", "allkeys-lru")
	require.NotContains(t, e.checkServer(0, ""), "allkeys-lru")
	e.redis("config set maxmemory 100mb")
	out := e.checkServer(1, "")
	require.Contains(t, out, "WARNING  Redis ")
	require.Contains(t, out, ", the server deletes jobs when its memory is full: "+
		"its policy is allkeys-lru, not noeviction\n")
}

func TestKeysThatWereEvictedAlert(t *testing.T) {
	e, _ := newReal(t, "--maxmemory-policy", "allkeys-random")
	used := must(strconv.Atoi(e.info("used_memory")))(t)
	e.redis(fmt.Sprint("config set maxmemory ", used+2<<20))
	value := strings.Repeat("x", 64<<10)
	for i := range 100 {
		e.redis(fmt.Sprintf("set key%d %s", i, value))
	}
	require.NotEqual(t, "0", e.info("evicted_keys"))
	e.redis("config set maxmemory 0")
	out := e.checkServer(1, "")
	require.Regexp(t, `^WARNING  Redis \S+ answers, \d+ keys? evicted`, out)
	require.Regexp(t, `\n  evicted +\d+  warn > 0`, out)
	e.redis("config resetstat")
	e.checkServer(0, "")
}

func TestACheckOfWorkersCountsTheDead(t *testing.T) {
	w := newWreck(t)
	w.register("mail-1", "mail", 0)
	w.register("mail-2", "mail", 3*time.Minute)
	require.Contains(t, w.fields("check workers").out, "1 worker with 1 slot, 0 busy, 1 gone\n")
}
