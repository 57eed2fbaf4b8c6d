package listeners

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go/internal/testkit"
)

func TestAStopEndsContexts(t *testing.T) {
	stop := NewStop()
	require.False(t, stop.Stopped())
	early, cancel := stop.Context(t.Context())
	defer cancel()
	left, leave := stop.Context(t.Context())
	leave()
	require.Error(t, left.Err())
	require.NoError(t, early.Err())
	stop.Now()
	require.True(t, stop.Stopped())
	testkit.Soon(t, "the end", early.Done())
	late, cancel := stop.Context(context.Background())
	defer cancel()
	require.ErrorIs(t, late.Err(), context.Canceled)
}
