package qless

import (
	"context"
	"crypto/sha1"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/qless/qless-go/internal/luasrc"
)

//go:generate go run ./internal/cmd/luabundle -dropin lua/qless.lua

//go:embed lua/*.lua lua/lib/*.lua
var luaFiles embed.FS

// DropInScript returns the script that clients of other languages load in place of their own
// qless.lua, to run on today's servers and to share queues with this package. It holds
// every command: EVALSHA sha 0 COMMAND NOW ARG...
func DropInScript() string {
	text, err := luaFiles.ReadFile("lua/" + luasrc.DropInName)
	if err != nil {
		panic(err) // it is embedded
	}
	return string(text)
}

// A script is one command as the server knows it.
type script struct {
	name string
	text string
	sha  string
}

// scripts has the commands that were used, by name.
var scripts sync.Map

// scriptOf returns a command, flattened from the embedded sources when it is first used.
func scriptOf(name string) *script {
	if known, ok := scripts.Load(name); ok {
		return known.(*script)
	}
	sources, err := fs.Sub(luaFiles, "lua")
	if err != nil {
		panic(err) // the folder is embedded
	}
	text, err := luasrc.Flatten(sources, name)
	if err != nil {
		panic(err) // the sources are embedded, and the tests flatten all of them
	}
	sum := sha1.Sum([]byte(text))
	known, _ := scripts.LoadOrStore(name, &script{name: name, text: text, sha: hex.EncodeToString(sum[:])})
	return known.(*script)
}

// repeatable lists the commands that may be sent again when a connection breaks before
// their answer came: run twice, they do what they do once. Any other command is sent once,
// and the caller learns that its outcome is unknown: a pop run twice would strand the jobs
// of the first until their locks end.
var repeatable = map[string]bool{
	"config.get": true, "config.set": true, "config.unset": true, "failed": true, "get": true,
	"heartbeat": true, "jobs": true, "length": true, "multiget": true, "pause": true, "peek": true,
	"priority": true, "queue.forget": true, "queues": true, "queues.ready": true, "recur.get": true,
	"recur.tag": true, "recur.untag": true, "stats": true, "tag": true, "track": true,
	"unpause": true, "unrecur": true, "worker.deregister": true, "workers": true,
}

// A call is one run of a script: a go-redis command that knows whether it may be repeated.
type call struct {
	*redis.Cmd
	script *script
	once   bool
}

// NoRetry keeps go-redis from sending the command again.
func (c *call) NoRetry() bool { return c.once }

// A runner runs scripts for one namespace.
type runner struct {
	rdb    redis.UniversalClient
	prefix string
	clock  func() time.Time // nil for the server's
	guard  string           // a second key, on a cluster
}

// guardKey is a key that never exists. A cluster that moves a slot from one master to another
// has a part of its keys on each for a while. It sends scripts whose key is on neither to where the
// slot goes, and there refuses those that name several keys unless it has all: so scripts wait until
// all keys of the namespace are in one place again.
const guardKey = "x:guard"

// newCall makes the call of a command: by the script's digest, or with its whole text.
func (r *runner) newCall(ctx context.Context, s *script, whole bool, args []any) *call {
	now := ""
	if r.clock != nil {
		now = formatTime(r.clock())
	}
	line := make([]any, 0, 6+len(args))
	if whole {
		line = append(line, "eval", s.text)
	} else {
		line = append(line, "evalsha", s.sha)
	}
	if r.guard != "" {
		line = append(line, 2, r.prefix, r.guard, now)
	} else {
		line = append(line, 1, r.prefix, now)
	}
	line = append(line, args...)
	return &call{Cmd: redis.NewCmd(ctx, line...), script: s, once: !repeatable[s.name]}
}

// sendAttempts bounds how often a command is sent that surely did not run.
const sendAttempts = 4

// run runs a command and returns the server's reply, nil for none. A server that does not
// know the script is given its text.
func (r *runner) run(ctx context.Context, name string, args ...any) (any, error) {
	return r.runBy(ctx, r.rdb.Process, name, args...)
}

