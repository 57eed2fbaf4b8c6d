package qless_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
)

func TestTheEndingOfARunFollowsFromItsEvent(t *testing.T) {
	complete, retry := qless.Outcome{Action: qless.ActionComplete}, qless.Outcome{Action: qless.ActionRetry}
	for want, event := range map[string]qless.JobEvent{
		"canceled":  {Outcome: complete, Err: qless.ErrCanceled},
		"complete":  {Outcome: complete},
		"exhausted": {Outcome: retry, Exhausted: true},
		"fail":      {Outcome: qless.Outcome{Action: qless.ActionFail}},
		"lost":      {Outcome: complete, Err: qless.ErrLockLost},
		"moved":     {},
		"next":      {Outcome: qless.Outcome{Action: qless.ActionComplete, Queue: "q"}},
		"release":   {Outcome: qless.Outcome{Action: qless.ActionRelease}},
		"retry":     {Outcome: retry},
		"stopped":   {Outcome: complete, Err: qless.ErrStopped},
	} {
		require.Equal(t, want, event.EndingOf())
	}
}
