package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/gateway/lmstfy"
	"github.com/qless/qless-go/gateway/workq"
	"github.com/qless/qless-go/internal/connect"
	"github.com/qless/qless-go/qlessprom"
)

// servers are the servers of this process, with their shared clients.
type servers struct {
	*app
	options *serveOptions
	log     *slog.Logger

	qless  *qless.Client
	spaces []*qless.Client // in place of client, if --namespace is a pattern
	redis  redis.UniversalClient
	calls  *qlessprom.ClientMetrics
	closes []func()

	listening []*listening
	ready     atomic.Bool
}

// A listening server has a listener but is not serving yet.
type listening struct {
	name     string
	listener net.Listener
	serve    func(net.Listener) error
	shutdown func(context.Context) error
	isLast   bool // shut down after the others
}

func (s *servers) close() {
	for _, l := range s.listening {
		_ = l.listener.Close()
	}
	for i := len(s.closes) - 1; i >= 0; i-- {
		s.closes[i]()
	}
}

// connect connects to the named Redis server, or starts one in memory.
func (s *servers) connect(ctx context.Context) error {
	where, err := s.Where()
	if err != nil {
		return err
	}
	if s.options.hasGateway() {
		if err := s.RefusePattern(); err != nil {
			return err
		}
	}
	s.calls = qlessprom.NewClientMetrics(qlessprom.ProcessOptions{})
	config := s.config()
	url := s.RedisURL()
	if where.Redis == "" && s.options.hasGateway() {
		url = ""
	}
	ctx, cancel := context.WithTimeout(ctx, s.Timeout)
	defer cancel()
	client, end, err := connect.OrStart(ctx, url, config, s.Out)
	if err != nil {
		return err
	}
	s.closes = append(s.closes, end)
	s.qless, s.redis = client, client.Redis()
	if s.ManySpaces() && s.options.web.listen != "" {
		s.spaces, err = s.SpacesOf(ctx, s.qless, config)
	}
	return err
}

// config returns the config of the clients.
func (s *servers) config() *qless.ClientConfig {
	config := s.ClientConfig()
	config.Logger, config.Observer = s.log, s.calls.Observe
	return config
}

// listen makes the servers and opens all listeners before any server serves.
func (s *servers) listen(ctx context.Context) error {
	return errors.Join(
		s.listenLmstfy(ctx), s.listenWorkq(ctx), s.listenWeb(ctx), s.listenMetrics(ctx))
}

func (s *servers) add(ctx context.Context, address string, l *listening) error {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("%s: %w", l.name, err)
	}
	l.listener = listener
	s.listening = append(s.listening, l)
	return nil
}

func (s *servers) listenLmstfy(ctx context.Context) error {
	o := s.options
	if o.lmstfy == "" && o.lmstfyAdmin == "" {
		return nil
	}
	prefix := "" // the default
	if namespace := s.NamespaceName(); namespace != "" {
		prefix = namespace + "x:lmstfy:"
	}
	server, err := lmstfy.New(lmstfy.Config{
		Pools: map[string]lmstfy.Pool{lmstfy.DefaultPool: {Client: s.qless, Redis: s.redis}},
		Admin: s.redis, AdminPrefix: prefix, AdminHosts: o.lmstfyAdminHosts,
		SkipTokens: o.skipTokens, MaxConnections: o.maxConnections, Logger: s.log,
	})
	if err != nil {
		return err
	}
	if o.lmstfyAdmin != "" {
		err = s.add(ctx, o.lmstfyAdmin, &listening{
			name: "lmstfy admin", serve: server.ServeAdmin, shutdown: server.Shutdown})
	}
	if o.lmstfy != "" {
		err = errors.Join(err, s.add(ctx, o.lmstfy, &listening{
			name: "lmstfy", serve: server.Serve, shutdown: server.Shutdown}))
	}
	return err
}

func (s *servers) listenWorkq(ctx context.Context) error {
	if s.options.workq == "" {
		return nil
	}
	server, err := workq.New(workq.Config{
		Client: s.qless, MaxConnections: s.options.maxConnections, Logger: s.log,
	})
	if err != nil {
		return err
	}
	return s.add(ctx, s.options.workq, &listening{
		name: "workq", serve: server.Serve, shutdown: server.Shutdown})
}

func (s *servers) listenMetrics(ctx context.Context) error {
	if s.options.metrics == "" {
		return nil
	}
	const patience = 30 * time.Second // with slow clients
	server := &http.Server{
		Handler: s.metricsHandler(), ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelWarn),
		ReadTimeout: patience, WriteTimeout: 2 * patience, IdleTimeout: 4 * patience,
		MaxHeaderBytes: 64 << 10,
	}
	return s.add(ctx, s.options.metrics, &listening{
		name: "metrics", serve: server.Serve, shutdown: server.Shutdown, isLast: true})
}

// run serves until the context ends, or a server does.
func (s *servers) run(ctx context.Context) error {
	ended := make(chan error, len(s.listening))
	s.ready.Store(true) // connections are already accepted
	for _, l := range s.listening {
		go func() { ended <- l.run() }()
		fmt.Fprintf(s.Out, "%s listening on %s\n", l.name, l.listener.Addr())
	}
	var failed error
	left := len(s.listening)
	select {
	case <-ctx.Done():
		s.log.Info("stopping", "delay", s.options.delay, "timeout", s.options.shutdownTimeout)
	case failed = <-ended:
		left--
	}
	s.ready.Store(false)
	if failed == nil && s.options.delay > 0 {
		select {
		case failed = <-ended:
			left--
		case <-time.After(s.options.delay):
		}
	}
	failed = errors.Join(failed, s.shutDown())
	for range left {
		failed = errors.Join(failed, <-ended)
	}
	return failed
}

// run serves, and returns the error that ended it, or nil after a shutdown.
func (l *listening) run() error {
	err := l.serve(l.listener)
	if err == nil || errors.Is(err, http.ErrServerClosed) || errors.Is(err, workq.ErrServerClosed) {
		return nil
	}
	return fmt.Errorf("%s: %w", l.name, err)
}

// shutDown shuts all servers down at once, and logs the end.
func (s *servers) shutDown() error {
	ctx, cancel := context.WithTimeout(context.Background(), s.options.shutdownTimeout)
	defer cancel()
	var failed error
	for _, last := range []bool{false, true} {
		results := make(chan error)
		started := 0
		for _, l := range s.listening {
			if l.isLast == last {
				started++
				go func() { results <- l.end(ctx) }()
			}
		}
		for range started {
			failed = errors.Join(failed, <-results)
		}
	}
	return failed
}

func (l *listening) end(ctx context.Context) error {
	if err := l.shutdown(ctx); err != nil {
		return fmt.Errorf("%s: requests were cut off: %v", l.name, err) // Redis is not to blame
	}
	return nil
}
