// Package lua has the sources of the script: what every call begins with, the library and the
// commands. It is not for other modules, which get the script itself from qless.DropInScript.
package lua

import (
	"embed"
	"io/fs"
)

// Sources returns prologue.lua, lib and commands.
func Sources() fs.FS { return sources }

//go:embed prologue.lua lib/*.lua commands/*.lua
var sources embed.FS
