package ahead

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestNoneAreWantedSoonAfterARefusal(t *testing.T) {
	q := New[int](Usual, func() {})
	wanted := func() int { return q.Wanted(1) }
	for range enough {
		require.Zero(t, wanted(), "until handlers were timed")
		q.Ran(time.Microsecond)
	}
	require.Equal(t, Usual, wanted())
	q.Refused()
	for range respite {
		require.Zero(t, wanted())
		q.Ran(time.Microsecond)
	}
	require.Equal(t, Usual, wanted())
}
