package lmstfy_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/gateway/lmstfy"
	"github.com/qless/qless-go/internal/testkit"
)

func TestTextThatIsNotUTF8(t *testing.T) {
	g := start(t, nil)
	for _, c := range []struct {
		request string
		status  int
	}{
		{"PUT /api/n\xffs/q", 400}, {"PUT /api/ns/\xff", 400}, {"GET /api/ns/q,\xff", 400},
		{"GET /api/ns/%ff/peek", 400}, {"GET /api/ns/q/job/%ff%fe", 404},
		{"DELETE /api/ns/q/job/%ff", 204}, {"PUT /api/ns/q?delay=%ff", 400},
		{"PUT /api/ns/q?token=%ff", 201}, {"PUT /\xff", 404},
	} {
		client := g.dial()
		client.send(c.request + " HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n")
		status, body := client.receive()
		require.Equal(t, c.status, status, "%q: %s", c.request, body)
		if strings.HasPrefix(body, "{") {
			g.decode(body)
		}
	}
	client := g.dial()
	client.send("PUT /api/ns/attr HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n" +
		"Enable-Job-Version: yes\r\nJob-Attr-A: \xff\xfe\r\n\r\n\xff\x00")
	client.expect(http.StatusCreated)
	answer := g.get("/api/ns/attr")
	require.Equal(t, "/wA=", answer["data"], "bodies are bytes")
	require.Equal(t, map[string]any{"a": "\uFFFD\uFFFD"}, answer["attributes"])
	_, metrics := g.askAt(g.admin, "GET", "/metrics", "")
	require.Equal(t, strings.ToValidUTF8(metrics, ""), metrics)
}

// While Redis takes no writes, requests fail without any effect.
func TestARedisThatIsFull(t *testing.T) {
	g := start(t, nil)
	ctx := t.Context()
	id := g.publish("/api/ns/q?tries=2", "x")
	limit := func(bytes string) {
		require.NoError(t, g.rdb.ConfigSet(ctx, "maxmemory", bytes).Err())
	}
	limit("1")
	for _, c := range [][2]string{
		{"PUT", "/api/ns/q"}, {"PUT", "/api/ns/q?delay=5"}, {"PUT", "/api/ns/q/bulk"},
	} {
		text := g.expect(http.StatusInternalServerError, c[0], c[1], "[1]")
		require.JSONEq(t, `{"error":"internal error"}`, text, c)
	}
	limit("0")
	require.EqualValues(t, 1, g.get("/api/ns/q/size")["size"])
	limit("1")
	// Requests that free memory still work.
	require.Equal(t, id, g.get("/api/ns/q")["job_id"])
	g.expect(http.StatusNoContent, "DELETE", "/api/ns/q/job/"+id, "")
	limit("0")
	require.Equal(t, qless.QueueCounts{Name: "ns/q"}, must(g.client.Queue("ns/q").Counts(ctx))(t))
}

// If Redis does not answer, a request takes no longer than the client's wait.
func TestARedisThatIsSlow(t *testing.T) {
	g := start(t, nil)
	g.publish("/api/ns/q", "x")
	g.redis.Suspend()
	done := make(chan int, 3)
	for _, path := range []string{"PUT /api/ns/q", "GET /api/ns/q?timeout=1", "GET /api/ns/q/size"} {
		method, path, _ := strings.Cut(path, " ")
		go func() {
			status, _ := g.ask(method, path, "x")
			done <- status
		}()
	}
	for range cap(done) {
		require.Contains(t, []int{404, 500}, testkit.Soon(t, "an answer", done))
	}
	g.redis.Resume()
	g.until(func() bool {
		status, _ := g.ask("GET", "/api/ns/q/size", "")
		return status == http.StatusOK
	})
}

