package gearmonkey

// What the tests check against the protocol.
const (
	Script    = script
	ScriptSHA = scriptSHA
)
