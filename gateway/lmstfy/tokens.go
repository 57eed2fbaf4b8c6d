package lmstfy

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"strings"
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

// A token deleted by another server is still accepted for this time. maxKnown is the maximum number
// of remembered tokens.
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

// setNew sets a field of a hash unless the field exists, and reports whether the field was new. The
// command is sent only once: a retry would find its own field, and report it as not new.
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

// A Limiter limits a token's consume and publish requests in an interval of seconds. 0 means no
// limit.
type Limiter struct {
	Read     int64 `json:"read"`
	Write    int64 `json:"write"`
	Interval int64 `json:"interval"`
}

func (l *Limiter) check() error {
	switch {
	case l.Interval <= 0:
		return errors.New("limiter interval should be > 0")
	case l.Read <= 0 && l.Write <= 0:
		return errors.New("the read and write of limiter can't be <= 0 at the same time")
	}
	return nil
}

// most returns the allowed number of requests of a kind, or 0 without a limit.
func (l *Limiter) most(action string) int64 {
	switch {
	case l == nil:
		return 0
	case action == consume:
		return max(0, l.Read)
	}
	return max(0, l.Write)
}

// limiters are the limits of tokens. All are kept in one hash, read again every limitersInterval.
// Each counter has a key of its own.
type limiters struct {
	rdb    redis.UniversalClient
	prefix string

	mu      sync.Mutex
	byName  map[string]Limiter // "pool/namespace/token"
	changes int                // counts what set and remove did
}

const limitersInterval = 10 * time.Second

func newLimiters(rdb redis.UniversalClient, prefix string) *limiters {
	return &limiters{rdb: rdb, prefix: prefix, byName: map[string]Limiter{}}
}

func (l *limiters) key() string { return l.prefix + "__throttler_keys__" }

func (l *limiters) counter(name, action string) string {
	if action == consume {
		return l.prefix + "l/" + name + "/r"
	}
	return l.prefix + "l/" + name + "/w"
}

func limiterName(pool, namespace, token string) string {
	return pool + "/" + namespace + "/" + token
}

// run reads the limits periodically until the context ends.
func (l *limiters) run(ctx context.Context) {
	ticker := time.NewTicker(limitersInterval)
	defer ticker.Stop()
	for {
		_ = l.read(ctx)
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// read reads all limits. If a limit changes meanwhile, the answer may be stale, and is dropped.
func (l *limiters) read(ctx context.Context) error {
	l.mu.Lock()
	before := l.changes
	l.mu.Unlock()
	stored, err := l.rdb.HGetAll(ctx, l.key()).Result()
	if err != nil {
		return err
	}
	byName := map[string]Limiter{}
	for name, text := range stored {
		var limiter Limiter
		if json.Unmarshal([]byte(text), &limiter) == nil {
			byName[name] = limiter
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.changes == before {
		l.byName = byName
	}
	return nil
}

// get returns the limit of a token, or nil.
func (l *limiters) get(pool, namespace, token string) *Limiter {
	l.mu.Lock()
	defer l.mu.Unlock()
	if limiter, found := l.byName[limiterName(pool, namespace, token)]; found {
		return &limiter
	}
	return nil
}

// set stores the limit of a token. If the limit must be new, set reports whether there was none.
func (l *limiters) set(
	ctx context.Context, name string, limiter Limiter, isNew bool,
) (bool, error) {
	text, err := json.Marshal(limiter)
	if err != nil {
		return false, err
	}
	if isNew {
		stored, err := setNew(ctx, l.rdb, l.key(), name, text)
		if err != nil || !stored {
			return false, err
		}
	} else if err := l.rdb.HSet(ctx, l.key(), name, text).Err(); err != nil {
		return false, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.byName[name] = limiter
	l.changes++
	return true, nil
}

func (l *limiters) remove(ctx context.Context, name string) error {
	if err := l.rdb.HDel(ctx, l.key(), name).Err(); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.byName, name)
	l.changes++
	return nil
}

// A TokenLimiter is a list entry: a token with its limit.
type TokenLimiter struct {
	Namespace string  `json:"namespace"`
	Token     string  `json:"token"`
	Limiter   Limiter `json:"limiter"`
}

// list returns all limits, sorted by their tokens.
func (l *limiters) list() []TokenLimiter {
	l.mu.Lock()
	byName := maps.Clone(l.byName)
	l.mu.Unlock()
	all := []TokenLimiter{}
	for _, name := range sortedKeys(byName) {
		parts := strings.SplitN(name, "/", 3)
		if len(parts) != 3 {
			continue
		}
		token := parts[2]
		if parts[0] != DefaultPool {
			token = parts[0] + ":" + token
		}
		all = append(all, TokenLimiter{parts[1], token, byName[name]})
	}
	return all
}

// Scripts do the counting, to leave no counter without an expiry.
var (
	countUp = redis.NewScript(`local n = redis.call('incr', KEYS[1])
if n == 1 then redis.call('expire', KEYS[1], ARGV[1]) end
return n`)
	countDown = redis.NewScript(`if redis.call('exists', KEYS[1]) == 1 then
  return redis.call('decr', KEYS[1])
end`)
)

// refundTimeout limits how long taking back the count of a request may take.
const refundTimeout = 5 * time.Second

// The actions that a limit counts.
const (
	produce = "produce"
	consume = "consume"
)
