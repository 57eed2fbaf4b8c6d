package lmstfy

import (
	"context"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/redisx"
)

// Connect returns the configuration with the pools and the AdminRedis of the file. The caller must
// call end after the server has shut down.
func (f *File) Connect(ctx context.Context) (config Config, end func(), err error) {
	var closes []func()
	end = func() {
		for _, end := range closes {
			end()
		}
	}
	open := func(r FileRedis) (*qless.Client, error) {
		client, end, err := r.connect(ctx)
		if err == nil {
			closes = append(closes, end)
			err = redisx.AskReads(ctx, client.Redis(), client.Namespace())
		}
		return client, err
	}
	config = f.Config()
	config.Pools = map[string]Pool{}
	for _, name := range sortedKeys(f.Pool) {
		r := f.Pool[name]
		client, err := open(r)
		if err != nil {
			end()
			return Config{}, nil, fmt.Errorf("pool %q: %w", name, err)
		}
		config.Pools[name] = Pool{Client: client, Redis: client.Redis(), MigrateTo: r.MigrateTo}
	}
	admin, err := open(f.AdminRedis)
	if err != nil {
		end()
		return Config{}, nil, fmt.Errorf("admin redis: %w", err)
	}
	config.Admin = admin.Redis()
	return config, end, nil
}

// connect returns a client, and a function that closes its connections.
func (r *FileRedis) connect(ctx context.Context) (*qless.Client, func(), error) {
	config := &qless.ClientConfig{Namespace: r.Namespace}
	if strings.Contains(r.Addr, "://") {
		client, err := qless.Dial(ctx, r.Addr, config)
		return client, func() { _ = client.Close() }, err
	}
	rdb := redis.NewUniversalClient(&redis.UniversalOptions{
		Addrs: r.addrs(), MasterName: r.MasterName, Password: r.Password, DB: r.DB,
		SentinelPassword: r.SentinelPassword, PoolSize: r.PoolSize, ContextTimeoutEnabled: true,
	})
	end := func() { _ = rdb.Close() }
	client, err := qless.New(rdb, config)
	if err != nil {
		end()
	}
	return client, end, err
}
