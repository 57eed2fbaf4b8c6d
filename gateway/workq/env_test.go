package workq_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/gateway/workq"
	"github.com/qless/qless-go/internal/testkit"
)

func TestMain(m *testing.M) {
	if url, ok := os.LookupEnv(gatewayVariable); ok {
		if err := gatewayMain(url); err != nil {
			log.Fatal(err)
		}
		return
	}
	testkit.Main(m)
}

// patience turns a hang into a failure.
const patience = 30 * time.Second

// must returns the value of a call that must not fail.
func must[T any](value T, err error) func(t testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		require.NoError(t, err)
		return value
	}
}

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
	return newEnvOf(t, redis, newQless(t, redis.Client(t)), change...)
}

// newEnvOf returns a gateway in front of a Redis server, with a client of that server.
func newEnvOf(
	t *testing.T, redis *testkit.Server, client *qless.Client, change ...func(*workq.Config),
) *env {
	t.Helper()
	e := &env{T: t, redis: redis, qless: client}
	e.serve("127.0.0.1:0", change...)
	t.Cleanup(func() { e.stop() })
	return e
}

func newQless(t *testing.T, rdb *redis.Client) *qless.Client {
	t.Helper()
	client := must(qless.New(rdb, &qless.ClientConfig{Logger: testkit.Quiet()}))(t)
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
	server := must(workq.New(config))(e)
	listener := must(net.Listen("tcp", addr))(e)
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
	connection := must(net.Dial("tcp", e.addr))(e)
	e.Cleanup(func() { _ = connection.Close() })
	return &peer{e.T, connection, bufio.NewReader(connection)}
}

func (p *peer) send(format string, args ...any) {
	p.Helper()
	must(fmt.Fprintf(p.net, format, args...))(p)
}

// line returns the next line.
func (p *peer) line() string {
	p.Helper()
	require.NoError(p, p.net.SetReadDeadline(time.Now().Add(patience)))
	line := must(p.in.ReadString('\n'))(p)
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
	size := must(strconv.Atoi(fields[len(fields)-1]))(p)
	bytes := make([]byte, size+2)
	must(io.ReadFull(p.in, bytes))(p)
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

// result returns the result of a job, which must come within some milliseconds.
func (p *peer) result(id string, milliseconds int) string {
	p.Helper()
	require.Equal(p, "+OK 1", p.ask("result %s %d", id, milliseconds))
	_, result := p.body()
	return result
}

// lease leases a job, and returns its id and payload.
func (p *peer) lease(name string) (id, payload string) {
	p.Helper()
	require.Equal(p, "+OK 1", p.ask("lease %s 20000", name))
	fields, payload := p.body()
	return fields[0], payload
}

// leases leases a job, which must have the id, and returns its payload.
func (p *peer) leases(name, id string) (payload string) {
	p.Helper()
	leased, payload := p.lease(name)
	require.Equal(p, id, leased)
	return payload
}

// inspect returns the properties of a job, by key.
func (p *peer) inspect(id string) map[string]string {
	p.Helper()
	require.Equal(p, "+OK 1", p.ask("inspect job %s", id))
	count := must(strconv.Atoi(strings.Fields(p.line())[1]))(p)
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
