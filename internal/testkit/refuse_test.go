package testkit

import (
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
