// Package script runs Lua scripts, one file a command, on the server that has
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

// A Set holds the commands in a folder. It is safe for concurrent use.
type Set struct {
	scripts  fs.FS
	commands sync.Map // of *Command, by name
}

// NewSet returns the set of the commands in a folder of flattened scripts. Using a command that is
// missing or invalid panics.
func NewSet(scripts fs.FS) *Set { return &Set{scripts: scripts} }

// A Command is one script as the server knows it.
type Command struct {
	name  string
	text  string
	sha   string
	facts luasrc.Facts
}

// Command returns a command. It is read when it is first used.
func (s *Set) Command(name string) *Command {
	if known, ok := s.commands.Load(name); ok {
		return known.(*Command)
	}
	text, err := fs.ReadFile(s.scripts, name+".lua")
	if err != nil {
		panic(err)
	}
	facts, err := luasrc.FactsOf(s.scripts, name)
	if err != nil {
		panic(err)
	}
	sum := sha1.Sum(text)
	command := &Command{name: name, text: string(text), sha: hex.EncodeToString(sum[:]), facts: facts}
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

// RepeatableNew reports the same for calls that say that all jobs which they put are new.
func (c *Command) RepeatableNew() bool { return c.facts.Repeatable || c.facts.RepeatableNew }

// Replicated reports whether clients that wait for replicas do so after the command.
func (c *Command) Replicated() bool { return c.facts.Replicated }
