package testkit

import (
	"bytes"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
)

// Proxy sits between clients and a server, and cuts or silences connections on request of a test.
//
// It examines requests in chunks, as they arrive. A client that waits for each reply sends a
// request or a pipeline in one chunk, unless it is large. Texts are matched regardless of case.
type Proxy struct {
	listener net.Listener
	target   string
	running  sync.WaitGroup

	mu     sync.Mutex
	closed bool
	links  map[*link]bool
	most   atomic.Int64 // the maximum number of bytes of a reply, or 0
	seen   [][]byte
	cuts   []cut
}

// cut is a one-time disturbance of the connection of a request that contains a text.
type cut struct {
	text    []byte
	forward bool // pass on the request, and hold back the reply
	hold    *gate
}

// NewProxy starts a proxy in front of the server at an address. The proxy ends with the test.
func NewProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{listener: listener, target: target, links: map[*link]bool{}}
	p.running.Go(p.accept)
	t.Cleanup(p.close)
	return p
}

// Addr returns the proxy's host:port.
func (p *Proxy) Addr() string {
	return p.listener.Addr().String()
}

// CutAfterRequest makes the proxy drop the next request that contains a text, and close its
// connection: the server never sees the request.
func (p *Proxy) CutAfterRequest(text string) {
	p.arm(cut{text: lower(text)})
}

// CutBeforeReply makes the proxy pass on the next request that contains a text, wait for the
// server's reply, drop it, and close the connection: the server has executed the request.
func (p *Proxy) CutBeforeReply(text string) {
	p.arm(cut{text: lower(text), forward: true})
}

// HoldReply makes the proxy pass on the next request that contains a text, and hold back the
// server's reply and everything after it until the returned function is called, or the test ends.
func (p *Proxy) HoldReply(text string) (release func()) {
	hold := newGate()
	p.arm(cut{text: lower(text), forward: true, hold: hold})
	return hold.open
}

// LimitReplies makes the proxy close a connection instead of passing on more than that many bytes
// since the last request. 0 removes the limit.
func (p *Proxy) LimitReplies(bytes int) { p.most.Store(int64(bytes)) }

// GoSilent makes every present connection silent, in both directions, without closing it: data from
// either side is accepted but never arrives. Later connections work.
func (p *Proxy) GoSilent() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.silent.Store(true)
	}
}

// CutAll closes every connection.
func (p *Proxy) CutAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.close()
	}
}

// Seen returns the number of requests with a text that have arrived.
func (p *Proxy) Seen(text string) int {
	wanted := lower(text)
	p.mu.Lock()
	defer p.mu.Unlock()
	count := 0
	for _, request := range p.seen {
		if bytes.Contains(request, wanted) {
			count++
		}
	}
	return count
}

func lower(text string) []byte {
	return bytes.ToLower([]byte(text))
}

func (p *Proxy) arm(c cut) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cuts = append(p.cuts, c)
}

// arrived records a request, and returns the cut triggered by the request, if any.
func (p *Proxy) arrived(request []byte) *cut {
	request = bytes.ToLower(request) // a copy
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen = append(p.seen, request)
	for i, c := range p.cuts {
		if bytes.Contains(request, c.text) {
			p.cuts = slices.Delete(p.cuts, i, i+1)
			return &c
		}
	}
	return nil
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.running.Go(func() { p.serve(client) })
	}
}

// serve serves a connection until either side ends it.
func (p *Proxy) serve(client net.Conn) {
	server, err := net.Dial("tcp", p.target)
	if err != nil {
		_ = client.Close()
		return
	}
	l := newLink(client, server, &p.most)
	if !p.add(l) {
		l.close()
		return
	}
	p.running.Go(l.carryReplies)
	l.carryRequests(p.arrived)
	p.remove(l)
}

// add adds a link, and reports whether the proxy still accepts connections.
func (p *Proxy) add(l *link) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		p.links[l] = true
	}
	return !p.closed
}

func (p *Proxy) remove(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.links, l)
}

func (p *Proxy) close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	_ = p.listener.Close()
	p.CutAll()
	p.running.Wait()
}
