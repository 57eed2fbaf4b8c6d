package qless

import (
	_ "embed"

	"github.com/qless/qless-go/internal/script"
)

//go:generate go run ./internal/cmd/luabundle
//go:generate go run ./internal/cmd/optiontable

//go:embed lua/qless.lua
var scriptText string

// commands is the script with all commands.
var commands = script.New(scriptText, commandFacts)

// DropInScript returns the script that clients in other languages load in place of their own
// qless.lua, to run on current servers and to share queues with this package. It holds every
// command: EVALSHA sha 0 COMMAND NOW ARG...
func DropInScript() string { return scriptText }
