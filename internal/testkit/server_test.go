package testkit

import (
	"net"
	"os"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

func TestServersAreApart(t *testing.T) {
	one, two := Start(t), Start(t)
	require.NotEqual(t, one.Addr(), two.Addr())
	require.NoError(t, one.Client(t).Set(t.Context(), "key", "value", 0).Err())
	assert.ErrorIs(t, two.Client(t).Get(t.Context(), "key").Err(), redis.Nil)
}

func TestServerKeepsNothingByDefault(t *testing.T) {
	s := Start(t)
	config, err := s.Client(t).ConfigGet(t.Context(), "[sa][ap][vp]e*").Result()
	require.NoError(t, err)
	assert.Equal(t, "", config["save"])
	assert.Equal(t, "no", config["appendonly"])

	require.NoError(t, s.Client(t).Set(t.Context(), "key", "value", 0).Err())
	s.Restart()
	assert.ErrorIs(t, s.Client(t).Get(t.Context(), "key").Err(), redis.Nil)
}

func TestServerKeepsWhatItsArgumentsSay(t *testing.T) {
	s := Start(t, "--appendonly", "yes", "--appendfsync", "always")
	addr := s.Addr()
	require.NoError(t, s.Client(t).Set(t.Context(), "key", "value", 0).Err())

	s.Restart()
	assert.Equal(t, addr, s.Addr())
	assert.Equal(t, "value", s.Client(t).Get(t.Context(), "key").Val())

	s.Kill()
	_, err := net.Dial("tcp", addr)
	require.Error(t, err)
	s.Restart()
	assert.Equal(t, addr, s.Addr())
	assert.Equal(t, "value", s.Client(t).Get(t.Context(), "key").Val())
}

func TestSuspendedServerIsSilent(t *testing.T) {
	s := Start(t)
	conn := dial(t, s.Addr())
	defer conn.Close()
	s.Suspend()
	s.Suspend()
	_, err := conn.Write([]byte("PING\r\n"))
	require.NoError(t, err)
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(50*time.Millisecond)))
	_, err = conn.Read(make([]byte, 1))
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)

	s.Resume()
	assert.Equal(t, "+PONG\r\n", conn.line(t))

	s.Suspend()
	s.Restart()
	assert.NoError(t, s.Client(t).Ping(t.Context()).Err())
}

func TestLaunchedServerLeavesNothing(t *testing.T) {
	s, err := Launch("--appendonly", "yes")
	require.NoError(t, err)
	require.DirExists(t, s.dir)
	s.Suspend()
	s.Stop()
	assert.NoDirExists(t, s.dir)
	_, err = net.Dial("tcp", s.Addr())
	assert.Error(t, err)
}

func TestLaunchSaysWhatToInstall(t *testing.T) {
	t.Setenv("QLESS_REDIS_SERVER", "no-such-program")
	_, err := Launch()
	assert.ErrorContains(t, err, "no-such-program")
	assert.ErrorContains(t, err, "install")
}

func TestLaunchSaysWhyTheServerEnded(t *testing.T) {
	_, err := Launch("--no-such-option", "1")
	assert.ErrorContains(t, err, "no-such-option")
}

func TestTakenPort(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	s := Start(t)
	s.Kill()
	s.addr = listener.Addr().String()
	assert.ErrorIs(t, s.run(), errPortTaken)
	require.NoError(t, s.launch())
	assert.NoError(t, s.Client(t).Ping(t.Context()).Err())
}

func TestClientSpeaksTheProtocolOfTheTests(t *testing.T) {
	s := Start(t)
	for setting, want := range map[string]string{"2": "resp=2", "3": "resp=3"} {
		t.Setenv("QLESS_RESP", setting)
		list, err := s.Client(t).ClientList(t.Context()).Result()
		require.NoError(t, err)
		assert.Contains(t, list, want)
	}
}
