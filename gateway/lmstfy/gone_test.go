package lmstfy_test

import (
	"net"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go/gateway/lmstfy"
)

// A consumer that has gone takes no job and frees its place, regardless of what else it has sent.
func TestAConsumerThatHasGone(t *testing.T) {
	const line = "GET /api/ns/q?timeout=600 HTTP/1.1\r\nHost: x\r\n"
	for name, c := range map[string]struct{ request, later string }{
		"without a body":        {line + "\r\n", ""},
		"with a body":           {line + "Content-Length: 2\r\n\r\n{}", ""},
		"with half a body":      {line + "Content-Length: 9\r\n\r\n{}", ""},
		"with a body in chunks": {line + "Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n", ""},
		"with no chunk":         {line + "Transfer-Encoding: chunked\r\n\r\n", ""},
		"with a stray end":      {line + "\r\n\r\n", ""},
		"with a late stray end": {line + "\r\n", "\r\n"},
		"with a request ahead":  {line + "\r\n" + line + "\r\n", ""},
		"with a late request":   {line + "\r\n", line + "\r\n"},
		"with both":             {line + "Content-Length: 2\r\n\r\n{}", "\r\n"},
	} {
		for how, leave := range map[string]func(*net.TCPConn) error{
			"closed": func(conn *net.TCPConn) error { return conn.Close() },
			"half":   func(conn *net.TCPConn) error { return conn.CloseWrite() },
			"reset": func(conn *net.TCPConn) error {
				_ = conn.SetLinger(0)
				return conn.Close()
			},
		} {
			t.Run(name+"/"+how, func(t *testing.T) {
				t.Parallel()
				g := start(t, func(c *lmstfy.Config) { c.MaxConnections = 1 })
				gone := g.dial()
				gone.send(c.request)
				g.idle("ns/q")
				gone.send(c.later)
				require.NoError(t, leave(gone.conn.(*net.TCPConn)))
				id := g.publish("/api/ns/q", "x")
				require.Equal(t, id, g.get("/api/ns/q")["job_id"])
			})
		}
	}
}

// A consumer that sends a body receives a job and can keep using the connection.
func TestConsumersWithABody(t *testing.T) {
	g := start(t, nil)
	client := g.dial()
	for _, request := range []string{
		"Content-Length: 2\r\n\r\n{}", "\r\n",
		"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n", "\r\n",
	} {
		client.send("GET /api/ns/q?timeout=60 HTTP/1.1\r\nHost: x\r\n" + request)
		g.idle("ns/q")
		id := g.publish("/api/ns/q", "x")
		require.Equal(t, id, g.decode(client.expect(http.StatusOK))["job_id"])
	}
	// An incomplete body does not delay the answer, but the connection ends after it.
	client = g.dial()
	client.send("GET /api/ns/q HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{}")
	client.expect(http.StatusNotFound)
	client = g.dial()
	client.send("GET /api/ns/q HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999\r\n\r\n")
	client.expect(http.StatusRequestEntityTooLarge)
}
