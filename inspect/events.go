package inspect

import "github.com/qless/qless-go"

// EventKinds returns the kinds of events that a filter can select: all but [qless.EventGap].
func EventKinds() []qless.EventKind {
	return []qless.EventKind{
		qless.EventAdvanced, qless.EventCanceled, qless.EventCompleted, qless.EventConfigSet,
		qless.EventConfigUnset, qless.EventFailed, qless.EventLockLost, qless.EventPaused,
		qless.EventPopped, qless.EventPut, qless.EventResumed, qless.EventSpawned, qless.EventStalled,
		qless.EventTracked, qless.EventUnfailed, qless.EventUntracked,
	}
}
