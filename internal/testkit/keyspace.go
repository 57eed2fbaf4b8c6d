package testkit

import (
	"testing"

	"github.com/redis/go-redis/v9"
)

// A Keyspace holds the contents of keys, by key.
type Keyspace map[string]any

// dumpScript returns every key that matches a pattern, with its type and its values in a stable
// order.
const dumpScript = `
local all = {}
for _, key in ipairs(redis.call('keys', ARGV[1])) do
  local kind, value = redis.call('type', key).ok, nil
  if kind == 'hash' then value = redis.call('hgetall', key)
  elseif kind == 'list' then value = redis.call('lrange', key, 0, -1)
  elseif kind == 'set' then value = redis.call('smembers', key)
  elseif kind == 'zset' then value = redis.call('zrange', key, 0, -1, 'withscores')
  else value = {redis.call('get', key)} end
  all[#all + 1] = {key, kind, value}
end
return all`

// Dump reads the keys that match a pattern, for comparison with another dump.
func Dump(t testing.TB, rdb *redis.Client, pattern string) Keyspace {
	t.Helper()
	reply, err := rdb.Eval(t.Context(), dumpScript, nil, pattern).Slice()
	if err != nil {
		t.Fatal(err)
	}
	all := Keyspace{}
	for _, item := range reply {
		key := item.([]any)
		values := key[2].([]any)
		switch key[1] {
		case "hash":
			fields := map[string]any{}
			for i := 0; i < len(values); i += 2 {
				fields[values[i].(string)] = values[i+1]
			}
			all[key[0].(string)] = fields
		case "set":
			members := map[string]bool{}
			for _, member := range values {
				members[member.(string)] = true
			}
			all[key[0].(string)] = members
		default:
			all[key[0].(string)] = values
		}
	}
	return all
}
