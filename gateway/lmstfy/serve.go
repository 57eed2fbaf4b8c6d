package lmstfy

import (
	"context"
	"net"
	"net/http"

	"github.com/qless/qless-go/internal/listeners"
)

// New returns a server for a configuration.
func New(config Config) (*Server, error) {
	if err := config.check(); err != nil {
		return nil, err
	}
	s := &Server{
		config: config, defaults: config.defaults(), metrics: newMetrics(), stop: listeners.NewStop(),
	}
	s.accessLog.Store(config.AccessLog)
	s.tokens = newTokens(config.Admin, config.AdminPrefix)
	s.limiters = newLimiters(config.Admin, config.AdminPrefix)
	ctx, cancel := context.WithCancel(context.Background())
	s.close = cancel
	pools, stores := config.pools()
	s.pools = pools
	s.sizes = newSizes(&s.config)
	for _, p := range s.config.Pools {
		if p.Redis != nil {
			p.Redis.AddHook(newRedisHook(s.metrics, p.Redis))
		}
	}
	for _, store := range stores {
		s.metrics.begin(store.name)
		store.swept = func(n int) { s.metrics.swept(store.name, n) }
		s.running.Go(func() { store.runSweeps(ctx) })
	}
	s.running.Go(func() { s.limiters.run(ctx) })
	return s, nil
}

// Serve serves the API on a listener until Shutdown is called, and closes the listener. The error
// is never nil; after Shutdown, it is [http.ErrServerClosed].
func (s *Server) Serve(listener net.Listener) error {
	return s.serve(listener, s.Handler())
}

// ServeAdmin serves the admin API, like Serve.
func (s *Server) ServeAdmin(listener net.Listener) error {
	return s.serve(listener, s.AdminHandler())
}

func (s *Server) serve(listener net.Listener, handler http.Handler) error {
	server := &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: s.config.ReadTimeout,
		IdleTimeout:       s.config.IdleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ConnContext: func(ctx context.Context, conn net.Conn) context.Context {
			return context.WithValue(ctx, connKey{}, conn)
		},
	}
	if !s.register(server) {
		_ = listener.Close()
		return http.ErrServerClosed
	}
	listener = listeners.KeepAlive(listener, s.config.PeerTimeout, s.config.WriteTimeout)
	return server.Serve(clientListener{listeners.AtMost(listener, s.config.MaxConnections)})
}

// maxHeaderBytes is the maximum size of a request's headers, including its path.
const maxHeaderBytes = 64 << 10

// register notes a server for Shutdown to stop. It reports false if Shutdown was called before.
func (s *Server) register(server *http.Server) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stop.Stopped() {
		return false
	}
	s.servers = append(s.servers, server)
	return true
}

// Shutdown stops the server: it accepts no more connections, answers waiting consumers without a
// job, and returns when all requests are answered. If the context ends first, it closes the
// remaining connections, and returns the context's error. It does not wait for requests passed to
// Handler by another http.Server.
func (s *Server) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	s.stop.Now()
	servers := s.servers
	s.mu.Unlock()
	var failed error
	for _, server := range servers {
		if err := server.Shutdown(ctx); err != nil {
			failed = err
			_ = server.Close()
		}
	}
	s.close()
	s.running.Wait()
	return failed
}

// AdminHandler returns the admin API, which needs protection: see [Config].Accounts. The handler
// refuses browser requests made on behalf of other sites' pages: see [Config].AdminHosts.
func (s *Server) AdminHandler() http.Handler {
	return s.wrap(s.guard(http.HandlerFunc(s.serveAdmin)))
}

// Handler returns the API. Set ReadHeaderTimeout in the http.Server, not ReadTimeout, which makes
// waiting consumers seem to have gone. Only Serve detects that a consumer has gone after sending a
// body, or more than the request.
func (s *Server) Handler() http.Handler {
	return s.wrap(http.HandlerFunc(s.serveAPI))
}
