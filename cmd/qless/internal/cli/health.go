package cli

import (
	"context"
	"errors"

	"github.com/redis/go-redis/v9"

	"github.com/qless/qless-go/internal/redisx"
)

// noKey is the end of the name of a key that never exists.
const noKey = "x:none"

// askReads returns an error unless the user can read the keys of a namespace. Unlike PING, this
// fails while a cluster is down, or lacks the slot of the namespace.
func askReads(ctx context.Context, rdb redis.UniversalClient, namespace string) error {
	return rdb.Exists(ctx, namespace+noKey).Err()
}

// askWrites reports whether the server accepts writes to a namespace. It tries one that changes
// nothing. The answer to a user who may not write is that of [askReads].
func askWrites(
	ctx context.Context, rdb redis.UniversalClient, namespace string,
) (bool, error) {
	err := rdb.SetArgs(ctx, namespace+noKey, "", redis.SetArgs{Mode: "XX"}).Err()
	switch redisx.Refusal(err) {
	case "MISCONF", "NOREPLICAS", "OOM", "READONLY":
		return false, nil
	case "NOPERM":
		return true, askReads(ctx, rdb, namespace)
	}
	if errors.Is(err, redis.Nil) { // there is no such key
		err = nil
	}
	return true, err
}
