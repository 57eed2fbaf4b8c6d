package inspect

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/redisx"
)

// namespacesStep is the approximate number of keys that a step of [Namespaces] scans.
const namespacesStep = 1000

// classes escapes the special characters of a pattern of SCAN, except * and ?.
var classes = strings.NewReplacer(`\`, `\\`, `[`, `\[`, `]`, `\]`)

// IsPattern reports whether a namespace is a pattern for [Namespaces].
func IsPattern(namespace string) bool { return strings.ContainsAny(namespace, "*?") }

// Namespaces returns the namespaces that match a pattern and have queues, sorted by name. In a
// pattern, * stands for any text, and ? for one character. On a cluster, it asks all masters. It
// walks through all keys of the database with SCAN, about 1000 in a round trip. If it fails, or the
// context ends, it returns the names found so far with the error.
func Namespaces(
	ctx context.Context, rdb redis.UniversalClient, pattern string,
) ([]string, error) {
	const list = "queues"
	var mu sync.Mutex
	found := map[string]bool{}
	scan := func(ctx context.Context, server *redis.Client) error {
		return scanKeys(ctx, server, classes.Replace(pattern)+list, func(keys []string) {
			mu.Lock()
			defer mu.Unlock()
			for _, key := range keys {
				found[strings.TrimSuffix(key, list)] = true
			}
		})
	}
	err := onMasters(ctx, rdb, scan)
	var names []string
	for name := range found {
		if above, isPart := strings.CutSuffix(name, "x:"); !isPart || !found[above] {
			names = append(names, name) // otherwise it is x:queues of another one
		}
	}
	slices.Sort(names)
	if err == nil {
		return names, nil
	}
	code := qless.ErrServer
	if redisx.IsUnanswered(err) {
		code = qless.ErrUnavailable
	}
	return names, &qless.Error{Op: "namespaces", Code: code, Message: err.Error(), Err: err}
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

// scanKeys calls a function with the sorted sets of a server whose names match a pattern.
func scanKeys(
	ctx context.Context, server *redis.Client, pattern string, found func(keys []string),
) error {
	for cursor := uint64(0); ; {
		keys, next, err := server.ScanType(ctx, cursor, pattern, namespacesStep, "zset").Result()
		if err != nil {
			return err
		}
		found(keys)
		if cursor = next; cursor == 0 {
			return nil
		}
	}
}