// A consumer waits no longer than requested, even if its token has a limit.
func TestAConsumersTimeHoldsWhileRedisHangs(t *testing.T) {
	for name, warm := range map[string]bool{"known token": true, "unknown token": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := start(t, func(c *lmstfy.Config) { c.SkipTokens = false })
			_, text := g.askAt(g.admin, "POST", "/token/ns?description=x", "")
			token, _ := g.decode(text)["token"].(string)
			g.askAt(g.admin, "POST", "/token/ns/"+token+"/limit", `{"read": 9, "interval": 60}`)
			path := "/api/ns/q?token=" + token
			if warm {
				g.expect(http.StatusNotFound, "GET", path, "")
			}
			g.redis.Suspend()
			defer g.redis.Resume()
			answered := make(chan int, 1)
			go func() {
				status, _ := g.ask("GET", path+"&timeout=1", "")
				answered <- status
			}()
			select {
			case status := <-answered:
				require.Contains(t, []int{404, 500}, status)
			case <-time.After(4 * time.Second): // less than the limit for one command of Redis
				t.Fatal("the consumer still waits")
			}
		})
	}
}

// A consumer may name any number of queues, and receives jobs from the queues in the given order.
func TestAConsumerOfManyQueues(t *testing.T) {
	g := start(t, nil)
	names := make([]string, 2500)
	for i := range names {
		names[i] = fmt.Sprint("q", i)
	}
	all := strings.Join(names, ",") + ",q0,q0"
	last := g.publish("/api/ns/q2499", "x")
	middle := g.publish("/api/ns/q1700", "x")
	firstOne := g.publish("/api/ns/q3", "x")
	require.Equal(t, firstOne, g.get("/api/ns/" + all)["job_id"])
	text := g.expect(http.StatusOK, "GET", "/api/ns/"+all+"?count=5", "")
	require.Less(t, strings.Index(text, middle), strings.Index(text, last))
	require.Positive(t, strings.Index(text, middle))
	g.expect(http.StatusNotFound, "GET", "/api/ns/"+all+"?timeout=1", "")
	for _, queue := range []string{"q7", "q2001"} {
		client := g.dial()
		client.send("GET /api/ns/" + all + "?timeout=60 HTTP/1.1\r\nHost: x\r\n\r\n")
		g.idle("ns/q7")
		id := g.publish("/api/ns/"+queue, "x")
		require.Equal(t, id, g.decode(client.expect(http.StatusOK))["job_id"])
	}
}

func TestMetricsOfTheServer(t *testing.T) {
	g := start(t, nil)
	g.publish("/api/ns/q", "x")
	g.ask("GET", "/api/ns/q", "")
	_, text := g.askAt(g.admin, "GET", "/metrics", "")
	addr := g.redis.Addr()
	for _, line := range []string{
		`infra_lmstfy_redis_timer_full_batches{pool="default"} `,
		fmt.Sprintf(`infra_lmstfy_redis_qps{command="hgetall",node=%q,status="ok"} `, addr),
		fmt.Sprintf(`infra_lmstfy_redis_latency_count{command="hgetall",node=%q,status="ok"} `, addr),
		`,status="ok",le="32768"} `,
	} {
		require.Contains(t, text, line)
	}
}

// Each of several requests published together has its own result.
func TestRequestsThatGoTogetherFailAlone(t *testing.T) {
	g := start(t, func(config *lmstfy.Config) { config.Tries = 2 })
	results := make(chan string, 300)
	for i := range cap(results) {
		go func() {
			path := "/api/ns/q"
			if i%3 == 0 {
				path += "?delay=3&ttl=2"
			}
			status, text := g.ask("PUT", path, fmt.Sprint(i))
			results <- fmt.Sprint(i%3 == 0, " ", status, " ", strings.Contains(text, "ttl is shorter"))
		}()
	}
	counts := map[string]int{}
	for range cap(results) {
		counts[<-results]++
	}
	require.Equal(t, map[string]int{"true 400 true": 100, "false 201 false": 200}, counts)
}
