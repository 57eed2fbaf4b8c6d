package gearmonkey

// Values that the tests check against the protocol.
const (
	Script    = script
	ScriptSHA = scriptSHA
)

// LongestStop is how long an idle worker takes to stop at most, apart from what it computes.
const LongestStop = popTimeout + hangTimeout + departTimeout
