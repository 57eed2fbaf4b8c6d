package script_test

import (
	"io/fs"
	"os"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/qless/qless-go/internal/luasrc"
	"github.com/qless/qless-go/internal/script"
	"github.com/qless/qless-go/internal/testkit"
)

func TestMain(m *testing.M) {
	testkit.Silence() // broken connections are part of the tests
	goleak.VerifyTestMain(m)
}

// qless is the script of this project.
var qless = func() *script.Script {
	sources := os.DirFS("../../lua")
	text, err := fs.ReadFile(sources, luasrc.DropInName)
	if err != nil {
		panic(err)
	}
	all, err := luasrc.FactsOf(sources)
	if err != nil {
		panic(err)
	}
	commands := map[string]script.Facts{}
	for name, f := range all {
		commands[name] = script.Facts{Repeatable: f.Repeatable, RepeatableNew: f.RepeatableNew, Replicated: f.Replicated}
	}
	return script.New(string(text), commands)
}()

// small has commands that are easy to inspect.
var small = script.New(`
local command = ARGV[1]
if command == 'echo' then
  return {#KEYS, KEYS[1], KEYS[2] or '', unpack(ARGV)}
elseif command == 'nothing' then
  return false
elseif command == 'push' then
  return redis.call('rpush', KEYS[1] .. ARGV[3], ARGV[4])
end
error('broken')
`, map[string]script.Facts{"echo": {}, "nothing": {}, "push": {}, "broken": {}})

// An env has its own real server, and a runner on the server.
type env struct {
	t      *testing.T
	server *testkit.Server
	rdb    *redis.Client
	*script.Runner
}

func newEnv(t *testing.T, s *script.Script) *env {
	server := testkit.Start(t)
	rdb := server.Client(t)
	return &env{t, server, rdb, script.NewRunner(s, rdb, "ql:", nil)}
}

// proxied returns a proxy to the server, and a runner that connects through the proxy.
func (e *env) proxied(s *script.Script) (*testkit.Proxy, *script.Runner) {
	proxy := testkit.NewProxy(e.t, e.server.Addr())
	rdb := redis.NewClient(testkit.Options(proxy.Addr()))
	e.t.Cleanup(func() { _ = rdb.Close() })
	return proxy, script.NewRunner(s, rdb, "ql:", nil)
}

// run runs a command that must succeed.
func (e *env) run(name string, args ...any) any {
	e.t.Helper()
	reply, err := e.Run(e.t.Context(), name, args...)
	require.NoError(e.t, err)
	return reply
}

// load loads the script into the server.
func (e *env) load(s *script.Script) {
	e.t.Helper()
	sha, err := e.rdb.ScriptLoad(e.t.Context(), s.Text()).Result()
	require.NoError(e.t, err)
	require.Equal(e.t, sha, s.SHA())
}

// list returns the elements of a list.
func (e *env) list(key string) []string {
	e.t.Helper()
	return e.rdb.LRange(e.t.Context(), key, 0, -1).Val()
}
