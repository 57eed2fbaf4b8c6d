package script_test

import (
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go/internal/script"
)

func TestReplicasThatAreMissing(t *testing.T) {
	e := newEnv(t, small)
	reply, err := e.RunReplicated(t.Context(), script.Replicas{Count: 1, Timeout: time.Millisecond},
		"push", "list", "a")
	require.Equal(t, int64(1), reply, "the command ran")
	var missing *script.ReplicasError
	require.ErrorAs(t, err, &missing)
	require.Equal(t, &script.ReplicasError{Have: 0, Want: 1}, missing)
	require.Equal(t, "only 0 of 1 replicas confirmed it", err.Error())
}

func TestACommandThatFailsIsNotWaitedFor(t *testing.T) {
	e := newEnv(t, small)
	reply, err := e.RunReplicated(t.Context(), script.Replicas{Count: 1, Timeout: time.Millisecond}, "broken")
	require.Nil(t, reply)
	require.ErrorContains(t, err, "broken")
	var missing *script.ReplicasError
	require.False(t, errors.As(err, &missing))
}

func TestWhatIsNotKnownOfReplicas(t *testing.T) {
	beneath := errors.New("a timeout")
	err := &script.ReplicasError{Want: 1, Err: beneath}
	require.Equal(t, "it is not known which replicas have it: a timeout", err.Error())
	require.ErrorIs(t, err, beneath)
}

func TestClientsWithWhichReplicasCanBeWaitedFor(t *testing.T) {
	rdb := redis.NewClient(&redis.Options{})
	defer rdb.Close()
	require.True(t, script.CanWait(rdb))
	ring := redis.NewRing(&redis.RingOptions{})
	defer ring.Close()
	require.False(t, script.CanWait(ring))
}
