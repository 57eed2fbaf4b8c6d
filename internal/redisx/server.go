package redisx

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// ServerOf returns the client of the server that holds a key: in a cluster, of the key's master.
func ServerOf(
	ctx context.Context, rdb redis.UniversalClient, key string,
) (redis.UniversalClient, error) {
	cluster, ok := rdb.(*redis.ClusterClient)
	if !ok {
		return rdb, nil
	}
	master, err := cluster.MasterForKey(ctx, key)
	if err != nil {
		return nil, err
	}
	return master, nil
}

// These scripts try the actions of a queue call on a key that never exists.
const (
	read  = `return redis.call('exists', KEYS[1])`
	write = `
local log = ARGV[1] .. 'log'
if redis.acl_check_cmd and not redis.acl_check_cmd('publish', log, '') then
  return redis.error_reply('NOPERM this user may not publish to ' .. log)
end
redis.call('set', KEYS[1], '', 'xx')
return redis.call('exists', KEYS[1])`
)

// AskReads returns an error unless calls can read a namespace now. Unlike PING, it fails while a
// cluster is down or lacks the namespace's slot, and if the user may not run scripts.
func AskReads(ctx context.Context, rdb redis.UniversalClient, namespace string) error {
	return ask(ctx, rdb, read, namespace)
}

// AskWrites returns an error unless calls can change a namespace now. It changes nothing. See
// [RefusesWrites].
func AskWrites(ctx context.Context, rdb redis.UniversalClient, namespace string) error {
	return ask(ctx, rdb, write, namespace)
}

func ask(ctx context.Context, rdb redis.UniversalClient, script, namespace string) error {
	return rdb.Eval(ctx, script, []string{namespace + "x:none"}, namespace).Err()
}

// RefusesWrites reports whether the server answered that it takes no writes, from any user.
func RefusesWrites(err error) bool {
	return slices.Contains([]string{"MISCONF", "NOREPLICAS", "OOM", "READONLY"}, Refusal(err))
}

// ParseInfo returns the fields of a reply of INFO, without its sections.
func ParseInfo(text string) map[string]string {
	fields := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, found := strings.Cut(strings.TrimSpace(line), ":"); found {
			fields[name] = value
		}
	}
	return fields
}

// OldestServer is the first series of Redis that works.
const OldestServer = "6.2"

// SeriesOf returns the major and the minor number of a version, if present.
func SeriesOf(version string) (series []int, ok bool) {
	parts := strings.SplitN(version, ".", 3)
	if len(parts) < 2 {
		return nil, false
	}
	for _, part := range parts[:2] {
		n, err := strconv.Atoi(part)
		if err != nil {
			return nil, false
		}
		series = append(series, n)
	}
	return series, true
}

// IsTooOld reports whether a version of Redis is known and older than OldestServer.
func IsTooOld(version string) bool {
	series, known := SeriesOf(version)
	oldest, _ := SeriesOf(OldestServer)
	return known && slices.Compare(series, oldest) < 0
}
