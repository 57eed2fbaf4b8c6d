package redisx

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// ServerOf returns the client of the server that has a key: in a cluster, that of its master.
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
