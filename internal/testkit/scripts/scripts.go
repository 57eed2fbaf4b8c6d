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
	return filepath.Join(filepath.Dir(file), "..", "..", "..")
}()

// Flat is the folder of the flattened scripts.
func Flat() fs.FS { return os.DirFS(filepath.Join(Root, "lua", "flat")) }

// Names returns the names of all commands.
func Names() []string {
	names, err := luasrc.Commands(Flat())
	if err != nil {
		panic(err)
	}
	return names
}

// known has the scripts that were used, by command.
var known sync.Map

// script is a flattened command.
type script struct {
	*redis.Script
	text string
}

func of(command string) script {
	if s, ok := known.Load(command); ok {
		return s.(script)
	}
	text, err := fs.ReadFile(Flat(), command+".lua")
	if err != nil {
		panic(err)
	}
	s := script{Script: redis.NewScript(string(text)), text: string(text)}
	known.Store(command, s)
	return s
}

// Text returns the flattened script of a command.
func Text(command string) string { return of(command).text }

// SHA returns the digest by which a server knows a command.
func SHA(command string) string { return of(command).Hash() }

// dropIn is the script that has every command.
var dropIn = sync.OnceValue(func() *redis.Script { return redis.NewScript(qless.DropInScript()) })

// RunDropIn runs a command, NOW and arguments as clients of other languages do.
func RunDropIn(ctx context.Context, rdb *redis.Client, line ...any) (any, error) {
	reply, err := dropIn().Run(ctx, rdb, nil, line...).Result()
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
func RunAt(ctx context.Context, rdb *redis.Client, namespace, at, command string, args ...any) (any, error) {
	args = append([]any{at}, args...)
	reply, err := of(command).Run(ctx, rdb, []string{namespace}, args...).Result()
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
	client, err := qless.New(rdb)
	if err != nil {
		panic(err)
	}
	return client.Timeout(ctx, jid)
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
