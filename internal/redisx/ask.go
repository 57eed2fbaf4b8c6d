package redisx

import (
	"context"
	"slices"

	"github.com/redis/go-redis/v9"
)

// These scripts try what a call of the queue does, on a key that never exists.
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

// RefusesWrites reports whether the server answered that it takes no writes, of any user.
func RefusesWrites(err error) bool {
	return slices.Contains([]string{"MISCONF", "NOREPLICAS", "OOM", "READONLY"}, Refusal(err))
}
