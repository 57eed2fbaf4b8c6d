package workq_test

import (
	"net"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go/gateway/workq"
	"github.com/qless/qless-go/internal/testkit"
)

// waits returns waiting commands.
func waits(p *peer) map[string]string {
	return map[string]string{
		"lease":  "lease idle 600000\r\n",
		"result": "result " + p.add("results", "x") + " 600000\r\n",
		"run":    "run " + uuid.NewString() + " runs 86400000 86400000 0\r\n\r\n",
		"ahead":  "lease idle 600000\r\n" + strings.Repeat("inspect server\r\n", 600),
	}
}

// leaves are the ways for a client to go away.
var leaves = map[string]func(*peer){
	"closed": func(p *peer) { _ = p.net.Close() },
	"reset":  func(p *peer) { p.vanish() },
	"half":   func(p *peer) { _ = p.net.(*net.TCPConn).CloseWrite() },
}

// active returns the server's number of active clients.
func (p *peer) active() string {
	p.Helper()
	require.Equal(p, "+OK 1", p.ask("inspect server"))
	p.line()
	active := p.line()
	p.line()
	p.line()
	return active
}

// A waiting client that stopped sending may have gone. It keeps its place for PeerTimeout.
func TestClientsThatHaveGone(t *testing.T) {
	e := newEnv(t, func(c *workq.Config) { c.PeerTimeout = 300 * time.Millisecond })
	other := e.dial()
	for command, line := range waits(other) {
		for how, leave := range leaves {
			t.Run(command+"/"+how, func(t *testing.T) {
				p := e.dial()
				p.send("%s", line)
				testkit.Until(t, "its place", func() bool { return other.active() == "active-clients 2" })
				leave(p)
				testkit.Until(t, "its end", func() bool { return other.active() == "active-clients 1" })
			})
		}
	}
	id := other.add("idle", "x")
	other.leases("idle", id)
	require.Equal(t, "1", other.inspect(id)["attempts"])
	id, _ = other.lease("runs") // the job still exists
	require.Equal(t, "+OK", other.ask("complete %s 0\r\n", id))
}

// Once the limit is reached, clients that may have gone lose their places at once.
func TestClientsThatHaveGoneMakeRoom(t *testing.T) {
	for how, leave := range leaves {
		t.Run(how, func(t *testing.T) {
			e := newEnv(t, func(c *workq.Config) { c.MaxConnections = 5 })
			for _, line := range waits(e.dial()) {
				p := e.dial()
				p.send("%s", line)
				leave(p)
			}
			testkit.Until(t, "room for four others", func() bool {
				for range 4 {
					p := e.dial()
					defer func() { _ = p.net.Close() }()
					if !p.admitted() {
						return false
					}
				}
				return true
			})
		})
	}
}
