package script

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOneOfManyLeads(t *testing.T) {
	var l loader
	loaded, err := l.lead(t.Context(), l.seen())
	require.NoError(t, err)
	require.NotNil(t, loaded)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = l.lead(ctx, l.seen())
	require.ErrorIs(t, err, context.Canceled, "it waits for the one that leads")

	before := l.seen()
	loaded()
	require.Equal(t, before+1, l.seen())
	again, err := l.lead(t.Context(), before)
	require.NoError(t, err)
	require.Nil(t, again, "it was loaded meanwhile")
	again, err = l.lead(t.Context(), l.seen())
	require.NoError(t, err)
	require.NotNil(t, again, "the server has forgotten it")
}
