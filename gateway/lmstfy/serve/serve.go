// Package serve is the program of the lmstfy server: its flags, its signals, and where it logs.
package serve

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"runtime/debug"
	"strconv"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/gateway/lmstfy"
	"github.com/qless/qless-go/qlesstest"
)

// shutdownTimeout is how long requests may take that are being answered when the program is to end.
const shutdownTimeout = 30 * time.Second

// defaultFile is the configuration file that is read if there is one.
const defaultFile = "conf/config.toml"

// Options are the addresses of the server and of the Redis server of its jobs.
type Options struct {
	// AdminHosts are names by which the admin API may be asked, beside addresses, localhost and those
	// of the file.
	AdminHosts []string

	// AdminListen is the address of the admin API, instead of that of the file. Defaults to
	// 127.0.0.1:7778.
	AdminListen string

	// ConfigFile is a configuration file of lmstfy's own server.
	ConfigFile string

	// Listen is the address of the API, instead of that of the file. Defaults to 127.0.0.1:7777.
	Listen string

	// MaxConnections is how many connections each of the two may have, as in [lmstfy.Config].
	MaxConnections int

	// Namespace is the namespace of qless, with Redis. Defaults to "ql:".
	Namespace string

	// PIDFile is where the id of the process is written.
	PIDFile string

	// Redis is the URL of the Redis server, instead of that of the file. Without either, jobs are
	// kept in memory, and lost at the end.
	Redis string

	// SkipTokens has requests taken without looking at their tokens.
	SkipTokens bool
}

// parse reads the flags of lmstfy's own server, and the ones for the Redis server of the jobs.
func parse(args []string, stderr io.Writer) (o Options, version bool, err error) {
	set := flag.NewFlagSet("lmstfy", flag.ContinueOnError)
	set.SetOutput(stderr)
	set.StringVar(&o.Listen, "listen", "", "address of the API (default 127.0.0.1:7777, or the file's)")
	set.StringVar(&o.AdminListen, "admin-listen", "",
		"address of the admin API (default 127.0.0.1:7778, or the file's)")
	set.Func("admin-host", "name by which the admin API may be asked; may be given repeatedly",
		func(name string) error {
			o.AdminHosts = append(o.AdminHosts, name)
			return nil
		})
	set.IntVar(&o.MaxConnections, "max-connections", 0,
		"connections of each API; others wait (default 16384; -1 for any number)")
	set.StringVar(&o.Redis, "redis", os.Getenv("QLESS_REDIS_URL"),
		"URL of Redis, instead of that of the file (default $QLESS_REDIS_URL)")
	set.StringVar(&o.Namespace, "namespace", "", "namespace of qless, with --redis")
	set.StringVar(&o.ConfigFile, "c", "", "configuration file (default "+defaultFile+", if there is one)")
	set.StringVar(&o.PIDFile, "p", "", "file for the id of the process")
	set.String("bt", "warn", "has no effect")
	set.BoolVar(&version, "v", false, "show the version")
	set.BoolVar(&o.SkipTokens, "sv", false, "take requests without looking at their tokens")
	if err := set.Parse(args); err != nil {
		return Options{}, false, err
	}
	if set.NArg() > 0 {
		return Options{}, false, fmt.Errorf("unexpected argument %q", set.Arg(0))
	}
	if _, err := os.Stat(defaultFile); o.ConfigFile == "" && o.Redis == "" && err == nil {
		o.ConfigFile = defaultFile
	}
	return o, version, nil
}

// Main runs the program until the context ends, or a signal stops it, and returns its status.
func Main(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	options, version, err := parse(args, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		fmt.Fprintln(stderr, "lmstfy:", err)
		return 2
	case version:
		showVersion(stdout)
		return 0
	}
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := Run(ctx, options, stdout, stderr); err != nil {
		fmt.Fprintln(stderr, "lmstfy:", err)
		return 1
	}
	return 0
}

func showVersion(stdout io.Writer) {
	version := "unknown"
	if build, known := debug.ReadBuildInfo(); known {
		version = build.Main.Version
	}
	fmt.Fprintln(stdout, "version:", version)
}

// A setup is what the program serves, and where.
type setup struct {
	config              lmstfy.Config
	listen, adminListen string
	close               func()
}

// Run serves until the context ends. It prints its addresses when it listens.
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
	reopen := ignoreReopen()
	defer reopen()
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

// setUp connects to what the options, or the file, say.
func (o Options) setUp(ctx context.Context, stdout, stderr io.Writer) (*setup, error) {
	s := &setup{listen: "127.0.0.1:7777", adminListen: "127.0.0.1:7778", close: func() {}}
	logger := slog.New(slog.NewTextHandler(stderr, nil))
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
	url := o.Redis
	if url == "" {
		memory, err := qlesstest.Start()
		if err != nil {
			return err
		}
		fmt.Fprintln(stdout, "no Redis is named: jobs are kept in memory, and are gone when this ends")
		url = "redis://" + memory.Addr()
		s.close = memory.Close
	}
	client, err := qless.Dial(ctx, url, &qless.ClientConfig{Namespace: o.Namespace})
	if err != nil {
		s.close()
		return err
	}
	parsed, err := redis.ParseURL(url)
	if err != nil {
		return errors.New("the URL of Redis can't be read")
	}
	parsed.ContextTimeoutEnabled = true
	rdb := redis.NewClient(parsed)
	s.config.Admin = rdb
	s.config.AdminPrefix = ""
	if o.Namespace != "" {
		s.config.AdminPrefix = o.Namespace + "x:lmstfy:"
	}
	s.config.Pools = map[string]lmstfy.Pool{lmstfy.DefaultPool: {Client: client, Redis: rdb}}
	stop := s.close
	s.close = func() {
		_ = client.Close()
		_ = rdb.Close()
		stop()
	}
	return nil
}

// writePID writes the id of the process to a file, if one is named. The file is removed later.
func writePID(path string) (remove func(), err error) {
	if path == "" {
		return func() {}, nil
	}
	if err := os.WriteFile(path, []byte(strconv.Itoa(os.Getpid())), 0o644); err != nil {
		return nil, err
	}
	return func() { _ = os.Remove(path) }, nil
}

// ignoreReopen ignores the signal by which the other server reopens its logs: there are no files.
func ignoreReopen() (stop func()) {
	reopen := make(chan os.Signal, 1)
	signal.Notify(reopen, syscall.SIGUSR1)
	return func() { signal.Stop(reopen) }
}
