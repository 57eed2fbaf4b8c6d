package gearmonkey_test

import (
	"bufio"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// monitored runs a function and returns the commands that clients sent to the server in
// the meantime, as text, in order. What go-redis says to introduce itself is left out.
// The name of a command is in capitals, as the specification writes it.
func (e *env) monitored(run func()) []string {
	e.t.Helper()
	monitor := dialLine(e.t, e.server.Addr())
	defer monitor.Close()
	monitor.request(e.t, "MONITOR")

	run()

	last := dialLine(e.t, e.server.Addr())
	defer last.Close()
	last.request(e.t, "PING")
	var commands []string
	for {
		caller, words := parseMonitored(e.t, monitor.line(e.t))
		if caller == last.LocalAddr().String() {
			return commands
		}
		if caller == "lua" {
			continue
		}
		words[0] = strings.ToUpper(words[0])
		switch words[0] {
		case "HELLO", "CLIENT", "PING":
			continue
		}
		commands = append(commands, strings.Join(words, " "))
	}
}

// parseMonitored reads a line such as
//
//	+1700000000.123456 [0 127.0.0.1:4242] "hget" "key" "a \"quoted\" \x00 field"
func parseMonitored(t testing.TB, line string) (caller string, words []string) {
	t.Helper()
	_, rest, _ := strings.Cut(strings.TrimSpace(line), " [0 ")
	caller, rest, _ = strings.Cut(rest, "] ")
	for rest != "" {
		quoted, err := strconv.QuotedPrefix(rest)
		require.NoError(t, err, line)
		word, err := strconv.Unquote(quoted)
		require.NoError(t, err, line)
		words = append(words, word)
		rest = strings.TrimPrefix(rest[len(quoted):], " ")
	}
	return caller, words
}

// lineConn is a connection to a server that gives what it reads in lines.
type lineConn struct {
	net.Conn
	reader *bufio.Reader
}

func dialLine(t testing.TB, addr string) *lineConn {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	return &lineConn{Conn: conn, reader: bufio.NewReader(conn)}
}

// request sends a command and reads its reply, of one line.
func (c *lineConn) request(t testing.TB, command string) {
	t.Helper()
	_, err := c.Write([]byte(command + "\r\n"))
	require.NoError(t, err)
	c.line(t)
}

func (c *lineConn) line(t testing.TB) string {
	t.Helper()
	require.NoError(t, c.SetReadDeadline(time.Now().Add(patience)))
	line, err := c.reader.ReadString('\n')
	require.NoError(t, err)
	return line
}
