package script_test

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go/internal/luasrc"
	"github.com/qless/qless-go/internal/script"
)

func TestEveryCommandIsInTheSet(t *testing.T) {
	names, err := luasrc.Commands(os.DirFS("../../lua"))
	require.NoError(t, err)
	repeatable := 0
	for _, name := range names {
		command := qless.Command(name)
		require.NotEmpty(t, command.Text())
		require.Len(t, command.SHA(), 40)
		require.Same(t, command, qless.Command(name))
		if command.Repeatable() {
			repeatable++
		}
	}
	require.NotZero(t, repeatable)
	require.Less(t, repeatable, len(names))
	require.Panics(t, func() { qless.Command("unknown") })
}

func TestWhatScriptsAreGiven(t *testing.T) {
	e := newEnv(t, small)
	require.Equal(t, []any{int64(1), "ql:", "", "", "a", "b"}, e.run("echo", "a", "b"))
	require.Equal(t, []any{int64(1), "ql:", "", ""}, e.run("echo"))
	require.Nil(t, e.run("nothing"))

	noon := time.Date(2024, time.January, 2, 12, 0, 0, 0, time.UTC)
	clocked := script.NewRunner(small, e.rdb, "other:", func() time.Time { return noon })
	reply, err := clocked.Run(t.Context(), "echo", "a")
	require.NoError(t, err)
	require.Equal(t, []any{int64(1), "other:", "", "1704196800.000000", "a"}, reply)
}

func TestAServerThatDoesNotKnowAScriptIsGivenIt(t *testing.T) {
	e := newEnv(t, small)
	proxy, runner := e.proxied(small)
	for range 2 {
		_, err := runner.Run(t.Context(), "echo")
		require.NoError(t, err)
	}
	require.Equal(t, 2, proxy.Seen(small.Command("echo").SHA()))
	require.Equal(t, 1, proxy.Seen(small.Command("echo").Text()))
	_, err := runner.Run(t.Context(), "broken")
	require.ErrorContains(t, err, "broken")
	require.NoError(t, e.rdb.ScriptFlush(t.Context()).Err())
	_, err = runner.Run(t.Context(), "echo")
	require.NoError(t, err)
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
	e.load(qless, "length", "pop")
	proxy, runner := e.proxied(qless)
	proxy.CutBeforeReply(qless.Command("length").SHA())
	_, err := runner.Run(t.Context(), "length", "q")
	require.NoError(t, err)
	require.Equal(t, 2, proxy.Seen(qless.Command("length").SHA()))
	proxy.CutBeforeReply(qless.Command("pop").SHA())
	_, err = runner.Run(t.Context(), "pop", "q", "w1", "1")
	require.ErrorIs(t, err, io.EOF)
	require.Equal(t, 1, proxy.Seen(qless.Command("pop").SHA()))
}

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
	require.Equal(t, []any{"evalsha", small.Command("echo").SHA(), 2, "{t}:ql:", "{t}:ql:x:guard", "", "a"}, line)
}
