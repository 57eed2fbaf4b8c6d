package testkit

import (
	"net"
	"sync"
	"sync/atomic"
)

// link is one client's connection through a proxy.
type link struct {
	client, server net.Conn
	most           *atomic.Int64 // limit of bytes passed on after a request; 0 for none
	replied        atomic.Int64  // the number of bytes sent by the server since the last request
	cutAtReply     atomic.Bool
	silent         atomic.Bool          // nothing arrives anymore
	held           atomic.Pointer[gate] // replies wait for the gate
	ended          chan struct{}        // closed with the connection
	end            sync.Once
}

// chunkSize exceeds the size of the tests' requests, which therefore arrive in one piece.
const chunkSize = 1 << 18

func newLink(client, server net.Conn, most *atomic.Int64) *link {
	return &link{client: client, server: server, most: most, ended: make(chan struct{})}
}

// gate is closed until opened.
type gate struct {
	opened chan struct{}
	open   func()
}

func newGate() *gate {
	opened := make(chan struct{})
	return &gate{opened, sync.OnceFunc(func() { close(opened) })}
}

// close closes both sides, which ends the goroutines that carry data between them.
func (l *link) close() {
	_ = l.client.Close()
	_ = l.server.Close()
	l.end.Do(func() { close(l.ended) })
}

// carryRequests passes on the client's requests, as far as the cuts allow.
func (l *link) carryRequests(arrived func(request []byte) *cut) {
	defer l.close()
	buffer := make([]byte, chunkSize)
	for {
		n, err := l.client.Read(buffer)
		if n > 0 {
			l.replied.Store(0)
			c := arrived(buffer[:n])
			if c != nil && !c.forward {
				return
			}
			switch {
			case c != nil && c.hold != nil:
				l.held.Store(c.hold)
			case c != nil:
				l.cutAtReply.Store(true)
			}
			if l.silent.Load() {
				continue
			}
			if _, err := l.server.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// carryReplies passes on the server's replies, up to the one to hold back.
func (l *link) carryReplies() {
	defer l.close()
	buffer := make([]byte, chunkSize)
	for {
		n, err := l.server.Read(buffer)
		if n > 0 {
			most := l.most.Load()
			if l.cutAtReply.Load() || l.replied.Add(int64(n)) > most && most > 0 {
				return
			}
			if hold := l.held.Load(); hold != nil {
				select {
				case <-hold.opened:
				case <-l.ended:
				}
			}
			if l.silent.Load() {
				continue
			}
			if _, err := l.client.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
