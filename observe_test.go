package qless_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
)

// A client without an observer is as cheap as one of before there were any.
func TestNoObserverCostsNothing(t *testing.T) {
	client := offline(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	args := []any{"q"}
	without := testing.AllocsPerRun(100, func() { _, _ = client.Send(ctx, "length", "", args) })
	with := testing.AllocsPerRun(100, func() { _, _ = client.Run(ctx, "length", "", args...) })
	require.LessOrEqual(t, with, without)
}
