package gearmonkey_test

import "strings"

// monitored runs a function and returns the commands that clients sent to the server in the
// meantime, as text, in order. The handshake of go-redis is omitted. Names of commands are in
// capitals, as in the specification.
func (e *env) monitored(run func()) []string {
	e.t.Helper()
	var commands []string
	for _, command := range e.server.Monitored(e.t, run) {
		if command.Caller == "lua" {
			continue
		}
		command.Words[0] = strings.ToUpper(command.Words[0])
		switch command.Words[0] {
		case "HELLO", "CLIENT", "PING":
			continue
		}
		commands = append(commands, strings.Join(command.Words, " "))
	}
	return commands
}
