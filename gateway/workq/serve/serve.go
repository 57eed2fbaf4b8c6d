// Package serve runs a Workq server as qless serve workq does.
package serve

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"time"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/gateway/workq"
	"github.com/qless/qless-go/internal/connect"
)

// shutdownTimeout limits how long commands under way may take when the program ends.
const shutdownTimeout = 10 * time.Second

// DefaultListen is the default address of Workq's own server.
const DefaultListen = "127.0.0.1:9922"

// Options configure the server.
type Options struct {
	// Listen is the address to listen on. Port 0 chooses a free one.
	Listen string

	// MaxConnections limits the number of connections, as in [workq.Config].
	MaxConnections int

	// Namespace is the namespace of qless. Defaults to "ql:".
	Namespace string

	// Redis is the URL of the Redis server. If it is empty, jobs are kept in memory and lost at the
	// end.
	Redis string
}

// Run serves until the context ends. It prints its address once it listens.
func Run(ctx context.Context, o Options, stdout, stderr io.Writer) error {
	log := slog.New(slog.NewTextHandler(stderr, nil))
	config := &qless.ClientConfig{Logger: log, Namespace: o.Namespace}
	client, end, err := connect.OrStart(ctx, o.Redis, config, stdout)
	if err != nil {
		return err
	}
	defer end()
	server, err := workq.New(workq.Config{
		Client: client, Logger: log, MaxConnections: o.MaxConnections,
	})
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", o.Listen)
	if err != nil {
		return err
	}
	fmt.Fprintln(stdout, "listening on", listener.Addr())
	return serve(ctx, server, listener)
}

// serve serves until the context ends.
func serve(ctx context.Context, server *workq.Server, listener net.Listener) error {
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	ending, cancel := context.WithTimeout(context.Background(), shutdownTimeout)
	defer cancel()
	return server.Shutdown(ending)
}
