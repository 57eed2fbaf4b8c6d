package redisx_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/qless/qless-go/internal/redisx"
	"github.com/qless/qless-go/internal/testkit"
)

// patience turns a hang into a failure.
const patience = testkit.Patience

func TestMain(m *testing.M) {
	testkit.Silence() // broken connections are part of the tests
	goleak.VerifyTestMain(m)
}

// reply is an error from the server.
type reply string

func (r reply) Error() string { return string(r) }
func (reply) RedisError()     {}

func TestWhatTheServerSays(t *testing.T) {
	for text, away := range map[string]bool{
		"BUSYKEY Target key name already exists.":                                 false,
		"ERR user_script:3: attempt to index a nil value script: x":               false,
		"NOAUTH Authentication required.":                                         false,
		"OOM command not allowed when used memory > 'maxmemory'.":                 false,
		"WRONGTYPE Operation against a key holding the wrong kind of value":       false,
		"BUSY Redis is busy running a script.":                                    true,
		"CLUSTERDOWN The cluster is down":                                         true,
		"ERR max number of clients reached":                                       true,
		"LOADING Redis is loading the dataset in memory":                          true,
		"MASTERDOWN Link with MASTER is down":                                     true,
		"READONLY You can't write against a read only replica.":                   true,
		"TRYAGAIN Multiple keys request during rehashing of slot":                 true,
		"ERR Error running script: @user_script: 3: -READONLY You can't write it": true,
	} {
		err := reply(text)
		require.Equal(t, text, redisx.Answer(err))
		require.Equal(t, text, redisx.Answer(fmt.Errorf("wrapped: %w", err)))
		require.True(t, redisx.IsAnswer(err), text)
		require.Equal(t, away, redisx.IsAway(err), text)
		require.Equal(t, !away, redisx.IsRefusal(err), text)
		require.Equal(t, away, redisx.NeverRan(err), text)
		require.Equal(t, away, redisx.IsUnanswered(err), text)
	}
	require.True(t, redisx.NeverRan(reply("MOVED 1 127.0.0.1:7000")))
	require.True(t, redisx.NeverRan(reply("ASK 1 127.0.0.1:7000")))
	require.True(t, redisx.IsUnanswered(reply("ASK 1 127.0.0.1:7000")))
}

func TestErrorsThatTheServerDoesNotSay(t *testing.T) {
	dial := &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	for _, err := range []error{
		nil, io.EOF, context.Canceled, redis.ErrClosed, redis.ErrPoolTimeout, errors.New("else"), dial,
		&net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET},
	} {
		require.Empty(t, redisx.Answer(err))
		require.False(t, redisx.IsAnswer(err), err)
		require.False(t, redisx.IsAway(err), err)
		require.False(t, redisx.IsRefusal(err), err)
		require.Equal(t, err != nil, redisx.IsUnanswered(err), err)
		require.Equal(t, err == dial, redisx.NeverRan(err), err)
		require.False(t, redisx.IsTimeout(err), err)
	}
	require.True(t, redisx.IsTimeout(fmt.Errorf("wrapped: %w", os.ErrDeadlineExceeded)))
}

func TestSleepEndsWithTheContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	require.True(t, redisx.Sleep(ctx, 0))
	require.True(t, redisx.Sleep(ctx, -1))
	require.True(t, redisx.Sleep(ctx, time.Microsecond))
	require.True(t, redisx.Backoff{First: 1, Longest: 1}.Wait(ctx, 1))
	time.AfterFunc(time.Millisecond, cancel)
	require.False(t, redisx.Sleep(ctx, time.Hour))
	require.False(t, redisx.Sleep(ctx, 0))
	require.False(t, redisx.Backoff{First: time.Hour, Longest: time.Hour}.Wait(ctx, 1))
}

func TestBackoffDoublesUpToItsLongest(t *testing.T) {
	backoff := redisx.Backoff{First: 10 * time.Millisecond, Longest: time.Second}
	for failures, want := range map[int]time.Duration{
		0: 10 * time.Millisecond, 1: 10 * time.Millisecond, 2: 20 * time.Millisecond,
		7: 640 * time.Millisecond, 8: time.Second, 33: time.Second, 1 << 40: time.Second,
	} {
		waits := map[time.Duration]bool{}
		for range 100 {
			wait := backoff.After(failures)
			require.GreaterOrEqual(t, wait, want*3/4, failures)
			require.LessOrEqual(t, wait, want*5/4, failures)
			waits[wait] = true
		}
		require.Greater(t, len(waits), 1, "the wait varies")
	}
	require.LessOrEqual(t, redisx.Backoff{First: 1 << 60, Longest: 1 << 61}.After(9), time.Duration(1<<61*5/4))
}

