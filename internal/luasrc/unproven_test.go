package luasrc

import (
	"maps"
	"slices"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go/internal/testkit"
)

// intricate are the commands with conditions that rule out more paths than the check knows.
// tests/atomic tries each command on servers that refuse writes.
var intricate = []string{
	"cancel.all", "end", "log", "put", "put.many", "repair", "requeue", "reserve", "sweep",
}

// By its source, no other command can report success after writes that were only tried.
func TestNoSuccessAfterOnlyTriedWrites(t *testing.T) {
	server, err := testkit.Start(t).Client(t).Command(t.Context()).Result()
	require.NoError(t, err)
	all, err := unproven(sources, func(name string) bool {
		return server[name] != nil && slices.Contains(server[name].Flags, "write")
	})
	require.NoError(t, err)
	require.Equal(t, intricate, slices.Sorted(maps.Keys(all)), all)
}

func TestASuccessNeedsAWriteThatIsNotOnlyTried(t *testing.T) {
	const library = `-- The library.

local function must_write()
  call('del', prefix .. 'none')
end

local function undepend(jid)
  try('srem', jid, 'x')
  try('srem', 'x', jid)
end

local function add(run, key)
  return run('sadd', key, 'x')
end

local function each(list, do_it)
  for i = 1, #list do
    do_it(list[i])
  end
end
`
	for name, c := range map[string]struct {
		command string
		firsts  []string // only tried
	}{
		"writes only where a batch is ready": {
			"if call('scard', 'x') == 1 then\n  must_write()\nend\nundepend('a')\n", []string{"lib/base.lua:8"},
		},
		"writes first":              {"must_write()\nundepend('a')\n", nil},
		"writes on each way":        {"if now == 1 then\n  must_write()\nelse\n  call('set', 'x', 1)\nend\nundepend('a')\n", nil},
		"writes later":              {"undepend('a')\nmust_write()\n", nil},
		"fails otherwise":           {"if now == 1 then\n  must_write()\nelse\n  error('x')\nend\nundepend('a')\n", nil},
		"returns early":             {"if now == 1 then\n  undepend('a')\n  return 1\nend\nmust_write()\n", []string{"lib/base.lua:8"}},
		"has nothing to do":         {"if now == 1 then\n  return 1\nend\nmust_write()\nundepend('a')\n", nil},
		"reads with call":           {"call('get', 'x')\nundepend('a')\n", []string{"lib/base.lua:8"}},
		"only tries to read":        {"try('get', 'x')\n", nil},
		"checks a reply":            {"local reply = try('set', 'x', 1)\nif type(reply) == 'table' then\n  must_write()\nend\n", nil},
		"checks the wrong way":      {"local reply = try('set', 'x', 1)\nif type(reply) ~= 'table' then\n  must_write()\nend\n", []string{"commands/a.lua:8"}},
		"checks another reply":      {"local reply = try('set', 'x', 1)\nreply = try('get', 'x')\nif reply == 1 then\n  return 1\nend\nmust_write()\n", []string{"commands/a.lua:8"}},
		"counts what was added":     {"if try('sadd', 'x', 1) ~= 1 then\n  must_write()\nend\n", nil},
		"is handed call":            {"add(call, 'x')\n", nil},
		"is handed try":             {"add(try, 'x')\n", []string{"lib/base.lua:13"}},
		"writes in a loop":          {"for i = 1, 3 do\n  call('set', i, 1)\nend\nundepend('a')\n", nil},
		"tries in a loop":           {"each(ARGV, function(jid)\n  undepend(jid)\nend)\n", []string{"lib/base.lua:8"}},
		"hands a function that may": {"each(ARGV, undepend)\n", []string{"lib/base.lua:8"}},
	} {
		t.Run(name, func(t *testing.T) {
			all, err := unproven(fstest.MapFS{
				"prologue.lua":   {Data: []byte("local call, try, prefix, command, now = redis.call, redis.pcall, KEYS[1], ARGV[1], 1\n")},
				"lib/base.lua":   {Data: []byte(library)},
				"commands/a.lua": {Data: []byte(header() + c.command)},
				"commands/b.lua": {Data: []byte(header() + "must_write()\nundepend(now)\neach(ARGV, add)\n")},
			}, func(command string) bool { return command != "get" && command != "scard" })
			require.NoError(t, err)
			require.Equal(t, c.firsts, all["a"])
			require.NotContains(t, all, "b")
		})
	}
}
