package gearmonkey_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go/compat/gearmonkey"
)

// childOf is the environment variable that makes the test program a worker on a server.
const childOf = "GEARMONKEY_CHILD_OF"

// serveAsChild makes the test program a worker for F, which ends on a signal, together with its
// job. It reports whether the program is such a child.
func serveAsChild() bool {
	addr := os.Getenv(childOf)
	if addr == "" {
		return false
	}
	rdb := redis.NewClient(&redis.Options{Addr: addr})
	defer rdb.Close()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	worker := gearmonkey.NewWorker(gearmonkey.NewClient(rdb), gearmonkey.WorkerConfig{})
	worker.Accept("F", func(context.Context, *gearmonkey.Job) ([]byte, error) {
		<-ctx.Done()
		return []byte("in time"), nil
	})
	if err := worker.Work(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return true
}

// child starts a worker in a separate process, and returns the process once the worker has a job.
func (e *env) child() *exec.Cmd {
	e.t.Helper()
	events := must(e.Events(e.t.Context(), "F"))(e.t)
	defer events.Close()
	command := exec.Command(os.Args[0])
	command.Env = append(os.Environ(), childOf+"="+e.server.Addr())
	command.Stderr = os.Stderr
	require.NoError(e.t, command.Start())
	e.t.Cleanup(func() { _ = command.Process.Kill() })
	e.run("F", "")
	for receive(e.t, events.C(), "the start of the job").Kind != gearmonkey.EventStart {
	}
	return command
}

func TestCountAtASignal(t *testing.T) {
	t.Parallel()
	for _, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		t.Run(s.String(), func(t *testing.T) {
			e := newEnv(t)
			command := e.child()
			require.Equal(t, "1", e.cli("GET count:F"))
			require.NoError(t, command.Process.Signal(s))
			require.NoError(t, command.Wait())
			require.Equal(t, "0", e.cli("GET count:F"))
			require.Equal(t, "in time", string(e.state("F", 1).Output))
		})
	}
}

// This is a limit of the protocol: see the documentation.
func TestKilledWorkerLeavesItsJobAndItsCount(t *testing.T) {
	e := newEnv(t)
	command := e.child()
	require.NoError(t, command.Process.Kill())
	require.Error(t, command.Wait())
	require.Equal(t, "1", e.cli("GET count:F"))
	require.Equal(t, gearmonkey.StatusBusy, e.state("F", 1).Status)
	require.EqualValues(t, -1, e.cli("TTL job:F:1"))

	clock := now
	sweeper := gearmonkey.NewSweeper(e.Client, sweeping(&clock))
	e.sweeps(0, sweeper)
	clock = clock.Add(time.Minute)
	e.sweeps(1, sweeper)
	require.Equal(t, []int64{1}, e.works(1, echo))
}

func TestCountUpAndDown(t *testing.T) {
	e := newEnv(t)
	counts := func() []any { return e.cli("MGET count:F count:G").([]any) }
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	worker := gearmonkey.NewWorker(e.Client, config())
	for _, fn := range []string{"F", "G"} {
		e.run(fn, "")
		worker.Accept(fn, func(_ context.Context, job *gearmonkey.Job) ([]byte, error) {
			require.Equal(t, []any{"1", "1"}, counts())
			if job.Function == "G" {
				stop()
			}
			panic("a handler's panic changes nothing")
		})
	}
	require.NoError(t, worker.Work(ctx))
	require.Equal(t, []any{"0", "0"}, counts())
}

func TestCountOfSeveralWorkers(t *testing.T) {
	e := newEnv(t)
	worker := e.worker(echo)
	first, second := e.background(worker), e.background(worker)
	e.eventually(func() bool { return e.cli("GET count:F") == "2" })
	first()
	require.Equal(t, "1", e.cli("GET count:F"))
	second()
	require.Equal(t, "0", e.cli("GET count:F"))
}

// A clock that does not return is replaced by the machine's.
func TestAClockThatDoesNotReturnEndsNoWorker(t *testing.T) {
	t.Parallel()
	for name, misdeed := range map[string]func(){
		"panic": func() { panic("no time") }, "goexit": runtime.Goexit,
	} {
		t.Run(name, func(t *testing.T) {
			e := newEnv(t)
			e.run("F", "")
			cfg := config()
			var told strings.Builder // by the goroutine of the worker
			cfg.Logger = slog.New(slog.NewTextHandler(&told, nil))
			cfg.Clock = func() time.Time { misdeed(); return time.Time{} }
			e.worksWith(cfg, 1, echo)
			require.Equal(t, "0", e.cli("GET count:F"))
			require.Contains(t, told.String(), "Clock ")

			clock := now
			sweeping := sweeping(&clock)
			sweeping.Clock = cfg.Clock
			e.sweeps(0, gearmonkey.NewSweeper(e.Client, sweeping))
		})
	}
}

func TestCountWhenAFunctionCannotBeCounted(t *testing.T) {
	e := newEnv(t)
	e.cli("SET count:G x")
	worker := e.worker(echo)
	worker.Accept("G", echo)
	own := requireCode(t, gearmonkey.ErrServer, worker.Work(t.Context()))
	require.Equal(t, "G", own.Function)
	require.Equal(t, "0", e.cli("GET count:F"))
	require.Equal(t, "x", e.cli("GET count:G"))
}

func TestCountOfAServerThatLostItsData(t *testing.T) {
	e := newEnv(t)
	e.run("F", "")
	e.works(1, func(context.Context, *gearmonkey.Job) ([]byte, error) {
		e.cli("FLUSHALL")
		return nil, nil
	})
	require.Equal(t, "0", e.cli("GET count:F"), "not below")
}
