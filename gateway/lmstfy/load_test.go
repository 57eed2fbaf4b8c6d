package lmstfy_test

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
)

// A rawClient is a connection to the gateway that needs no goroutine.
type rawClient struct {
	t      *testing.T
	conn   net.Conn
	reader *bufio.Reader
}

func (g *gateway) dial() *rawClient {
	g.t.Helper()
	conn := must(net.Dial("tcp", g.api))(g.t)
	g.t.Cleanup(func() { _ = conn.Close() })
	require.NoError(g.t, conn.SetDeadline(time.Now().Add(4*patience)))
	return &rawClient{t: g.t, conn: conn, reader: bufio.NewReaderSize(conn, 1024)}
}

func (c *rawClient) send(text string) {
	c.t.Helper()
	must(c.conn.Write([]byte(text)))(c.t)
}

// receive reads an answer.
func (c *rawClient) receive() (status int, body string) {
	c.t.Helper()
	answer := must(http.ReadResponse(c.reader, nil))(c.t)
	defer func() { _ = answer.Body.Close() }()
	var text strings.Builder
	must(bufio.NewReader(answer.Body).WriteTo(&text))(c.t)
	return answer.StatusCode, text.String()
}

// expect reads an answer that must have a status, and returns its body.
func (c *rawClient) expect(want int) string {
	c.t.Helper()
	status, body := c.receive()
	require.Equal(c.t, want, status, body)
	return body
}

// Waiting consumers need only their connections and the goroutines of net/http.
func TestThousandsOfConsumersShareFewConnections(t *testing.T) {
	g := start(t, nil)
	const consumers = 2000
	g.publish("/api/ns/q", "x")
	g.ask("GET", "/api/ns/q", "")
	before := runtime.NumGoroutine()
	clients := make([]*rawClient, consumers)
	for i := range clients {
		clients[i] = g.dial()
		clients[i].send("GET /api/ns/many?timeout=300 HTTP/1.1\r\nHost: x\r\n\r\n")
	}
	// Each connection has two: one serves it, the other reads while the request is answered.
	g.until(func() bool { return runtime.NumGoroutine() >= before+2*consumers })
	require.Less(t, runtime.NumGoroutine(), before+2*consumers+100)
	require.Less(t, g.connections(), 30)

	put := map[string]bool{}
	var mu sync.Mutex
	var publishing sync.WaitGroup
	for range 8 {
		publishing.Go(func() {
			for range consumers / 8 {
				id := g.publish("/api/ns/many", "x")
				mu.Lock()
				put[id] = true
				mu.Unlock()
			}
		})
	}
	publishing.Wait()
	got := map[string]bool{}
	for _, c := range clients {
		body := c.expect(http.StatusOK)
		got[g.decode(body)["job_id"].(string)] = true
	}
	require.Equal(t, put, got)
	require.Less(t, g.connections(), 60)
	counts := must(g.client.Queue("ns/many").Counts(t.Context()))(t)
	require.Equal(t, consumers, counts.Running)
	require.Zero(t, counts.Waiting)
}

// connections returns the number of connections to Redis.
func (g *gateway) connections() int {
	g.t.Helper()
	list := must(g.rdb.ClientList(g.t.Context()).Result())(g.t)
	return strings.Count(list, "\n")
}

func TestRequestsThatAreSentWithoutWaitingForAnswers(t *testing.T) {
	g := start(t, nil)
	const requests = 10_000
	c := g.dial()
	sent := make(chan error, 1)
	go func() {
		writer := bufio.NewWriter(c.conn)
		for i := range requests {
			_, _ = fmt.Fprintf(writer,
				"PUT /api/ns/q HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\n%04d", i)
		}
		sent <- writer.Flush()
	}()
	ids := map[string]bool{}
	for range requests {
		body := c.expect(http.StatusCreated)
		ids[g.decode(body)["job_id"].(string)] = true
	}
	require.NoError(t, <-sent)
	require.Len(t, ids, requests)
	require.EqualValues(t, requests, g.get("/api/ns/q/size")["size"])
	c.send("GET /api/ns/q HTTP/1.1\r\nHost: x\r\n\r\n")
	_, body := c.receive()
	require.Equal(t, "MDAwMA==", g.decode(body)["data"], "they keep their order")
}

func TestJobsAreDeletedTogether(t *testing.T) {
	g := start(t, nil)
	const jobs = 500
	ids := make(chan string, jobs)
	for range jobs {
		ids <- g.publish("/api/ns/q?tries=2", "x")
	}
	close(ids)
	for range jobs - 10 {
		g.expect(http.StatusOK, "GET", "/api/ns/q?ttr=300", "")
	}
	var deleting sync.WaitGroup
	for range 16 {
		deleting.Go(func() {
			for id := range ids {
				for _, queue := range []string{"other", "q", "q"} {
					status, text := g.ask("DELETE", "/api/ns/"+queue+"/job/"+id, "")
					if status != http.StatusNoContent {
						t.Error(status, text)
					}
				}
			}
		})
	}
	deleting.Wait()
	counts := must(g.client.Queue("ns/q").Counts(t.Context()))(t)
	require.Equal(t, qless.QueueCounts{Name: "ns/q"}, counts)
	stats := must(g.client.Queue("ns/q").Stats(t.Context(), time.Now()))(t)
	require.Equal(t, jobs-10, stats.Run.Count, "those that were consumed are complete")
}
