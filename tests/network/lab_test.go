//go:build linux

package network

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// A lab has a server and a place for workers, each in a network namespace, with a cable between
// them.
type lab struct {
	t            testing.TB
	server       *testkit.Server
	here, beyond end // the server's end of the cable, and the other one
}

// An end of a cable.
type end struct{ namespace, device, addr, mac string }

// program returns the words that run a program in the namespace.
func (e end) program() []string { return []string{"ip", "netns", "exec", e.namespace} }

// nowhere is an unused hardware address: packets to it are lost silently.
const nowhere = "02:71:00:00:00:ff"

var labs atomic.Int32

// newLab creates the namespaces, and starts a server in one. They end with the test.
func newLab(t testing.TB) *lab {
	t.Helper()
	l := newNamespaces(t)
	l.ip("link add cable netns " + l.here.namespace + " type veth peer name cable netns " + l.beyond.namespace)
	for _, e := range []end{l.here, l.beyond} {
		in := "-n " + e.namespace + " "
		l.ip(in + "link set dev cable address " + e.mac)
		l.ip(in + "addr add " + e.addr + "/24 dev cable")
		l.ip(in + "link set dev cable up")
	}
	l.mend()
	l.startServer()
	return l
}

// newNamespaces creates the two ends, with nothing between them.
func newNamespaces(t testing.TB) *lab {
	t.Helper()
	name := fmt.Sprintf("qless-%d-%d", os.Getpid(), labs.Add(1))
	l := &lab{
		t:      t,
		here:   end{name + "-a", "cable", "10.77.0.1", "02:71:00:00:00:01"},
		beyond: end{name + "-b", "cable", "10.77.0.2", "02:71:00:00:00:02"},
	}
	for _, e := range []end{l.here, l.beyond} {
		if out, err := exec.Command("ip", "netns", "add", e.namespace).CombinedOutput(); err != nil {
			t.Skipf("left out: it needs network namespaces, as root and with iproute2: %v: %s", err, out)
		}
		t.Cleanup(func() { _ = exec.Command("ip", "netns", "del", e.namespace).Run() })
		l.ip("-n " + e.namespace + " link set dev lo up")
	}
	return l
}

// startServer starts the server at its end.
func (l *lab) startServer() {
	l.t.Helper()
	server, err := testkit.LaunchUnder(l.here.program(),
		"--bind", l.here.addr, "127.0.0.1", "--protected-mode", "no")
	require.NoError(l.t, err)
	l.t.Cleanup(server.Stop)
	l.server = server
}

// ip runs the program ip.
func (l *lab) ip(arguments string) {
	l.t.Helper()
	out, err := exec.Command("ip", strings.Fields(arguments)...).CombinedOutput()
	require.NoError(l.t, err, "ip %s: %s", arguments, out)
}

// aim sets the destination address of packets from one end to the other.
func (l *lab) aim(from, to end, mac string) {
	l.t.Helper()
	l.ip("-n " + from.namespace + " neigh replace " + to.addr + " lladdr " + mac + " dev cable nud permanent")
}

// mend lets all packets arrive.
func (l *lab) mend() {
	l.t.Helper()
	l.aim(l.here, l.beyond, l.beyond.mac)
	l.aim(l.beyond, l.here, l.here.mac)
}

// A cut loses packets in some directions.
type cut struct{ toServer, fromServer bool }

// cuts holds all cuts, by name.
var cuts = map[string]cut{
	"to the server": {toServer: true}, "from the server": {fromServer: true}, "both": {true, true},
}

// cut makes packets get lost until the cable is mended. No connection is closed.
func (l *lab) cut(c cut) {
	l.t.Helper()
	if c.toServer {
		l.aim(l.beyond, l.here, nowhere)
	}
	if c.fromServer {
		l.aim(l.here, l.beyond, nowhere)
	}
}

// client returns a client of the server from one of the ends.
func (l *lab) client(at end) *qless.Client {
	l.t.Helper()
	c, err := qless.New(l.redis(at), &qless.ClientConfig{Logger: testkit.Quiet()})
	require.NoError(l.t, err)
	l.t.Cleanup(func() { _ = c.Close() })
	return c
}

// redis returns a Redis client for one of the ends.
func (l *lab) redis(at end) *redis.Client {
	l.t.Helper()
	_, port, err := net.SplitHostPort(l.server.Addr())
	require.NoError(l.t, err)
	options := testkit.Options(net.JoinHostPort(l.here.addr, port))
	var dialing atomic.Int32
	options.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
		dialing.Add(1)
		defer dialing.Add(-1)
		return at.dial(ctx, network, addr)
	}
	options.DialTimeout, options.ReadTimeout = time.Second, time.Second
	rdb := redis.NewClient(options)
	l.t.Cleanup(func() {
		_ = rdb.Close()
		testkit.Until(l.t, "no one dials", func() bool { return dialing.Load() == 0 })
	})
	return rdb
}

// setns is the number of the system call.
var setns = map[string]uintptr{"amd64": 308, "arm64": 268}[runtime.GOARCH]

// dial connects from the namespace. A connection belongs to its namespace for its whole life.
func (e end) dial(ctx context.Context, network, addr string) (conn net.Conn, err error) {
	failed := e.within(func() error {
		conn, err = (&net.Dialer{Timeout: time.Second}).DialContext(ctx, network, addr)
		return err
	})
	return conn, failed
}

// within calls a function in the namespace.
func (e end) within(f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends, and no other goroutine uses it
		file, err := os.Open("/var/run/netns/" + e.namespace)
		if err != nil {
			done <- err
			return
		}
		defer func() { _ = file.Close() }()
		if _, _, problem := syscall.Syscall(setns, file.Fd(), syscall.CLONE_NEWNET, 0); problem != 0 {
			done <- problem
			return
		}
		done <- f()
	}()
	return <-done
}
