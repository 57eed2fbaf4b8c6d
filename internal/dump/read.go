package dump

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/redis/go-redis/v9"
)

// readSome reads keys with their expiry times, but not the values of a large key.
var readSome = redis.NewScript(`
local how = {
  string = {'exists', 'get'}, hash = {'hlen', 'hgetall'}, list = {'llen', 'lrange', 0, -1},
  set = {'scard', 'smembers'}, zset = {'zcard', 'zrange', 0, -1, 'withscores'},
}
local time, out = redis.call('time'), {}
local now, room = time[1] * 1000 + math.floor(time[2] / 1000), tonumber(ARGV[1])
for i, key in ipairs(KEYS) do
  local kind, lasts = redis.call('type', key).ok, redis.call('pttl', key)
  local its, values = how[kind], false
  if its then
    local size = redis.call(its[1], key)
    if size <= room then
      room, values = room - size, redis.call(its[2], key, unpack(its, 3))
    end
  end
  out[i] = {kind, lasts < 0 and 0 or now + lasts, type(values) == 'string' and {values} or values}
end
return out`)

// read reads keys. A missing one is of the type none.
func (n *Namespace) read(ctx context.Context, names []string) ([]*entry, error) {
	keys := make([]string, len(names))
	for i, name := range names {
		keys[i] = n.prefix + name
	}
	const room = 20 * atOnce
	reply, err := readSome.Run(ctx, n.rdb, keys, room).Slice()
	if err != nil {
		return nil, err
	}
	n.step()
	entries := make([]*entry, len(names))
	for i, name := range names {
		row := reply[i].([]any)
		e := &entry{Key: text(name), Kind: row[0].(string), Expires: row[1].(int64)}
		var values []string
		if all, ok := row[2].([]any); ok {
			for _, value := range all {
				values = append(values, value.(string))
			}
		} else if values, err = n.readLarge(ctx, keys[i], e.Kind); err != nil {
			return nil, err
		}
		if e.Values, err = inOrder(e.Kind, values); err != nil {
			return nil, fmt.Errorf("%s: %w", keys[i], err)
		}
		if e.Kind != "none" && len(values) == 0 {
			e.Kind = "none" // it vanished after its type was read
		}
		entries[i] = e
	}
	return entries, nil
}

// readLarge reads the values of a key in steps.
func (n *Namespace) readLarge(ctx context.Context, key, kind string) ([]string, error) {
	var values []string
	scan := n.rdb.SScan
	switch kind {
	case "none":
		return nil, nil
	case "list":
		for {
			from := int64(len(values))
			some, err := n.rdb.LRange(ctx, key, from, from+10*atOnce-1).Result()
			if err != nil || len(some) == 0 {
				return values, err
			}
			n.step()
			values = append(values, some...)
		}
	case "string": // there was no room for one more
		value, err := n.rdb.Get(ctx, key).Result()
		if err == redis.Nil {
			return nil, nil
		}
		return []string{value}, err
	case "hash":
		scan = n.rdb.HScan
	case "zset":
		scan = n.rdb.ZScan
	case "set":
	default:
		return nil, fmt.Errorf("%s has the type %s, which no client of qless uses", key, kind)
	}
	for cursor := uint64(0); ; {
		some, next, err := scan(ctx, key, cursor, "", 10*atOnce).Result()
		if err != nil {
			return nil, err
		}
		n.step()
		values = append(values, some...)
		if cursor = next; cursor == 0 {
			return values, nil
		}
	}
}

// inOrder returns the values of a key, each once, in an order that is the same for equal keys.
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
