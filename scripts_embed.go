package qless

import (
	"embed"
	"io/fs"

	"github.com/qless/qless-go/internal/luasrc"
	"github.com/qless/qless-go/internal/script"
)

//go:generate go run ./internal/cmd/luabundle -o lua/flat -dropin lua/qless.lua

//go:embed lua/flat/*.lua lua/qless.lua
var luaFiles embed.FS

// commands holds all scripts.
var commands = script.NewSet(flatScripts())

func flatScripts() fs.FS {
	scripts, err := fs.Sub(luaFiles, "lua/flat")
	if err != nil {
		panic(err) // the folder is embedded
	}
	return scripts
}

// DropInScript returns the script that clients of other languages load in place of their own
// qless.lua, to run on current servers and to share queues with this package. It holds
// every command: EVALSHA sha 0 COMMAND NOW ARG...
func DropInScript() string {
	text, err := luaFiles.ReadFile("lua/" + luasrc.DropInName)
	if err != nil {
		panic(err) // it is embedded
	}
	return string(text)
}
