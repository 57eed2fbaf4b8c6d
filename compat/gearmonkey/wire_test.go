package gearmonkey_test

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go/compat/gearmonkey"
)

// The digest that the specification fixes, and the text whose digest it is.
const (
	specSHA  = "5231827cd49b540660ef44969b38cc858f157824"
	specText = `local item = redis.call('ZRANGEBYSCORE', KEYS[1], 0, ARGV[1], 'LIMIT', 0, 1); ` +
		`if (#item > 0) then redis.call('ZREM', KEYS[1], item[1]); return { KEYS[1],  item[1] }; end`
)

func TestScriptIsTheSpecified(t *testing.T) {
	require.Equal(t, specText, gearmonkey.Script)
	require.Equal(t, specSHA, gearmonkey.ScriptSHA)
	sum := sha1.Sum([]byte(gearmonkey.Script))
	require.Equal(t, specSHA, hex.EncodeToString(sum[:]))
	e := newEnv(t)
	require.Equal(t, specSHA, e.rdb.ScriptLoad(t.Context(), gearmonkey.Script).Val())
}

// digestHook makes a server answer SCRIPT LOAD with another digest.
type digestHook struct{ after int }

func (digestHook) DialHook(next redis.DialHook) redis.DialHook { return next }
func (digestHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (h *digestHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if load, ok := cmd.(*redis.StringCmd); ok && cmd.Name() == "script" {
			if h.after--; h.after < 0 {
				load.SetVal(strings.Repeat("0", 40))
			}
		}
		return err
	}
}

func TestOtherDigestIsRefused(t *testing.T) {
	e := newEnv(t)
	e.rdb.AddHook(&digestHook{})
	worker := e.worker(echo)
	requireCode(t, gearmonkey.ErrScript, worker.Work(t.Context()))
	require.Nil(t, e.cli("GET count:F"), "it was not counted")
}

func TestOtherDigestAfterARestartIsRefused(t *testing.T) {
	e := newEnv(t)
	e.rdb.AddHook(&digestHook{after: 1})
	e.run("F", "")
	worker := e.worker(func(context.Context, *gearmonkey.Job) ([]byte, error) {
		e.cli("SCRIPT FLUSH")
		return nil, nil
	})
	requireCode(t, gearmonkey.ErrScript, worker.Work(t.Context()))
	require.Equal(t, "0", e.cli("GET count:F"))
}

func TestCommandsOfRun(t *testing.T) {
	e := newEnv(t)
	e.cli("SET count:F 1")
	id := 0
	for _, queue := range []string{"high", "normal", "low", "default", "scheduled"} {
		for _, rollCall := range []bool{false, true} {
			for _, blocking := range []bool{false, true} {
				id++
				var options []gearmonkey.RunOption
				var want []string
				if rollCall {
					options = append(options, gearmonkey.RollCall())
					want = append(want, "GET count:F")
				}
				want = append(want,
					"INCR uid:F",
					fmt.Sprintf(`HMSET job:F:%d status idle input some "input"`, id),
					fmt.Sprintf("PUBLISH channel:F create:%d", id))
				switch queue {
				case "scheduled":
					options = append(options, gearmonkey.At(now))
					want = append(want, fmt.Sprintf("ZADD queue:F:scheduled %d %d", nowUnix, id))
				case "default":
					want = append(want, fmt.Sprintf("LPUSH queue:F:normal %d", id))
				default:
					options = append(options, gearmonkey.Priority(queue))
					want = append(want, fmt.Sprintf("LPUSH queue:F:%s %d", queue, id))
				}
				if blocking {
					options = append(options, gearmonkey.Blocking(7*time.Second))
					want = append(want, fmt.Sprintf("BRPOP lock:F:%d 7", id))
					e.cli(fmt.Sprintf("LPUSH lock:F:%d OK", id)) // as if the job had already ended
				}
				slices.Reverse(options) // their order does not matter
				require.Equal(t, want, e.monitored(func() {
					require.EqualValues(t, id, e.run("F", `some "input"`, options...))
				}))
			}
		}
	}
}

func TestCommandsOfGet(t *testing.T) {
	e := newEnv(t)
	id := e.run("F", "")
	require.Equal(t, []string{"HGETALL job:F:1"}, e.monitored(func() { e.state("F", id) }))
}

