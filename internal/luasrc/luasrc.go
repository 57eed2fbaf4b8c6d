// Package luasrc makes the Lua sources one script that a server can load. Internal/cmd/luabundle
// runs it when this module is built; no other program does.
//
// A source tree has prologue.lua, with which every call begins; the library in lib/, functions,
// constants and variables that all files see; and a file for each command in commands/. No name may
// hide another one, and each has to be used.
//
// Every function costs a closure on each call that makes it. So the script makes a function of the
// library when it is first called. The commands that often run, which have the line "-- Hot" in
// their headers, have the functions that they need in their branches, and the bodies of many of
// these in the place of their calls; only functions that seldom run, which are marked on their
// first line,
//
//	local function free(jid) -- cold
//
// are in the library. Constants in capitals, such as
//
//	local LIMIT = 1000
//
// are replaced by their values.
package luasrc
