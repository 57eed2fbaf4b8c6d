package workq

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/guard"
	"github.com/qless/qless-go/internal/listeners"
	"github.com/qless/qless-go/lease"
)

// A Config configures a [Server]. Client is required. In every other field, 0 means the default.
type Config struct {
	// Client is the client of qless. Jobs are leased under its worker's name.
	Client *qless.Client

	// CommandTimeout limits how long a client may take to send a command, from the first byte. After
	// that, the connection is closed. Defaults to 1 min. The special value -1 means no limit.
	CommandTimeout time.Duration

	// IdleTimeout limits how long a connection may stay open without a command. Defaults to -1, which
	// means no limit, as in Workq.
	IdleTimeout time.Duration

	// Logger logs failures. Defaults to slog.Default().
	Logger *slog.Logger

	// MaxConnections is the maximum number of connections. A further connection takes the place of a
	// waiting client that has ended its side of the connection, and may have gone. Without such a
	// client, the further connection is closed at once. Defaults to 10,000. The special value -1 means
	// no limit.
	MaxConnections int

	// PeerTimeout limits how long a client's host may leave TCP probes unanswered before the
	// connection is considered broken. Written data may stay unacknowledged for the longer of
	// PeerTimeout and WriteTimeout. A client that has ended its side of the connection may have gone,
	// and may wait no longer than PeerTimeout either. Defaults to 30 s. The special value -1 leaves
	// the limit to the system.
	PeerTimeout time.Duration

	// RefreshInterval is the shortest interval between reads of the list of queues, because other
	// processes may use further queues. A refresh costs the server 9 commands for each queue; slow
	// refreshes lengthen the interval. Defaults to 5 s.
	RefreshInterval time.Duration

	// ServerTimeout limits how long Redis may take for a command, apart from a wait requested by the
	// client. Defaults to 5 s.
	ServerTimeout time.Duration

	// WriteTimeout limits how long a client may take to receive a reply. After that, the connection is
	// closed. Defaults to 1 min. The special value -1 means no limit.
	WriteTimeout time.Duration
}

// A Server speaks the protocol of Workq.
type Server struct {
	config  Config
	client  *qless.Client
	taker   *lease.Taker
	log     *slog.Logger
	names   *names
	sweeper *sweeper
	order   *orderKeeper
	evicted *evictions
	started time.Time
	clients atomic.Int64

	drain  *listeners.Stop // the server shuts down
	end    *listeners.Stop // all connections must be closed
	work   sync.WaitGroup  // background goroutines
	served sync.WaitGroup  // goroutines of connections

	mu        sync.Mutex
	running   bool // the background goroutines were started
	listeners map[net.Listener]bool
	conns     map[*conn]bool
	lingering []*lingerer // the oldest first
}

// ErrServerClosed is returned by [Server.Serve] after [Server.Shutdown].
var ErrServerClosed = errors.New("workq: the server is closed")

// New returns a server. It panics if the configuration has no client; other invalid values return
// [qless.ErrInvalid].
func New(config Config) (*Server, error) {
	if config.Client == nil {
		panic("workq: Config.Client is nil")
	}
	if err := config.check(); err != nil {
		return nil, err
	}
	config.setDefaults()
	s := &Server{
		config: config, client: config.Client, taker: lease.New(config.Client), log: config.Logger,
		names: newNames(), order: newOrderKeeper(), started: time.Now(),
		drain: listeners.NewStop(), end: listeners.NewStop(),
		listeners: map[net.Listener]bool{}, conns: map[*conn]bool{},
	}
	s.sweeper = newSweeper(s.client, s.names, config.ServerTimeout)
	s.evicted = newEvictions(s.client, s.names, s.started)
	return s, nil
}

func (c *Config) check() error {
	for _, field := range []struct {
		name    string
		value   time.Duration
		orNever bool
	}{
		{"CommandTimeout", c.CommandTimeout, true},
		{"IdleTimeout", c.IdleTimeout, true},
		{"PeerTimeout", c.PeerTimeout, true},
		{"RefreshInterval", c.RefreshInterval, false},
		{"ServerTimeout", c.ServerTimeout, false},
		{"WriteTimeout", c.WriteTimeout, true},
	} {
		if field.value < 0 && !(field.orNever && field.value == -1) {
			return invalid("Config." + field.name + " is negative")
		}
	}
	if c.MaxConnections < -1 {
		return invalid("Config.MaxConnections is negative")
	}
	return nil
}

func invalid(message string) error {
	return &qless.Error{Op: "workq", Code: qless.ErrInvalid, Message: message}
}