// runBy is run with another way to send a command.
func (r *runner) runBy(ctx context.Context, send func(context.Context, redis.Cmder) error, name string, args ...any) (any, error) {
	s := scriptOf(name)
	for attempt := 1; ; attempt++ {
		c := r.newCall(ctx, s, false, args)
		err := send(ctx, c)
		if redis.HasErrorPrefix(err, "NOSCRIPT") {
			c = r.newCall(ctx, s, true, args)
			err = send(ctx, c)
		}
		if err == nil || errors.Is(err, redis.Nil) {
			return c.Val(), nil
		}
		if cluster, ok := r.rdb.(*redis.ClusterClient); ok && neverRan(err) {
			cluster.ReloadState(ctx) // another master may have the namespace by now
		}
		if attempt == sendAttempts || !neverRan(err) || !pause(ctx, attempt) {
			return nil, err
		}
	}
}

// awayBackoff says how long to wait before a server that is away is tried again: not so long that it
// is back for much more than a second before anybody notices.
var awayBackoff = ExponentialBackoff(16*time.Millisecond, time.Second)

// pause waits before a command is sent again; false when the context ended first.
func pause(ctx context.Context, attempt int) bool {
	return sleep(ctx, awayBackoff(nil, attempt, nil))
}

// sleep waits; false when the context ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// A pipeline runs several commands in one round trip, in order but not atomically.
type pipeline struct {
	runner  *runner
	calls   []*pipelined
	lessons []*pipelined
}

type pipelined struct {
	script *script
	args   []any
	call   *call
}

// add queues a command.
func (p *pipeline) add(name string, args ...any) {
	p.calls = append(p.calls, &pipelined{script: scriptOf(name), args: args})
}

// teach queues a command that does nothing, to go before those that a server is given the scripts
// of: it then knows this script too.
func (p *pipeline) teach(name string, args ...any) {
	p.lessons = append(p.lessons, &pipelined{script: scriptOf(name), args: args})
}

// exec sends what was added and returns the reply or the error of each command. Commands
// whose script the server did not know are sent once more, the first of them with the
// script's text.
func (p *pipeline) exec(ctx context.Context) ([]any, []error) {
	p.send(ctx, p.calls, false)
	var unknown []*pipelined
	for _, c := range p.calls {
		if redis.HasErrorPrefix(c.call.Err(), "NOSCRIPT") {
			unknown = append(unknown, c)
		}
	}
	if len(unknown) > 0 {
		p.send(ctx, append(p.lessons, unknown...), true)
	}
	replies := make([]any, len(p.calls))
	failures := make([]error, len(p.calls))
	for i, c := range p.calls {
		if err := c.call.Err(); err != nil && !errors.Is(err, redis.Nil) {
			failures[i] = err
		} else {
			replies[i] = c.call.Val()
		}
	}
	return replies, failures
}

// send sends some of the commands; with texts, the first of each script has its text.
func (p *pipeline) send(ctx context.Context, calls []*pipelined, texts bool) {
	pipe := p.runner.rdb.Pipeline()
	sent := map[*script]bool{}
	for _, c := range calls {
		whole := texts && !sent[c.script]
		sent[c.script] = true
		c.call = p.runner.newCall(ctx, c.script, whole, c.args)
		_ = pipe.Process(ctx, c.call) // queued: the error comes with the reply
	}
	_, err := pipe.Exec(ctx)
	for _, c := range calls {
		c.failed(err)
	}
}

// failed gives a command of a pipeline the error of the whole, if it has neither an answer nor an
// error of its own: the connection could not be used at all.
func (c *pipelined) failed(err error) {
	if err != nil && c.call.Err() == nil && c.call.Val() == nil {
		c.call.SetErr(err)
	}
}

// formatTime writes a time as the scripts read it: seconds with a fraction.
func formatTime(t time.Time) string {
	return fmt.Sprintf("%d.%06d", t.Unix(), t.Nanosecond()/1000)
}

// formatSeconds writes a duration in seconds.
func formatSeconds(d time.Duration) string {
	text := fmt.Sprintf("%d.%09d", d/time.Second, d%time.Second)
	return strings.TrimRight(strings.TrimRight(text, "0"), ".")
}
