package lmstfy

import (
	"context"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go/internal/testkit"
)

// A limit set or removed while all limits are read stays so: the answer of Redis is older.
func TestAReadUndoesNoChangeOfALimit(t *testing.T) {
	rdb := redis.NewClient(&redis.Options{Addr: testkit.Start(t).Addr()})
	t.Cleanup(func() { _ = rdb.Close() })
	limits := newLimiters(rdb, "x:")
	limit := Limiter{Write: 1, Interval: 60}
	_, err := limits.set(t.Context(), limiterName("p", "n", "old"), limit, true)
	require.NoError(t, err)

	rdb.AddHook(afterHGetAll(func() {
		_, err := limits.set(t.Context(), limiterName("p", "n", "new"), limit, true)
		require.NoError(t, err)
		require.NoError(t, limits.remove(t.Context(), limiterName("p", "n", "old")))
	}))
	require.NoError(t, limits.read(t.Context()))
	require.NotNil(t, limits.get("p", "n", "new"))
	require.Nil(t, limits.get("p", "n", "old"))
}

// An afterHGetAll is called after HGETALL was answered, before the sender has the answer.
type afterHGetAll func()

func (afterHGetAll) DialHook(next redis.DialHook) redis.DialHook { return next }

func (after afterHGetAll) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if cmd.Name() == "hgetall" {
			after()
		}
		return err
	}
}

func (afterHGetAll) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}
