package conformance

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
)

// A keyspace holds the contents of a database, by the names of the keys under "ql:".
type keyspace map[string]key

// A key has the type of a key, and its contents in the field that the type uses.
type key struct {
	Type   string
	Fields map[string]string  // for a hash
	Items  []string           // for a list, a text or, sorted, a set
	Scores map[string]float64 // for a sorted set
}

// UnmarshalJSON reads a key of a trace: {"type": , "value": }.
func (k *key) UnmarshalJSON(text []byte) error {
	var raw struct {
		Type  string
		Value json.RawMessage
	}
	if err := json.Unmarshal(text, &raw); err != nil {
		return err
	}
	k.Type = raw.Type
	switch raw.Type {
	case "hash":
		return json.Unmarshal(raw.Value, &k.Fields)
	case "list", "set":
		return json.Unmarshal(raw.Value, &k.Items)
	case "zset":
		var pairs [][2]string
		if err := json.Unmarshal(raw.Value, &pairs); err != nil {
			return err
		}
		k.Scores = map[string]float64{}
		for _, pair := range pairs {
			score, err := strconv.ParseFloat(pair[1], 64)
			if err != nil {
				return err
			}
			k.Scores[pair[0]] = score
		}
		return nil
	}
	return fmt.Errorf("a key of type %q", raw.Type)
}

