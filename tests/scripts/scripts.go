// Package scripts lets tests run the Lua scripts of this module without the library, with any
// arguments.
package scripts

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/luasrc"
)

// Root is the folder of this module.
var Root = func() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(file), "..", "..")
}()

// Sources is the folder of the Lua sources.
func Sources() fs.FS { return os.DirFS(filepath.Join(Root, "lua")) }

// Names returns the names of all commands.
func Names() []string {
	names, err := luasrc.Commands(Sources())
	if err != nil {
		panic(err)
	}
	return names
}

// script is the script that has every command.
var script = sync.OnceValue(func() *redis.Script { return redis.NewScript(qless.DropInScript()) })

// Text returns the script.
func Text() string { return qless.DropInScript() }

// SHA returns the digest by which a server knows the script.
func SHA() string { return script().Hash() }

// CommandOf returns the command that the arguments of a Redis command run, or nothing.
func CommandOf(args []any) string {
	if len(args) < 4 || args[1] != SHA() && args[1] != Text() {
		return ""
	}
	keys, _ := args[2].(int)
	if len(args) < 4+keys {
		return ""
	}
	name, _ := args[3+keys].(string)
	return name
}

// Sent returns how a command of this project is written on a connection, for a [testkit.Proxy].
func Sent(command string) string {
	return fmt.Sprintf("\r\n$%d\r\n%s\r\n", len(command), command)
}

// RunDropIn runs a command, NOW and arguments as clients of other languages do.
func RunDropIn(ctx context.Context, rdb *redis.Client, line ...any) (any, error) {
	reply, err := script().Run(ctx, rdb, nil, line...).Result()
	if errors.Is(err, redis.Nil) {
		err = nil
	}
	return reply, err
}

// Time writes a time as the scripts read it.
func Time(t time.Time) string {
	return fmt.Sprintf("%d.%06d", t.Unix(), t.Nanosecond()/1000)
}

// Run runs a command for a namespace at a time, the server's if that is zero. It returns the
// server's own error.
func Run(ctx context.Context, rdb *redis.Client, namespace string, at time.Time, command string,
	args ...any) (any, error) {
	now := ""
	if !at.IsZero() {
		now = Time(at)
	}
	return RunAt(ctx, rdb, namespace, now, command, args...)
}

// RunAt is Run with the text of a time.
func RunAt(
	ctx context.Context, rdb *redis.Client, namespace, at, command string, args ...any,
) (any, error) {
	args = append([]any{command, at}, args...)
	reply, err := script().Run(ctx, rdb, []string{namespace}, args...).Result()
	if errors.Is(err, redis.Nil) {
		err = nil
	}
	return reply, err
}

// Error returns the error that a client makes of what a server has answered to a call that
// changes a job.
func Error(ctx context.Context, answer error, jid string) error {
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", MaxRetries: -1})
	defer rdb.Close()
	rdb.AddHook(answers{answer})
	client, err := qless.New(rdb, nil)
	if err != nil {
		panic(err)
	}
	return client.Cancel(ctx, jid)
}

// answers is a server that answers everything by one error.
type answers struct{ err error }

func (a answers) DialHook(next redis.DialHook) redis.DialHook { return next }

func (a answers) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(_ context.Context, cmd redis.Cmder) error {
		cmd.SetErr(a.err)
		return a.err
	}
}

func (a answers) ProcessPipelineHook(redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(_ context.Context, cmds []redis.Cmder) error {
		for _, cmd := range cmds {
			cmd.SetErr(a.err)
		}
		return a.err
	}
}
