package cli_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go/gateway/workq"
	"github.com/qless/qless-go/inspect"
	"github.com/qless/qless-go/internal/testkit"
)

// A serving is a running qless serve.
type serving struct {
	t         *testing.T
	command   *exec.Cmd
	out       string
	addresses map[string]string
	log       *bytes.Buffer // may be read after the end
	ended     chan error
}

// listeningOn matches a line with the name of a server, if it has one, and its address.
var listeningOn = regexp.MustCompile(`(?m)^(?:(.+) )?listening on ([^\s,]+)`)

// serving starts servers, and waits until all of them listen.
func (e *env) serving(listeners int, args ...string) *serving {
	e.t.Helper()
	command := e.command(args...)
	s := &serving{t: e.t, command: command, addresses: map[string]string{}, log: new(bytes.Buffer),
		ended: make(chan error, 1)}
	command.Stderr = s.log
	pipe := must(command.StdoutPipe())(e.t)
	require.NoError(e.t, command.Start())
	lines := bufio.NewReader(pipe)
	for len(s.addresses) < listeners {
		line, err := lines.ReadString('\n')
		require.NoError(e.t, err, s.out)
		s.out += line
		if found := listeningOn.FindStringSubmatch(line); found != nil {
			s.addresses[found[1]] = found[2]
		}
	}
	go func() {
		_, _ = io.Copy(io.Discard, lines)
		s.ended <- command.Wait()
	}()
	return s
}

func (s *serving) signal() {
	require.NoError(s.t, s.command.Process.Signal(syscall.SIGTERM))
}

// end ends the servers, and returns their exit status.
func (s *serving) end() int {
	s.signal()
	testkit.Soon(s.t, "the end", s.ended)
	return s.command.ProcessState.ExitCode()
}

// request returns a request to one of the servers.
func (s *serving) request(method, server, path, body string) *http.Request {
	url := "http://" + s.addresses[server] + path
	r := must(http.NewRequestWithContext(s.t.Context(), method, url, strings.NewReader(body)))(s.t)
	r.GetBody = nil // so that it is not sent again
	return r
}

// send returns the status and the body of an answer, or 0 if there is none.
func (s *serving) send(r *http.Request) (int, string) {
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, err.Error()
	}
	defer func() { _ = answer.Body.Close() }()
	return answer.StatusCode, string(must(io.ReadAll(answer.Body))(s.t))
}

func (s *serving) get(server, path string) (int, string) {
	return s.send(s.request(http.MethodGet, server, path, ""))
}

func (s *serving) publish(path string) int {
	status, _ := s.send(s.request(http.MethodPut, "lmstfy", path, "x"))
	return status
}

const anywhere = "127.0.0.1:0"

func TestServeRunsSeveralServersOnOneRedis(t *testing.T) {
	for _, inMemory := range []bool{false, true} {
		t.Run(fmt.Sprintf("in memory %t", inMemory), func(t *testing.T) {
			e, _ := newReal(t)
			if inMemory {
				e.url = ""
			}
			s := e.serving(4, "serve", "--lmstfy", anywhere, "--lmstfy-admin", anywhere, "--workq", anywhere,
				"--metrics", anywhere, "--skip-tokens", "--log-format", "json")
			require.Equal(t, inMemory, strings.Contains(s.out, "in memory"))
			require.Equal(t, 201, s.publish("/api/ns/q"))
			conn := must(net.Dial("tcp", s.addresses["workq"]))(t)
			must(io.WriteString(conn,
				"add 6ba7b810-9dad-41d1-80b4-00c04fd430c4 ping 60 60000 1\r\nx\r\n"))(t)
			line := must(bufio.NewReader(conn).ReadString('\n'))(t)
			require.Equal(t, "+OK\r\n", line)
			require.NoError(t, conn.Close())

			status, text := s.get("metrics", "/metrics")
			require.Equal(t, 200, status)
			require.Contains(t, text, `qless_queue_jobs{queue="ns/q",state="waiting"} 1`)
			require.Contains(t, text, `queue="`+workq.Queue("ping", 0)+`",state="waiting"} 1`)
			require.Contains(t, text, "process_start_time_seconds")
			require.Contains(t, text, "qless_client_call_seconds")
			require.NotContains(t, text, "qless_scrape_errors_total 1")
			for _, path := range []string{"/healthz", "/readyz"} {
				status, text = s.get("metrics", path)
				require.Equal(t, 200, status, text)
			}
			require.Equal(t, 0, s.end(), s.log)
			require.Contains(t, s.log.String(), `"msg":"stopping"`)
		})
	}
}

