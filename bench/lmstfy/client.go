package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"
)

// A client has a connection to a server. It does as little as it can.
type client struct {
	conn   net.Conn
	reader *bufio.Reader
	out    []byte
	body   []byte
}

// slowest is how long an answer may take.
const slowest = 60 * time.Second

func dial(addr string) (*client, error) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	return &client{conn: conn, reader: bufio.NewReaderSize(conn, 4096)}, nil
}

func (c *client) close() { _ = c.conn.Close() }

// send sends a request.
func (c *client) send(method, path string, body []byte) error {
	c.out = append(c.out[:0], method...)
	c.out = append(c.out, " /api/ns/"...)
	c.out = append(c.out, path...)
	c.out = append(c.out, " HTTP/1.1\r\nHost: bench\r\nX-Token: "+token+"\r\n"...)
	if method == "PUT" {
		c.out = append(c.out, "Content-Length: "...)
		c.out = strconv.AppendInt(c.out, int64(len(body)), 10)
		c.out = append(c.out, "\r\n"...)
	}
	c.out = append(c.out, "\r\n"...)
	c.out = append(c.out, body...)
	if err := c.conn.SetDeadline(time.Now().Add(slowest)); err != nil {
		return err
	}
	_, err := c.conn.Write(c.out)
	return err
}

// receive reads an answer. Its body is valid until the next one.
func (c *client) receive() (status int, body []byte, err error) {
	line, err := c.reader.ReadSlice('\n')
	if err != nil {
		return 0, nil, err
	}
	if len(line) < 12 {
		return 0, nil, errors.New("no answer of HTTP")
	}
	status, err = strconv.Atoi(string(line[9:12]))
	if err != nil {
		return 0, nil, err
	}
	length := 0
	for {
		if line, err = c.reader.ReadSlice('\n'); err != nil {
			return 0, nil, err
		}
		if len(line) == 2 {
			break
		}
		if value, is := bytes.CutPrefix(line, []byte("Content-Length: ")); is {
			if length, err = strconv.Atoi(string(bytes.TrimSpace(value))); err != nil {
				return 0, nil, err
			}
		}
	}
	if cap(c.body) < length {
		c.body = make([]byte, length)
	}
	c.body = c.body[:length]
	_, err = io.ReadFull(c.reader, c.body)
	return status, c.body, err
}

func (c *client) ask(method, path string, body []byte, expected int) ([]byte, error) {
	if err := c.send(method, path, body); err != nil {
		return nil, err
	}
	return c.expect(expected)
}

func (c *client) expect(expected int) ([]byte, error) {
	status, body, err := c.receive()
	if err == nil && status != expected {
		err = fmt.Errorf("the answer is %d %s, not %d", status, body, expected)
	}
	return body, err
}

// jobID returns the id in an answer.
func jobID(answer []byte) (string, error) {
	const before = `"job_id":"`
	_, rest, found := bytes.Cut(answer, []byte(before))
	id, _, closed := bytes.Cut(rest, []byte(`"`))
	if !found || !closed {
		return "", fmt.Errorf("no job in %s", answer)
	}
	return string(id), nil
}
