package testkit

import (
	"bufio"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"
)

// A Monitored is a command run by the server.
type Monitored struct {
	Caller string   // the client's address, or "lua" for a script
	Words  []string // the command's name, as sent, and its arguments
}

// Monitored runs a function and returns the commands run by the server in the meantime, in order.
func (s *Server) Monitored(t testing.TB, run func()) []Monitored {
	t.Helper()
	monitor := dial(t, s.addr)
	defer monitor.Close()
	monitor.request(t, "MONITOR")

	run()

	// The monitor prints this command, recognized by its sender, after all commands of the function.
	last := dial(t, s.addr)
	defer last.Close()
	last.request(t, "PING")

	var commands []Monitored
	for {
		command := parseMonitored(monitor.line(t))
		if command.Caller == last.LocalAddr().String() {
			return commands
		}
		commands = append(commands, command)
	}
}

// Commands runs a function and returns the names, in order and lower case, of the commands that
// scripts called in the meantime.
func (s *Server) Commands(t testing.TB, run func()) []string {
	t.Helper()
	var names []string
	for _, command := range s.Monitored(t, run) {
		if command.Caller == "lua" {
			names = append(names, strings.ToLower(command.Words[0]))
		}
	}
	return names
}

// parseMonitored reads a line such as
//
//	+1700000000.123456 [0 127.0.0.1:4242] "hget" "key" "a \"quoted\" \x00 field"
func parseMonitored(line string) Monitored {
	_, rest, _ := strings.Cut(strings.TrimSpace(line), " [")
	from, rest, _ := strings.Cut(rest, "] ")
	_, caller, _ := strings.Cut(from, " ")
	return Monitored{Caller: caller, Words: words(rest)}
}

// words splits quoted words. Valkey 8.1 does not escape quotes in words, so an unparsable line is
// split where one word seems to end and another to begin.
func words(line string) []string {
	var read []string
	for rest := line; rest != ""; {
		quoted, err := strconv.QuotedPrefix(rest)
		if err != nil {
			return strings.Split(strings.Trim(line, `"`), `" "`)
		}
		word, err := strconv.Unquote(quoted)
		if err != nil {
			return strings.Split(strings.Trim(line, `"`), `" "`)
		}
		read = append(read, word)
		rest = strings.TrimPrefix(rest[len(quoted):], " ")
	}
	return read
}

// lineConn is a connection to a server, read line by line.
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

// request sends a command, and reads its one-line reply.
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
