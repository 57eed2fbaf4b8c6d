package lmstfy_test

import (
	"context"
	"encoding/base64"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/gateway/lmstfy"
)

func TestJobsOfQlessAndOfTheGatewayAreTheSame(t *testing.T) {
	g := start(t, nil)
	ctx := t.Context()
	queue := g.client.Queue("ns/q")

	id := g.publish("/api/ns/q?tries=3", "hello\x00")
	jobs := must(queue.Pop(ctx, 1))(t)
	require.Equal(t, id, jobs[0].JID)
	require.Equal(t, lmstfy.Klass, jobs[0].Klass)
	var message lmstfy.Message
	require.NoError(t, jobs[0].Unmarshal(&message))
	require.Equal(t, "hello\x00", string(message.Body))
	require.NoError(t, jobs[0].Complete(ctx))

	jid := must(queue.Put(ctx, "Greet", map[string]int{"to": 7}))(t)
	answer := g.get("/api/ns/q")
	require.Equal(t, jid, answer["job_id"])
	require.Equal(t, base64.StdEncoding.EncodeToString([]byte(`{"to":7}`)), answer["data"])
	g.expect(http.StatusNoContent, "DELETE", "/api/ns/q/job/"+jid, "")
	job := must(g.client.Job(ctx, jid))(t)
	require.Equal(t, qless.StateComplete, job.State, "a consumed job is complete when it is deleted")
}

func TestADeletedJobThatWasConsumedCountsAsComplete(t *testing.T) {
	g := start(t, nil)
	id := g.publish("/api/ns/q", "x")
	g.expect(http.StatusOK, "GET", "/api/ns/q", "")
	g.expect(http.StatusNoContent, "DELETE", "/api/ns/q/job/"+id, "")
	_, err := g.client.Job(t.Context(), id)
	require.ErrorIs(t, err, qless.ErrNotFound)
	stats := must(g.client.Queue("ns/q").Stats(t.Context(), time.Now()))(t)
	require.Equal(t, 1, stats.Run.Count)
}

func TestARedisThatIsAway(t *testing.T) {
	g := start(t, nil)
	g.publish("/api/ns/q", "x")
	g.redis.Kill()
	for _, c := range [][2]string{
		{"PUT", "/api/ns/q"}, {"PUT", "/api/ns/q/bulk"}, {"GET", "/api/ns/q"},
		{"GET", "/api/ns/q?timeout=20"}, {"GET", "/api/ns/q?count=3"}, {"GET", "/api/ns/q/peek"},
		{"GET", "/api/ns/q/size"}, {"GET", "/api/ns/q/job/x"}, {"DELETE", "/api/ns/q/job/x"},
		{"DELETE", "/api/ns/q"}, {"GET", "/api/ns/q/deadletter"}, {"PUT", "/api/ns/q/deadletter"},
		{"DELETE", "/api/ns/q/deadletter"},
	} {
		text := g.expect(500, c[0], c[1], "[1]")
		require.JSONEq(t, `{"error":"internal error"}`, text, c)
	}
	g.redis.Restart()
	g.until(func() bool {
		status, _ := g.ask("GET", "/api/ns/q/size", "")
		return status == http.StatusOK
	})
}

func TestShutdownAnswersConsumersThatWait(t *testing.T) {
	g := start(t, nil)
	answers := make(chan int, 3)
	for range cap(answers) {
		go func() {
			status, _ := g.ask("GET", "/api/ns/q?timeout=600", "")
			answers <- status
		}()
	}
	g.idle("ns/q")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	require.NoError(t, g.server.Shutdown(ctx))
	for range cap(answers) {
		require.Equal(t, http.StatusNotFound, <-answers)
	}
	for range cap(g.ended) {
		require.ErrorIs(t, <-g.ended, http.ErrServerClosed)
	}
	must(g.client.Queue("ns/q").Put(ctx, "K", nil))(t)
	g.until(func() bool { // a request on its way may take it, but gives it back
		counts, err := g.client.Queue("ns/q").Counts(ctx)
		return err == nil && counts.Waiting == 1 && counts.Running == 0
	})
}

