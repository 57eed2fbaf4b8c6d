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

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go/internal/testkit"
)

// A checkedServer is a real server with an env for the program.
type checkedServer struct {
	*env
	rdb *redis.Client
}

func newCheckedServer(t *testing.T, arguments ...string) *checkedServer {
	t.Helper()
	server := testkit.Start(t, arguments...)
	return &checkedServer{&env{t: t, url: "redis://" + server.Addr()}, server.Client(t)}
}

// check runs the check with thresholds too high for a busy machine.
func (s *checkedServer) check(thresholds string) run {
	s.t.Helper()
	return s.run("", "check", "server", "--warn", "ping=1m"+thresholds, "--crit", "ping=1m")
}

// info returns a field of INFO.
func (s *checkedServer) info(name string) string {
	s.t.Helper()
	for line := range strings.Lines(s.rdb.Info(s.t.Context()).Val()) {
		if value, found := strings.CutPrefix(strings.TrimSpace(line), name+":"); found {
			return value
		}
	}
	return ""
}

func (s *checkedServer) do(words ...any) {
	s.t.Helper()
	require.NoError(s.t, s.rdb.Do(s.t.Context(), words...).Err())
}

// snapshot makes the server try to write a snapshot, and waits for the outcome.
func (s *checkedServer) snapshot(outcome string) {
	s.t.Helper()
	s.do("BGSAVE")
	testkit.Until(s.t, "the snapshot to be "+outcome, func() bool {
		return s.info("rdb_bgsave_in_progress") == "0" && s.info("rdb_last_bgsave_status") == outcome
	})
}

func TestASnapshotThatFailsIsCritical(t *testing.T) {
	folder := t.TempDir()
	s := newCheckedServer(t, "--dir", folder, "--save", "3600 1000000",
		"--stop-writes-on-bgsave-error", "yes")
	require.Equal(t, 0, s.check("").status)
	inTheWay := filepath.Join(folder, "dump.rdb") // a folder: root may write anywhere
	require.NoError(t, os.MkdirAll(filepath.Join(inTheWay, "full"), 0o700))
	s.snapshot("err")
	require.ErrorContains(t, s.rdb.Set(t.Context(), "key", 1, 0).Err(), "MISCONF", "it takes no writes")
	r := s.check("")
	require.Equal(t, 2, r.status, r.out)
	require.Regexp(t, `^CRITICAL  Redis \S+ answers, it takes no writes, .*the server could not write to its disk: rdb_last_bgsave_status is err\n`, r.out)

	for _, words := range []string{"status", "why mail", "queue ls", "doctor"} {
		r := s.fields(words)
		require.NotContains(t, r.errors, "MISCONF", "%s: people can still look", words)
	}

	require.NoError(t, os.RemoveAll(inTheWay))
	s.snapshot("ok")
	require.Equal(t, 0, s.check("").status)
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
	s := newCheckedServer(t, "--dir", folder, "--appendonly", "yes", "--appendfsync", "everysec")
	require.Equal(t, 0, s.check("").status)
	_ = s.rdb.Set(t.Context(), "key", 1, 0).Err()
	testkit.Until(t, "the file to be full", func() bool { return s.info("aof_last_write_status") == "err" })
	r := s.check("")
	require.Equal(t, 2, r.status, r.out)
	require.Regexp(t, `^CRITICAL  Redis \S+ answers, it takes no writes, .*the server could not write to its disk: aof_last_write_status is err\n`, r.out)
}

func TestAStatusRemarksOnAServerThatKeepsNothing(t *testing.T) {
	const remark = "nothing needs attention\n" +
		"remark: the server keeps nothing on disk: a restart loses all jobs\n    qless doctor\n"
	s := newCheckedServer(t)
	require.Contains(t, s.fields("status").out, remark)
	require.Empty(t, s.fields("job put mail Send").errors)
	require.Equal(t, 1, strings.Count(s.fields("status --namespace *").out, "remark: "))
	s.do("CONFIG", "SET", "appendonly", "yes")
	require.NotContains(t, s.fields("status").out, "remark")
}

func TestChangesThatAreNotSavedAlert(t *testing.T) {
	s := newCheckedServer(t)
	r := s.check(",unsaved=0")
	require.Equal(t, 0, r.status, r.out)
	require.Regexp(t, `\n  unsaved +0s  warn > 0s`, r.out)
	s.do("SET", "key", 1)
	unsaved := func() bool { return s.check(",unsaved=0").status == 1 }
	testkit.Until(t, "time to pass since the start", unsaved)
	require.Contains(t, s.check(",unsaved=0").out, "answers, not saved for ")
	require.Equal(t, 0, s.check(",unsaved=1h").status)
	s.do("SAVE")
	require.Equal(t, 0, s.check(",unsaved=0").status)
}

func TestWithAnAppendOnlyFileNothingIsUnsaved(t *testing.T) {
	s := newCheckedServer(t, "--appendonly", "yes")
	s.do("SET", "key", 1)
	r := s.check(",unsaved=0")
	require.Equal(t, 0, r.status, r.out)
	require.NotContains(t, r.out, "saved")
}

func TestEvictionIsAWarningWhereMemoryHasALimit(t *testing.T) {
	s := newCheckedServer(t, "--maxmemory-policy", "allkeys-lru")
	r := s.check("")
	require.Equal(t, 0, r.status, r.out)
	require.NotContains(t, r.out, "allkeys-lru")
	s.do("CONFIG", "SET", "maxmemory", "100mb")
	r = s.check("")
	require.Equal(t, 1, r.status)
	require.Contains(t, r.out, "WARNING  Redis ")
	require.Contains(t, r.out, ", the server deletes jobs when its memory is full: its policy is allkeys-lru, not noeviction\n")
}

func TestKeysThatWereEvictedAlert(t *testing.T) {
	s := newCheckedServer(t, "--maxmemory-policy", "allkeys-random")
	used, err := strconv.Atoi(s.info("used_memory"))
	require.NoError(t, err)
	s.do("CONFIG", "SET", "maxmemory", used+2<<20)
	value := strings.Repeat("x", 64<<10)
	for i := range 100 {
		s.do("SET", fmt.Sprint("key", i), value)
	}
	require.NotEqual(t, "0", s.info("evicted_keys"))
	s.do("CONFIG", "SET", "maxmemory", 0)
	r := s.check("")
	require.Equal(t, 1, r.status, r.out)
	require.Regexp(t, `^WARNING  Redis \S+ answers, \d+ keys? evicted`, r.out)
	require.Regexp(t, `\n  evicted +\d+  warn > 0`, r.out)
	s.do("CONFIG", "RESETSTAT")
	require.Equal(t, 0, s.check("").status)
}

func TestACheckOfWorkersCountsTheDead(t *testing.T) {
	w := newWreck(t)
	w.register("mail-1", "mail", time.Now())
	w.register("mail-2", "mail", time.Now().Add(-3*time.Minute))
	require.Contains(t, w.fields("check workers").out, "1 worker with 1 slot, 0 busy, 1 gone\n")
}