// readKeyspace reads a whole database with prefixed keys.
func readKeyspace(ctx context.Context, client *redis.Client, prefix string) (keyspace, error) {
	names, err := client.Keys(ctx, "*").Result()
	if err != nil {
		return nil, err
	}
	types, err := client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for _, name := range names {
			pipe.Type(ctx, name)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	values, err := client.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for i, name := range names {
			switch kind := types[i].(*redis.StatusCmd).Val(); kind {
			case "hash":
				pipe.HGetAll(ctx, name)
			case "list":
				pipe.LRange(ctx, name, 0, -1)
			case "set":
				pipe.SMembers(ctx, name)
			case "zset":
				pipe.ZRangeWithScores(ctx, name, 0, -1)
			case "string":
				pipe.MGet(ctx, name)
			default:
				return fmt.Errorf("key %s is a %s", name, kind)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	keys := keyspace{}
	for i, name := range names {
		keys[stockName(name, prefix)] = keyOf(types[i].(*redis.StatusCmd).Val(), values[i])
	}
	return keys, nil
}

// stockName returns the name of a key or channel under the prefix "ql:".
func stockName(name, prefix string) string {
	rest, ok := strings.CutPrefix(name, prefix)
	if !ok {
		return name + " (not under " + prefix + ")"
	}
	return "ql:" + rest
}

// keyOf returns the key of a type described by a reply.
func keyOf(kind string, reply redis.Cmder) key {
	k := key{Type: kind}
	switch reply := reply.(type) {
	case *redis.MapStringStringCmd:
		k.Fields = reply.Val()
	case *redis.StringSliceCmd:
		k.Items = reply.Val()
		if kind == "set" {
			slices.Sort(k.Items)
		}
	case *redis.SliceCmd:
		k.Items = []string{fmt.Sprint(reply.Val()...)}
	case *redis.ZSliceCmd:
		k.Scores = map[string]float64{}
		for _, z := range reply.Val() {
			k.Scores[z.Member.(string)] = z.Score
		}
	}
	return k
}

// ours reports whether a key or channel is an extension, unknown to stock clients.
func ours(name string) bool {
	return strings.HasPrefix(name, "ql:x:")
}

// relevant removes the keys that may differ, in place, and returns the rest.
func (keys keyspace) relevant() keyspace {
	for name, k := range keys {
		if ours(name) {
			delete(keys, name)
		}
		maps.DeleteFunc(k.Fields, func(field, _ string) bool { return strings.HasPrefix(field, "x:") })
	}
	if tags, ok := keys["ql:tags"]; ok {
		maps.DeleteFunc(tags.Scores, func(_ string, score float64) bool { return score == 0 })
		if len(tags.Scores) == 0 {
			delete(keys, "ql:tags")
		}
	}
	return keys
}

// differences describes the deviations from want, in the order of the names.
func differences(want, got keyspace) []string {
	return eachDifference("key", want.relevant(), got.relevant(), func(want, got key) string {
		if want.Type != got.Type {
			return fmt.Sprintf("is a %s, want a %s", got.Type, want.Type)
		}
		var found []string
		found = append(found, eachDifference("field", want.Fields, got.Fields, func(want, got string) string {
			return unlessEqual(same(want, got), got, want)
		})...)
		found = append(found, eachDifference("member", want.Scores, got.Scores, func(want, got float64) string {
			return unlessEqual(sameScore(want, got), got, want)
		})...)
		if !slices.EqualFunc(want.Items, got.Items, func(a, b string) bool { return same(a, b) }) {
			found = append(found, fmt.Sprintf("is %q, want %q", got.Items, want.Items))
		}
		return strings.Join(found, "; ")
	})
}

// eachDifference compares the entries of two maps. compare describes the difference between the
// values for a common key, or returns the empty string for equal values.
func eachDifference[V any](noun string, want, got map[string]V, compare func(want, got V) string) []string {
	names := slices.Collect(maps.Keys(want))
	for name := range got {
		if _, ok := want[name]; !ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	var found []string
	for _, name := range names {
		w, wanted := want[name]
		g, there := got[name]
		difference := ""
		switch {
		case !there:
			difference = fmt.Sprintf("is missing, want %v", w)
		case !wanted:
			difference = fmt.Sprintf("is extra: %v", g)
		default:
			difference = compare(w, g)
		}
		if difference != "" {
			found = append(found, fmt.Sprintf("%s %s %s", noun, name, difference))
		}
	}
	return found
}

func unlessEqual(equal bool, got, want any) string {
	if equal {
		return ""
	}
	return fmt.Sprintf("is %v, want %v", got, want)
}

func sameScore(want, got float64) bool {
	return want == got || math.Abs(want-got) <= 1e-14*max(1, math.Abs(want), math.Abs(got))
}

func TestDifferences(t *testing.T) {
	hash := func(fields map[string]string) key { return key{Type: "hash", Fields: fields} }
	list := func(items ...string) key { return key{Type: "list", Items: items} }
	zset := func(scores map[string]float64) key { return key{Type: "zset", Scores: scores} }

	for _, pair := range [][2]keyspace{
		{{}, {"ql:x:new": list("a")}},
		{{"ql:j:j": hash(map[string]string{"a": "1"})}, {"ql:j:j": hash(map[string]string{"a": "1.0", "x:b": "2"})}},
		{{"ql:tags": zset(map[string]float64{"t": 0})}, {}},
		{{}, {"ql:tags": zset(map[string]float64{"t": 0})}},
		{{"ql:queues": zset(map[string]float64{"q": 1e9})}, {"ql:queues": zset(map[string]float64{"q": 1e9 + 1e-6})}},
	} {
		assert.Empty(t, differences(pair[0], pair[1]), pair)
	}
	for _, pair := range [][2]keyspace{
		{{"ql:a": list("1")}, {}},
		{{}, {"ql:a": list("1")}},
		{{"ql:a": list("1")}, {"ql:a": list("2")}},
		{{"ql:a": list("1")}, {"ql:a": list("1", "1")}},
		{{"ql:a": list("1")}, {"ql:a": {Type: "set", Items: []string{"1"}}}},
		{{"ql:a": hash(map[string]string{"a": "1"})}, {"ql:a": hash(map[string]string{"a": "2"})}},
		{{"ql:a": hash(map[string]string{"a": "1"})}, {"ql:a": hash(map[string]string{"a": "1", "b": "1"})}},
		{{"ql:a": zset(map[string]float64{"m": 1})}, {"ql:a": zset(map[string]float64{"m": 1.1})}},
		{{"ql:a": zset(map[string]float64{"m": 0})}, {"ql:a": zset(map[string]float64{"n": 0, "m": 0})}},
		{{"ql:tags": zset(map[string]float64{"t": 1})}, {}},
		{{"ql:a": list()}, {stockName("ql:a", "p:"): list()}},
	} {
		assert.NotEmpty(t, differences(pair[0], pair[1]), pair)
	}
}
