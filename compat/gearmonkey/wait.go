package gearmonkey

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// wait blocks until a job has ended, the timeout is over (0 for none), or the context ends.
func (c *Client) wait(ctx context.Context, fn string, id int64, timeout time.Duration) error {
	rdb, release, err := c.connectionOf(ctx, lockKey(fn, id))
	if err != nil {
		return wrap("run", fn, id, err)
	}
	defer release()
	stop := context.AfterFunc(ctx, release)
	defer stop()
	reply, err := pop(ctx, rdb, timeout, lockKey(fn, id))
	switch {
	case err != nil && ctx.Err() != nil:
		return wrap("run", fn, id, context.Cause(ctx))
	case err != nil:
		return wrap("run", fn, id, err)
	case reply == nil:
		return newError(ErrTimeout, "run", fn, id, "")
	}
	return nil
}

// connectionOf returns a client with one connection of its own to the server of a key, and
// how to close that, even while it waits. A pooled connection would be lost to all others
// while it waits, and nothing could end that. For other kinds of clients than those of
// one server or a cluster it is the shared one, and the end of the context is not seen.
func (c *Client) connectionOf(ctx context.Context, key string) (redis.UniversalClient, func(), error) {
	server, err := c.serverOf(ctx, key)
	if err != nil {
		return nil, nil, err
	}
	shared, ok := server.(*redis.Client)
	if !ok {
		return server, func() {}, nil
	}
	options := *shared.Options()
	options.PoolSize, options.MinIdleConns, options.PipelinePoolSize = 1, 0, -1
	options.AutoPipelineOptions, options.ClientSideCacheConfig, options.ClientSideCache = nil, nil, nil
	options.PushNotificationProcessor = nil // it is bound to the other client
	options.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	own := redis.NewClient(&options)
	return own, func() { _ = own.Close() }, nil
}

// serverOf returns the client of the server that has a key: of a cluster, that of one node.
func (c *Client) serverOf(ctx context.Context, key string) (redis.UniversalClient, error) {
	if cluster, ok := c.rdb.(*redis.ClusterClient); ok {
		node, err := cluster.MasterForKey(ctx, key)
		if err != nil {
			return nil, err
		}
		return node, nil
	}
	return c.rdb, nil
}
