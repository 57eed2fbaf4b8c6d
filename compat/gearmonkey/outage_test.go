package gearmonkey_test

import (
	"bytes"
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go/compat/gearmonkey"
	"github.com/qless/qless-go/internal/testkit"
)

// If the server goes away while a job runs, the outcome is stored once the server is back, even if
// the script is gone.
func TestOutcomeIsStoredWhenTheServerIsBack(t *testing.T) {
	t.Parallel()
	server := testkit.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	rdb := server.Client(t)
	e := &env{Client: gearmonkey.NewClient(rdb), t: t, server: server, rdb: rdb}
	e.run("F", "")
	e.run("F", "", gearmonkey.Low)
	ctx, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	worker := gearmonkey.NewWorker(e.Client, config())
	down := make(chan struct{})
	worker.Accept("F", func(_ context.Context, job *gearmonkey.Job) ([]byte, error) {
		if job.ID == 1 {
			server.Kill()
			close(down)
		} else {
			stop()
		}
		return []byte("out"), nil
	})
	done := make(chan error, 1)
	go func() { done <- worker.Work(ctx) }()
	<-down
	server.Restart()
	require.NoError(t, receive(t, done, "the end of the worker"))
	require.Equal(t, gearmonkey.StatusSuccess, e.state("F", 1).Status)
	require.Equal(t, "out", string(e.state("F", 2).Output))
	require.Equal(t, "0", e.cli("GET count:F"))
}

func TestStopDoesNotWaitForAServer(t *testing.T) {
	e := newEnv(t)
	e.run("F", "")
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	worker := e.worker(func(context.Context, *gearmonkey.Job) ([]byte, error) {
		e.server.Kill()
		stop()
		return nil, nil
	})
	own := requireCode(t, gearmonkey.ErrUnavailable, worker.Work(ctx))
	require.Equal(t, "F", own.Function, "its count is too high")
}

// A pop with a lost reply loses a job, and is not silently retried.
func TestLostAnswerIsReported(t *testing.T) {
	t.Parallel()
	for _, command := range []string{"EVALSHA", "BRPOP"} {
		t.Run(command, func(t *testing.T) {
			e := newEnv(t)
			option := gearmonkey.RunOption(gearmonkey.Normal)
			if command == "EVALSHA" {
				option = gearmonkey.At(now)
			}
			e.run("F", "", option)
			e.run("F", "", option)
			proxy := testkit.NewProxy(t, e.server.Addr())
			// The client retries commands that are safe to retry.
			through := e.with(&redis.Options{Addr: proxy.Addr()})
			proxy.CutBeforeReply(command)
			var log bytes.Buffer
			cfg := config()
			cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
			require.Equal(t, []int64{2}, through.worksWith(cfg, 1, echo))
			require.Contains(t, log.String(), "asking for jobs failed")
			require.Equal(t, gearmonkey.StatusIdle, e.state("F", 1).Status, "the job of the lost answer is lost")
		})
	}
}

// Commands that are safe to retry are retried, so a broken connection loses nothing.
func TestSafeCommandsAreRetried(t *testing.T) {
	t.Parallel()
	for _, command := range []string{"status\r\n$5\r\ninput", "start:1", "finish:1"} {
		t.Run(command, func(t *testing.T) {
			e := newEnv(t)
			e.run("F", "x")
			proxy := testkit.NewProxy(t, e.server.Addr())
			// The client does not retry, but the worker does.
			through := e.with(&redis.Options{Addr: proxy.Addr(), MaxRetries: -1})
			proxy.CutBeforeReply(command)
			require.Equal(t, []int64{1}, through.works(1, echo))
			require.Equal(t, gearmonkey.StatusSuccess, e.state("F", 1).Status)
			require.Equal(t, 2, proxy.Seen(command))
		})
	}
}

// As Work documents, an idle worker stops within four seconds even if the server hangs.
func TestStoppingHasALimit(t *testing.T) {
	require.Less(t, gearmonkey.LongestStop, 4*time.Second)
}

func TestCluster(t *testing.T) {
	t.Parallel()
	server := testkit.Start(t, "--cluster-enabled", "yes")
	node := server.Client(t)
	e := &env{t: t, server: server, rdb: node}
	require.NoError(t, node.ClusterAddSlotsRange(t.Context(), 0, 16383).Err())
	e.eventually(func() bool {
		info := must(node.ClusterInfo(t.Context()).Result())(t)
		return info[:len("cluster_state:ok")] == "cluster_state:ok"
	})
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{server.Addr()}})
	defer rdb.Close()
	client := gearmonkey.NewClient(rdb)

	ctx := t.Context()
	worker := gearmonkey.NewWorker(client, config())
	worker.Accept("{F}", echo)
	worker.Accept("{F}2", echo)
	stop := e.background(worker)
	for _, fn := range []string{"{F}", "{F}2"} {
		for _, option := range []gearmonkey.RunOption{gearmonkey.Low, gearmonkey.At(now)} {
			id := must(client.Run(ctx, fn, []byte("x"), option, gearmonkey.Blocking(patience)))(t)
			state := must(client.Get(ctx, fn, id))(t)
			require.Equal(t, "x", string(state.Output))
		}
	}
	stop()
	require.Equal(t, "0", e.cli("GET count:{F}2"))

	clock := now
	cfg := sweeping(&clock)
	cfg.Functions = []string{"{F}"}
	sweeper := gearmonkey.NewSweeper(client, cfg)
	e.cli("HMSET job:{F}:9 status busy input y")
	e.sweeps(0, sweeper)
	clock = clock.Add(time.Minute)
	e.sweeps(1, sweeper)
	put, moved := keep()
	must(client.Move(t.Context(), "{F}", put))(t)
	require.EqualValues(t, 9, (*moved)[0].ID)
}

// Clients of an unknown kind wait on a connection from the pool.
func TestOtherClients(t *testing.T) {
	e := newEnv(t)
	client := gearmonkey.NewClient(struct{ redis.UniversalClient }{e.rdb})
	e.cli("LPUSH lock:F:1 OK")
	must(client.Run(t.Context(), "F", nil, gearmonkey.Blocking(patience)))(t)
	requireCode(t, gearmonkey.ErrTimeout,
		errOf(client.Run(t.Context(), "F", nil, gearmonkey.Blocking(time.Second))))
}
