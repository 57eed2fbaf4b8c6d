package workq_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
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

// vanish closes the connection abruptly: later data is answered with a reset.
func (p *peer) vanish() {
	require.NoError(p, p.net.(*net.TCPConn).SetLinger(0))
	require.NoError(p, p.net.Close())
}

// admitted sends a command, and reports whether it is answered.
func (p *peer) admitted() bool {
	_, _ = p.net.Write([]byte("foo\r\n"))
	_ = p.net.SetReadDeadline(time.Now().Add(patience))
	_, err := p.in.ReadByte()
	return err == nil
}

// idle waits until leases wait for a queue.
func (e *env) idle(queue string, n int64) {
	e.Helper()
	rdb := e.redis.Client(e)
	testkit.Until(e, "idle leases", func() bool {
		return rdb.ZCard(e.Context(), "ql:x:idle:"+queue).Val() >= n
	})
}

func TestAClientThatIsGoneGetsNoJob(t *testing.T) {
	for name, leave := range map[string]func(p *peer){
		"closed": func(p *peer) { require.NoError(p, p.net.Close()) },
		"reset":  func(p *peer) { p.vanish() },
	} {
		t.Run(name, func(t *testing.T) {
			e := newEnv(t)
			gone, other := e.dial(), e.dial()
			gone.send("lease q 60000\r\n")
			e.idle("workq/q/0", 1)
			leave(gone)
			id := other.add("q", "payload", "-max-attempts=1")
			require.Equal(t, "payload", other.leases("q", id))
			require.Equal(t, "1", other.inspect(id)["attempts"])
		})
	}
}

func TestAClientThatSendsNoMoreGetsItsJob(t *testing.T) {
	e := newEnv(t)
	half, other := e.dial(), e.dial()
	half.send("lease q 60000\r\n")
	e.idle("workq/q/0", 1)
	require.NoError(t, half.net.(*net.TCPConn).CloseWrite())
	id := other.add("q", "payload")
	require.Equal(t, "+OK 1", half.line())
	fields, _ := half.body()
	require.Equal(t, id, fields[0])
	half.closed()
	require.Equal(t, "4", other.inspect(id)["state"])
}

func TestTenThousandPipelinedCommandsAreAnsweredInOrder(t *testing.T) {
	e := newEnv(t)
	p := e.dial()
	go func() {
		var all strings.Builder
		for i := range 5000 {
			fmt.Fprintf(&all, "inspect queue q%d\r\nfoo\r\n", i)
		}
		_, _ = p.net.Write([]byte(all.String()))
	}()
	for range 5000 {
		require.Equal(t, "-NOT-FOUND", p.line())
		require.Equal(t, "-CLIENT-ERROR Unknown command", p.line())
	}
}

func TestInvalidUTF8IsAnsweredOrKept(t *testing.T) {
	e := newEnv(t)
	p := e.dial()
	id := uuid.NewString()
	for _, line := range []string{
		"\xff", "add \xff q 1 1 0\r\n", "add %s \xff 1000 1000 0\r\n", "add %s q \xff 1000 0\r\n",
		"add %s q 1000 \xff 0\r\n", "add %s q 1000 1000 \xff", "add %s q 1000 1000 0 -priority=\xff\r\n",
		"lease \xff 0", "lease q \xff", "result \xff 0", "delete \xff", "inspect \xff",
		"inspect job \xff", "inspect queue \xff", "inspect jobs \xff 0 1", "inspect jobs q \xff 1",
		"schedule %s q 1000 1000 \xff 0\r\n", "run %s q 1000 \xff 0\r\n", "complete \xff 0\r\n",
	} {
		if strings.Contains(line, "%s") {
			line = fmt.Sprintf(line, id)
		}
		must(p.net.Write([]byte(line + "\r\n")))(t)
		require.Contains(t, p.line(), "-CLIENT-ERROR ", "%q", line)
	}
	id = p.add("q", "\xff\xfe\r\n", "-\xff=\xff")
	_, payload := p.lease("q")
	require.Equal(t, "\xff\xfe\r\n", payload)
	require.Equal(t, "+OK", p.ask("complete %s 2\r\n\xff\x00", id))
	require.Equal(t, "\xff\x00", p.result(id, 0))
}

