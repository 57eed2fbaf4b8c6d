// Package qlesstest runs qless in memory, without a Redis server, for tests and examples.
//
// To test a handler, use [JobOf], which returns a running job, and [Work], which calls the worker's
// handler for the job and returns the outcome:
//
//	func TestABadAddressIsNotRetried(t *testing.T) {
//		worker := newWorker(qlesstest.New(t).Client())
//		job := qlesstest.JobOf(t, Welcome, Mail{To: "nobody"})
//		outcome := qlesstest.Work(t, worker, job)
//		if outcome.Action != qless.ActionFail {
//			t.Errorf("got %+v", outcome)
//		}
//	}
//
// To test a whole program, use a [Server] from [New], with a clock moved only by the test.
// [RequirePutOf] finds a job, and [Drain] lets a worker run jobs until none is ready:
//
//	func TestAReminderIsSentAfterADay(t *testing.T) {
//		server := qlesstest.New(t)
//		client := server.Client()
//		if err := signUp(t.Context(), client, "ann@example.com"); err != nil {
//			t.Fatal(err)
//		}
//		qlesstest.RequirePutOf(t, client, "mail", Reminder)
//
//		server.Clock().Advance(24 * time.Hour)
//		qlesstest.Drain(t, newWorker(client))
//		if !wasSent("ann@example.com") {
//			t.Error("no reminder was sent")
//		}
//	}
//
// [Start] returns a server for programs, which uses the real time.
//
// The server is miniredis, with the same Lua scripts as on a real one. It is meant for small
// workloads: hundreds of jobs a second. Where Lua differs from a real server's, such as in the
// digits of a printed number, the real server is right.
package qlesstest

import (
	"cmp"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/qless/qless-go"
)

// A Server is an in-memory Redis with a qless client.
type Server struct {
	mini    *miniredis.Miniredis
	rdb     *redis.Client
	client  *qless.Client
	clients []*qless.Client // all clients
	clock   *Clock

	stop    chan struct{} // stops expiry by the real time
	stopped sync.WaitGroup
}

// New returns a server for one test, with a clock moved only by the test. The server is closed when
// the test ends.
func New(t testing.TB) *Server {
	t.Helper()
	s := &Server{clock: newClock()}
	if err := s.start(); err != nil {
		t.Fatal(err)
	}
	s.clock.server = s.mini
	t.Cleanup(s.Close)
	return s
}

// Start returns a server for a program. It uses the real time, also for the expiry of keys. Call
// Close to stop the server.
func Start() (*Server, error) {
	s := &Server{}
	if err := s.start(); err != nil {
		return nil, err
	}
	s.stop = make(chan struct{})
	s.stopped.Go(s.expire)
	return s, nil
}

// expiryInterval is how often keys expire on a server with the real time.
const expiryInterval = 50 * time.Millisecond

// expire lets keys expire by the real time, because miniredis does not.
func (s *Server) expire() {
	ticker := time.NewTicker(expiryInterval)
	defer ticker.Stop()
	last := time.Now()
	for {
		select {
		case <-s.stop:
			return
		case <-ticker.C:
			now := time.Now()
			s.mini.FastForward(now.Sub(last))
			last = now
		}
	}
}

func (s *Server) start() error {
	mini, err := miniredis.Run()
	if err != nil {
		return fmt.Errorf("qlesstest: %w", err)
	}
	s.mini = mini
	s.rdb = redis.NewClient(&redis.Options{
		Addr: mini.Addr(), ReadTimeout: time.Minute, // a long script takes seconds on a busy machine
	})
	if s.client, err = s.NewClient(nil); err != nil {
		s.Close()
		return err
	}
	return nil
}

// Client returns a client of the server.
func (s *Server) Client() *qless.Client { return s.client }

// NewClient returns another client of the server, with a config, which may be nil. The client has
// the clock of the server, as do its workers and the relays of package outbox. In a test, the
// client logs nothing unless the config has a Logger. Close closes the client, too.
func (s *Server) NewClient(config *qless.ClientConfig) (*qless.Client, error) {
	var own qless.ClientConfig
	if config != nil {
		own = *config
	}
	if s.clock != nil {
		own.Clock = s.clock.Now
		own.Logger = cmp.Or(own.Logger, slog.New(slog.DiscardHandler))
	}
	client, err := qless.New(s.rdb, &own)
	if err == nil {
		s.clients = append(s.clients, client)
	}
	return client, err
}

// Clock returns the clock of a server made by New, or nil if the server uses the real time.
func (s *Server) Clock() *Clock { return s.clock }

// Redis returns the go-redis client of the server.
func (s *Server) Redis() *redis.Client { return s.rdb }

// Addr returns the server's listen address, for other programs.
func (s *Server) Addr() string { return s.mini.Addr() }

// Close stops the server and closes its clients.
func (s *Server) Close() {
	if s.stop != nil {
		close(s.stop)
		s.stopped.Wait()
		s.stop = nil
	}
	for _, client := range s.clients {
		_ = client.Close() // ends waits, too
	}
	_ = s.rdb.Close() // the state is gone with the server
	s.mini.Close()
}
