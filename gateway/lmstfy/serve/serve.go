// Package serve runs a lmstfy server as qless serve lmstfy does.
package serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/gateway/lmstfy"
	"github.com/qless/qless-go/internal/connect"
)

// shutdownTimeout limits how long open requests may take when the program shuts down.
const shutdownTimeout = 30 * time.Second

// defaultFile is the default configuration file of lmstfy's own server.
const defaultFile = "conf/config.toml"

// Options configure the server.
type Options struct {
	// AdminHosts are further host names of the admin API, beside addresses, localhost and the names in
	// the file.
	AdminHosts []string

	// AdminListen is the address of the admin API. It overrides the file. Defaults to
	// 127.0.0.1:7778.
	AdminListen string

	// ConfigFile is a configuration file of lmstfy's own server. Defaults to conf/config.toml if
	// that file exists and Redis is empty.
	ConfigFile string

	// Listen is the address of the API. It overrides the file. Defaults to 127.0.0.1:7777.
	Listen string

	// MaxConnections limits the connections of each of the two APIs, as in [lmstfy.Config].
	MaxConnections int

	// Namespace is the qless namespace in Redis. Defaults to "ql:".
	Namespace string

	// PIDFile is the file for the process id.
	PIDFile string

	// Redis is the URL of the Redis server. It overrides the file. Without either, jobs are kept in
	// memory and lost at the end.
	Redis string

	// SkipTokens accepts requests without checking their tokens.
	SkipTokens bool
}

// A setup holds the server and its addresses.
type setup struct {
	config              lmstfy.Config
	listen, adminListen string
	close               func()
}

// Run serves until the context ends. It prints its addresses once it listens.
func Run(ctx context.Context, o Options, stdout, stderr io.Writer) error {
	s, err := o.setUp(ctx, stdout, stderr)
	if err != nil {
		return err
	}
	defer s.close()
	s.config.SkipTokens, s.config.MaxConnections = o.SkipTokens, o.MaxConnections
	s.config.AdminHosts = append(s.config.AdminHosts, o.AdminHosts...)
	server, err := lmstfy.New(s.config)
	if err != nil {
		return err
	}
	defer shutDown(server, s.config.Logger)
	api, err := net.Listen("tcp", cmp.Or(o.Listen, s.listen))
	if err != nil {
		return err
	}
	admin, err := net.Listen("tcp", cmp.Or(o.AdminListen, s.adminListen))
	if err != nil {
		_ = api.Close()
		return err
	}
	ended := make(chan error, 2)
	go func() { ended <- server.Serve(api) }()
	go func() { ended <- server.ServeAdmin(admin) }()
	remove, err := writePID(o.PIDFile)
	if err != nil {
		return err
	}
	defer remove()
	defer ignoreReopen()()
	fmt.Fprintf(stdout, "listening on %s, admin on %s\n", api.Addr(), admin.Addr())
	select {
	case <-ctx.Done():
		return nil
	case err := <-ended:
		if errors.Is(err, http.ErrServerClosed) {
			return nil
		}
		return err
	}
}

func shutDown(server *lmstfy.Server, logger *slog.Logger) {
	ctx, cancel := context.WithTimeout(context.Background(), shutdownTimeout)
	defer cancel()
	if err := server.Shutdown(ctx); err != nil {
		logger.Warn("some requests were cut off", "err", err)
	}
}

// setUp connects to Redis as the options or the file say.
func (o Options) setUp(ctx context.Context, stdout, stderr io.Writer) (*setup, error) {
	s := &setup{listen: "127.0.0.1:7777", adminListen: "127.0.0.1:7778", close: func() {}}
	logger := slog.New(slog.NewTextHandler(stderr, nil))
	if _, err := os.Stat(defaultFile); o.ConfigFile == "" && o.Redis == "" && err == nil {
		o.ConfigFile = defaultFile
	}
	if o.ConfigFile == "" {
		err := o.connect(ctx, s, stdout)
		s.config.Logger = logger
		return s, err
	}
	file, err := lmstfy.LoadFile(o.ConfigFile)
	if err != nil {
		return nil, err
	}
	logger = slog.New(logHandler(file, stderr))
	for _, key := range file.Unknown {
		logger.Warn("unknown key in the configuration file", "key", key)
	}
	if file.LogDir != "" {
		logger.Warn("LogDir has no effect: everything is logged to the standard error")
	}
	s.listen, s.adminListen = file.Addr(), file.AdminAddr()
	if o.Redis != "" {
		s.config = file.Config()
		err = o.connect(ctx, s, stdout)
	} else {
		s.config, s.close, err = file.Connect(ctx)
	}
	s.config.Logger = logger
	return s, err
}

func logHandler(file *lmstfy.File, stderr io.Writer) slog.Handler {
	options := &slog.HandlerOptions{Level: file.Level()}
	if file.LogFormat == "json" {
		return slog.NewJSONHandler(stderr, options)
	}
	return slog.NewTextHandler(stderr, options)
}

// connect connects to the Redis that the options name, or starts one in memory.
func (o Options) connect(ctx context.Context, s *setup, stdout io.Writer) error {
	config := &qless.ClientConfig{Namespace: o.Namespace}
	client, end, err := connect.OrStart(ctx, o.Redis, config, stdout)
	if err != nil {
		return err
	}
	s.close = end
	rdb := client.Redis()
	s.config.Admin = rdb
	s.config.AdminPrefix = ""
	if o.Namespace != "" {
		s.config.AdminPrefix = o.Namespace + "x:lmstfy:"
	}
	s.config.Pools = map[string]lmstfy.Pool{lmstfy.DefaultPool: {Client: client, Redis: rdb}}
	return nil
}

// writePID writes the process id to a file, if one is named. The caller must call remove later.
func writePID(path string) (remove func(), err error) {
	if path == "" {
		return func() {}, nil
	}
	if err := os.WriteFile(path, []byte(strconv.Itoa(os.Getpid())), 0o644); err != nil {
		return nil, err
	}
	return func() { _ = os.Remove(path) }, nil
}