func TestSlowClientsAreCutOff(t *testing.T) {
	e := newEnv(t, func(c *workq.Config) { c.CommandTimeout = 50 * time.Millisecond })
	idle := e.dial()
	for _, begun := range []string{
		"l", "lease q", "add 6ba7b810-9dad-41d1-80b4-00c04fd430c4 q 1 1 9\r\nabc",
	} {
		p := e.dial()
		p.send("%s", begun)
		p.closed()
	}
	require.Equal(t, "-NOT-FOUND", idle.ask("inspect queue q"), "it has sent nothing, and may stay")

	e = newEnv(t, func(c *workq.Config) { c.IdleTimeout = 50 * time.Millisecond })
	e.dial().closed()
	testkit.Until(t, "a client that waits is not idle", func() bool {
		p := e.dial()
		p.send("lease q 300\r\n")
		_ = p.net.SetReadDeadline(time.Now().Add(patience))
		line, _ := p.in.ReadString('\n') // none if cut off before sending a command
		return line == "-TIMEOUT\r\n"
	})
}

func TestThereMayBeSoManyConnections(t *testing.T) {
	e := newEnv(t, func(c *workq.Config) { c.MaxConnections = 2 })
	first, second := e.dial(), e.dial()
	require.Equal(t, "-NOT-FOUND", first.ask("inspect queue q"))
	require.Equal(t, "-NOT-FOUND", second.ask("inspect queue q"))
	e.dial().closed()
	require.NoError(t, first.net.Close())
	testkit.Until(t, "room for another connection", func() bool { return e.dial().admitted() })
}

// If Redis could not be reached in time, the command certainly had no effect, and gets an error.
func TestAServerThatIsAwayIsAnError(t *testing.T) {
	server := testkit.Start(t)
	options := testkit.Options(server.Addr())
	options.DialerRetries = 1
	rdb := redis.NewClient(options)
	t.Cleanup(func() { _ = rdb.Close() })
	second := func(c *workq.Config) { c.ServerTimeout = time.Second }
	e := newEnvOf(t, server, newQless(t, rdb), second)
	p, waiting := e.dial(), e.dial()
	id := p.add("q", "payload")
	waiting.send("lease other 60000\r\n")
	e.idle("workq/other/0", 1)
	e.redis.Kill()
	for _, line := range []string{
		"add " + uuid.NewString() + " q 1000 1000 0\r\n", "complete " + id + " 0\r\n",
		"fail " + id + " 0\r\n", "delete " + id, "result " + id + " 100", "inspect queue q",
		"inspect job " + id, "inspect jobs q 0 1", "lease q 0",
	} {
		require.Equal(t, away, p.ask("%s", line), line)
	}
	require.Equal(t, "-TIMEOUT", p.ask("lease q 1500"))
	e.redis.Restart()
	testkit.Until(t, "the server", func() bool {
		return p.ask("add %s other 1000 60000 0\r\n", uuid.NewString()) == "+OK"
	})
	require.Equal(t, "+OK 1", waiting.line(), "a lease that waits outlives that")
}

func TestShutdownAnswersThoseWhoWait(t *testing.T) {
	e := newEnv(t)
	idle, leasing, waiting, running := e.dial(), e.dial(), e.dial(), e.dial()
	id := waiting.add("q", "payload")
	leasing.send("lease other 60000\r\n")
	waiting.send("result %s 60000\r\n", id)
	run := uuid.NewString()
	running.send("run %s runs 60000 60000 0\r\n\r\n", run)
	e.idle("workq/other/0", 1)
	testkit.Until(t, "the job of the run", func() bool {
		_, err := e.qless.Job(t.Context(), run)
		return err == nil
	})
	e.stop()
	for _, p := range []*peer{leasing, waiting, running} {
		require.Equal(t, "-TIMEOUT", p.line())
		p.closed()
	}
	idle.closed()
	_, err := e.qless.Job(t.Context(), run)
	require.ErrorIs(t, err, qless.ErrNotFound)
	e.serve(e.addr)
	e.dial().leases("q", id)
}

func TestTwoGatewaysShareTheirJobs(t *testing.T) {
	often := func(c *workq.Config) { c.RefreshInterval = 50 * time.Millisecond }
	e := newEnv(t, often)
	one, two := e.dial(), newEnvOf(t, e.redis, newQless(t, e.redis.Client(t)), often).dial()
	one.send("lease q 60000\r\n")
	e.idle("workq/q/0", 1)
	id := two.add("q", "payload", "-priority=-5") // unknown to the other gateway
	require.Equal(t, "+OK 1", one.line())
	fields, _ := one.body()
	require.Equal(t, id, fields[0])
	two.send("result %s 60000\r\n", id)
	require.Equal(t, "+OK", one.ask("complete %s 4\r\npong", id))
	require.Equal(t, "+OK 1", two.line())
}

