package gearmonkey

// Values that the tests check against the protocol.
const (
	Script    = script
	ScriptSHA = scriptSHA
)

// LongestStop is the longest that an idle worker takes to stop, apart from computing.
const LongestStop = popTimeout + hangTimeout + departTimeout
