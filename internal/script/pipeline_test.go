package script_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/qless/qless-go/internal/script"
)

// lines are commands for a pipeline, with their replies.
var lines = []struct {
	command string
	args    []any
	reply   any
}{
	{"put", []any{"w1", "q", "a", "K", "{}", "0"}, "a"},
	{"put", []any{"w1", "q", "b", "K", "{}", "0"}, "b"},
	{"length", []any{"q"}, int64(2)},
	{"recur.get", []any{"unknown"}, nil},
	{"put", []any{"w1", "q", "c", "K", "{}", "0"}, "c"},
	{"length", []any{"q"}, int64(3)},
	{"config.get", []any{"application"}, "qless"},
}

func TestAPipelineWhoseScriptTheServerDoesNotKnow(t *testing.T) {
	for _, known := range []bool{true, false} {
		t.Run(fmt.Sprint(known), func(t *testing.T) {
			e := newEnv(t, qless)
			if known {
				e.load(qless)
			}
			pipeline := e.Pipeline()
			for _, line := range lines {
				pipeline.Add(line.command, line.args...)
			}
			commands := e.server.Commands(t, func() {
				replies, errs := exec(t.Context(), pipeline)
				for i, line := range lines {
					require.NoError(t, errs[i])
					require.Equal(t, line.reply, replies[i], "the reply of call %d", i)
				}
			})
			require.Equal(t, 3, count(commands, "rpush"), "each put ran once")
			require.Equal(t, 1, count(commands, "hget"), "config.get ran once")
			require.Equal(t, int64(3), e.run("length", "q"))
		})
	}
}

// exec returns the replies to the commands of a pipeline, and their errors.
func exec(ctx context.Context, p *script.Pipeline) ([]any, []error) {
	p.Exec(ctx)
	replies, errs := make([]any, p.Len()), make([]error, p.Len())
	for i := range p.Len() {
		replies[i], errs[i] = p.Reply(i)
	}
	return replies, errs
}

// count returns the number of times that a list has an item.
func count(list []string, item string) int {
	n := 0
	for _, other := range list {
		if other == item {
			n++
		}
	}
	return n
}

func TestErrorsInAPipelineStayWithTheirCommands(t *testing.T) {
	e := newEnv(t, qless)
	pipeline := e.Pipeline()
	pipeline.Add("length")
	pipeline.Add("length", "q")
	pipeline.Add("timeout", "unknown")
	pipeline.Add("put", "w1", "q", "a", "K", "{}", "0")
	replies, errs := exec(t.Context(), pipeline)
	require.Error(t, errs[0])
	require.NoError(t, errs[1])
	require.Equal(t, int64(0), replies[1])
	require.ErrorContains(t, errs[2], "Timeout(): not_found 7 14 unknown does not exist")
	require.NoError(t, errs[3])
	require.Equal(t, "a", replies[3])

	replies, errs = exec(t.Context(), e.Pipeline())
	require.Empty(t, replies)
	require.Empty(t, errs)
}

// A refused connection leaves the commands of a pipeline unanswered: each command returns the
// error.
func TestAPipelineWhoseConnectionIsRefused(t *testing.T) {
	e := newEnv(t, qless)
	options := *e.rdb.Options()
	options.Username, options.Password = "app", "wrong"
	rdb := redis.NewClient(&options)
	t.Cleanup(func() { _ = rdb.Close() })

	p := script.NewRunner(qless, rdb, "ql:", nil).Pipeline()
	p.Add("length", "q")
	p.Add("length", "q")
	replies, failures := exec(t.Context(), p)
	require.Equal(t, []any{nil, nil}, replies)
	for _, err := range failures {
		require.ErrorContains(t, err, "WRONGPASS")
	}
}

func TestPipelineWithAnUnrepeatableCommandIsSentOnce(t *testing.T) {
	e := newEnv(t, qless)
	for _, jid := range []string{"a", "b", "c"} {
		e.run("put", "w1", "q", jid, "K", "{}", "0")
	}
	e.load(qless)
	proxy, runner := e.proxied(qless)
	pipeline := runner.Pipeline()
	pipeline.Add("length", "q")
	pipeline.Add("pop", "q", "w1", "1")
	proxy.CutBeforeReply(sent("pop"))
	_, errs := exec(t.Context(), pipeline)
	for _, err := range errs {
		require.Error(t, err)
	}
	require.Equal(t, 1, proxy.Seen(sent("pop")))
	require.Equal(t, int64(1), e.rdb.ZCard(t.Context(), "ql:q:q-locks").Val())
}
