package redistest

import (
	"bufio"
	"net"
	"strings"
	"testing"
	"time"
)

// Commands runs a function and returns the names, in order and lower case, of the
// commands that scripts called in the meantime.
func (s *Server) Commands(t testing.TB, run func()) []string {
	t.Helper()
	monitor := dial(t, s.addr)
	defer monitor.Close()
	monitor.request(t, "MONITOR")

	run()

	// The monitor tells of this command, known by its sender, after all that it has to tell
	// of the function.
	last := dial(t, s.addr)
	defer last.Close()
	last.request(t, "PING")

	var names []string
	for {
		caller, name := parseMonitored(monitor.line(t))
		switch caller {
		case "lua":
			names = append(names, name)
		case last.LocalAddr().String():
			return names
		}
	}
}

// parseMonitored returns who called which command, from a line such as
//
//	1700000000.123456 [0 lua] "hget" "key" "field"
func parseMonitored(line string) (caller, name string) {
	_, rest, _ := strings.Cut(line, " [")
	from, command, _ := strings.Cut(rest, "] \"")
	_, caller, _ = strings.Cut(from, " ")
	name, _, _ = strings.Cut(command, "\"")
	return caller, strings.ToLower(name)
}

// lineConn is a connection to a server that gives what it reads in lines.
type lineConn struct {
	net.Conn
	reader *bufio.Reader
}

func dial(t testing.TB, addr string) *lineConn {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	return &lineConn{Conn: conn, reader: bufio.NewReader(conn)}
}

// request sends a command and reads its reply, of one line.
func (c *lineConn) request(t testing.TB, command string) {
	t.Helper()
	if _, err := c.Write([]byte(command + "\r\n")); err != nil {
		t.Fatal(err)
	}
	c.line(t)
}

func (c *lineConn) line(t testing.TB) string {
	t.Helper()
	if err := c.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	line, err := c.reader.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return line
}
