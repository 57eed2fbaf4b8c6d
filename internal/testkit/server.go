// Package testkit provides tests with their own Redis servers, and with ways to disturb them.
//
// The server program is redis-server from PATH, or the program named by the environment variable
// QLESS_REDIS_SERVER, for tests against another version. QLESS_RESP=2 makes clients speak the older
// protocol, RESP2, instead of RESP3.
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

// Server is a Redis server on a loopback port, with its own folder.
//
// Its methods may be called from any goroutine, but only one goroutine at a time may start, end or
// suspend the server.
type Server struct {
	command []string
	args    []string
	dir     string
	addr    string
	log     *serverLog
	process *process
	fatal   func(args ...any)
}

// Start starts a server for a test, and stops it when the test ends. The server keeps nothing on
// disk unless requested by the arguments, which are redis-server's own. If the test fails, the
// server's log is added to the test's.
//
// In a package with a TestMain that calls [Main], a server without arguments may be reused from an
// earlier test. It is then empty, may have scripts, and is unchanged otherwise.
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

// patience limits how long a server may take to start or end. A healthy server needs far less: the
// limit turns a hang into a failure.
const patience = 30 * time.Second

// Launch is Start for code without a test, such as TestMain: the caller must call Stop.
func Launch(args ...string) (*Server, error) {
	return LaunchUnder(nil, args...)
}

// LaunchUnder is Launch with a program that runs the server, such as a profiler: the words precede
// the server's path.
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

// launch starts the server on a free port, or on another port if a process takes that one first.
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

// Addr returns the server's host:port, which survives a Restart.
func (s *Server) Addr() string {
	return s.addr
}

// Client returns a client for the server, closed when the test ends.
func (s *Server) Client(t testing.TB) *redis.Client {
	t.Helper()
	client := redis.NewClient(Options(s.addr))
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// Options returns the options for connecting to an address, with the tests' protocol.
func Options(addr string) *redis.Options {
	options := &redis.Options{Addr: addr}
	if os.Getenv("QLESS_RESP") == "2" {
		options.Protocol = 2
	}
	return options
}

// Kill ends the server at once, like a crash, and waits until it has ended.
func (s *Server) Kill() {
	s.process.kill()
}

// Restart stops the server gracefully, unless it has ended already, and starts it again with the
// same address, arguments and folder. If that fails, the test of Start fails; without a test,
// Restart panics.
func (s *Server) Restart() {
	if !s.process.terminate() {
		s.fatal("the Redis server did not end within ", patience)
	}
	if err := s.run(); err != nil {
		s.fatal(err)
	}
}

// Suspend makes the server hang: connections stay open and nothing answers. It waits until the
// server has stopped.
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