func TestAContextThatOutlivesAnother(t *testing.T) {
	type key struct{}
	stopped := errors.New("stopped")
	ctx, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, "value"))
	later, end := redisx.Outlive(ctx, time.Millisecond, stopped)
	defer end(nil)
	require.Equal(t, "value", later.Value(key{}))
	require.NoError(t, later.Err())
	cancel()
	select {
	case <-later.Done():
	case <-time.After(patience):
		t.Fatal("the context goes on")
	}
	require.ErrorIs(t, context.Cause(later), stopped)
}

func TestAContextThatOutlivesAnotherIsEndedEarlier(t *testing.T) {
	early, stopped := errors.New("early"), errors.New("stopped")
	ctx, cancel := context.WithCancel(t.Context())
	later, end := redisx.Outlive(ctx, time.Hour, stopped)
	cancel()
	end(early)
	require.ErrorIs(t, context.Cause(later), early)

	later, end = redisx.Outlive(t.Context(), time.Hour, stopped)
	end(nil)
	require.ErrorIs(t, context.Cause(later), context.Canceled)
}

func TestSecondsUp(t *testing.T) {
	for d, want := range map[time.Duration]time.Duration{
		0: 0, 1: time.Second, time.Second: time.Second, time.Second + 1: 2 * time.Second,
		time.Hour - time.Nanosecond: time.Hour, -1: -1,
	} {
		require.Equal(t, want, redisx.SecondsUp(d), d)
	}
}

// SCAN's patterns have the same special characters as path.Match, except for ^.
func TestAnEscapedPatternMatchesOnlyItself(t *testing.T) {
	for _, text := range []string{"", "plain", "a*b", "a?b", "[ab]", `\`, `a\*`, "]", "-", "ключ"} {
		matched, err := path.Match(redisx.EscapeGlob(text), text)
		require.NoError(t, err)
		require.True(t, matched, text)
	}
	for text, other := range map[string]string{"a*": "ab", "?": "a", "[ab]": "a"} {
		matched, err := path.Match(redisx.EscapeGlob(text), other)
		require.NoError(t, err)
		require.False(t, matched, text)
	}
}

func TestAnEscapedPatternOnAServer(t *testing.T) {
	rdb := testkit.Start(t).Client(t)
	for _, key := range []string{"plain", "a*b", "axb", "a?b", "[ab]", "[^a]", "b", `\`, `a\*b`, "a^b"} {
		require.NoError(t, rdb.Set(t.Context(), key, "", 0).Err())
		keys, err := rdb.Keys(t.Context(), redisx.EscapeGlob(key)).Result()
		require.NoError(t, err)
		require.Equal(t, []string{key}, keys)
	}
}

func TestCommandsAreSentOnceOrAgain(t *testing.T) {
	server := testkit.Start(t)
	proxy := testkit.NewProxy(t, server.Addr())
	rdb := redis.NewClient(testkit.Options(proxy.Addr()))
	defer rdb.Close()
	for name, c := range map[string]struct {
		cmd  func(key string) redis.Cmder
		runs string
	}{
		"NewCmd": {func(key string) redis.Cmder { return redisx.NewCmd(t.Context(), "incr", key) }, "2"},
		"NewOnceCmd": {
			func(key string) redis.Cmder { return redisx.NewOnceCmd(t.Context(), "incr", key) }, "1",
		},
		"Once": {
			func(key string) redis.Cmder { return redisx.Once(redis.NewIntCmd(t.Context(), "incr", key)) }, "1",
		},
	} {
		proxy.CutBeforeReply("key:" + name)
		err := rdb.Process(t.Context(), c.cmd("key:"+name))
		require.Equal(t, c.runs == "2", err == nil, "%s: %v", name, err)
		require.Equal(t, c.runs, rdb.Get(t.Context(), "key:"+name).Val(), name)
	}
	cmd := redis.NewIntCmd(t.Context(), "incr", "reply")
	require.NoError(t, rdb.Process(t.Context(), redisx.Once(cmd)))
	require.Equal(t, int64(1), cmd.Val(), "the reply is in the command")
}
