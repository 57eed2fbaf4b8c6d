package chaos

import (
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// valve sits between a worker process and the server. While it is shut, connections stay open, new
// ones are accepted, and nothing passes. Data that passes arrives after a delay.
type valve struct {
	listener net.Listener
	target   string
	delay    time.Duration
	shut     sync.RWMutex // held for writing while the valve is shut
	carriers sync.WaitGroup

	mu     sync.Mutex
	closed bool
	conns  []net.Conn
}

func newValve(t *testing.T, target string, delay time.Duration) *valve {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	v := &valve{listener: listener, target: target, delay: delay}
	v.carriers.Go(v.accept)
	t.Cleanup(v.close)
	return v
}

func (v *valve) addr() string { return v.listener.Addr().String() }

func (v *valve) accept() {
	for {
		client, err := v.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", v.target)
		if err != nil {
			_ = client.Close()
			continue
		}
		if !v.keep(client, server) {
			return
		}
		v.carriers.Go(func() { v.carry(client, server) })
		v.carriers.Go(func() { v.carry(server, client) })
	}
}

// keep notes connections to close in the end, or closes them after the end.
func (v *valve) keep(conns ...net.Conn) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.conns = append(v.conns, conns...)
	if v.closed {
		closeAll(conns)
	}
	return !v.closed
}

// carry passes on the data of one side, as long as both sides are connected.
func (v *valve) carry(from, to net.Conn) {
	defer closeAll([]net.Conn{from, to})
	buffer := make([]byte, 1<<16)
	for {
		n, err := from.Read(buffer)
		if n > 0 && !v.pass(to, buffer[:n]) || err != nil {
			return
		}
	}
}

func (v *valve) pass(to net.Conn, data []byte) bool {
	if v.delay > 0 {
		<-time.After(v.delay)
	}
	v.shut.RLock()
	defer v.shut.RUnlock()
	_, err := to.Write(data)
	return err == nil
}

// block shuts the valve while do runs.
func (v *valve) block(do func()) {
	v.shut.Lock()
	defer v.shut.Unlock()
	do()
}

func (v *valve) close() {
	v.mu.Lock()
	v.closed = true
	closeAll(v.conns)
	v.mu.Unlock()
	_ = v.listener.Close()
	v.carriers.Wait()
}

func closeAll(conns []net.Conn) {
	for _, conn := range conns {
		_ = conn.Close()
	}
}
