package testkit

import (
	"net"
	"sync/atomic"
)

// chunkSize is above what tests send in a request, so that they come in one piece.
const chunkSize = 1 << 18

// link is one client's connection through a proxy.
type link struct {
	client, server net.Conn
	cutAtReply     atomic.Bool
}

// close ends both sides; whoever carries between them returns.
func (l *link) close() {
	_ = l.client.Close()
	_ = l.server.Close()
}

// carryRequests passes on what the client sends, as far as the cuts let it.
func (l *link) carryRequests(arrived func(request []byte) *cut) {
	defer l.close()
	buffer := make([]byte, chunkSize)
	for {
		n, err := l.client.Read(buffer)
		if n > 0 {
			c := arrived(buffer[:n])
			if c != nil && !c.forward {
				return
			}
			if c != nil {
				l.cutAtReply.Store(true)
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

// carryReplies passes on what the server sends, up to the reply that is to be kept.
func (l *link) carryReplies() {
	defer l.close()
	buffer := make([]byte, chunkSize)
	for {
		n, err := l.server.Read(buffer)
		if n > 0 {
			if l.cutAtReply.Load() {
				return
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
