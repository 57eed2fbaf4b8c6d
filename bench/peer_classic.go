package main

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/luasrc"
)

// classicSession is a script with the classic interface, called as by its clients.
type classicSession struct {
	rdb     *redis.Client
	scripts *scripts
	load    load
	next    atomic.Int64
}

func openClassic(scripts *scripts) func(context.Context, *server, load) (session, error) {
	return func(ctx context.Context, s *server, l load) (session, error) {
		rdb := s.dial(l.concurrency * l.workers)
		return &classicSession{rdb: rdb, scripts: scripts, load: l}, scripts.load(ctx, rdb)
	}
}

// jidOf returns a jid of the length used by all clients.
func jidOf(n int64) string { return fmt.Sprintf("%032x", n) }

func (s *classicSession) enqueue(ctx context.Context, jobs int) error {
	return parallel(s.load.concurrency, jobs, func(int) error {
		call := s.scripts.call("put", "w", queueName, jidOf(s.next.Add(1)), klass, s.load.payload, 0)
		return s.rdb.Do(ctx, call...).Err()
	})
}

func (s *classicSession) work(ctx context.Context, to *crew) error {
	go func() {
		err := parallel(s.load.concurrency, s.load.concurrency, func(i int) error {
			return s.popSingly(ctx, "w"+strconv.Itoa(i), to)
		})
		if err != nil {
			to.fail(err)
		}
	}()
	return nil
}

func (s *classicSession) popSingly(ctx context.Context, worker string, to *crew) error {
	for {
		reply, err := s.rdb.Do(ctx, s.scripts.call("pop", queueName, worker, 1)...).Text()
		if err != nil {
			return err
		}
		jobs, err := decodePopped(reply)
		if err != nil || len(jobs) == 0 {
			return err
		}
		to.handled()
		call := s.scripts.call("complete", jobs[0].JID, worker, queueName, jobs[0].Data)
		if err := s.rdb.Do(ctx, call...).Err(); err != nil {
			return err
		}
	}
}

// popped holds the fields of interest of a job in pop's reply.
type popped struct {
	JID  string `json:"jid"`
	Data string `json:"data"`
}

func decodePopped(reply string) ([]popped, error) {
	if reply == "{}" { // no jobs, as written by Lua
		return nil, nil
	}
	var jobs []popped
	err := json.Unmarshal([]byte(reply), &jobs)
	return jobs, err
}

func (s *classicSession) done(ctx context.Context) (int, error) {
	return countCompleted(ctx, s.rdb)
}

func (s *classicSession) close() error { return s.rdb.Close() }

// scripts is one implementation of the commands, called without a client library.
type scripts struct {
	name string
	own  bool // our script, called as by our client: with the server's clock
	text string
	sha  string

	clock func() time.Time // gives the time of our calls, or nil for the server's clock
}

func newScripts(name string, own bool, text string) *scripts {
	sum := sha1.Sum([]byte(text))
	return &scripts{name: name, own: own, text: text, sha: hex.EncodeToString(sum[:])}
}

// classicScripts loads a script with the interface EVALSHA sha 0 COMMAND NOW ARG...
func classicScripts(path string) (*scripts, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return classic(scriptName(path), string(text)), nil
}

func classic(name, text string) *scripts {
	return newScripts(name, false, text)
}

// scriptName names a script after its file, or after the package whose lua folder contains it.
func scriptName(path string) string {
	name := strings.TrimSuffix(filepath.Base(path), ".lua")
	if full, err := filepath.Abs(path); err == nil && name == "qless" {
		folder := filepath.Dir(full)
		if filepath.Base(folder) == "lua" {
			folder = filepath.Dir(folder)
		}
		name = filepath.Base(folder)
	}
	return name
}

// dropIn returns our drop-in script as a classic script.
func dropIn() *scripts { return classic("qless-dropin", qless.DropInScript()) }

// ownScripts bundles our commands from a folder of sources.
func ownScripts(name, folder string) (*scripts, error) {
	text, err := luasrc.Build(os.DirFS(folder))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", folder, err)
	}
	return newScripts(name, true, text), nil
}

// load loads the script into the server.
func (s *scripts) load(ctx context.Context, rdb *redis.Client) error {
	return rdb.ScriptLoad(ctx, s.text).Err()
}

// call returns the words that run a command. Our commands use the server's clock, as with our
// client, unless scripts has a clock; classic scripts take the time as an argument.
func (s *scripts) call(command string, args ...any) []any {
	if s.clock != nil {
		return s.callAt(s.clock(), command, args...)
	} else if s.own {
		return append([]any{"evalsha", s.sha, 1, "ql:", command, ""}, args...)
	}
	return s.callAt(time.Now(), command, args...)
}

// callAt returns the words that run a command at a given time.
func (s *scripts) callAt(at time.Time, command string, args ...any) []any {
	now := fmt.Sprintf("%.6f", float64(at.UnixMicro())/1e6)
	if s.own {
		return append([]any{"evalsha", s.sha, 1, "ql:", command, now}, args...)
	}
	return append([]any{"evalsha", s.sha, 0, command, now}, args...)
}
