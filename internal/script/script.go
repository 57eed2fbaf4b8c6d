// Package script runs the commands of one Lua script on the server that holds a namespace: by the
// script's digest, alone or in a pipeline. It sends the script's text once to a server that does
// not have it. A command runs again if it certainly did not run.
package script

import (
	"crypto/sha1"
	"encoding/hex"
)

// Facts are the properties of a command that determine how to run it.
type Facts struct {
	// Repeatable means that the command may be sent again if the connection breaks before its reply:
	// it is idempotent. Any other command is sent once, and the caller gets an error for the unknown
	// outcome: a pop that runs twice would strand the first jobs until lock expiry.
	Repeatable bool

	// RepeatableNew means the same for calls marked to put only new jobs.
	RepeatableNew bool

	// Replicated means that clients that wait for replicas do so after the command.
	Replicated bool

	name any // of the command, as an argument
}

// A Script is a text with all commands. It is safe for concurrent use.
type Script struct {
	text     string
	sha      string
	commands map[string]Facts
}

// New returns a script with its commands.
func New(text string, commands map[string]Facts) *Script {
	sum := sha1.Sum([]byte(text))
	named := make(map[string]Facts, len(commands))
	for name, facts := range commands {
		facts.name = name
		named[name] = facts
	}
	return &Script{text: text, sha: hex.EncodeToString(sum[:]), commands: named}
}

// Text returns the script.
func (s *Script) Text() string { return s.text }

// SHA returns the digest that identifies the script on a server.
func (s *Script) SHA() string { return s.sha }

// Facts returns the facts of a command. It panics if the script has no such command.
func (s *Script) Facts(command string) Facts {
	facts, ok := s.commands[command]
	if !ok {
		panic("qless: there is no command " + command)
	}
	return facts
}
