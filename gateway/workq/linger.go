package workq

import (
	"slices"
	"time"
)

// A lingerer is a connection on which a command waits although the client sends no more. Most such
// clients have gone.
type lingerer struct {
	conn *conn
	out  chan struct{} // closed when its place is needed
}

// linger waits until the client of a connection is considered gone or quit is closed. It reports
// whether the client is gone.
func (s *Server) linger(c *conn, quit <-chan struct{}) bool {
	l := &lingerer{c, make(chan struct{})}
	s.mu.Lock()
	s.lingering = append(s.lingering, l)
	s.mu.Unlock()
	defer s.forget(l)
	var over <-chan time.Time
	if s.config.PeerTimeout > 0 {
		timer := time.NewTimer(time.Until(c.half.Add(s.config.PeerTimeout)))
		defer timer.Stop()
		over = timer.C
	}
	select {
	case <-quit:
		return false
	case <-l.out:
	case <-over:
	}
	return true
}

func (s *Server) forget(l *lingerer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lingering = slices.DeleteFunc(s.lingering, func(other *lingerer) bool { return other == l })
}

// makeRoom closes the connection that has lingered longest. It reports whether there was one. The
// mutex is held.
func (s *Server) makeRoom() bool {
	if len(s.lingering) == 0 {
		return false
	}
	l := s.lingering[0]
	s.lingering = s.lingering[1:]
	delete(s.conns, l.conn)
	_ = l.conn.net.Close()
	close(l.out)
	return true
}