func TestServeUnderLoadEndsWhatItHasBegun(t *testing.T) {
	e, client := newReal(t)
	s := e.serving(3, "serve", "--lmstfy", anywhere, "--workq", anywhere, "--metrics", anywhere,
		"--skip-tokens")
	const clients = 4
	var published, added, answered atomic.Int64
	var running sync.WaitGroup
	enough := make(chan struct{})
	var once sync.Once
	did := func(count *atomic.Int64) {
		if count.Add(1) == 100 {
			once.Do(func() { close(enough) })
		}
	}
	for i := range clients {
		running.Go(func() {
			for s.publish("/api/ns/load") == 201 {
				did(&published)
			}
		})
		running.Go(func() {
			// A waiting consumer receives an answer and is not cut off.
			if status, _ := s.get("lmstfy", "/api/ns/empty?timeout=600"); status == 404 {
				answered.Add(1)
			}
		})
		running.Go(func() { addJobs(t, s.addresses["workq"], i, func() { did(&added) }) })
	}
	testkit.Soon(t, "load", enough)
	testkit.Until(t, "consumers wait", func() bool {
		idle, err := inspect.New(client).Workers(t.Context())
		return err == nil && idle != nil
	})
	require.Equal(t, 0, s.end(), s.log)
	running.Wait()

	size := func(queue string) int64 {
		counts := must(client.Queue(queue).Counts(t.Context()))(t)
		return int64(counts.Waiting + counts.Running + counts.Stalled + counts.Scheduled)
	}
	require.Equal(t, published.Load(), size("ns/load"))
	require.Equal(t, added.Load(), size(workq.Queue("load", 0)))
	require.EqualValues(t, clients, answered.Load())
}

// addJobs adds jobs by Workq's protocol until the connection ends, each after the answer to the
// last.
func addJobs(t *testing.T, address string, client int, added func()) {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Error(err)
		return
	}
	defer func() { _ = conn.Close() }()
	answers := bufio.NewReader(conn)
	for i := 0; ; i++ {
		id := fmt.Sprintf("%08x-0000-4000-8000-%012x", client, i)
		if _, err := fmt.Fprintf(conn, "add %s load 60000 600000 1\r\nx\r\n", id); err != nil {
			return
		}
		line, err := answers.ReadString('\n')
		if err != nil {
			return
		}
		if line != "+OK\r\n" {
			t.Errorf("got %q", line)
			return
		}
		added()
	}
}

func TestServeIsUnreadyBeforeItStops(t *testing.T) {
	e := newEnv(t)
	s := e.serving(2, "serve", "--lmstfy", anywhere, "--metrics", anywhere, "--skip-tokens",
		"--shutdown-delay", "1h")
	s.signal()
	testkit.Until(t, "it is not ready", func() bool {
		status, _ := s.get("metrics", "/readyz")
		return status == 503
	})
	status, _ := s.get("metrics", "/healthz")
	require.Equal(t, 200, status)
	require.Equal(t, 201, s.publish("/api/ns/q"), "it still serves")
	s.signal()
	testkit.Soon(t, "the end", s.ended)
	require.True(t, s.command.ProcessState.Sys().(syscall.WaitStatus).Signaled())
}

func TestARequestThatDoesNotEndInTimeIsCutOff(t *testing.T) {
	e := newEnv(t)
	s := e.serving(1, "serve", "--lmstfy", anywhere, "--skip-tokens", "--shutdown-timeout", "100ms")
	conn := must(net.Dial("tcp", s.addresses["lmstfy"]))(t)
	defer func() { _ = conn.Close() }()
	must(io.WriteString(conn, "PUT /api/ns/q HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n"+
		"Content-Length: 2\r\n\r\n"))(t)
	line, err := bufio.NewReader(conn).ReadString('\n') // it waits for the body
	require.NoError(t, err)
	require.Contains(t, line, "100 Continue")
	require.Equal(t, 1, s.end())
	require.Contains(t, s.log.String(), "lmstfy: requests were cut off")
}

func TestServeIsNotReadyWithoutRedis(t *testing.T) {
	e, _ := newReal(t, "--timeout", "0")
	s := e.serving(1, "exporter", "--listen", anywhere)
	status, text := s.get("metrics", "/readyz")
	require.Equal(t, 200, status, text)
	e.real.Stop()
	status, text = s.get("metrics", "/readyz")
	require.Equal(t, 503, status)
	require.Equal(t, "no answer from Redis\n", text)
	status, text = s.get("metrics", "/metrics")
	require.Equal(t, 200, status)
	require.Regexp(t, `qless_scrape_errors_total [1-9]`, text)
	require.Equal(t, 0, s.end(), s.log)
}

func TestServeThatCanNotListenEnds(t *testing.T) {
	e := newEnv(t)
	taken := must(net.Listen("tcp", anywhere))(t)
	defer func() { _ = taken.Close() }()
	r := e.run("", "serve", "--lmstfy", anywhere, "--metrics", taken.Addr().String())
	require.Equal(t, 1, r.status)
	require.Empty(t, r.out)
	require.Contains(t, r.errors, "metrics: listen")
	for _, args := range []string{
		"serve", "serve nonsense", "serve --metrics :0 --log-level loud", "exporter --log-format xml",
	} {
		e.exits(2, args)
	}
}
