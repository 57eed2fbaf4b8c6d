package gearmonkey_test

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"errors"
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

// The digest fixed by the specification, and the text with this digest.
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

// A server answers SCRIPT LOAD with another digest, from the first time on or after a restart.
func TestOtherDigestIsRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		rightAnswers int
		count        any
	}{"at once": {0, nil}, "after a restart": {1, "0"}} {
		t.Run(name, func(t *testing.T) {
			e := newEnv(t)
			loads := 0
			e.rdb.AddHook(commandHook(func(cmd redis.Cmder, next func() error) error {
				err := next()
				if load, ok := cmd.(*redis.StringCmd); ok && cmd.Name() == "script" {
					if loads++; loads > c.rightAnswers {
						load.SetVal(strings.Repeat("0", 40))
					}
				}
				return err
			}))
			e.run("F", "")
			worker := e.worker(func(context.Context, *gearmonkey.Job) ([]byte, error) {
				e.cli("SCRIPT FLUSH")
				return nil, nil
			})
			requireCode(t, gearmonkey.ErrScript, worker.Work(t.Context()))
			require.Equal(t, c.count, e.cli("GET count:F"))
		})
	}
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
	files := must(filepath.Glob("*.go"))(t)
	for _, shared := range []string{"guard", "redisx"} {
		those := must(filepath.Glob("../../internal/" + shared + "/*.go"))(t)
		require.NotEmpty(t, those)
		files = append(files, those...)
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file := must(parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly))(t)
		for _, spec := range file.Imports {
			path := must(strconv.Unquote(spec.Path.Value))(t)
			if strings.Contains(path, ".") {
				allowed := path == "github.com/qless/qless-go/internal/guard" ||
					path == "github.com/qless/qless-go/internal/redisx" ||
					strings.HasPrefix(path, "github.com/redis/go-redis/v9")
				require.True(t, allowed, "%s imports %s", name, path)
			}
		}
	}
}

// Plain commands, as listed by the specification, act as a client of our worker.
func TestPlainClientOfOurWorker(t *testing.T) {
	e := newEnv(t)
	worker := e.worker(func(ctx context.Context, job *gearmonkey.Job) ([]byte, error) {
		if string(job.Input) == "bad" {
			return nil, errors.New("refused")
		}
		return append([]byte("did-"), job.Input...), job.Update(ctx, 1, 2)
	})
	stop := e.background(worker)
	e.eventually(func() bool { return e.cli("GET count:F") == "1" })
	subscription := e.rdb.Subscribe(t.Context(), "channel:F")
	defer subscription.Close()
	must(subscription.Receive(t.Context()))(t)

	for i, c := range []struct{ input, queue, status, output string }{
		{"a", "LPUSH queue:F:high", "success", "did-a"},
		{"b", "LPUSH queue:F:normal", "success", "did-b"},
		{"c", "LPUSH queue:F:low", "success", "did-c"},
		{"d", "ZADD queue:F:scheduled 1700000000", "success", "did-d"},
		{"bad", "LPUSH queue:F:normal", "error", "refused"},
	} {
		id := strconv.Itoa(i + 1)
		require.EqualValues(t, i+1, e.cli("INCR uid:F"))
		require.Equal(t, "OK", e.cli("HMSET job:F:"+id+" status idle input "+c.input))
		require.EqualValues(t, 1, e.cli("PUBLISH channel:F create:"+id))
		require.EqualValues(t, 1, e.cli(c.queue+" "+id))
		got := must(e.rdb.BRPop(t.Context(), patience, "lock:F:"+id).Result())(t)
		require.Equal(t, []string{"lock:F:" + id, "OK"}, got)
		want := map[string]string{"status": c.status, "input": c.input, "output": c.output}
		if c.status == "success" {
			want["status:dividend"], want["status:divisor"] = "1", "2"
		}
		require.Equal(t, want, e.rdb.HGetAll(t.Context(), "job:F:"+id).Val())
		for _, kind := range []string{"create:", "start:", "finish:"} {
			message := must(subscription.ReceiveMessage(t.Context()))(t)
			require.Equal(t, kind+id, message.Payload)
		}
	}
	stop()
	require.Equal(t, "0", e.cli("GET count:F"))
}

// Plain commands, as listed by the specification, act as a worker of our client.
func TestPlainWorkerOfOurClient(t *testing.T) {
	e := newEnv(t)
	require.Equal(t, specSHA, e.rdb.Do(t.Context(), "SCRIPT", "LOAD", specText).Val())
	require.EqualValues(t, 1, e.cli("INCR count:F"))
	events := must(e.Events(t.Context(), "F"))(t)
	defer events.Close()

	for i, c := range []struct {
		option gearmonkey.RunOption
		queue  string
		status gearmonkey.Status
	}{
		{gearmonkey.High, "queue:F:high", gearmonkey.StatusSuccess},
		{gearmonkey.Normal, "queue:F:normal", gearmonkey.StatusError},
		{gearmonkey.Low, "queue:F:low", gearmonkey.StatusSuccess},
		{gearmonkey.At(now), "queue:F:scheduled", gearmonkey.StatusSuccess},
	} {
		ran := make(chan error, 1)
		go func() {
			_, err := e.Run(context.Background(), "F", []byte("in"), c.option, gearmonkey.RollCall(), gearmonkey.Blocking(patience))
			ran <- err
		}()
		wantID := int64(i + 1)
		id := formatID(wantID)
		require.Equal(t, gearmonkey.Event{Kind: "create", Function: "F", ID: wantID}, receive(t, events.C(), "create"))
		e.awaitBlocked(1)

		item := e.cli("EVALSHA " + specSHA + " 1 queue:F:scheduled 1700000000")
		if item == nil {
			item = e.cli("BRPOP queue:F:high queue:F:normal queue:F:low 1")
		}
		require.Equal(t, []any{c.queue, id}, item)
		require.EqualValues(t, 1, e.cli("PUBLISH channel:F start:"+id))
		e.cli("HMSET job:F:" + id + " status busy")
		require.Equal(t, gearmonkey.EventStart, receive(t, events.C(), "start").Kind)
		require.Equal(t, gearmonkey.StatusBusy, e.state("F", wantID).Status)
		require.Equal(t, "in", e.cli("HGET job:F:"+id+" input"))
		e.cli("HMSET job:F:" + id + " status:dividend 3 status:divisor 4")
		require.Equal(t, 0.75, e.state("F", wantID).Progress())

		e.cli("HMSET job:F:" + id + " status " + string(c.status) + " output out")
		require.EqualValues(t, 1, e.cli("EXPIRE job:F:"+id+" 90000"))
		require.EqualValues(t, 1, e.cli("PUBLISH channel:F finish:"+id))
		require.EqualValues(t, 1, e.cli("LPUSH lock:F:"+id+" OK"))
		e.cli("EXPIRE lock:F:" + id + " 10")
		require.NoError(t, receive(t, ran, "the end of the run"))
		require.Equal(t, gearmonkey.EventFinish, receive(t, events.C(), "finish").Kind)
		state := e.state("F", wantID)
		require.Equal(t, c.status, state.Status)
		require.Equal(t, "out", string(state.Output))
	}

	require.EqualValues(t, 0, e.cli("DECR count:F"))
	requireCode(t, gearmonkey.ErrNoWorkers, errOf(e.Run(t.Context(), "F", nil,
		gearmonkey.RollCall(), gearmonkey.Blocking(time.Second))))
}

func formatID(id int64) string { return strconv.FormatInt(id, 10) }
