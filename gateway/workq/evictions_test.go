package workq

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/testkit"
)

// If one command has no time to read all queues, several commands read them.
func TestTheCountOfEvictionsContinuesWhereItStopped(t *testing.T) {
	client, err := qless.New(testkit.Start(t).Client(t), &qless.ClientConfig{Logger: testkit.Quiet()})
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() })
	names := newNames()
	for i := range 2*readAtOnce + 1 {
		names.use(fmt.Sprint(i), 0, Queue(fmt.Sprint(i), 0))
	}
	e := newEvictions(client, names, time.Now())
	for _, left := range []int{readAtOnce + 1, 1, 0} {
		_, err := e.count(t.Context(), 0)
		require.NoError(t, err)
		require.Len(t, e.rest, left)
	}
	require.NotZero(t, e.readAt)
	_, queues := e.unread(time.Now())
	require.Empty(t, queues, "all are known")

	e.readAt = time.Time{}
	_, err = e.count(t.Context(), time.Minute)
	require.NoError(t, err)
	require.Nil(t, e.rest)
}

// Queues with ended lives are read at each call, even during a pass over all queues.
func TestTheCountOfEvictionsBeginsWithEndedLives(t *testing.T) {
	client, err := qless.New(testkit.Start(t).Client(t), &qless.ClientConfig{Logger: testkit.Quiet()})
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() })
	names := newNames()
	for i := range 3 * readAtOnce {
		names.use(fmt.Sprint(i), 0, Queue(fmt.Sprint(i), 0))
	}
	e, ended := newEvictions(client, names, time.Now()), Queue("7", 0)
	e.note(ended, time.Now())
	for _, left := range []int{2*readAtOnce - 1, readAtOnce - 1, 0} {
		_, queues := e.unread(time.Now())
		require.Contains(t, queues, ended)
		_, err := e.count(t.Context(), 0)
		require.NoError(t, err)
		require.Len(t, e.rest, left)
	}
}
