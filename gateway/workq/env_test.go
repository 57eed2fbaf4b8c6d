package workq_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/gateway/workq"
	"github.com/qless/qless-go/internal/testkit"
)

func TestMain(m *testing.M) {
	if url, ok := os.LookupEnv(gatewayVariable); ok {
		os.Exit(gatewayMain(url))
	}
	testkit.Main(m)
}

// patience turns a hang into a failure.
const patience = 30 * time.Second

// An env is a gateway in front of a Redis server.
type env struct {
	*testing.T
	redis  *testkit.Server
	qless  *qless.Client
	server *workq.Server
	addr   string
	served chan error
}

func newEnv(t *testing.T, change ...func(*workq.Config)) *env {
	t.Helper()
	redis := testkit.Start(t)
	e := &env{T: t, redis: redis}
	e.qless = newQless(t, redis)
	e.serve("127.0.0.1:0", change...)
	t.Cleanup(func() { e.stop() })
	return e
}

func newQless(t *testing.T, redis *testkit.Server) *qless.Client {
	t.Helper()
	quiet := slog.New(slog.DiscardHandler)
	client, err := qless.New(redis.Client(t), &qless.ClientConfig{Logger: quiet})
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// serve starts a gateway at an address.
func (e *env) serve(addr string, change ...func(*workq.Config)) {
	e.Helper()
	config := workq.Config{Client: e.qless, Logger: slog.New(slog.DiscardHandler)}
	for _, f := range change {
		f(&config)
	}
	server, err := workq.New(config)
	require.NoError(e, err)
	listener, err := net.Listen("tcp", addr)
	require.NoError(e, err)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	e.server, e.served, e.addr = server, served, listener.Addr().String()
}

// stop stops the gateway.
func (e *env) stop() {
	e.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	require.NoError(e, e.server.Shutdown(ctx))
	require.ErrorIs(e, testkit.Soon(e, "the end of Serve", e.served), workq.ErrServerClosed)
}

// A peer is a client of Workq.
type peer struct {
	*testing.T
	net net.Conn
	in  *bufio.Reader
}

func (e *env) dial() *peer {
	e.Helper()
	connection, err := net.Dial("tcp", e.addr)
	require.NoError(e, err)
	e.Cleanup(func() { _ = connection.Close() })
	return &peer{e.T, connection, bufio.NewReader(connection)}
}

func (p *peer) send(format string, args ...any) {
	p.Helper()
	_, err := fmt.Fprintf(p.net, format, args...)
	require.NoError(p, err)
}

// line returns the next line.
func (p *peer) line() string {
	p.Helper()
	require.NoError(p, p.net.SetReadDeadline(time.Now().Add(patience)))
	line, err := p.in.ReadString('\n')
	require.NoError(p, err)
	return strings.TrimSuffix(line, "\r\n")
}

// ask sends a command and returns the first line of the reply.
func (p *peer) ask(format string, args ...any) string {
	p.Helper()
	p.send(format+"\r\n", args...)
	return p.line()
}

// body reads the rest of a reply with a payload. It returns the fields before the size of the
// payload, and the payload.
func (p *peer) body() (fields []string, payload string) {
	p.Helper()
	fields = strings.Fields(p.line())
	size, err := strconv.Atoi(fields[len(fields)-1])
	require.NoError(p, err)
	bytes := make([]byte, size+2)
	_, err = io.ReadFull(p.in, bytes)
	require.NoError(p, err)
	require.Equal(p, "\r\n", string(bytes[size:]))
	return fields[:len(fields)-1], string(bytes[:size])
}

// add adds a job, and returns its id.
func (p *peer) add(name, payload string, flags ...string) string {
	p.Helper()
	id := uuid.NewString()
	require.Equal(p, "+OK", p.ask("add %s %s 60000 3600000 %d %s\r\n%s",
		id, name, len(payload), strings.Join(flags, " "), payload))
	return id
}

// lease leases a job, and returns its id and payload.
func (p *peer) lease(name string) (id, payload string) {
	p.Helper()
	require.Equal(p, "+OK 1", p.ask("lease %s 20000", name))
	fields, payload := p.body()
	return fields[0], payload
}

// inspect returns the properties of a job, by key.
func (p *peer) inspect(id string) map[string]string {
	p.Helper()
	require.Equal(p, "+OK 1", p.ask("inspect job %s", id))
	count, err := strconv.Atoi(strings.Fields(p.line())[1])
	require.NoError(p, err)
	values := map[string]string{}
	for range count {
		key, value, _ := strings.Cut(p.line(), " ")
		values[key] = value
	}
	return values
}

// closed waits for the end of the connection. Nothing may arrive before it.
func (p *peer) closed() {
	p.Helper()
	require.NoError(p, p.net.SetReadDeadline(time.Now().Add(patience)))
	_, err := p.in.ReadByte()
	require.Error(p, err)
	var timeout net.Error
	require.False(p, errors.As(err, &timeout) && timeout.Timeout(), "%v", err)
}
