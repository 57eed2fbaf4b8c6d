package conformance

import (
	"testing"

	"github.com/qless/qless-go/internal/testkit"
)

func TestClassic(t *testing.T) {
	t.Parallel()
	newTarget(t, testkit.Start(t).Addr(), "ql:", classic).replayAll(t, readTraces(t))
}

func TestCommands(t *testing.T) {
	t.Parallel()
	for _, prefix := range []string{"ql:", "{t}:ql:"} {
		t.Run(prefix, func(t *testing.T) {
			newTarget(t, testkit.Start(t).Addr(), prefix, scripts).replayAll(t, readTraces(t))
		})
	}
}