func TestCommandsOfAWorker(t *testing.T) {
	e := newEnv(t)
	e.run("F", "a")
	e.run("F", "b", gearmonkey.At(now))
	got := e.monitored(func() {
		e.works(2, func(ctx context.Context, job *gearmonkey.Job) ([]byte, error) {
			if string(job.Input) == "a" {
				return nil, fmt.Errorf("no luck")
			}
			return []byte("out"), job.Update(ctx, 3, 10)
		})
	})
	require.Equal(t, []string{
		"SCRIPT load " + specText,
		"INCR count:F",

		"EVALSHA " + specSHA + " 1 queue:F:scheduled 1700000000",
		"HMGET job:F:2 status input",
		"MULTI",
		"PUBLISH channel:F start:2",
		"HMSET job:F:2 status busy",
		"EXEC",
		"HMSET job:F:2 status:dividend 3 status:divisor 10",
		"MULTI",
		"HMSET job:F:2 status success output out",
		"EXPIRE job:F:2 90000",
		"PUBLISH channel:F finish:2",
		"LPUSH lock:F:2 OK",
		"EXPIRE lock:F:2 10",
		"EXEC",

		"EVALSHA " + specSHA + " 1 queue:F:scheduled 1700000000",
		"BRPOP queue:F:high queue:F:normal queue:F:low 1",
		"HMGET job:F:1 status input",
		"MULTI",
		"PUBLISH channel:F start:1",
		"HMSET job:F:1 status busy",
		"EXEC",
		"MULTI",
		"HMSET job:F:1 status error output no luck",
		"EXPIRE job:F:1 90000",
		"PUBLISH channel:F finish:1",
		"LPUSH lock:F:1 OK",
		"EXPIRE lock:F:1 10",
		"EXEC",

		"DECR count:F",
	}, got)
}

func TestCommandsOfAnIdleWorker(t *testing.T) {
	e := newEnv(t)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	asked := 0
	cfg := config()
	cfg.Clock = func() time.Time {
		if asked++; asked == 2 {
			stop() // with the second round still to come
		}
		return now
	}
	worker := gearmonkey.NewWorker(e.Client, cfg)
	worker.Accept("F", echo)
	round := []string{
		"EVALSHA " + specSHA + " 1 queue:F:scheduled 1700000000",
		"BRPOP queue:F:high queue:F:normal queue:F:low 1",
	}
	want := slices.Concat([]string{"SCRIPT load " + specText, "INCR count:F"}, round, round, []string{"DECR count:F"})
	require.Equal(t, want, e.monitored(func() { require.NoError(t, worker.Work(ctx)) }))
}

func TestCommandsOfAWorkerOfSeveralFunctions(t *testing.T) {
	e := newEnv(t)
	e.run("G", "")
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	worker := e.worker(echo)
	worker.Accept("G", func(context.Context, *gearmonkey.Job) ([]byte, error) { stop(); return nil, nil })
	got := e.monitored(func() { require.NoError(t, worker.Work(ctx)) })
	require.Equal(t, []string{
		"SCRIPT load " + specText,
		"INCR count:F",
		"INCR count:G",
		"EVALSHA " + specSHA + " 1 queue:F:scheduled 1700000000",
		"EVALSHA " + specSHA + " 1 queue:G:scheduled 1700000000",
		"BRPOP queue:F:high queue:G:high queue:F:normal queue:G:normal queue:F:low queue:G:low 1",
		"HMGET job:G:1 status input",
	}, got[:7])
	require.Equal(t, []string{"DECR count:F", "DECR count:G"}, got[len(got)-2:])
}

// The package depends only on the standard library, go-redis, and this module's helpers for it.
func TestImports(t *testing.T) {
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	for _, shared := range []string{"guard", "redisx"} {
		those, err := filepath.Glob("../../internal/" + shared + "/*.go")
		require.NoError(t, err)
		require.NotEmpty(t, those)
		files = append(files, those...)
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
		require.NoError(t, err)
		for _, spec := range file.Imports {
			path, err := strconv.Unquote(spec.Path.Value)
			require.NoError(t, err)
			if strings.Contains(path, ".") {
				allowed := path == "github.com/qless/qless-go/internal/guard" ||
					path == "github.com/qless/qless-go/internal/redisx" ||
					strings.HasPrefix(path, "github.com/redis/go-redis/v9")
				require.True(t, allowed, "%s imports %s", name, path)
			}
		}
	}
}
