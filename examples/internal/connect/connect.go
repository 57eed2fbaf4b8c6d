// Package connect connects the examples to Redis: to the server at REDIS_URL or, if unset, to an
// in-memory server.
package connect

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/qlesstest"
)

// Client returns a qless client with a separate namespace, and a function that removes all keys of
// the namespace and disconnects. It writes to out which Redis is used.
func Client(
	ctx context.Context, out io.Writer, namespace string,
) (*qless.Client, func(), error) {
	config := &qless.ClientConfig{Namespace: namespace}
	address := os.Getenv("REDIS_URL")
	if address == "" {
		server, err := inMemory(out)
		if err != nil {
			return nil, nil, err
		}
		client, err := qless.New(server.Redis(), config)
		if err != nil {
			server.Close()
			return nil, nil, err
		}
		return client, func() { _ = client.Close(); server.Close() }, nil
	}
	client, err := qless.Dial(ctx, address, config)
	if err != nil {
		return nil, nil, err
	}
	fmt.Fprintln(out, "Redis:", withoutPassword(address))
	rdb, err := dial(address)
	if err != nil {
		return nil, nil, errors.Join(err, client.Close())
	}
	return client, func() { _ = client.Close(); leave(rdb, namespace+"*") }, nil
}

// Redis is like Client, but returns a go-redis client. Keys matching the patterns are removed in
// the end.
func Redis(out io.Writer, patterns ...string) (*redis.Client, func(), error) {
	address := os.Getenv("REDIS_URL")
	if address == "" {
		server, err := inMemory(out)
		if err != nil {
			return nil, nil, err
		}
		return server.Redis(), server.Close, nil
	}
	rdb, err := dial(address)
	if err != nil {
		return nil, nil, err
	}
	fmt.Fprintln(out, "Redis:", withoutPassword(address))
	return rdb, func() { leave(rdb, patterns...) }, nil
}

func dial(address string) (*redis.Client, error) {
	options, err := redis.ParseURL(address)
	if err != nil {
		return nil, errors.New("REDIS_URL is not a Redis URL") // err may contain the password
	}
	return redis.NewClient(options), nil
}

// leave removes the keys matching the patterns, and disconnects.
func leave(rdb *redis.Client, patterns ...string) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for _, pattern := range patterns {
		for keys := rdb.Scan(ctx, 0, pattern, 1000).Iterator(); keys.Next(ctx); {
			_ = rdb.Unlink(ctx, keys.Val())
		}
	}
	_ = rdb.Close()
}

func inMemory(out io.Writer) (*qlesstest.Server, error) {
	fmt.Fprintln(out, "Redis: in memory (set REDIS_URL to use a server)")
	return qlesstest.Start()
}

func withoutPassword(address string) string {
	parsed, err := url.Parse(address)
	if err != nil {
		return "at REDIS_URL"
	}
	return parsed.Redacted()
}
