package testkit

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"
)

// Main implements TestMain for the packages of this module. It silences go-redis, lets successive
// tests reuse an emptied server, and fails on leftover goroutines.
func Main(m *testing.M) {
	Silence()
	goleak.VerifyTestMain(pooled{m})
}

type pooled struct{ m *testing.M }

func (p pooled) Run() int {
	idle.open()
	defer idle.close()
	return p.m.Run()
}

// idle holds the servers of ended tests.
var idle pool

// A pool keeps servers started without extra arguments for later tests, as good as new except for
// the scripts of earlier tests: compiling the queue's script takes longer than most tests.
type pool struct {
	mu      sync.Mutex
	on      bool
	servers []*pooledServer
}

// A pooledServer is a server with the state required for reuse by another test.
type pooledServer struct {
	server   Server
	settings map[string]string
	users    []string
}

func (p *pool) open() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.on = true
}

// close stops all servers.
func (p *pool) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.servers {
		s.server.Stop()
	}
	p.on, p.servers = false, nil
}

// start starts a server for a test, or reuses the server of an earlier test.
func (p *pool) start(t testing.TB) *Server {
	t.Helper()
	s := p.take()
	if s == nil {
		server, err := Launch()
		if err != nil {
			t.Fatal(err)
		}
		s = &pooledServer{server: *server}
		if s.settings, s.users, err = s.state(t.Context()); err != nil {
			server.Stop()
			t.Fatal(err)
		}
	}
	leased := s.server
	leased.fatal = t.Fatal
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("log of the Redis server at %s:\n%s", leased.addr, leased.log)
		}
		if leased.process != s.server.process || t.Failed() || !s.reset() {
			leased.Stop()
			return
		}
		p.give(s)
	})
	return &leased
}

func (p *pool) take() *pooledServer {
	p.mu.Lock()
	defer p.mu.Unlock()
	last := len(p.servers) - 1
	if last < 0 {
		return nil
	}
	s := p.servers[last]
	p.servers = p.servers[:last]
	return s
}

func (p *pool) give(s *pooledServer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.servers = append(p.servers, s)
}

// reset empties a server. It reports whether this succeeded, and the test has left the settings and
// the users unchanged.
func (s *pooledServer) reset() bool {
	if s.server.process.ended() || s.server.process.suspended {
		return false
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	rdb := redis.NewClient(Options(s.server.addr))
	defer rdb.Close()
	pipe := rdb.Pipeline()
	pipe.ClientKillByFilter(ctx, "type", "pubsub")
	pipe.ClientKillByFilter(ctx, "type", "normal", "skipme", "yes")
	pipe.FlushAll(ctx)
	if _, err := pipe.Exec(ctx); err != nil {
		return false
	}
	_ = os.Remove(filepath.Join(s.server.dir, "dump.rdb")) // of a replica: its data would come back
	settings, users, err := s.state(ctx)
	return err == nil && maps.Equal(settings, s.settings) && slices.Equal(users, s.users)
}

// state returns a server's settings and users.
func (s *pooledServer) state(ctx context.Context) (map[string]string, []string, error) {
	rdb := redis.NewClient(Options(s.server.addr))
	defer rdb.Close()
	settings, err := rdb.ConfigGet(ctx, "*").Result()
	if err != nil {
		return nil, nil, err
	}
	users, err := rdb.ACLList(ctx).Result()
	return settings, users, err
}

// isOpen reports whether the package's TestMain calls Main.
func (p *pool) isOpen() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.on
}
