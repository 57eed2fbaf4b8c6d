package script_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go/internal/luasrc"
	"github.com/qless/qless-go/internal/script"
	"github.com/qless/qless-go/internal/testkit"
)

func TestEveryCommandHasFacts(t *testing.T) {
	names, err := luasrc.Commands(os.DirFS("../../lua"))
	require.NoError(t, err)
	repeatable := 0
	for _, name := range names {
		if qless.Facts(name).Repeatable {
			repeatable++
		}
	}
	require.NotZero(t, repeatable)
	require.Less(t, repeatable, len(names))
	require.Panics(t, func() { qless.Facts("unknown") })
	require.Len(t, qless.SHA(), 40)
}

func TestWhatScriptsAreGiven(t *testing.T) {
	e := newEnv(t, small)
	require.Equal(t, []any{int64(1), "ql:", "", "echo", "", "a", "b"}, e.run("echo", "a", "b"))
	require.Equal(t, []any{int64(1), "ql:", "", "echo", ""}, e.run("echo"))
	require.Nil(t, e.run("nothing"))

	noon := time.Date(2024, time.January, 2, 12, 0, 0, 0, time.UTC)
	clocked := script.NewRunner(small, e.rdb, "other:", func() time.Time { return noon })
	reply, err := clocked.Run(t.Context(), "echo", "a")
	require.NoError(t, err)
	require.Equal(t, []any{int64(1), "other:", "", "echo", "1704196800.000000", "a"}, reply)
}

func TestAServerThatDoesNotKnowAScriptIsGivenIt(t *testing.T) {
	e := newEnv(t, small)
	proxy, runner := e.proxied(small)
	for range 2 {
		_, err := runner.Run(t.Context(), "echo")
		require.NoError(t, err)
	}
	require.Equal(t, 2, proxy.Seen(small.SHA()))
	require.Equal(t, 1, proxy.Seen(small.Text()))
	_, err := runner.Run(t.Context(), "broken")
	require.ErrorContains(t, err, "broken")
	require.NoError(t, e.rdb.ScriptFlush(t.Context()).Err())
	_, err = runner.Run(t.Context(), "echo")
	require.NoError(t, err)
}

// With any number of callers and clients at once, a server gets the text once: at first, and after
// losing the script.
func TestOneOfManyCallersSendsTheText(t *testing.T) {
	e := newEnv(t, small)
	proxy, runner := e.proxied(small)
	runners := []*script.Runner{runner}
	for _, namespace := range []string{"one:", "two:"} {
		rdb := redis.NewClient(testkit.Options(proxy.Addr()))
		t.Cleanup(func() { _ = rdb.Close() })
		for _, namespace := range []string{namespace + "a:", namespace + "b:"} {
			runners = append(runners, script.NewRunner(small, rdb, namespace, nil))
		}
	}
	for round := 1; round <= 3; round++ {
		var callers sync.WaitGroup
		errs := make([]error, 100)
		for i := range errs {
			callers.Go(func() { errs[i] = callSomehow(t.Context(), runners[i%len(runners)], i) })
		}
		callers.Wait()
		require.NoError(t, errors.Join(errs...))
		require.Equal(t, round, proxy.Seen(small.Text()))
		require.NoError(t, e.rdb.ScriptFlush(t.Context()).Err())
	}
}

// callSomehow runs commands in one of several ways, by number.
func callSomehow(ctx context.Context, runner *script.Runner, way int) error {
	switch way % 3 {
	case 0:
		_, err := runner.Run(ctx, "echo")
		return err
	case 1:
		replicas := script.Replicas{Count: 1, Timeout: time.Millisecond}
		_, err := runner.RunReplicated(ctx, replicas, "echo")
		var missing *script.ReplicasError
		if errors.As(err, &missing) {
			return nil // the command ran
		}
		return err
	}
	p := runner.Pipeline()
	p.Add("echo")
	p.Add("nothing")
	_, failures := exec(ctx, p)
	return errors.Join(failures...)
}

func TestTheTextOfAnUnknownScriptIsNotSentTwice(t *testing.T) {
	e := newEnv(t, small)
	proxy, runner := e.proxied(small)
	proxy.CutBeforeReply("EVAL\r\n")
	_, err := runner.Run(t.Context(), "push", "list", "a")
	require.Error(t, err)
	require.Equal(t, []string{"a"}, e.list("ql:list"))
	require.Equal(t, 1, proxy.Seen("EVAL\r\n"))
}

func TestOnlyARepeatableCommandIsSentAgain(t *testing.T) {
	e := newEnv(t, qless)
	e.load(qless)
	proxy, runner := e.proxied(qless)
	proxy.CutBeforeReply(sent("length"))
	_, err := runner.Run(t.Context(), "length", "q")
	require.NoError(t, err)
	require.Equal(t, 2, proxy.Seen(sent("length")))
	proxy.CutBeforeReply(sent("pop"))
	_, err = runner.Run(t.Context(), "pop", "q", "w1", "1")
	require.ErrorIs(t, err, io.EOF)
	require.Equal(t, 1, proxy.Seen(sent("pop")))
}

// sent returns a command in the form sent on a connection.
func sent(command string) string { return fmt.Sprintf("\r\n$%d\r\n%s\r\n", len(command), command) }

// A hook answers commands instead of a server.
type hook struct{ answer func(redis.Cmder) error }

func (h hook) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h hook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (h hook) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(_ context.Context, cmd redis.Cmder) error { return h.answer(cmd) }
}

func TestACommandThatSurelyDidNotRunIsSentAgain(t *testing.T) {
	refused := &net.OpError{Op: "dial", Err: errors.New("refused")}
	for failures, want := range map[int]int{0: 1, 1: 2, 3: 4, 10: 4} {
		rdb := redis.NewClient(&redis.Options{})
		sent := 0
		rdb.AddHook(hook{answer: func(redis.Cmder) error {
			if sent++; sent <= failures {
				return refused
			}
			return nil
		}})
		_, err := script.NewRunner(small, rdb, "ql:", nil).Run(t.Context(), "push", "list", "a")
		require.Equal(t, failures < 4, err == nil)
		require.Equal(t, want, sent)
		require.NoError(t, rdb.Close())
	}
}

func TestACommandIsNotSentAgainAfterTheEndOfItsContext(t *testing.T) {
	rdb := redis.NewClient(&redis.Options{})
	defer rdb.Close()
	ctx, cancel := context.WithCancel(t.Context())
	sent := 0
	rdb.AddHook(hook{answer: func(redis.Cmder) error {
		sent++
		cancel()
		return &net.OpError{Op: "dial", Err: errors.New("refused")}
	}})
	_, err := script.NewRunner(small, rdb, "ql:", nil).Run(ctx, "echo")
	require.ErrorContains(t, err, "refused")
	require.Equal(t, 1, sent)
}

func TestScriptsOfAClusterNameAGuard(t *testing.T) {
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"127.0.0.1:1"}})
	defer rdb.Close()
	var line []any
	rdb.AddHook(hook{answer: func(cmd redis.Cmder) error {
		line = cmd.Args()
		return nil
	}})
	_, err := script.NewRunner(small, rdb, "{t}:ql:", nil).Run(t.Context(), "echo", "a")
	require.NoError(t, err)
	require.Equal(t, []any{"evalsha", small.SHA(), 2, "{t}:ql:", "{t}:ql:x:guard", "echo", "", "a"}, line)
}
