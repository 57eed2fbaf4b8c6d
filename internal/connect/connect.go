// Package connect connects programs that serve other protocols to their Redis.
package connect

import (
	"context"
	"fmt"
	"io"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/qlesstest"
)

// OrStart returns a client of the Redis server at a URL. Without a URL, OrStart starts a server in
// memory, and reports this on out. The caller must call end.
func OrStart(
	ctx context.Context, url string, config *qless.ClientConfig, out io.Writer,
) (client *qless.Client, end func(), err error) {
	if url != "" {
		if client, err = qless.Dial(ctx, url, config); err != nil {
			return nil, nil, err
		}
		return client, func() { _ = client.Close() }, nil
	}
	memory, err := qlesstest.Start()
	if err != nil {
		return nil, nil, err
	}
	if client, err = qless.New(memory.Redis(), config); err != nil {
		memory.Close()
		return nil, nil, err
	}
	fmt.Fprintln(out, "no Redis is named: jobs are kept in memory, and are gone when this ends")
	return client, func() { _ = client.Close(); memory.Close() }, nil
}
