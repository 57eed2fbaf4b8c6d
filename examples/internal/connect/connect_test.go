package connect

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go/qlesstest"
)

func TestInMemory(t *testing.T) {
	t.Setenv("REDIS_URL", "")
	var out strings.Builder
	client, disconnect, err := Client(t.Context(), &out, "test:ql:")
	require.NoError(t, err)
	defer disconnect()
	require.Equal(t, "Redis: in memory (set REDIS_URL to use a server)\n", out.String())
	_, err = client.Queue("q").Put(t.Context(), "K", nil)
	require.NoError(t, err)
}

func TestAServer(t *testing.T) {
	server := qlesstest.New(t)
	t.Setenv("REDIS_URL", "redis://"+server.Addr())
	var out strings.Builder
	client, disconnect, err := Client(t.Context(), &out, "test:ql:")
	require.NoError(t, err)
	require.Equal(t, "Redis: redis://"+server.Addr()+"\n", out.String())
	jid, err := client.Queue("q").Put(t.Context(), "K", nil)
	require.NoError(t, err)
	exists := func() int64 { return server.Redis().Exists(t.Context(), "test:ql:j:"+jid, "other").Val() }
	require.NoError(t, server.Redis().Set(t.Context(), "other", "", 0).Err())
	require.EqualValues(t, 2, exists())
	disconnect()
	require.EqualValues(t, 1, exists(), "all that is left is the key of another program")
}

func TestRedis(t *testing.T) {
	t.Setenv("REDIS_URL", "")
	var out strings.Builder
	rdb, disconnect, err := Redis(&out)
	require.NoError(t, err)
	require.NoError(t, rdb.Ping(t.Context()).Err())
	disconnect()

	t.Setenv("REDIS_URL", "redis://"+qlesstest.New(t).Addr())
	rdb, disconnect, err = Redis(&out)
	require.NoError(t, err)
	require.NoError(t, rdb.Ping(t.Context()).Err())
	disconnect()

	t.Setenv("REDIS_URL", "redis://me:secret@host:port")
	_, _, err = Redis(&out)
	require.EqualError(t, err, "REDIS_URL is not a Redis URL")
}

func TestPasswordIsNotPrinted(t *testing.T) {
	require.Equal(t, "redis://me:xxxxx@host:6379/1", withoutPassword("redis://me:secret@host:6379/1"))
}
