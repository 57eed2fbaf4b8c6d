// Package scripts lets tests run this module's Lua scripts without the library, with any arguments.
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

// script is the script with every command.
var script = sync.OnceValue(func() *redis.Script { return redis.NewScript(qless.DropInScript()) })

// Text returns the script.
func Text() string { return qless.DropInScript() }

// SHA returns the digest of the script, known to servers.
func SHA() string { return script().Hash() }

// CommandOf returns the command of ours run by a Redis command, or the empty string.
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

// Sent returns the text of one of our commands on a connection, for a [testkit.Proxy].
func Sent(command string) string {
	return fmt.Sprintf("\r\n$%d\r\n%s\r\n", len(command), command)
}

// RunDropIn runs a command with NOW and arguments, like classic clients.
func RunDropIn(ctx context.Context, rdb *redis.Client, line ...any) (any, error) {
	reply, err := script().Run(ctx, rdb, nil, line...).Result()
	if errors.Is(err, redis.Nil) {
		err = nil
	}
	return reply, err
}

// Time formats a time for scripts.
func Time(t time.Time) string {
	return fmt.Sprintf("%d.%06d", t.Unix(), t.Nanosecond()/1000)
}

// Run runs a command for a namespace at a time, or at the server's time if zero. It returns the
// server's own error.
func Run(ctx context.Context, rdb *redis.Client, namespace string, at time.Time, command string,
	args ...any) (any, error) {
	now := ""
	if !at.IsZero() {
		now = Time(at)
	}
	return RunAt(ctx, rdb, namespace, now, command, args...)
}

// RunAt is Run with a time as text.
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

// Error returns the client's error for a server's answer to a call that changes a job.
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

// answers is a server that answers everything with one error.
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