func (c *Config) setDefaults() {
	set := func(field *time.Duration, value time.Duration) {
		switch *field {
		case 0:
			*field = value
		case -1:
			*field = 0
		}
	}
	set(&c.CommandTimeout, time.Minute)
	set(&c.IdleTimeout, 0)
	set(&c.PeerTimeout, 30*time.Second)
	set(&c.RefreshInterval, 5*time.Second)
	set(&c.ServerTimeout, 5*time.Second)
	set(&c.WriteTimeout, time.Minute)
	if c.MaxConnections == 0 {
		c.MaxConnections = 10_000
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	c.Logger = guard.Logger(c.Logger)
}

// Serve accepts and serves connections until [Server.Shutdown] is called or the listener fails. It
// closes the listener. Serve first reads the list of queues, and fails if that fails.
func (s *Server) Serve(listener net.Listener) error {
	defer func() { _ = listener.Close() }()
	if err := s.start(listener); err != nil {
		return err
	}
	connections := listeners.KeepAlive(listener, s.config.PeerTimeout, s.config.WriteTimeout)
	wait := time.Duration(0)
	for {
		connection, err := connections.Accept()
		if err == nil {
			wait = 0
			s.accept(connection)
			continue
		}
		if s.drain.Stopped() {
			return ErrServerClosed
		}
		if temporary, ok := err.(interface{ Temporary() bool }); !ok || !temporary.Temporary() {
			return err
		}
		wait = min(max(2*wait, 5*time.Millisecond), time.Second) // perhaps out of file descriptors
		s.log.Warn("workq: can't accept a connection", "error", err)
		time.Sleep(wait)
	}
}

// start starts the background goroutines, unless they run.
func (s *Server) start(listener net.Listener) error {
	s.mu.Lock()
	if s.drain.Stopped() {
		s.mu.Unlock()
		return ErrServerClosed
	}
	s.listeners[listener] = true
	first := !s.running
	s.running = true
	if first {
		s.work.Add(2)
	}
	s.mu.Unlock()
	if !first {
		return nil
	}
	ctx, cancel := s.drain.Context(context.Background())
	err := s.refresh(ctx)
	go func() { defer s.work.Done(); defer cancel(); s.keepRefreshing(ctx) }()
	go func() { defer s.work.Done(); s.sweep() }()
	if s.drain.Stopped() {
		return ErrServerClosed
	}
	return err
}

// refresh reads the list of queues.
func (s *Server) refresh(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.config.ServerTimeout)
	defer cancel()
	asked := time.Now()
	counts, err := s.client.Queues(ctx)
	if err == nil {
		s.names.update(counts, asked)
	}
	return err
}

// refreshShare is the minimum ratio of the time between refreshes to the duration of a refresh.
const refreshShare = 500

func (s *Server) keepRefreshing(ctx context.Context) {
	wait := s.config.RefreshInterval
	for {
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
		begun := time.Now()
		if err := s.refresh(ctx); err != nil && ctx.Err() == nil {
			s.log.Warn("workq: can't read which queues there are", "error", err)
		}
		wait = max(s.config.RefreshInterval, refreshShare*time.Since(begun))
	}
}

func (s *Server) sweep() {
	ctx, cancel := s.end.Context(context.Background())
	defer cancel()
	s.sweeper.run(ctx)
}

// accept serves a connection, unless there are too many.
func (s *Server) accept(connection net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	most := s.config.MaxConnections
	if s.drain.Stopped() || most > 0 && len(s.conns) >= most && !s.makeRoom() {
		_ = connection.Close()
		return
	}
	c := newConn(s, connection)
	s.conns[c] = true
	s.clients.Add(1)
	s.served.Go(func() {
		c.serve()
		s.mu.Lock()
		delete(s.conns, c)
		s.mu.Unlock()
	})
}

// Shutdown stops the server: it closes the listeners and the connections without a command under
// way. Other connections receive the answer to the command first; waiting leases and results time
// out. If the context ends first, Shutdown closes the remaining connections, and returns the
// context's error.
func (s *Server) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	s.drain.Now()
	for listener := range s.listeners {
		_ = listener.Close()
	}
	for c := range s.conns {
		c.interrupt()
	}
	s.mu.Unlock()
	served := make(chan struct{})
	go func() { s.served.Wait(); close(served) }()
	var err error
	select {
	case <-served:
	case <-ctx.Done():
		err = ctx.Err()
		s.closeAll()
	}
	s.end.Now()
	<-served
	s.work.Wait()
	return err
}

func (s *Server) closeAll() {
	s.end.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		_ = c.net.Close()
	}
}
