package lmstfy

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"
)

// A redisHook counts and times a Redis client's commands.
type redisHook struct {
	metrics *metrics
	node    string
}

func newRedisHook(m *metrics, rdb redis.UniversalClient) *redisHook {
	h := &redisHook{metrics: m, node: "cluster"}
	if single, is := rdb.(*redis.Client); is {
		h.node = single.Options().Addr
	}
	return h
}

// DialHook changes nothing.
func (h *redisHook) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook counts a command.
func (h *redisHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, command redis.Cmder) error {
		began := time.Now()
		err := next(ctx, command)
		h.count(command.Name(), began, err)
		return err
	}
}

// ProcessPipelineHook counts a pipeline.
func (h *redisHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, commands []redis.Cmder) error {
		began := time.Now()
		err := next(ctx, commands)
		h.count("pipeline", began, err)
		return err
	}
}

func (h *redisHook) count(command string, began time.Time, err error) {
	status := "ok"
	if err != nil && !errors.Is(err, redis.Nil) {
		status = "error"
	}
	h.metrics.redisCommands.add(1, command, h.node, status)
	took := float64(time.Since(began).Milliseconds())
	h.metrics.redisLatencies.observe(took, command, h.node, status)
}