func TestAPoolThatIsMigrated(t *testing.T) {
	var old, target *qless.Client
	g := start(t, func(config *lmstfy.Config) {
		rdb := config.Admin.(*redis.Client)
		target = must(qless.New(rdb, &qless.ClientConfig{Namespace: "new:"}))(t)
		old = config.Pools[lmstfy.DefaultPool].Client
		config.Pools[lmstfy.DefaultPool] = lmstfy.Pool{Client: old, MigrateTo: "new"}
		config.Pools["new"] = lmstfy.Pool{Client: target}
	})
	ctx := t.Context()
	left := must(old.Queue("ns/q").Put(ctx, "K", nil))(t)
	moved := g.publish("/api/ns/q", "x")
	must(target.Job(ctx, moved))(t)

	require.EqualValues(t, 2, g.get("/api/ns/q/size")["size"])
	for _, id := range []string{left, moved} {
		require.Equal(t, id, g.get("/api/ns/q/peek")["job_id"])
		require.Equal(t, id, g.get("/api/ns/q")["job_id"])
		g.expect(http.StatusNoContent, "DELETE", "/api/ns/q/job/"+id, "")
	}

	var wait sync.WaitGroup
	for _, client := range []*qless.Client{old, target} {
		wait.Go(func() {
			status, _ := g.ask("GET", "/api/ns/q?timeout=30", "")
			if status != http.StatusOK {
				t.Error(status)
			}
		})
		must(client.Queue("ns/q").Put(ctx, "K", nil))(t)
		wait.Wait()
	}
}

func TestAConsumerThatGoesAwayCostsNoTry(t *testing.T) {
	g := start(t, nil)
	for i := range 20 {
		ctx, cancel := context.WithCancel(t.Context())
		r, err := http.NewRequestWithContext(ctx, "GET", "http://"+g.api+"/api/ns/q?timeout=30", nil)
		require.NoError(t, err)
		gone := make(chan struct{})
		go func() {
			defer close(gone)
			if answer, err := http.DefaultClient.Do(r); err == nil {
				_ = answer.Body.Close()
			}
		}()
		g.until(func() bool { return g.rdb.Exists(t.Context(), "ql:x:idle").Val() > 0 })
		cancel()
		<-gone
		g.until(func() bool { return g.rdb.Exists(t.Context(), "ql:x:idle").Val() == 0 })
		id := g.publish("/api/ns/q", "x")
		answer := g.get("/api/ns/q?timeout=5")
		require.Equal(t, id, answer["job_id"], i)
		require.EqualValues(t, 0, answer["remain_tries"])
	}
}

func TestJobsOfABulkKeepTheirOrderAfterADelay(t *testing.T) {
	g := start(t, nil)
	body := "[" + strings.Repeat("1,", 49) + "1]"
	text := g.expect(http.StatusCreated, "PUT", "/api/ns/q/bulk?delay=1", body)
	ids := g.decode(text)["job_ids"].([]any)
	require.Len(t, ids, 50)
	for _, id := range ids {
		require.Equal(t, id, g.get("/api/ns/q?timeout=10")["job_id"])
	}
}

func TestALargeBulk(t *testing.T) {
	g := start(t, nil)
	job := `"` + strings.Repeat("x", 1<<20-2) + `"`
	body := "[" + strings.Repeat(job+",", 11) + job + "]"
	text := g.expect(http.StatusCreated, "PUT", "/api/ns/q/bulk", body)
	for _, id := range g.decode(text)["job_ids"].([]any) {
		answer := g.get("/api/ns/q")
		require.Equal(t, id, answer["job_id"])
		require.Equal(t, base64.StdEncoding.EncodeToString([]byte(job)), answer["data"])
	}
}

func TestTheLogHasNoTokens(t *testing.T) {
	var log testLog
	g := start(t, func(config *lmstfy.Config) {
		config.Logger, config.AccessLog = log.logger(), true
	})
	g.ask("GET", "/api/ns/q?token=secret-1", "")
	g.askAt(g.admin, "GET", "/token/ns/secret-2/limit", "")
	g.until(func() bool { return strings.Count(log.String(), "msg=request") == 2 })
	require.NotContains(t, log.String(), "secret")
	require.Contains(t, log.String(), "path=/api/ns/q")
}

