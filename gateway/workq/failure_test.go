package workq_test

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go"
	"github.com/qless/qless-go/gateway/workq"
	"github.com/qless/qless-go/internal/testkit"
)

// away is the reply when Redis does not answer, or takes no writes.
const away = "-SERVER-ERROR Read-only mode triggered by cmdlog circuit breaker"

// addLine returns an add command without a payload.
func addLine(id, name string) string { return "add " + id + " " + name + " 60000 3600000 0\r\n" }

// A hanging Redis leads to errors in time. A command repeated by clients takes effect once.
func TestARedisThatHangs(t *testing.T) {
	server := testkit.Start(t)
	// The commands of a client from Dial end with their contexts.
	client := must(qless.Dial(t.Context(), "redis://"+server.Addr(),
		&qless.ClientConfig{Logger: testkit.Quiet()}))(t)
	t.Cleanup(func() { _ = client.Close() })
	e := newEnvOf(t, server, client, func(c *workq.Config) { c.ServerTimeout = time.Second })
	p, waiting := e.dial(), e.dial()
	ready, done := p.add("ready", "payload"), p.add("q", "payload")
	waiting.send("lease other 60000\r\n")
	e.idle("workq/other/0", 1)
	e.redis.Suspend()
	for _, line := range []string{
		"result " + done + " 100", "inspect queue q", "inspect job " + done, "inspect jobs q 0 1",
		"inspect server",
	} {
		require.Equal(t, away, p.ask("%s", line), line)
	}
	// These may have taken effect, and so are not answered.
	id := uuid.NewString()
	for _, line := range []string{
		addLine(id, "q"), "complete " + done + " 2\r\nok", "delete " + uuid.NewString(),
		"fail " + uuid.NewString() + " 0\r\n", "lease none 0",
		"run " + uuid.NewString() + " runs 1000 60000 0\r\n",
	} {
		p := e.dial()
		p.send("%s\r\n", line)
		p.closed()
	}
	require.Equal(t, "-TIMEOUT", p.ask("lease q 1100"))
	e.redis.Resume()

	add := p.ask("%s", addLine(id, "q"))
	require.Contains(t, []string{"+OK", "-CLIENT-ERROR Duplicate job"}, add)
	complete := p.ask("complete %s 2\r\nok", done)
	require.Contains(t, []string{"+OK", "-CLIENT-ERROR Duplicate result"}, complete)
	require.Equal(t, "ok", p.result(done, 20000))
	p.leases("q", id) // the lease that timed out has taken nothing
	require.Equal(t, "-TIMEOUT", p.ask("lease q 10"))
	p.leases("ready", ready)
	id = p.add("other", "x")
	require.Equal(t, "+OK 1", waiting.line())
	fields, _ := waiting.body()
	require.Equal(t, id, fields[0])
}

// A full Redis takes no new jobs, but existing jobs can be run.
func TestAFullRedis(t *testing.T) {
	e := newEnv(t)
	p := e.dial()
	ids := []string{p.add("q", "1"), p.add("q", "2"), p.add("q", "3", "-max-fails=5")}
	rdb := e.redis.Client(t)
	require.NoError(t, rdb.ConfigSet(t.Context(), "maxmemory", "1").Err())
	refused := uuid.NewString()
	require.Equal(t, away, p.ask("%s", addLine(refused, "q")))
	require.Equal(t, away, p.ask("%s", addLine(refused, "new")))
	require.Equal(t, away, p.ask("run %s q 1000 20000 0\r\n", refused))
	p.leases("q", ids[0])
	require.Equal(t, "+OK", p.ask("complete %s 2\r\nok", ids[0]))
	require.Equal(t, "ok", p.result(ids[0], 0))
	require.Equal(t, "+OK", p.ask("delete %s", ids[1]))
	require.NoError(t, rdb.ConfigSet(t.Context(), "maxmemory", "0").Err())
	require.Equal(t, "-NOT-FOUND", p.ask("inspect job %s", refused))
	require.Equal(t, "-NOT-FOUND", p.ask("inspect queue new"))
	p.leases("q", ids[2])
	require.Equal(t, "+OK", p.ask("%s", addLine(refused, "q")))
}

