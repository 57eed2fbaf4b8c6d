package testkit

import (
	"fmt"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

func TestServerRefuses(t *testing.T) {
	s := Start(t)
	client := s.Client(t)
	for range 2 {
		for _, refusal := range Refusals {
			require.NoError(t, client.Set(t.Context(), "key", "1", 0).Err())
			allow := s.Refuse(t, refusal)
			err := client.Set(t.Context(), "key", "2", 0).Err()
			require.True(t, redis.HasErrorPrefix(err, refusal), "%s: %v", refusal, err)
			allow()
			require.Equal(t, "1", client.Get(t.Context(), "key").Val())
		}
	}
}

// A save still running when the server may save again would make the next one succeed.
func TestAServerThatCannotSaveStopsTrying(t *testing.T) {
	s := Start(t)
	client := s.Client(t)
	for i := range 100_000 / 100 {
		pipe := client.Pipeline()
		for k := range 100 {
			pipe.Set(t.Context(), fmt.Sprint(i, "-", k), "some text to be saved", 0)
		}
		_, err := pipe.Exec(t.Context())
		require.NoError(t, err)
	}
	for range 4 {
		s.Refuse(t, "MISCONF")()
	}
}
