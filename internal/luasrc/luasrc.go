// Package luasrc makes the Lua sources one script that a server can load. Internal/cmd/luabundle
// runs it when this module is built; no other program does.
//
// A source tree has prologue.lua, with which every call begins; the library in lib/, functions,
// constants and variables that all files see; and a file for each command in commands/. No name may
// hide another one, and each has to be used.
//
// Every function costs a closure on each call that makes it. So the script makes a function of the
// library when it is first called. The branch of a command with the line "-- Hot" in its header has
// copies of the functions that it needs, most of them in the place of their calls; only functions
// of the library that seldom run, which are marked on their first line,
//
//	local function free(jid) -- cold
//
// stay there. Constants in capitals are replaced by their values.
// Luacheck finds mistakes within a file, and this package mistakes between files.
package luasrc
