package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
)

// A gateway is a server for the clients of another queue, in a separate process.
type gateway struct {
	*process
	addr string
	dial func(addr string) (gatewayClient, error)
}

// A gatewayClient has a connection to a gateway, and little overhead.
type gatewayClient interface {
	put(queue string, life time.Duration) error
	take(queue string) (id string, err error) // "" if no job arrives within two seconds
	end(queue, id string) error
	Close() error
}

// lmstfyToken is the token of all lmstfy clients.
const lmstfyToken = "01ARZ3NDEKTSV4RRFFQ69G5FAV"

const lmstfyConfig = `Host = "127.0.0.1"
Port = %s
AdminHost = "127.0.0.1"
AdminPort = %s
LogLevel = "error"
EnableAccessLog = false
[AdminRedis]
Addr = %q
[Pool.default]
Addr = %[3]q
`

// startLmstfy starts lmstfy's own server or ours. command precedes the configuration file in the
// command line.
func startLmstfy(ctx context.Context, redis, dir string, command ...string) (*gateway, error) {
	addrs, err := freeAddrs(2)
	if err != nil {
		return nil, err
	}
	_, port, _ := strings.Cut(addrs[0], ":")
	_, adminPort, _ := strings.Cut(addrs[1], ":")
	path := filepath.Join(dir, "lmstfy.toml")
	text := fmt.Sprintf(lmstfyConfig, port, adminPort, redis)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return nil, err
	}
	p, err := startProcess(command[0], append(command[1:], path)...)
	if err != nil {
		return nil, err
	}
	url := "http://" + addrs[1] + "/token/ns?description=bench&token=" + lmstfyToken
	return &gateway{p, addrs[0], dialLmstfy}, p.ready(ctx, func() (bool, error) {
		answer, err := http.Post(url, "", nil)
		if err != nil {
			return false, nil // not listening yet
		}
		return answer.StatusCode == http.StatusCreated, answer.Body.Close()
	})
}

// startWorkq starts our server for the clients of Workq.
func startWorkq(ctx context.Context, redis, program string) (*gateway, error) {
	addrs, err := freeAddrs(1)
	if err != nil {
		return nil, err
	}
	p, err := startProcess(program, "serve", "--redis", "redis://"+redis, "--workq", addrs[0],
		"--log-level", "warn")
	if err != nil {
		return nil, err
	}
	return &gateway{p, addrs[0], dialWorkq}, p.ready(ctx, func() (bool, error) {
		connection, err := net.Dial("tcp", addrs[0])
		if err != nil {
			return false, nil
		}
		return true, connection.Close()
	})
}

// A line is a connection of a client.
type line struct {
	net.Conn
	in *bufio.Reader
}

func dialLine(addr string) (line, error) {
	connection, err := net.Dial("tcp", addr)
	return line{connection, bufio.NewReader(connection)}, err
}

// ask sends text, and returns the first line of the answer.
func (l line) ask(text string) (string, error) {
	if err := l.SetDeadline(time.Now().Add(slowest)); err != nil {
		return "", err
	}
	if _, err := io.WriteString(l, text); err != nil {
		return "", err
	}
	return l.read()
}

func (l line) read() (string, error) {
	text, err := l.in.ReadString('\n')
	return strings.TrimSuffix(text, "\r\n"), err
}

// gatewayData is the data of a job of a gateway.
var gatewayData = strings.Repeat("0123456789", 10)

// An lmstfyClient is a connection to a server of lmstfy.
type lmstfyClient struct{ line }

func dialLmstfy(addr string) (gatewayClient, error) {
	l, err := dialLine(addr)
	return lmstfyClient{l}, err
}

// request sends a request about the namespace, and returns the body of the answer. The answer must
// have one of the codes.
func (c lmstfyClient) request(method, path, body string, codes ...string) ([]byte, error) {
	head, err := c.ask(method + " /api/ns/" + path + " HTTP/1.1\r\nHost: bench\r\nX-Token: " +
		lmstfyToken + "\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n" + body)
	if err != nil {
		return nil, err
	}
	length := 0
	for {
		field, err := c.read()
		if err != nil || field == "" {
			break
		}
		if value, is := strings.CutPrefix(field, "Content-Length: "); is {
			length, _ = strconv.Atoi(value)
		}
	}
	answer := make([]byte, length)
	if _, err := io.ReadFull(c.in, answer); err != nil {
		return nil, err
	}
	for _, code := range codes {
		if strings.HasPrefix(head, "HTTP/1.1 "+code) {
			return answer, nil
		}
	}
	return nil, fmt.Errorf("%s: %s %s", method, head, answer)
}

func (c lmstfyClient) put(queue string, life time.Duration) error {
	path := fmt.Sprintf("%s?tries=20&ttl=%.0f", queue, life.Seconds())
	_, err := c.request("PUT", path, gatewayData, "201")
	return err
}

func (c lmstfyClient) take(queue string) (string, error) {
	answer, err := c.request("GET", queue+"?ttr=60&timeout=2", "", "200", "404")
	_, rest, _ := bytes.Cut(answer, []byte(`"job_id":"`))
	id, _, _ := bytes.Cut(rest, []byte(`"`))
	return string(id), err
}

func (c lmstfyClient) end(queue, id string) error {
	_, err := c.request("DELETE", queue+"/job/"+id, "", "204")
	return err
}

// A workqClient is a connection to a server of Workq.
type workqClient struct{ line }

func dialWorkq(addr string) (gatewayClient, error) {
	l, err := dialLine(addr)
	return workqClient{l}, err
}

// command sends a command, and returns an error unless the answer is want.
func (c workqClient) command(text, want string) error {
	answer, err := c.ask(text)
	if err == nil && answer != want {
		err = fmt.Errorf("%q to %.10q", answer, text)
	}
	return err
}

func (c workqClient) put(queue string, life time.Duration) error {
	return c.command(fmt.Sprintf("add %s %s 60000 %d %d\r\n%s\r\n",
		uuid.NewString(), queue, life.Milliseconds(), len(gatewayData), gatewayData), "+OK")
}

func (c workqClient) take(queue string) (string, error) {
	answer, err := c.ask("lease " + queue + " 2000\r\n")
	if err != nil || answer == "-TIMEOUT" {
		return "", err
	}
	head, err := c.read()
	if err == nil {
		_, err = c.read()
	}
	id, _, _ := strings.Cut(head, " ")
	if err == nil && answer != "+OK 1" {
		err = fmt.Errorf("%q to a lease", answer)
	}
	return id, err
}

func (c workqClient) end(_, id string) error {
	return c.command("complete "+id+" 2\r\nok\r\n", "+OK")
}

// programs are the paths of the gateways.
type programs struct{ dir, qless, lmstfy string }
