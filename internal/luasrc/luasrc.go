// Package luasrc turns the Lua sources into one script for a server to load. Internal/cmd/luabundle
// runs it when this module is built; no other program does.
//
// A source tree has prologue.lua, which begins every call; the library in lib/, with the functions,
// constants and variables visible to all files; and a file for each command in commands/. No name
// may hide another one, and each must be used.
//
// Every function costs a closure on each call that makes it. So the script makes a library function
// at its first call. The branch of a command with the line "-- Hot" in its header has copies of the
// functions that it needs, most of them in place of their calls. Only library functions that seldom
// run stay in the library. They are marked on their first line:
//
//	local function free(jid) -- cold
//
// Constants in capitals are replaced with their values. Luacheck finds mistakes within a file, and
// this package mistakes between files.
package luasrc