// While a replica takes over, writes fail and leases wait.
func TestAFailover(t *testing.T) {
	e := newEnv(t, func(c *workq.Config) { c.ServerTimeout = time.Second })
	p, waiting := e.dial(), e.dial()
	id := p.add("q", "payload")
	waiting.send("lease other 60000\r\n")
	e.idle("workq/other/0", 1)
	rdb := e.redis.Client(t)
	require.NoError(t, rdb.ReplicaOf(t.Context(), "127.0.0.1", "1").Err())
	refused := uuid.NewString()
	for _, line := range []string{
		addLine(refused, "q"), "complete " + id + " 0\r\n", "fail " + id + " 0\r\n", "delete " + id,
	} {
		require.Equal(t, away, p.ask("%s", line), line)
	}
	require.Equal(t, "-TIMEOUT", p.ask("lease q 1500"))
	require.NoError(t, rdb.ReplicaOf(t.Context(), "no", "one").Err())
	require.Equal(t, "-NOT-FOUND", p.ask("inspect job %s", refused))
	require.Equal(t, "0", p.inspect(id)["state"])
	p.leases("q", id)
	p.add("other", "x")
	require.Equal(t, "+OK 1", waiting.line(), "a lease that waits outlives that")
}

// Jobs, leases, results and schedules survive a restart of the gateway, and of a persistent Redis.
func TestJobsOutliveARestart(t *testing.T) {
	for name, both := range map[string]bool{"of the gateway": false, "of Redis, too": true} {
		t.Run(name, func(t *testing.T) {
			server := testkit.Start(t, "--appendonly", "yes", "--appendfsync", "always")
			e := newEnvOf(t, server, newQless(t, server.Client(t)))
			p := e.dial()
			leased, done, deleted := p.add("leased", "x"), p.add("q", "x"), p.add("q", "x")
			p.lease("leased")
			require.Equal(t, "+OK", p.ask("complete %s 2\r\nok", done))
			require.Equal(t, "+OK", p.ask("delete %s", deleted))
			scheduled := uuid.NewString()
			require.Equal(t, "+OK", p.ask("schedule %s q 1000 60000 %s 0\r\n", scheduled,
				time.Now().Add(time.Hour).UTC().Format("2006-01-02T15:04:05Z")))
			low, high := p.add("q", "payload", "-priority=-3"), p.add("q", "first", "-priority=7")
			e.stop()
			if both {
				e.redis.Kill()
				e.redis.Restart()
				e.qless = newQless(t, e.redis.Client(t))
			}
			e.serve("127.0.0.1:0")
			p = e.dial()
			require.Equal(t, "4", p.inspect(leased)["state"])
			require.Equal(t, "ok", p.result(done, 0))
			require.Equal(t, "-NOT-FOUND", p.ask("inspect job %s", deleted))
			require.NotEmpty(t, p.inspect(scheduled)["time"])
			require.Equal(t, "first", p.leases("q", high))
			require.Equal(t, "7", p.inspect(high)["priority"])
			require.Equal(t, "payload", p.leases("q", low))
			require.Equal(t, "+OK", p.ask("complete %s 0\r\n", leased))
		})
	}
}

func TestPipelinedChangesAreDoneInOrder(t *testing.T) {
	const n = 500
	e := newEnv(t)
	p := e.dial()
	var all strings.Builder
	for range n {
		id := uuid.NewString()
		fmt.Fprintf(&all, "add %s q 1000 60000 4\r\nping\r\ncomplete %s 4\r\npong\r\n", id, id)
		fmt.Fprintf(&all, "result %s 1000\r\ndelete %s\r\nresult %s 1000\r\n", id, id, id)
	}
	go func() { _, _ = p.net.Write([]byte(all.String())) }()
	for range n {
		require.Equal(t, "+OK", p.line())
		require.Equal(t, "+OK", p.line())
		require.Equal(t, "+OK 1", p.line())
		_, result := p.body()
		require.Equal(t, "pong", result)
		require.Equal(t, "+OK", p.line())
		require.Equal(t, "-NOT-FOUND", p.line())
	}
}

func TestAClientThatDoesNotReadIsCutOff(t *testing.T) {
	e := newEnv(t, func(c *workq.Config) { c.WriteTimeout = 50 * time.Millisecond })
	p, other := e.dial(), e.dial()
	id := p.add("q", strings.Repeat("x", 1<<20))
	require.NoError(t, p.net.(*net.TCPConn).SetReadBuffer(4096))
	go func() {
		for {
			if _, err := fmt.Fprintf(p.net, "inspect job %s\r\n", id); err != nil {
				return
			}
		}
	}()
	testkit.Until(t, "the end of its connection", func() bool {
		return other.active() == "active-clients 1"
	})
}

func TestLinesAndPayloadsThatAreTooLong(t *testing.T) {
	e := newEnv(t)
	p := e.dial()
	go func() { _, _ = p.net.Write([]byte("lease " + strings.Repeat("x", 2<<20) + " 0\r\n")) }()
	p.closed()
	p = e.dial()
	p.send("add %s q 1000 1000 %d\r\n", uuid.NewString(), 1<<20+1)
	require.Equal(t, "-CLIENT-ERROR Invalid payload size", p.line())
	require.Equal(t, "-NOT-FOUND", p.ask("inspect queue q"))
}
