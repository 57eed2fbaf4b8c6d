package gearmonkey

// Values checked by the tests against the protocol.
const (
	Script    = script
	ScriptSHA = scriptSHA
)

// LongestStop is the longest time for an idle worker to stop, apart from computing.
const LongestStop = popTimeout + hangTimeout + departTimeout
