// Package lua has the sources that the scripts of this module share: what every call begins with, and
// the library. It is not for other modules, which get the script itself from qless.DropInScript.
package lua

import (
	"embed"
	"io/fs"
)

//go:embed prologue.lua lib/*.lua
var sources embed.FS

// Sources returns prologue.lua and lib.
func Sources() fs.FS { return sources }
