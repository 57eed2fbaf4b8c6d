// Package lua has the script for clients in other languages alone. It is not for other modules,
// which get the whole script from qless.DropInScript.
package lua

import _ "embed"

// Classic is the script with only the commands that these clients send.
//
//go:embed classic.lua
var Classic string
