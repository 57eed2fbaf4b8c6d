// Package testkit gives tests Redis servers of their own, and ways to disturb them.
//
// The server program is redis-server from PATH, or the one that the environment variable
// QLESS_REDIS_SERVER names, so that one run of the tests can be against another version.
// QLESS_RESP=2 makes clients speak the older protocol, RESP2, instead of RESP3.
package testkit

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// Server is a Redis server on a loopback port, with a folder of its own.
//
// Its methods may be used from any goroutine, except that the server is started, ended and
// suspended from one at a time.
type Server struct {
	command []string
	args    []string
	dir     string
	addr    string
	log     *serverLog
	process *process
	fatal   func(args ...any)
}

// Start starts a server for a test and stops it when the test ends. It keeps nothing on disk unless
// the arguments, which are redis-server's own, request it. When the test has failed, the server's
// log is in the test's.
//
// In a package whose TestMain calls [Main], a server without arguments may be one that an
// earlier test has left as it was: it is empty, and knows no scripts.
func Start(t testing.TB, args ...string) *Server {
	t.Helper()
	if len(args) == 0 && idle.isOpen() {
		return idle.start(t)
	}
	s, err := Launch(args...)
	if err != nil {
		t.Fatal(err)
	}
	s.fatal = t.Fatal
	t.Cleanup(func() {
		s.Stop()
		if t.Failed() {
			t.Logf("log of the Redis server at %s:\n%s", s.addr, s.log)
		}
	})
	return s
}

// patience is how long a server may take to start or to end. It is far more than a
// healthy one needs: it turns a hang into a failure.
const patience = 30 * time.Second

// Launch is Start for code that has no test at hand, such as TestMain: the caller has to
// call Stop.
func Launch(args ...string) (*Server, error) {
	return LaunchUnder(nil, args...)
}

// LaunchUnder is Launch with a program that runs the server, such as a profiler: the words that
// come before the server's path.
func LaunchUnder(program []string, args ...string) (*Server, error) {
	binary, err := findBinary()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "qless-test-")
	if err != nil {
		return nil, err
	}
	s := &Server{
		command: append(program[:len(program):len(program)], binary),
		args:    args,
		dir:     dir,
		log:     new(serverLog),
		fatal:   func(args ...any) { panic(fmt.Sprint(args...)) },
	}
	if err := s.launch(); err != nil {
		s.Stop()
		return nil, err
	}
	return s, nil
}

// findBinary returns the path of the server program.
func findBinary() (string, error) {
	name := os.Getenv("QLESS_REDIS_SERVER")
	if name == "" {
		name = "redis-server"
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("%w: these tests need a Redis server program: install one "+
			"(apt-get install redis-server, brew install redis), or set QLESS_REDIS_SERVER to its path", err)
	}
	return path, nil
}

// launch starts the server on a free port, and on another one if another process takes that first.
func (s *Server) launch() error {
	var err error
	for range 10 {
		if s.addr, err = freeAddr(); err != nil {
			return err
		}
		if err = s.run(); !errors.Is(err, errPortTaken) {
			return err
		}
	}
	return err
}

// freeAddr returns a loopback address without a listener.
func freeAddr() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return listener.Addr().String(), listener.Close()
}

// run starts the server at its address and waits until it accepts connections.
func (s *Server) run() error {
	host, port, err := net.SplitHostPort(s.addr)
	if err != nil {
		return err
	}
	args := append(s.command[1:len(s.command):len(s.command)],
		"--bind", host, "--port", port, "--dir", s.dir, "--save", "", "--appendonly", "no")
	s.process, err = startProcess(s.log, s.command[0], append(args, s.args...)...)
	return err
}

// Addr returns the server's host:port. It stays the same over a Restart.
func (s *Server) Addr() string {
	return s.addr
}

// Client returns a client of the server, which is closed when the test ends.
func (s *Server) Client(t testing.TB) *redis.Client {
	t.Helper()
	client := redis.NewClient(Options(s.addr))
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// Options returns what connects to an address, in the protocol that the tests are run with.
func Options(addr string) *redis.Options {
	options := &redis.Options{Addr: addr}
	if os.Getenv("QLESS_RESP") == "2" {
		options.Protocol = 2
	}
	return options
}

// Kill ends the server at once, as a crash does, and returns when it has ended.
func (s *Server) Kill() {
	s.process.kill()
}

// Restart ends the server in an orderly way, unless it has ended already, and starts it
// again with the same address, arguments and folder. When that does not work, the test
// of Start fails; without one, Restart panics.
func (s *Server) Restart() {
	if !s.process.terminate() {
		s.fatal("the Redis server did not end within ", patience)
	}
	if err := s.run(); err != nil {
		s.fatal(err)
	}
}

// Suspend makes the server hang: connections stay open and nothing answers. It returns
// when the server has come to a halt.
func (s *Server) Suspend() {
	s.process.suspend()
}

// Resume resumes a suspended server.
func (s *Server) Resume() {
	s.process.resume()
}

// Stop ends the server and removes its folder. A server from Start is stopped with its test.
func (s *Server) Stop() {
	if s.process != nil {
		s.Kill()
	}
	_ = os.RemoveAll(s.dir)
}
