package lmstfy

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/qless/qless-go"
)

// Connect returns the configuration with the pools and the AdminRedis of the file. The caller must
// call close when the server is shut down.
func (f *File) Connect(ctx context.Context) (config Config, close func(), err error) {
	var opened []redis.UniversalClient
	close = func() {
		for _, rdb := range opened {
			_ = rdb.Close()
		}
	}
	open := func(r *FileRedis) redis.UniversalClient {
		rdb := r.open()
		opened = append(opened, rdb)
		return rdb
	}
	config = f.Config()
	config.Admin = open(&f.AdminRedis)
	config.Pools = map[string]Pool{}
	for _, name := range sortedKeys(f.Pool) {
		r := f.Pool[name]
		rdb := open(&r)
		client, err := qless.New(rdb, &qless.ClientConfig{Namespace: r.Namespace})
		if err == nil {
			err = rdb.Ping(ctx).Err()
		}
		if err != nil {
			close()
			return Config{}, nil, fmt.Errorf("pool %q: %w", name, err)
		}
		config.Pools[name] = Pool{Client: client, Redis: rdb, MigrateTo: r.MigrateTo}
	}
	if err := config.Admin.Ping(ctx).Err(); err != nil {
		close()
		return Config{}, nil, fmt.Errorf("admin redis: %w", err)
	}
	return config, close, nil
}

func (r *FileRedis) open() redis.UniversalClient {
	options := &redis.UniversalOptions{
		Addrs: r.addrs(), MasterName: r.MasterName, Password: r.Password, DB: r.DB,
		SentinelPassword: r.SentinelPassword, PoolSize: r.PoolSize, ContextTimeoutEnabled: true,
	}
	return redis.NewUniversalClient(options)
}
