package lmstfy

import (
	"context"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/qless/qless-go/internal/redisx"
)

// tokens are the tokens of namespaces: for each pool and namespace, a hash from tokens to
// descriptions.
type tokens struct {
	rdb    redis.UniversalClient
	prefix string

	mu    sync.Mutex
	known map[string]time.Time // the time until which a token need not be looked up again
}

// A token that was deleted by another server is still accepted for this time. maxKnown is the
// number of tokens that are remembered.
const (
	tokenMemory = 10 * time.Second
	maxKnown    = 100_000
)

func newTokens(rdb redis.UniversalClient, prefix string) *tokens {
	return &tokens{rdb: rdb, prefix: prefix, known: map[string]time.Time{}}
}

func (t *tokens) key(pool, namespace string) string {
	return t.prefix + "tk/" + pool + "/" + namespace
}

// has reports whether a namespace has a token.
func (t *tokens) has(ctx context.Context, pool, namespace, token string) (bool, error) {
	name := pool + "/" + namespace + "/" + token
	if t.isKnown(name, time.Now()) {
		return true, nil
	}
	exists, err := t.rdb.HExists(ctx, t.key(pool, namespace), token).Result()
	if err == nil && exists {
		t.remember(name, time.Now().Add(tokenMemory))
	}
	return exists, err
}

func (t *tokens) isKnown(name string, now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return now.Before(t.known[name])
}

func (t *tokens) remember(name string, until time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.known) >= maxKnown {
		clear(t.known)
	}
	t.known[name] = until
}

// add adds a token, and reports whether it is new.
func (t *tokens) add(
	ctx context.Context, pool, namespace, token, description string,
) (bool, error) {
	return setNew(ctx, t.rdb, t.key(pool, namespace), token, description)
}

// setNew sets a field of a hash unless it exists, and reports whether it was new. The command is
// sent only once: if it were sent again, it would find its own field, and its sender would be
// refused.
func setNew(
	ctx context.Context, rdb redis.UniversalClient, key, field string, value any,
) (bool, error) {
	set := redisx.NewOnceCmd(ctx, "hsetnx", key, field, value)
	if err := rdb.Process(ctx, set); err != nil {
		return false, err
	}
	return set.Bool()
}

func (t *tokens) remove(ctx context.Context, pool, namespace, token string) error {
	err := t.rdb.HDel(ctx, t.key(pool, namespace), token).Err()
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.known, pool+"/"+namespace+"/"+token)
	return err
}

// list returns the tokens of a namespace with their descriptions.
func (t *tokens) list(ctx context.Context, pool, namespace string) (map[string]string, error) {
	return t.rdb.HGetAll(ctx, t.key(pool, namespace)).Result()
}
