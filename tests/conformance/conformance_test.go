package conformance

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go/internal/luasrc"
	"github.com/qless/qless-go/internal/testkit"
)

func TestDropIn(t *testing.T) {
	t.Parallel()
	newTarget(t, testkit.Start(t).Addr(), "ql:", dropIn).replayAll(t, readTraces(t))
}

func TestCommands(t *testing.T) {
	t.Parallel()
	for _, prefix := range []string{"ql:", "{t}:ql:"} {
		t.Run(prefix, func(t *testing.T) {
			newTarget(t, testkit.Start(t).Addr(), prefix, scripts).replayAll(t, readTraces(t))
		})
	}
}

// The drop-in is generated: go run ./internal/cmd/luabundle -dropin lua/qless.lua
func TestDropInIsFresh(t *testing.T) {
	want, err := luasrc.DropIn(os.DirFS(sources))
	require.NoError(t, err)
	got, err := os.ReadFile(sources + "/" + luasrc.DropInName)
	require.NoError(t, err)
	assert.True(t, want == string(got), "lua/qless.lua is stale: run go run ./internal/cmd/luabundle -dropin lua/qless.lua")
}
