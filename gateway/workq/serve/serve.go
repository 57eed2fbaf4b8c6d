// Package serve is the program of the Workq server: its flags, its signals, and what it prints.
package serve

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/gateway/workq"
	"github.com/qless/qless-go/qlesstest"
)

// shutdownTimeout is how long the commands that are under way may take when the program ends.
const shutdownTimeout = 10 * time.Second

// DefaultListen is the address that Workq's own server listens on.
const DefaultListen = "127.0.0.1:9922"

// Options are the addresses of the server and of the Redis server of its jobs.
type Options struct {
	// Listen is the address to listen on. Port 0 chooses a free one.
	Listen string

	// MaxConnections is how many connections there may be, as in [workq.Config].
	MaxConnections int

	// Namespace is the namespace of qless. Defaults to "ql:".
	Namespace string

	// Redis is the URL of the Redis server. Jobs are kept in memory without one, and lost at the
	// end.
	Redis string

	// ignored are flags of the command log that were given.
	ignored []string
}

// Main runs the program until the context ends, or a signal stops it, and returns its status.
func Main(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	options, err := parse(args, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		fmt.Fprintln(stderr, "workq-server:", err)
		return 2
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := Run(ctx, options, stdout, stderr); err != nil {
		fmt.Fprintln(stderr, "workq-server:", err)
		return 1
	}
	return 0
}

// parse reads the flags of Workq's own server, and the ones for the Redis server of the jobs.
func parse(args []string, stderr io.Writer) (Options, error) {
	var o Options
	flags := flag.NewFlagSet("workq-server", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&o.Listen, "listen", DefaultListen, "address to listen on")
	flags.IntVar(&o.MaxConnections, "max-connections", 0,
		"connections of clients; others are refused (default 10000; -1 for any number)")
	flags.StringVar(&o.Redis, "redis", os.Getenv("QLESS_REDIS_URL"),
		"URL of Redis (default $QLESS_REDIS_URL)")
	flags.StringVar(&o.Namespace, "namespace", "", "namespace of qless")
	flags.String("cmdlog-path", "", "ignored")
	flags.Uint("cmdlog-seg-size", 67108864, "ignored")
	flags.String("cmdlog-sync", "interval", "ignored")
	flags.Uint("cmdlog-sync-int", 1000, "ignored")
	flags.Uint("cmdlog-clean-int", 300000, "ignored")
	if err := flags.Parse(args); err != nil {
		return Options{}, err
	}
	if flags.NArg() > 0 {
		return Options{}, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	flags.Visit(func(f *flag.Flag) {
		if strings.HasPrefix(f.Name, "cmdlog-") {
			o.ignored = append(o.ignored, "-"+f.Name)
		}
	})
	return o, nil
}

// Run serves until the context ends. It prints its address when it listens.
func Run(ctx context.Context, o Options, stdout, stderr io.Writer) error {
	log := slog.New(slog.NewTextHandler(stderr, nil))
	if len(o.ignored) > 0 {
		log.Warn("there is no command log, because Redis keeps the jobs",
			"ignored", strings.Join(o.ignored, " "))
	}
	client, closeClient, err := o.connect(ctx, log, stdout)
	if err != nil {
		return err
	}
	defer closeClient()
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

// connect returns a client of the server that the options name, or of one in memory.
func (o Options) connect(
	ctx context.Context, log *slog.Logger, stdout io.Writer,
) (client *qless.Client, closeClient func(), err error) {
	config := &qless.ClientConfig{Logger: log, Namespace: o.Namespace}
	if o.Redis != "" {
		client, err = qless.Dial(ctx, o.Redis, config)
		if err != nil {
			return nil, nil, err
		}
		return client, func() { _ = client.Close() }, nil
	}
	fmt.Fprintln(stdout, "no Redis is named: jobs are kept in memory, and are gone when this ends")
	memory, err := qlesstest.Start()
	if err != nil {
		return nil, nil, err
	}
	if client, err = qless.New(memory.Redis(), config); err != nil {
		memory.Close()
		return nil, nil, err
	}
	return client, func() { _ = client.Close(); memory.Close() }, nil
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
