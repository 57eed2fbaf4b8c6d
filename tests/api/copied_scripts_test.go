package api

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/testkit"
)

// copiesScripts makes any server treat the script like Redis 6.2 with "lua-replicate-commands no",
// which refuses a write after a command such as TIME unless it copies writes to its replicas.
const copiesScripts = `
local server, random, copies_writes = redis, false, false
local function guarded(run)
  return function(name, ...)
    if name == 'hset' and random and not copies_writes then
      error('Write commands not allowed after non deterministic commands')
    end
    random = random or name == 'time'
    return run(name, ...)
  end
end
local redis = setmetatable({
  call = guarded(server.call), pcall = guarded(server.pcall), acl_check_cmd = false,
  replicate_commands = function()
    copies_writes = not server.replicate_commands or server.replicate_commands()
  end,
}, {__index = server})
`

func TestServersThatCopyScriptsToReplicas(t *testing.T) {
	rdb := testkit.Start(t).Client(t)
	_, err := rdb.Eval(t.Context(), copiesScripts+qless.DropInScript(), []string{"ql:"},
		"put", "", "", "q", "a", "K", "{}", 0).Result()
	require.NoError(t, err)
	require.EqualValues(t, 1, rdb.Exists(t.Context(), "ql:j:a").Val())
}
