package atomic

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Facts are the contents of a server, grouped by job, or by key for contents that concern no single
// job. This separates the effects of a command on one job from its effects on others.
type facts map[string]map[string]string

const factsScript = `
local all = {}
for _, key in ipairs(redis.call('keys', '*')) do
  local kind, value = redis.call('type', key).ok, nil
  if kind == 'hash' then
    value = {}
    local fields = redis.call('hkeys', key)
    table.sort(fields)
    for _, field in ipairs(fields) do
      value[#value + 1] = field
      value[#value + 1] = redis.call('hget', key, field)
    end
  elseif kind == 'list' then value = redis.call('lrange', key, 0, -1)
  elseif kind == 'set' then value = redis.call('smembers', key)
  elseif kind == 'zset' then value = redis.call('zrange', key, 0, -1, 'withscores')
  else value = {redis.call('get', key)} end
  all[#all + 1] = {key, kind, value}
end
return all`

type storedKey struct {
	name, kind string
	values     []string
}

// keys reads all keys.
func (b *bench) keys(t *testing.T) []storedKey {
	t.Helper()
	reply, err := b.rdb.Eval(t.Context(), factsScript, nil).Slice()
	require.NoError(t, err)
	var keys []storedKey
	for _, item := range reply {
		parts := item.([]any)
		key := storedKey{name: parts[0].(string), kind: parts[1].(string)}
		for _, value := range parts[2].([]any) {
			key.values = append(key.values, value.(string))
		}
		if key.kind == "set" {
			slices.Sort(key.values)
		}
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(a, b storedKey) int { return strings.Compare(a.name, b.name) })
	return keys
}

const digestScript = `
local all = {}
for _, key in ipairs(redis.call('keys', '*')) do
  all[#all + 1] = key
  all[#all + 1] = redis.sha1hex(redis.call('dump', key))
end
return all`

// digests returns a digest of each key. Digests of equal keys may differ if their members have
// different orders.
func (b *bench) digests(t *testing.T) map[string]string {
	t.Helper()
	reply, err := b.rdb.Eval(t.Context(), digestScript, nil).StringSlice()
	require.NoError(t, err)
	digests := make(map[string]string, len(reply)/2)
	for i := 0; i < len(reply); i += 2 {
		digests[reply[i]] = reply[i+1]
	}
	return digests
}

// factsOf groups the contents of keys, without the damaged key, by job or key.
func factsOf(keys []storedKey, jids map[string]bool, damaged string) facts {
	all := facts{}
	add := func(about, what, value string) {
		if all[about] == nil {
			all[about] = map[string]string{}
		}
		all[about][what] = value
	}
	about := func(key, member string) string {
		if jids[member] && key != "ql:x:until" { // that key has the time to check a job
			return "job " + member
		}
		return "key " + key
	}
	for _, key := range keys {
		switch owner, relation := ownerOf(key.name); {
		case key.name == damaged:
		case relation == "-dependents":
			for _, member := range key.values { // a dependency concerns the child
				add("job "+member, "waits for "+owner+" by "+key.name, "")
			}
		case owner != "":
			for i := range key.values {
				if key.kind == "hash" {
					if i%2 == 0 {
						add("job "+owner, key.name+" "+key.values[i], key.values[i+1])
					}
				} else {
					add("job "+owner, fmt.Sprint(key.name, " ", i), key.values[i])
				}
			}
		case key.kind == "zset":
			for i := 0; i < len(key.values); i += 2 {
				add(about(key.name, key.values[i]), key.name+" "+key.values[i], key.values[i+1])
			}
		case key.kind == "hash":
			for i := 0; i < len(key.values); i += 2 {
				add("key "+key.name, key.values[i], key.values[i+1])
			}
		default:
			for _, member := range key.values {
				add(about(key.name, member), key.name+" "+member, "")
			}
		}
	}
	return all
}

// ownerOf returns the job that owns a key, and the key's role.
func ownerOf(key string) (jid, relation string) {
	jid, ok := strings.CutPrefix(key, "ql:j:")
	if !ok {
		jid, ok = strings.CutPrefix(key, "ql:r:")
	}
	if !ok {
		return "", ""
	}
	for _, suffix := range []string{"-history", "-dependents", "-dependencies"} {
		if owner, ok := strings.CutSuffix(jid, suffix); ok {
			return owner, suffix
		}
	}
	return jid, ""
}

// jidsOf returns the jobs, including recurring ones, with a hash in any of the keyspaces.
func jidsOf(keyspaces ...[]storedKey) map[string]bool {
	jids := map[string]bool{}
	for _, key := range slices.Concat(keyspaces...) {
		if jid, relation := ownerOf(key.name); jid != "" && relation == "" {
			jids[jid] = true
		}
	}
	return jids
}

// difference describes how the facts about something differ between two keyspaces.
func difference(a, b map[string]string) string {
	var told []string
	for _, what := range slices.Sorted(maps.Keys(a)) {
		if value, ok := b[what]; !ok {
			told = append(told, "- "+what+" = "+a[what])
		} else if value != a[what] {
			told = append(told, "~ "+what+": "+a[what]+" -> "+value)
		}
	}
	for _, what := range slices.Sorted(maps.Keys(b)) {
		if _, ok := a[what]; !ok {
			told = append(told, "+ "+what+" = "+b[what])
		}
	}
	return strings.Join(told, "\n    ")
}

// requireSame fails unless two keyspaces are equal, and shows how they differ.
func requireSame(t *testing.T, want, got []storedKey, message string) {
	t.Helper()
	jids := jidsOf(want, got)
	a, b := factsOf(want, jids, ""), factsOf(got, jids, "")
	for about := range joined(a, b) {
		if !maps.Equal(a[about], b[about]) {
			t.Errorf("%s: %s:\n    %s", message, about, difference(a[about], b[about]))
		}
	}
}
