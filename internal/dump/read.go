package dump

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/qless/qless-go/internal/keys"
)

// enough is the number of bytes at which a step ends.
const enough = 1 << 20

// readSome reads keys with their expiry times until it has read enough bytes, counting 100 for each
// value. It begins at a cursor in the first key and may stop in the last: the last item of that
// key's row is the next cursor. Small hashes, such as the records of jobs, are read whole.
var readSome = redis.NewScript(`
local enough, cursor, bytes, out = tonumber(ARGV[1]), ARGV[2], 0, {}

local function clock()
  local time = redis.call('time')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

-- The time at which a key expires, in milliseconds, or 0.
local function expires(key)
  local at, lasts
  repeat
    at, lasts = clock(), redis.call('pttl', key)
  until lasts < 0 or clock() == at -- the clock runs on within a script
  return lasts < 0 and 0 or at + lasts
end

local function add(values, some)
  for i = 1, #some do
    values[#values + 1] = some[i]
    bytes = bytes + #some[i] + 100
  end
end

-- The number of values to read after some others.
local function count_after(values)
  local last = values[#values]
  return last and #last < 4096 and 10 or 1
end

-- These return the next cursor.
local function read_list(key, values)
  local from = tonumber(cursor) or 0
  repeat
    local n = count_after(values)
    local some = redis.call('lrange', key, from, from + n - 1)
    add(values, some)
    if #some < n then
      return ''
    end
    from = from + n
  until bytes >= enough
  return string.format('%d', from)
end

local function scan(command, key, values)
  local at = cursor == '' and '0' or cursor
  repeat
    local reply = redis.call(command, key, at, 'count', count_after(values))
    at = reply[1]
    add(values, reply[2])
  until at == '0' or bytes >= enough
  return at == '0' and '' or at
end

local readers = {
  string = function(key, values)
    add(values, {redis.call('get', key)})
    return ''
  end,
  list = read_list,
  set = function(key, values) return scan('sscan', key, values) end,
  zset = function(key, values) return scan('zscan', key, values) end,
  hash = function(key, values)
    if cursor ~= '' or redis.call('hlen', key) > 100 then
      return scan('hscan', key, values)
    end
    add(values, redis.call('hgetall', key))
    return ''
  end,
}

for i = 1, #KEYS do
  local kind, values = redis.call('type', KEYS[i]).ok, {}
  local read = readers[kind]
  out[i] = {kind, expires(KEYS[i]), values, read and read(KEYS[i], values) or ''}
  cursor = ''
  if bytes >= enough then
    break
  end
end
return out`)

// read reads keys, some at a time. A missing key is of the type none.
func (n *Namespace) read(ctx context.Context, names []string) iter.Seq2[*entry, error] {
	return func(yield func(*entry, error) bool) {
		var values []string
		for cursor := ""; len(names) > 0; {
			some := make([]string, min(len(names), atOnce))
			for i := range some {
				some[i] = n.prefix + names[i]
			}
			rows, err := readSome.Run(ctx, n.rdb, some, enough, cursor).Slice()
			if err != nil {
				yield(nil, err)
				return
			}
			n.step()
			for _, reply := range rows {
				row := reply.([]any)
				for _, value := range row[2].([]any) {
					values = append(values, value.(string))
				}
				if cursor = row[3].(string); cursor != "" {
					break // the next step continues with this key
				}
				e, err := newEntry(names[0], row[0].(string), row[1].(int64), values)
				if err != nil {
					err = fmt.Errorf("%s%w", n.prefix, err)
				}
				if !yield(e, err) || err != nil {
					return
				}
				names, values = names[1:], nil
			}
		}
	}
}

// newEntry returns the content of a key.
func newEntry(name, kind string, expires int64, values []string) (*entry, error) {
	switch kind {
	case keys.String, keys.Hash, keys.List, keys.Set, keys.ZSet:
	case "none":
		values = nil // a partly read key has vanished
	default:
		return nil, fmt.Errorf("%s has the type %s, which no client of qless uses", name, kind)
	}
	if len(values) == 0 {
		kind = "none"
	}
	ordered, err := inOrder(kind, values)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return &entry{text(name), kind, expires, ordered}, nil
}

// inOrder returns the distinct values of a key, in an order that is the same for equal keys.
func inOrder(kind string, values []string) ([]text, error) {
	var out []text
	switch kind {
	case "hash", "zset":
		pairs := map[string]string{}
		for i := 0; i+1 < len(values); i += 2 {
			pairs[values[i]] = values[i+1]
		}
		for _, name := range slices.Sorted(maps.Keys(pairs)) {
			value := pairs[name]
			if kind == "zset" {
				score, err := strconv.ParseFloat(value, 64)
				if err != nil {
					return nil, err
				}
				value = strconv.FormatFloat(score, 'g', -1, 64)
			}
			out = append(out, text(name), text(value))
		}
		return out, nil
	case "set":
		slices.Sort(values)
		values = slices.Compact(values)
	}
	for _, value := range values {
		out = append(out, text(value))
	}
	return out, nil
}
