package main

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/luasrc"
)

// scripts is one implementation of the commands, called without a client library.
type scripts struct {
	name string
	own  bool // ours, as our client calls it: using the server's clock
	text string
	sha  string
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

// dropIn is all our commands in one classic script.
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

// call returns the words that run a command. Ours reads the server's clock, as our client
// makes it do; classic ones take the time as an argument.
func (s *scripts) call(command string, args ...any) []any {
	if s.own {
		return append([]any{"evalsha", s.sha, 1, "ql:", command, ""}, args...)
	}
	now := fmt.Sprintf("%.6f", float64(time.Now().UnixMicro())/1e6)
	return append([]any{"evalsha", s.sha, 0, command, now}, args...)
}
