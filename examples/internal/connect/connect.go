// Package connect connects the examples to Redis: to the server at REDIS_URL, or to one in memory
// when that is not set.
package connect

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"

	"github.com/redis/go-redis/v9"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/qlesstest"
)

// Client returns a qless client and a function that disconnects it. It says on out which Redis it
// uses. A nil config means the defaults.
func Client(
	ctx context.Context, out io.Writer, config *qless.ClientConfig,
) (*qless.Client, func(), error) {
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
	return client, func() { _ = client.Close() }, nil
}

// Redis is like Client, and returns a go-redis client.
func Redis(out io.Writer) (*redis.Client, func(), error) {
	address := os.Getenv("REDIS_URL")
	if address == "" {
		server, err := inMemory(out)
		if err != nil {
			return nil, nil, err
		}
		return server.Redis(), server.Close, nil
	}
	options, err := redis.ParseURL(address)
	if err != nil {
		return nil, nil, errors.New("REDIS_URL is not a Redis URL") // err may hold the password
	}
	fmt.Fprintln(out, "Redis:", withoutPassword(address))
	rdb := redis.NewClient(options)
	return rdb, func() { _ = rdb.Close() }, nil
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
