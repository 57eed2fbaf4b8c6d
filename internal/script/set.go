// Package script runs the Lua scripts of a source tree, one file a command, on the server that has
// a namespace: by digest, or by text if the server does not know the script, alone or in a
// pipeline. It runs a script again if it certainly did not run.
package script

import (
	"crypto/sha1"
	"encoding/hex"
	"io/fs"
	"sync"

	"github.com/qless/qless-go/internal/luasrc"
)

// A Set holds the commands of a source tree. It is safe for concurrent use.
type Set struct {
	sources  fs.FS
	commands sync.Map // of *Command, by name
}

// NewSet returns the set of the commands in a source tree. Using a command that is missing or
// invalid panics.
func NewSet(sources fs.FS) *Set { return &Set{sources: sources} }

// A Command is one script as the server knows it.
type Command struct {
	name  string
	text  string
	sha   string
	facts luasrc.Facts
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
	facts, err := luasrc.FactsOf(s.sources, name)
	if err != nil {
		panic(err)
	}
	sum := sha1.Sum([]byte(text))
	command := &Command{name: name, text: text, sha: hex.EncodeToString(sum[:]), facts: facts}
	known, _ := s.commands.LoadOrStore(name, command)
	return known.(*Command)
}

// Text returns the flattened script.
func (c *Command) Text() string { return c.text }

// SHA returns the digest by which a server knows the script.
func (c *Command) SHA() string { return c.sha }

// Repeatable reports whether the command is idempotent, so that it may be sent again if the
// connection breaks before the reply. Any other command is sent once, and the caller gets the error
// that its outcome is unknown: a pop that runs twice would strand the jobs of the first until their
// locks end.
func (c *Command) Repeatable() bool { return c.facts.Repeatable }

// Replicated reports whether clients that wait for replicas do so after the command.
func (c *Command) Replicated() bool { return c.facts.Replicated }
