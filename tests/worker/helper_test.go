package worker

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/testkit"
	"github.com/qless/qless-go/tests/scripts"
	"github.com/qless/qless-go/tests/testbed"
)

func TestMain(m *testing.M) {
	testkit.Main(m)
}

// noon is the time at which the tests' clocks start.
var noon = testkit.Noon

// patience turns a hang into a failure.
const patience = testkit.Patience

var (
	jids        = testbed.JIDs
	offline     = testbed.Offline
	raw         = testbed.Raw
	requireCode = testbed.RequireCode
	until       = testkit.Until
	whats       = testbed.Whats
	zmember     = testbed.Member
)

// errOf returns the error of a call that also returns a value.
func errOf[T any](_ T, err error) error { return err }

// soon returns a value from a channel, or fails the test if none arrives.
func soon[T any](t testing.TB, what string, channel <-chan T) T {
	t.Helper()
	return testkit.Soon(t, what, channel)
}

// An env is the environment of a test, with methods of this package.
type env struct{ *testbed.Env }

func newEnv(t testing.TB) *env {
	t.Helper()
	return newEnvOn(t, testkit.Start(t))
}

func newEnvOn(t testing.TB, server *testkit.Server) *env {
	t.Helper()
	e := &env{testbed.NewOn(t, server)}
	e.Ignore = []string{"ql:x:relay"} // a worker holds it while it begins to relay
	return e
}

// newLiveEnv is newEnv with the server's own clock: locks end by themselves.
func newLiveEnv(t testing.TB, arguments ...string) *env {
	t.Helper()
	e := newEnvOn(t, testkit.Start(t, arguments...))
	e.Live = true
	e.Client = e.NewLiveClient(e.Redis, qless.ClientConfig{})
	require.NoError(t, e.Redis.ScriptLoad(t.Context(), scripts.Text()).Err()) // one round trip, not two
	return e
}
