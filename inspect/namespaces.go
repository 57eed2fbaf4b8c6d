package inspect

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/keys"
	"github.com/qless/qless-go/internal/redisx"
)

// namespacesStep is the approximate number of keys that a step of [Namespaces] scans.
const namespacesStep = 1000

// classes escapes the special characters of a pattern of SCAN, except * and ?.
var classes = strings.NewReplacer(`\`, `\\`, `[`, `\[`, `]`, `\]`)

// IsPattern reports whether a namespace is a pattern for [Namespaces].
func IsPattern(namespace string) bool { return strings.ContainsAny(namespace, "*?") }

// Namespaces returns the namespaces that match a pattern and have queues, sorted by name. In a
// pattern, * stands for any text, and ? for one byte. On a cluster, all masters are asked. The call
// walks through all keys of the database with SCAN, about 1000 per round trip. On an error, or if
// the context ends, the names found so far are returned, too.
//
// A key of ql: may look like the list of queues of another namespace: the tag old-queues has the
// key ql:t:old-queues. If the key can belong to an existing namespace, it does not count as a list
// of queues. Checking this costs 2 commands for each such key.
func Namespaces(
	ctx context.Context, rdb redis.UniversalClient, pattern string,
) ([]string, error) {
	var mu sync.Mutex
	var names []string
	err := onMasters(ctx, rdb, func(ctx context.Context, server *redis.Client) error {
		lists := classes.Replace(pattern) + "*" + listedQueues
		return scanKeys(ctx, server, lists, func(sets []string) error {
			found, err := namespacesOf(ctx, rdb, sets)
			mu.Lock()
			defer mu.Unlock()
			for _, name := range found {
				if matches(pattern, name) {
					names = append(names, name)
				}
			}
			return err
		})
	})
	slices.Sort(names)
	names = slices.Compact(names)
	if err == nil {
		return names, nil
	}
	code := qless.ErrServer
	if redisx.IsUnanswered(err) {
		code = qless.ErrUnavailable
	}
	return names, &qless.Error{Op: "namespaces", Code: code, Message: err.Error(), Err: err}
}

// The sorted sets with the queues of a namespace. Classic clients know only the first.
const listedQueues, otherQueues = "queues", "x:queues"

// namespacesOf returns the namespaces of sorted sets that list queues.
func namespacesOf(
	ctx context.Context, rdb redis.UniversalClient, sets []string,
) ([]string, error) {
	type candidate struct {
		namespace string
		others    []*redis.IntCmd // whether a namespace exists for which the set is another key
	}
	var candidates []candidate
	pipe := rdb.Pipeline()
	for _, set := range sets {
		var c candidate
		for namespace, key := range keys.Readings(set, keys.ZSet) {
			if key.Pattern == listedQueues || key.Pattern == otherQueues {
				c.namespace = namespace
				candidates = append(candidates, c)
				break
			}
			if key.Type != keys.ZSet {
				continue
			}
			c.others = append(c.others, pipe.Exists(ctx, namespace+listedQueues),
				pipe.Exists(ctx, namespace+otherQueues))
		}
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, err
	}
	var names []string
	for _, c := range candidates {
		exists := func(found *redis.IntCmd) bool { return found.Val() > 0 }
		if !slices.ContainsFunc(c.others, exists) {
			names = append(names, c.namespace)
		}
	}
	return names, nil
}

// matches reports whether a name matches a pattern.
func matches(pattern, name string) bool {
	for i := range len(pattern) {
		switch {
		case pattern[i] == '*':
			for skipped := range len(name) + 1 {
				if matches(pattern[i+1:], name[skipped:]) {
					return true
				}
			}
			return false
		case name == "" || pattern[i] != '?' && pattern[i] != name[0]:
			return false
		}
		name = name[1:]
	}
	return name == ""
}

// onMasters calls a function for the server, or for each master of a cluster.
func onMasters(
	ctx context.Context, rdb redis.UniversalClient,
	do func(ctx context.Context, server *redis.Client) error,
) error {
	switch rdb := rdb.(type) {
	case *redis.ClusterClient:
		return rdb.ForEachMaster(ctx, do)
	case *redis.Client:
		return do(ctx, rdb)
	}
	return invalid("namespaces", "the client is of neither a server nor a cluster")
}

// scanKeys calls a function with the sorted sets of a server that match a pattern.
func scanKeys(
	ctx context.Context, server *redis.Client, pattern string, found func(keys []string) error,
) error {
	for cursor := uint64(0); ; {
		keys, next, err := server.ScanType(ctx, cursor, pattern, namespacesStep, "zset").Result()
		if err != nil {
			return err
		}
		if err := found(keys); err != nil {
			return err
		}
		if cursor = next; cursor == 0 {
			return nil
		}
	}
}
