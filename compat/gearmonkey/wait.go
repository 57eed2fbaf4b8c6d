package gearmonkey

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/qless/qless-go/internal/redisx"
)

// wait blocks until a job has ended, the timeout has passed (0 for none), or ctx is done.
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

// connectionOf returns a client with a separate connection to the server of a key, and a function
// to close it, even during a wait. A pooled connection would be unavailable to others for the whole
// wait, which nothing could end. For clients of anything but a single server or a cluster,
// connectionOf returns the shared client, and the wait does not notice the end of the context.
func (c *Client) connectionOf(
	ctx context.Context, key string,
) (redis.UniversalClient, func(), error) {
	server, err := redisx.ServerOf(ctx, c.rdb, key)
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
	options.PushNotificationProcessor = nil // bound to the other client
	options.MaintNotificationsConfig = &maintnotifications.Config{
		Mode: maintnotifications.ModeDisabled,
	}
	own := redis.NewClient(&options)
	return own, func() { _ = own.Close() }, nil
}