func TestManyPrioritiesAreServedInOrder(t *testing.T) {
	e := newEnv(t, func(c *workq.Config) { c.RefreshInterval = 20 * time.Millisecond })
	p := e.dial()
	var want []string
	for i := range 40 {
		p.add("q", fmt.Sprint(i), fmt.Sprintf("-priority=%d", i*1000))
		want = append([]string{fmt.Sprint(i)}, want...)
	}
	var got []string
	for range want {
		_, payload := p.lease("q")
		got = append(got, payload)
	}
	require.Equal(t, want, got)
	p.add("q", "again", "-priority=1000")
	_, payload := p.lease("q")
	require.Equal(t, "again", payload, "of a priority that may have been passed over")
}

func TestAttemptsUsedByFailuresCount(t *testing.T) {
	e := newEnv(t)
	p := e.dial()
	id := p.add("q", "x", "-max-attempts=2", "-max-fails=9")
	for range 2 {
		p.lease("q")
		require.Equal(t, "+OK", p.ask("fail %s 3\r\nbad", id))
	}
	require.Equal(t, "2", p.inspect(id)["state"])
	require.Equal(t, "2", p.inspect(id)["fails"])
	require.Equal(t, "+OK 1", p.ask("result %s 0", id))
}

func TestGoWorksWorkqsJobsAndTheOtherWayRound(t *testing.T) {
	e := newEnv(t)
	p := e.dial()
	id := p.add("sum", "1 2 3")
	worker, err := qless.NewWorker(e.qless, qless.WorkerConfig{
		Queues: []string{workq.Queue("sum", 0)}, Logger: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	worker.Handle("sum", qless.TypedResult(
		func(_ context.Context, _ *qless.Job, numbers workq.Body) (workq.Body, error) {
			return workq.Body{Body: append(numbers.Body, " = 6"...)}, nil
		}))
	require.NoError(t, worker.Start(t.Context()))
	t.Cleanup(func() { _ = worker.Stop(t.Context()) })
	require.Equal(t, "+OK 1", p.ask("result %s 20000", id))
	fields, result := p.body()
	require.Equal(t, []string{id, "1"}, fields)
	require.Equal(t, "1 2 3 = 6", result)

	jid := must(e.qless.Queue(workq.Queue("mail", 0)).Put(t.Context(), "mail",
		map[string]string{"to": "ann"}, qless.LockTime(time.Minute)))(t)
	id, payload := p.lease("mail")
	require.Equal(t, jid, strings.ReplaceAll(id, "-", ""))
	require.JSONEq(t, `{"to":"ann"}`, payload)
	require.Equal(t, "+OK", p.ask("complete %s 2\r\nok", id))
	ended := must(e.qless.Result(t.Context(), jid))(t)
	var body workq.Body
	require.NoError(t, ended.Unmarshal(&body))
	require.Equal(t, "ok", string(body.Body))
}

func TestAJobWithoutAUUIDFails(t *testing.T) {
	e := newEnv(t)
	queue := e.qless.Queue(workq.Queue("q", 0))
	must(queue.Put(t.Context(), "q", nil, qless.JID("mine")))(t)
	p := e.dial()
	id := p.add("q", "x")
	p.leases("q", id)
	job := must(e.qless.Job(t.Context(), "mine"))(t)
	require.Equal(t, "workq-id", job.Failure.Group)
}

func TestPausedAndLimitedQueuesHoldForLeases(t *testing.T) {
	e := newEnv(t)
	p := e.dial()
	first, second := p.add("q", "1"), p.add("q", "2")
	queue := e.qless.Queue(workq.Queue("q", 0))
	require.NoError(t, queue.Pause(t.Context()))
	require.Equal(t, "-TIMEOUT", p.ask("lease q 10"))
	require.NoError(t, queue.Resume(t.Context()))
	require.NoError(t, e.qless.Config().Set(t.Context(), "workq/q/0-max-concurrency", 1))
	p.leases("q", first)
	require.Equal(t, "-TIMEOUT", p.ask("lease q 10"))
	require.Equal(t, "+OK", p.ask("complete %s 0\r\n", first))
	p.leases("q", second)
}

func TestInvalidConfigurations(t *testing.T) {
	client := newQless(t, testkit.Start(t).Client(t))
	for _, config := range []workq.Config{
		{MaxConnections: -2}, {ServerTimeout: -1}, {CommandTimeout: -2}, {RefreshInterval: -1},
	} {
		config.Client = client
		_, err := workq.New(config)
		require.ErrorIs(t, err, qless.ErrInvalid)
	}
	require.Panics(t, func() { _, _ = workq.New(workq.Config{}) })
}
