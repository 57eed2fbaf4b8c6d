// Package script runs the Lua scripts of a source tree, one file a command, on the server that has
// a namespace: by their digests, or by their texts when the server does not know them, alone or in
// a pipeline, and again when they surely did not run.
package script

import (
	"crypto/sha1"
	"encoding/hex"
	"io/fs"
	"sync"

	"github.com/qless/qless-go/internal/luasrc"
)

// A Set has the commands of a source tree. It may be used from any goroutine.
type Set struct {
	sources  fs.FS
	commands sync.Map // of *Command, by name
}

// NewSet returns the set of the commands in a source tree, which must be sound: a command that is
// used and is not there panics.
func NewSet(sources fs.FS) *Set { return &Set{sources: sources} }

// A Command is one script as the server knows it.
type Command struct {
	name string
	text string
	sha  string
}

// Command returns a command. It is flattened when it is first used.
func (s *Set) Command(name string) *Command {
	if known, ok := s.commands.Load(name); ok {
		return known.(*Command)
	}
	text, err := luasrc.Flatten(s.sources, name)
	if err != nil {
		panic(err)
	}
	sum := sha1.Sum([]byte(text))
	command := &Command{name: name, text: text, sha: hex.EncodeToString(sum[:])}
	known, _ := s.commands.LoadOrStore(name, command)
	return known.(*Command)
}

// Text returns the flattened script.
func (c *Command) Text() string { return c.text }

// SHA returns the digest by which a server knows the script.
func (c *Command) SHA() string { return c.sha }

// Repeatable reports whether the command may be sent again when a connection breaks before the
// reply.
func (c *Command) Repeatable() bool { return repeatable[c.name] }
