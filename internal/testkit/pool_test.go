package testkit

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// twice runs use on a server of a pool, and returns that server and the pool's next one.
func twice(t *testing.T, use func(t *testing.T, s *Server)) (first, second *Server) {
	t.Helper()
	var p pool
	t.Cleanup(p.close)
	t.Run("first", func(t *testing.T) {
		first = p.start(t)
		use(t, first)
	})
	t.Run("second", func(t *testing.T) {
		second = p.start(t)
		assert.Zero(t, second.Client(t).DBSize(t.Context()).Val())
		second.Restart()
		assert.Zero(t, second.Client(t).DBSize(t.Context()).Val(), "nothing comes back from the disk")
	})
	return first, second
}

func TestAServerIsGivenToTheNextTestEmpty(t *testing.T) {
	first, second := twice(t, func(t *testing.T, s *Server) {
		rdb := s.Client(t)
		require.NoError(t, rdb.Set(t.Context(), "key", "value", 0).Err())
		require.NoError(t, rdb.Save(t.Context()).Err())
	})
	require.Equal(t, first.Addr(), second.Addr())
}

func TestAServerThatATestChangedIsNotGivenToAnother(t *testing.T) {
	for name, change := range map[string]func(t *testing.T, s *Server){
		"a setting": func(t *testing.T, s *Server) {
			require.NoError(t, s.Client(t).ConfigSet(t.Context(), "maxmemory", "100mb").Err())
		},
		"a user": func(t *testing.T, s *Server) {
			require.NoError(t, s.Client(t).ACLSetUser(t.Context(), "alice", "on").Err())
		},
		"a password": func(t *testing.T, s *Server) {
			require.NoError(t, s.Client(t).ConfigSet(t.Context(), "requirepass", "secret").Err())
		},
		"a replica": func(t *testing.T, s *Server) {
			require.NoError(t, s.Client(t).ReplicaOf(t.Context(), "127.0.0.1", "1").Err())
		},
		"killed":    func(_ *testing.T, s *Server) { s.Kill() },
		"restarted": func(_ *testing.T, s *Server) { s.Restart() },
		"suspended": func(_ *testing.T, s *Server) { s.Suspend() },
	} {
		t.Run(name, func(t *testing.T) {
			first, second := twice(t, change)
			require.NotEqual(t, first.process, second.process)
			require.True(t, first.process.ended())
		})
	}
}