func TestInvalidConfigurations(t *testing.T) {
	g := start(t, nil)
	good := func() lmstfy.Config {
		return lmstfy.Config{
			Pools: map[string]lmstfy.Pool{lmstfy.DefaultPool: {Client: g.client}}, Admin: g.rdb,
		}
	}
	for name, change := range map[string]func(*lmstfy.Config){
		"Admin":     func(c *lmstfy.Config) { c.Admin = nil },
		`"default"`: func(c *lmstfy.Config) { c.Pools = nil },
		"no client": func(c *lmstfy.Config) { c.Pools["x"] = lmstfy.Pool{} },
		"a:b":       func(c *lmstfy.Config) { c.Pools["a:b"] = lmstfy.Pool{Client: g.client} },
		"migrated": func(c *lmstfy.Config) {
			c.Pools["x"] = lmstfy.Pool{Client: g.client, MigrateTo: "y"}
		},
		"Tries":       func(c *lmstfy.Config) { c.Tries = 1 << 16 },
		"TTL":         func(c *lmstfy.Config) { c.TTL = -2 },
		"whole":       func(c *lmstfy.Config) { c.TTR = time.Millisecond },
		"Delay":       func(c *lmstfy.Config) { c.Delay = -1 },
		"MaxBulkSize": func(c *lmstfy.Config) { c.MaxBulkSize = -1 },
	} {
		config := good()
		change(&config)
		_, err := lmstfy.New(config)
		require.ErrorIs(t, err, qless.ErrInvalid, name)
		require.ErrorContains(t, err, name)
	}
}

func TestClientsThatAreSlow(t *testing.T) {
	g := start(t, func(config *lmstfy.Config) {
		config.ReadTimeout = time.Second
		config.MaxConnections = 3
	})
	for name, sent := range map[string]string{
		"nothing":     "",
		"half a line": "PUT /api/ns/q HT",
		"headers":     "PUT /api/ns/q HTTP/1.1\r\nHost: x\r\nX-A: ",
		"half a body": "PUT /api/ns/q HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\nabc",
	} {
		client := g.dial()
		client.send(sent)
		require.NoError(t, client.conn.SetReadDeadline(time.Now().Add(patience)))
		_, err := io.Copy(io.Discard, client.conn) // until the server has closed it
		var timeout net.Error
		require.False(t, errors.As(err, &timeout) && timeout.Timeout(), name)
	}
	// A consumer may wait for longer than a client may take to send a request.
	g.expect(http.StatusNotFound, "GET", "/api/ns/q?timeout=1", "")
	g.expect(http.StatusCreated, "PUT", "/api/ns/q", "x")
}

func TestHeadersThatAreTooLong(t *testing.T) {
	g := start(t, nil)
	r, err := http.NewRequestWithContext(t.Context(), "GET", "http://"+g.api+"/api/ns/q", nil)
	require.NoError(t, err)
	r.Header.Set("X-A", strings.Repeat("x", 1<<17))
	answer := must(http.DefaultClient.Do(r))(t)
	_ = answer.Body.Close() // the connection may be reset before the end of the body
	require.Equal(t, http.StatusRequestHeaderFieldsTooLarge, answer.StatusCode)
}

func TestManyConsumersWaitAndEachJobIsGivenOnce(t *testing.T) {
	g := start(t, nil)
	const consumers = 200
	var wait sync.WaitGroup
	var mu sync.Mutex
	got := map[string]int{}
	for range consumers {
		wait.Go(func() {
			status, text := g.ask("GET", "/api/ns/q?timeout=60", "")
			if status != http.StatusOK {
				t.Error(status, text)
				return
			}
			id := g.decode(text)["job_id"].(string)
			mu.Lock()
			defer mu.Unlock()
			got[id]++
		})
	}
	for range consumers {
		g.publish("/api/ns/q", "x")
	}
	wait.Wait()
	require.Len(t, got, consumers)
}
