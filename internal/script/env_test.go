package script_test

import (
	"os"
	"testing"
	"testing/fstest"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/qless/qless-go/internal/script"
	"github.com/qless/qless-go/internal/testkit"
)

func TestMain(m *testing.M) {
	testkit.Silence() // connections that break are part of the tests
	goleak.VerifyTestMain(m)
}

// qless has the commands of this project.
var qless = script.NewSet(os.DirFS("../../lua/flat"))

// small has commands that are easy to look into.
var small = script.NewSet(fstest.MapFS{
	"echo.lua":    source("return {#KEYS, KEYS[1], KEYS[2] or '', unpack(ARGV)}"),
	"nothing.lua": source("return false"),
	"broken.lua":  source("error('broken')"),
	"push.lua":    source("return redis.call('rpush', KEYS[1] .. ARGV[2], ARGV[3])"),
})

// source returns the source of a command that is sent once.
func source(body string) *fstest.MapFile {
	return &fstest.MapFile{Data: []byte("-- A command.\n--\n-- Repeat   once\n-- Needs    rpush\n\n" + body + "\n")}
}

// An env is a real server of its own, and a runner on it.
type env struct {
	t      *testing.T
	server *testkit.Server
	rdb    *redis.Client
	*script.Runner
}

func newEnv(t *testing.T, set *script.Set) *env {
	server := testkit.Start(t)
	rdb := server.Client(t)
	return &env{t, server, rdb, script.NewRunner(set, rdb, "ql:", nil)}
}

// proxied returns a proxy to the server, and a runner whose connection goes through it.
func (e *env) proxied(set *script.Set) (*testkit.Proxy, *script.Runner) {
	proxy := testkit.NewProxy(e.t, e.server.Addr())
	rdb := redis.NewClient(testkit.Options(proxy.Addr()))
	e.t.Cleanup(func() { _ = rdb.Close() })
	return proxy, script.NewRunner(set, rdb, "ql:", nil)
}

// run runs a command that must succeed.
func (e *env) run(name string, args ...any) any {
	e.t.Helper()
	reply, err := e.Run(e.t.Context(), name, args...)
	require.NoError(e.t, err)
	return reply
}

// load makes the server know commands.
func (e *env) load(set *script.Set, names ...string) {
	e.t.Helper()
	for _, name := range names {
		command := set.Command(name)
		sha, err := e.rdb.ScriptLoad(e.t.Context(), command.Text()).Result()
		require.NoError(e.t, err)
		require.Equal(e.t, sha, command.SHA())
	}
}

// list returns the elements of a list.
func (e *env) list(key string) []string {
	e.t.Helper()
	return e.rdb.LRange(e.t.Context(), key, 0, -1).Val()
}
